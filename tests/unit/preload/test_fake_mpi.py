"""The law by counts, through the real library: dependent steps, and a runtime that yields under its lock."""

from __future__ import annotations

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DRIVER, LOCKED = BUILD / "tests/lib/doubles/preload_driver", BUILD / "tests/lib/doubles/locked_driver"
LOCKED_FLAG, YIELD_HOOK = 16, 2
STEPS, TRIES = 100, 6
pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not LOCKED.exists(), reason=f"not built: {LOCKED}"),
]


def play(command: list, config: str | None = NAP):
    done, segment = run(command, config)
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0] if config else None


def test_steps_that_the_runtime_reports_are_polled_for():
    """A hundred steps of 100 us after one of 20 ms: a nap in them would leave two polls to each, not hundreds."""
    seen, slot = play([DRIVER, "visible_steps"])
    assert slot["lane"][0]["naps"]["nap"] > 30, "the first step is long"
    assert seen["step_polls"] > 40 * STEPS


def test_steps_that_nobody_reports_are_napped_in_but_within_the_budget():
    for _ in range(TRIES):  # a nap that is late too often, on a busy machine, rests
        seen, slot = play([DRIVER, "hidden_steps"])
        if seen["step_polls"] < 40 * STEPS:
            break
    thread = slot["lane"][0]
    assert seen["step_polls"] < 40 * STEPS, "else the test above proves nothing"
    naps = thread["naps"]["nap"]
    assert (thread["asleep_ns"]["nap"] - thread["late_ns"]) / naps <= 400000


def test_one_thread_naps_under_the_lock():
    for _ in range(TRIES):  # the same: a machine that is away for milliseconds wakes nobody
        seen, slot = play([LOCKED])
        if seen["yields"] < 100000:
            break
    assert slot["hooks"] == YIELD_HOOK and not slot["flags"] & LOCKED_FLAG
    assert slot["lane"][0]["naps"]["nap"] > 100 and seen["yields"] < 100000


def test_nobody_naps_under_the_lock_once_a_second_thread_has_called():
    seen, slot = play([LOCKED, "threads"])
    assert slot["flags"] & LOCKED_FLAG and len(slot["lane"]) == 2
    assert not any("nap" in thread["naps"] for thread in slot["lane"])
    assert seen["yields"] > 64 and seen["polls"] > 64
