"""Loops of the program's own that only ask, on the fake MPI and the virtual clock of test_preload.py."""

from __future__ import annotations

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
POLLS = NAP + ";polls=1"
FREE_NS = 100_000  # 128 calls, in half of which the clock is read
LONGEST_NS = 4 * 100_000 + 4_000  # a nap of the budget of long waits, late


def play(scene: str, config: str = POLLS) -> tuple[dict, dict]:
    """What the program printed, and the first lane."""
    done, segment = run([DRIVER, scene], config, virtual=True)
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0]["lane"][0]


def test_a_loop_that_only_asks_is_a_wait() -> None:
    seen, lane = play("loop")
    call = lane["calls"]["Test"]
    assert seen["errno"] == 4711 and seen["slack"] == 50000
    assert seen["naps"] == lane["naps"]["nap"] > 500 and lane["hook_polls"].keys() == {"loop"}
    assert call["waits"] == 1 and call["calls"] == seen["tests"] + 1
    assert 200e6 - FREE_NS - LONGEST_NS <= call["wait_ns"] <= 200e6 + LONGEST_NS
    assert lane["open_call"] is None


def test_between_two_tests_the_thread_is_the_program_s_own() -> None:
    """It sets its timer slack there. No sleep after that puts back what was before, or is late by what is set now."""
    seen, lane = play("loop_sets_slack")
    assert seen["tests"] > 1400 and seen["slack"] == 300000
    assert lane["naps"]["nap"] > 500 and lane["late_ns"] <= 10_000 * lane["naps"]["nap"]


def test_without_the_key_it_is_none() -> None:
    seen, lane = play("loop", NAP)
    assert seen["naps"] == 0 and lane["naps"] == {}
    assert lane["calls"]["Test"] == {**dict.fromkeys(lane["calls"]["Test"], 0), "calls": seen["tests"] + 1}
    seen, lane = play("loop", "rungs=none;polls=1")
    assert seen["naps"] == 0 and lane["calls"]["Test"]["waits"] == 0, "a policy that only measures"


def test_a_loop_with_work_in_it_loses_nothing() -> None:
    """Four microseconds of work between two tests: as many tests in the same time, but for readings of the clock."""
    kept, _ = play("loop_works", NAP)
    seen, lane = play("loop_works")
    assert lane["naps"] == {} and lane["calls"]["Test"]["waits"] == 0
    assert seen["tests"] >= 0.98 * kept["tests"]


def test_an_interrupt_is_no_work() -> None:
    """Ten microseconds between two tests, each four milliseconds: one wait, as without."""
    _, quiet = play("loop")
    _, lane = play("loop_interrupts")
    assert lane["calls"]["Test"]["waits"] == 1
    assert abs(lane["naps"]["nap"] - quiet["naps"]["nap"]) < 0.1 * quiet["naps"]["nap"]


def test_work_that_comes_seldom_is_work() -> None:
    """A hundred microseconds of it each two hundred tests: no wait becomes old enough for a nap."""
    seen, lane = play("loop_works_seldom")
    assert "nap" not in lane["naps"] and lane["calls"]["Test"]["waits"] > seen["tests"] / 250


@pytest.mark.parametrize("scene", ["loop_calls", "loop_many_places"])
def test_what_is_no_loop_that_only_asks(scene: str) -> None:
    """Another call each hundred tests; tests from five places."""
    _, lane = play(scene)
    assert lane["naps"] == {} and lane["calls"]["Test"]["waits"] == 0


def test_a_loop_may_ask_from_two_places() -> None:
    _, lane = play("loop_places")
    assert lane["naps"]["nap"] > 50 and lane["calls"]["Test"]["waits"] == 1


def test_a_flag_that_came_true_ends_it() -> None:
    _, lane = play("loop_twice")
    call = lane["calls"]["Test"]
    assert call["waits"] == 2 and call["longest_ns"] <= 20e6 + LONGEST_NS


def test_a_loop_that_was_left_without_a_word_leaves_nothing_behind() -> None:
    """It computes for 100 ms then, and the next call ends the wait: that was no waiting; the thread is as it was."""
    seen, lane = play("loop_left")
    call = lane["calls"]["Test"]
    assert lane["naps"]["nap"] > 50 and seen["slack"] == 50000
    assert call["waits"] == 1 and call["wait_ns"] <= 20e6 + LONGEST_NS and lane["sampled_ns"] == 0


@pytest.mark.parametrize("config", ["rungs=none;profile=1", POLLS, POLLS + ";profile=1"])
def test_an_answer_that_the_mpi_refused_is_not_looked_at(config: str) -> None:
    """It was to go to no address."""
    seen, lane = play("loop_refused", config)
    assert seen["refused"] == 1000 == lane["calls"]["Test"]["calls"] and lane["naps"] == {}


@pytest.mark.parametrize("config", ["rungs=none;profile=1", NAP + ";profile=1"])
def test_profile_tells_how_long_such_loops_were(config: str) -> None:
    """Whatever the policy: all but the first rounds of the loop that asks, and nothing of the one that works."""
    _, lane = play("loop", config)
    call = lane["calls"]["Test"]
    assert 0.99 * 200e6 <= call["time_ns"] <= 200e6 and call["waits"] == 0 and lane["naps"] == {}
    _, lane = play("loop_works", config)
    assert lane["calls"]["Test"]["time_ns"] == 0
    _, lane = play("loop", POLLS + ";profile=1")
    call = lane["calls"]["Test"]
    assert call["wait_ns"] == call["time_ns"] >= 200e6 - FREE_NS - LONGEST_NS
