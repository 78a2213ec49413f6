"""The law by counts, through the real library: dependent steps, and a runtime that yields under its lock.

Under the virtual clock: a step of 100 us is 500 polls of 200 ns.
"""

from __future__ import annotations

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DOUBLES = BUILD / "tests/lib/doubles"
DRIVER, LOCKED, GIVING = DOUBLES / "preload_driver", DOUBLES / "locked_driver", DOUBLES / "giving_driver"
LOCKED_FLAG, YIELD_HOOK, NO_HOOK = 16, 2, 2
STEPS = 100


def play(command: list, config: str = NAP, **environment: str):
    done, segment = run(command, config, virtual=True, **environment)
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0]


def test_steps_that_the_runtime_reports_are_polled_for():
    """A hundred steps of 100 us after one of 20 ms: a nap in them would leave two polls to each, not hundreds."""
    seen, slot = play([DRIVER, "visible_steps"])
    assert slot["lane"][0]["naps"]["nap"] > 30, "the first step is long"
    assert seen["step_polls"] > 400 * STEPS
    assert seen["step_late_us"] <= STEPS


def test_steps_that_nobody_reports_are_napped_in_but_within_the_budget():
    seen, slot = play([DRIVER, "hidden_steps"])
    thread = slot["lane"][0]
    assert seen["step_polls"] < 40 * STEPS, "else the test above proves nothing"
    naps = thread["naps"]["nap"]
    assert (thread["asleep_ns"]["nap"] - thread["late_ns"]) / naps <= 400000


ACCOUNT = f"{NAP};slowdown_ppm=10000"
FORESEEN = 100 - 8 - 2 * 6  # of a hundred waits of 1 ms


def test_waits_that_repeat_are_slept_through_and_end_on_time():
    """
    A hundred of 1 ms. The first eight are looked at, and those of a window of 4 ms in each 67; of all others hardly
    anything is polled.
    """
    _, slot = play([DRIVER, "alike"], ACCOUNT)
    thread = slot["lane"][0]
    assert slot["slowdown_ppm"] == 10000 and thread["foreseen"] >= FORESEEN
    assert thread["foreseen"] == thread["early"] <= thread["forecasts"] and thread["late"] == thread["late_ns"] == 0
    assert thread["asleep_ns"]["nap"] >= 0.95e6 * thread["foreseen"]
    assert thread["early_ns"] <= 40_000 * thread["early"]


def test_nothing_is_forecast_without_an_account_or_where_the_ranks_are_not_known():
    for config, size in ((NAP, "7"), (ACCOUNT, "0")):
        _, slot = play([DRIVER, "alike"], config, FAKE_SIZE=size)
        assert slot["slowdown_ppm"] == slot["lane"][0]["forecasts"] == slot["lane"][0]["foreseen"] == 0


@pytest.mark.parametrize("size", ["1", "2", "16385", "1000000"])
def test_waits_are_forecast_in_jobs_of_any_size(size: str):
    """The larger the tree of ranks, the larger is the margin: of 1 ms at most 65 us."""
    _, slot = play([DRIVER, "alike"], ACCOUNT, FAKE_SIZE=size)
    thread = slot["lane"][0]
    assert thread["foreseen"] >= FORESEEN and thread["late"] == 0
    assert thread["early_ns"] <= 100_000 * thread["early"]


def test_one_thread_naps_under_the_lock():
    seen, slot = play([LOCKED])
    assert slot["hooks"] == YIELD_HOOK and not slot["flags"] & LOCKED_FLAG
    assert slot["lane"][0]["naps"]["nap"] == seen["naps"] > 100 and seen["yields"] < 100000


@pytest.mark.parametrize(("settings", "wait_mode", "plain"), [
    ({}, 1, True),
    ({"I_MPI_WAIT_MODE": "0"}, 0, False),
    ({"I_MPI_WAIT_MODE": "1"}, 1, True),
    ({"I_MPI_THREAD_YIELD": "2"}, 1, True),
    ({"I_MPI_THREAD_YIELD": "3"}, -1, False),
    ({"I_MPI_THREAD_YIELD": "3", "I_MPI_WAIT_MODE": "1"}, 1, False),
], ids=str)
def test_a_runtime_that_was_told_how_to_wait_is_left_alone(settings: dict[str, str], wait_mode: int, plain: bool):
    """Intel MPI sleeps in an idle poll with a thread yield of 3, and spins with 0 and 1."""
    seen, slot = play([LOCKED], **settings)
    assert seen["wait_mode"] == wait_mode and bool(slot["flags"] & NO_HOOK) != plain


def test_a_runtime_that_does_not_tell_of_progress_is_looked_at_first():
    """
    A thousand waits of a millisecond: for 8 ms the job looks, then for 4 ms in each 67, and after four such windows in
    each 268. All other waits are slept through. Two ranks sleep in looks as well.
    """
    seen, slot = play([LOCKED, "alike"], ACCOUNT, FAKE_SIZE="3")
    thread = slot["lane"][0]
    assert slot["slowdown_ppm"] == 10000
    assert 1000 - 8 - 9 * 6 <= thread["foreseen"] <= 1000 - 8 - 4 * 4, "not in a look"
    assert thread["early"] >= thread["foreseen"] * 9 // 10
    assert thread["late_ns"] <= 2_000_000 + (slot["end_ns"] - slot["start_ns"]) // 100
    by_ladder, _ = play([LOCKED, "alike"])
    assert seen["yields"] < by_ladder["yields"], "looks included"
    of_two, slot = play([LOCKED, "alike"], ACCOUNT)
    assert slot["lane"][0]["foreseen"] > thread["foreseen"] and of_two["yields"] < seen["yields"]


def test_on_shared_cores_such_a_runtime_has_the_budget_of_each_wait():
    """An account would be charged for the turns of others. A runtime that tells has one there, too."""
    _, slot = play([LOCKED, "alike"], ACCOUNT + ";shared=1")
    thread = slot["lane"][0]
    assert slot["slowdown_ppm"] == thread["forecasts"] == thread["foreseen"] == 0 and thread["naps"]["nap"] > 1000
    _, slot = play([DRIVER, "alike"], ACCOUNT + ";shared=1")
    assert slot["slowdown_ppm"] == 10000 and slot["lane"][0]["foreseen"] >= FORESEEN


def test_two_threads_do_not_nap_under_the_lock():
    """The wait is over when the second has had the lock two hundred times, and a nap of the first fits in it."""
    for config in (NAP, ACCOUNT):
        seen, slot = play([LOCKED, "threads"], config)
        assert slot["flags"] & LOCKED_FLAG and len(slot["lane"]) == 2
        assert not any("nap" in thread["naps"] for thread in slot["lane"]) and seen["naps"] == 0
        assert seen["yields"] > 64 and seen["polls"] >= 200


@pytest.mark.parametrize(("wait_us", "told"), [(1500, False), (2500, True)])
def test_a_lock_is_told_of_after_two_milliseconds(wait_us: int, told: bool):
    """A second thread has called MPI once, and the first lacks naps from then on."""
    seen, slot = play([LOCKED, "called", str(wait_us)])
    assert len(slot["lane"]) == 2 and seen["naps"] == 0
    assert bool(slot["flags"] & LOCKED_FLAG) == told


def test_under_the_lock_the_clock_is_read_once_in_64_polls():
    """The double reads it once a poll, which takes 100 ns; the library's readings are a 64th of that."""
    seen, slot = play([LOCKED, "called", "3500"])
    thread = slot["lane"][0]
    assert thread["hook_polls"]["yield"] == seen["yields"] // 64
    assert thread["naps"].get("yield", 0) <= thread["hook_polls"]["yield"]


def test_a_runtime_that_gives_up_its_lock_for_a_yield_yields_between_naps():
    """Else its second thread would hardly get the lock: without a system call the first takes it again at once."""
    seen, slot = play([GIVING, "called", "3500"])
    assert slot["hooks"] == YIELD_HOOK and len(slot["lane"]) == 2
    assert seen["naps"] > 0 and seen["kernel_yields"] == seen["yields"] - seen["naps"]
    seen, _ = play([GIVING])
    assert seen["naps"] > 100 and seen["kernel_yields"] <= 2, "of one thread: probes of whether the core is shared"
