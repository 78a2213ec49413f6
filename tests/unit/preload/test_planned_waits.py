"""Waits that are planned by forecast, look and account are as harmless as others.

Under the virtual clock: what a nap asks for and the kernel's 3 us are all that it takes, and no call but the program's
own takes time. So ranks with the same numbers do the same, poll for poll.
"""

from __future__ import annotations

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DRIVER, LOCKED = BUILD / "tests/lib/doubles/preload_driver", BUILD / "tests/lib/doubles/locked_driver"
ACCOUNT = f"{NAP};slowdown_ppm=10000"
ALIKE = 100  # waits of a millisecond
LONGEST_NS = 1_000_000 * 17 // 16 + 4_000  # one by the ladder, late
LAUNCH = {"PMIX_NAMESPACE": "a", "PMIX_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
HOUR_NS = 3600 * 10**9
SHARED = 8


def play(command: list, config: str = ACCOUNT, **environment: str):
    done, segment = run(command, config, virtual=True, **environment)
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0]


def plan(**environment: str) -> tuple[int, ...]:
    """What tells where the looks were: how often the rank polled, and how many of its waits were slept through."""
    seen, slot = play([DRIVER, "alike"], **environment)
    return seen["alike_polls"], slot["lane"][0]["idle_polls"], slot["lane"][0]["foreseen"]


def test_errno_and_slack_are_kept():
    seen, slot = play([DRIVER, "alike"])
    assert slot["lane"][0]["foreseen"] > ALIKE / 2
    assert (seen["errno"], seen["slack"]) == (4711, 50000)


def test_what_an_int_leaves_of_its_word_tells_no_calls_apart():
    """Clang stores half of a word for an int on the stack."""
    _, slot = play([DRIVER, "halves"])
    assert slot["lane"][0]["calls"]["Recv"]["waits"] == ALIKE and slot["lane"][0]["foreseen"] > ALIKE / 2


def test_ranks_of_a_job_look_at_the_same_time_and_jobs_at_different_times():
    """The launch's number places the looks: in the first 8 ms and later, for all of its ranks."""
    plans = {launch: plan(**{**LAUNCH, "PMIX_NAMESPACE": launch}) for launch in "abcd"}
    for rank in ("1", "77"):
        assert plan(**{**LAUNCH, "PMIX_RANK": rank}) == plans["a"]
    assert len(set(plans.values())) > 1


def test_looks_go_by_the_nodes_clock_and_not_by_the_time_since_it_was_booted():
    assert len({plan(**LAUNCH, TIME_BOOT=str(boot)) for boot in (0, 1_234_567_000, HOUR_NS)}) == 1


@pytest.mark.parametrize("step_ns", [HOUR_NS, 30_000_000, -30_000_000, -HOUR_NS])
def test_a_node_s_clock_that_is_set_ends_no_forecast(step_ns: int):
    """Waits are measured by another clock. Only the next looks are elsewhere."""
    seen, slot = play([DRIVER, "alike"], TIME_STEP=f"50000000:{step_ns}")
    thread = slot["lane"][0]
    call = thread["calls"]["Recv"]
    assert call["waits"] == ALIKE and call["longest_ns"] <= LONGEST_NS and thread["foreseen"] > ALIKE / 2
    assert slot["end_ns"] - slot["start_ns"] < 1.1e6 * ALIKE
    assert (seen["errno"], seen["slack"]) == (4711, 50000)


@pytest.mark.parametrize("at_ms", range(45, 55))
def test_a_process_that_is_stopped_learns_nothing_from_that(at_ms: int):
    """For two seconds, in a nap or between two polls of one wait: the others are as long as they were."""
    _, slot = play([DRIVER, "alike"], TIME_STOP=f"{at_ms * 10**6 + 300000}:{2 * 10**9}")
    thread = slot["lane"][0]
    call = thread["calls"]["Recv"]
    assert call["waits"] == ALIKE and call["longest_ns"] <= LONGEST_NS and call["wait_ns"] <= ALIKE * LONGEST_NS
    assert thread["foreseen"] > ALIKE / 2 and thread["late_ns"] <= 2_000_000
    assert sum(thread["asleep_ns"].values()) <= call["wait_ns"]


def test_an_oversleep_is_told_to_all_ranks_of_the_node():
    """One nap ends 4 ms late, which is more than the account has left: its rank sleeps no more. What was told before
    it started is no matter of its own."""
    done, segment = run([DRIVER, "alike"], ACCOUNT, virtual=True, segment={"overslept_ns": 10**9},
                        TIME_LATE="30:4000000")
    assert done.returncode == 0, done.stderr
    thread = segment["slots"][0]["lane"][0]
    told_ns = segment["overslept_ns"] - 10**9
    assert 3.6e6 < told_ns < 4e6 and thread["late_ns"] == pytest.approx(told_ns, abs=10_000)
    assert 30 <= thread["naps"]["nap"] <= 32
    undisturbed, segment = run([DRIVER, "alike"], ACCOUNT, virtual=True)
    assert undisturbed.returncode == 0 and segment["overslept_ns"] == 0
    assert segment["slots"][0]["lane"][0]["naps"]["nap"] > 60


def test_a_nap_after_which_others_had_the_core_is_not_told():
    """A rank that polls loses its core to them as well. The kernel tells how long they had it."""
    done, segment = run([DRIVER, "alike"], ACCOUNT, virtual=True, TIME_LATE="30:4000000", TIME_HELD="1")
    assert done.returncode == 0, done.stderr
    thread = segment["slots"][0]["lane"][0]
    assert segment["overslept_ns"] == 0 and thread["late_ns"] < 100_000
    assert thread["naps"]["nap"] > 60 and values(done)["errno"] == 4711


def test_a_call_left_by_longjmp_is_over():
    seen, slot = play([DRIVER, "longjmp"])
    calls = slot["lane"][0]["calls"]
    assert calls["Wait"]["calls"] == calls["Wait"]["waits"] == 3 and calls["Recv"]["waits"] == 1
    assert seen["slack"] == 50000


def test_a_forked_child_never_writes():
    done, segment = run([DRIVER, "fork"], ACCOUNT, virtual=True)
    assert done.returncode == 0 and len(segment["slots"]) == 1 and segment["slots"][0]["lanes"] == 1
    assert set(segment["slots"][0]["lane"][0]["calls"]) == {"Init", "Barrier", "Finalize"}


def test_threads_beyond_the_lanes_wait_without_forecasts():
    """Ten threads, of which eight have a lane: the other two have no forecasts, and nobody else's."""
    seen, slot = play([DRIVER, "threads"])
    assert slot["flags"] & 4 and len(slot["lane"]) == 8 and seen["naps"] > 0


def test_a_thread_beside_others_naps_by_the_ladder_alone():
    """It polls for all of them: a nap until its own message would hold up theirs, and nobody would measure it."""
    _, slot = play([DRIVER, "alike_of_two"])
    first, second = slot["lane"]
    assert first["calls"]["Recv"]["waits"] == ALIKE and second["calls"]["Recv"]["waits"] == 1
    assert first["forecasts"] == first["foreseen"] == 0 and first["naps"]["nap"] > 0


def test_signals_end_naps_early_and_keep_errno():
    seen, slot = play([DRIVER, "signals"], TIME_SIGNAL="310000")
    thread = slot["lane"][0]
    assert seen["errno"] == 4711 and seen["interrupted"] > 10
    assert seen["naps"] == thread["naps"]["nap"], "a nap that was ended is not resumed"


def test_the_last_wait_of_a_killed_rank_is_there():
    done, segment = run([DRIVER, "die"], ACCOUNT, virtual=True, TIME_KILL="1000000000")
    assert done.returncode == -9
    (thread,) = segment["slots"][0]["lane"]
    assert thread["open_call"] == "Recv" and 0.9e9 <= thread["open_last_ns"] - thread["open_since_ns"] <= 1e9


def test_waits_for_a_lock_of_a_window_are_not_forecast():
    """Others may queue behind this rank: the tighter cap is the law there."""
    _, slot = play([DRIVER, "locks"])
    thread = slot["lane"][0]
    assert thread["calls"]["Win_lock"]["waits"] == ALIKE and thread["forecasts"] == thread["foreseen"] == 0


def test_waits_on_windows_are_not_forecast_where_the_runtime_does_not_tell_of_progress():
    """A message need not end them: what others get meanwhile, this rank must serve."""
    _, slot = play([LOCKED, "fences"])
    thread = slot["lane"][0]
    assert thread["calls"]["Win_fence"]["waits"] == 1000 and thread["forecasts"] == thread["foreseen"] == 0
    _, slot = play([LOCKED, "alike"])
    assert slot["lane"][0]["foreseen"] > 900, "else the test above proves nothing"


def test_two_calls_that_take_turns_are_told_apart_by_their_place():
    """Half of each 2 ms is of either kind. Taken for one, the longer would be polled from the end of the shorter on."""
    _, slot = play([DRIVER, "in_turn"])
    thread = slot["lane"][0]
    assert thread["foreseen"] == thread["early"] > 70 and thread["late"] == 0
    assert thread["asleep_ns"]["nap"] >= 0.92e6 * thread["foreseen"]
    assert thread["early_ns"] <= 40_000 * thread["early"]


@pytest.mark.parametrize("config", [NAP, ACCOUNT])
def test_a_rank_that_loses_its_core_yields_where_it_would_poll(config: str):
    """For 0.3 ms each 3 ms, so in the first look too: a loop of polls shows that by the kernel's count alone."""
    _, slot = play([DRIVER, "alike"], config, TIME_TAKEN="3000000:300000")
    assert slot["flags"] & SHARED and slot["lane"][0]["naps"]["yield"] > 1000
    _, slot = play([DRIVER, "alike"], config)
    assert not slot["flags"] & SHARED and slot["lane"][0]["naps"]["yield"] <= ALIKE // 16 + 1
