"""The rung pstate on the fake MPI, under the virtual clock, against a broker that answers as told, and at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lib.doubles.board import BUSY, DONE, LOW, NOT_NOW, NOT_YOURS, OVER, RESTORE, Answer, Board, board
from tests.lib.doubles.support import BUILD, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
POLICY = "rungs=pause+yield+pstate;spin_ns=20000;relative_ppm=62500;max_ns=100000;pstate_after_ns=10000000"
AFTER_NS, WAIT_NS = 10_000_000, 200_000_000  # of the policy, and of the scene "wait"
NO_GRANT = 128  # flag of a slot


def reply(answer: int, changes: int = 1) -> Answer:
    return lambda: (answer, changes)


def play(made: Board, scene: str = "wait", identity: str = "", policy: str = POLICY, **options: str):
    status = os.fstat(made.fd)
    config = f"{policy};cpufreq=lease:{made.fd}:{identity or f'{status.st_dev}:{status.st_ino}'}"
    done, segment = run([DRIVER, scene], config, fds=(made.fd,), virtual=True, made=made.hear,
                        **{"TIME_ANSWERS": "1", **options})
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0]


def test_lowered_once_and_restored_before_the_call_returns() -> None:
    with board(reply(DONE)) as made:
        seen, slot = play(made)
    lane = slot["lane"][0]
    assert seen["code"] == 0 and seen["errno"] == 4711
    assert made.asked == [LOW, RESTORE]
    assert lane["naps"]["pstate"] == 1 and lane["transitions"] == 2
    assert abs(lane["asleep_ns"]["pstate"] - (WAIT_NS - AFTER_NS)) < 100_000


def test_a_lease_is_asked_for_again_before_it_ends() -> None:
    """A wait of half a second, and one of a tenth."""
    with board(reply(DONE)) as made:
        _, slot = play(made, "stopped")
    assert made.asked == [LOW, LOW, RESTORE, LOW, RESTORE]
    assert slot["lane"][0]["naps"]["pstate"] == 2


def test_the_other_rungs_go_on_at_low_frequency() -> None:
    with board(reply(DONE)) as made:
        seen, slot = play(made)
    assert slot["lane"][0]["naps"]["yield"] == seen["kernel_yields"] > 300_000, "400 ns each, of 200 ms"


def test_a_pipe_where_the_board_was_holds_nobody_up(tmp_path: Path) -> None:
    """The task has closed the board, and reads a named pipe by its number that nobody writes: to open it would wait."""
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        done, segment = run([DRIVER, "wait"], f"{POLICY};cpufreq=lease:{pipe}:1:2", virtual=True)
    finally:
        os.close(pipe)
    assert done.returncode == 0 and segment["slots"][0]["flags"] & NO_GRANT


def test_a_short_wait_is_left_alone() -> None:
    with board(reply(DONE)) as made:
        play(made, policy=POLICY.replace("10000000", "400000000"))
    assert made.asked == []


def test_progress_restores() -> None:
    """A poll that finds work begins the wait anew: it never comes to the threshold, a tenth of the whole."""
    with board(reply(DONE)) as made:
        play(made, "progress", policy=POLICY.replace("10000000", "50000000"))
    assert made.asked == []


def test_a_wait_of_many_steps_changes_the_frequency_a_few_times() -> None:
    """
    A hundred of 100 us after one of 20 ms. Each is above the threshold of 10 us at first; that doubles with each, and
    after those above 10, 20, 40 and 80 us the core is not lowered again.
    """
    with board(reply(DONE)) as made:
        play(made, "visible_steps", policy=POLICY.replace("10000000", "10000"))
    assert made.asked == [LOW, RESTORE] * 4


@pytest.mark.parametrize(("scene", "times"), [("longjmp", 1), ("threads", None), ("signals", 1), ("inner", 1)])
def test_whatever_happens_to_the_call_it_is_restored(scene: str, times: int | None) -> None:
    """Of several threads that wait at once, one has it at a time."""
    signals = {"TIME_SIGNAL": "310000"} if scene == "signals" else {}
    with board(reply(DONE)) as made:
        _, slot = play(made, scene, policy=POLICY.replace("10000000", "1000000"), **signals)
    assert made.asked == [LOW, RESTORE] * (times or len(made.asked) // 2) and made.asked
    assert all(lane["asleep_ns"].get("pstate", 0) < 50e6 for lane in slot["lane"])


def test_who_waits_for_a_lock_of_others_is_not_slowed() -> None:
    with board(reply(DONE)) as made:
        play(made, "lock", policy=POLICY.replace("10000000", "1000000"))
    assert made.asked == []


@pytest.mark.parametrize("answer", [NOT_NOW, BUSY])
def test_a_refusal_is_not_asked_about_again_at_once(answer: int) -> None:
    """But after a tenth of a second: once more in a wait of two tenths."""
    with board(reply(answer, 0)) as made:
        _, slot = play(made)
    assert made.asked == [LOW, LOW]
    assert "pstate" not in slot["lane"][0]["naps"] and slot["lane"][0]["transitions"] == 0


@pytest.mark.parametrize(
    "answer",
    [reply(OVER, 0), reply(NOT_YOURS, 0), reply(77, 0)],
    ids=["over", "not yours", "unknown"],
)
def test_an_end_is_an_end(answer: Answer) -> None:
    with board(answer) as made:
        _, slot = play(made)
    assert made.asked == [LOW] and "pstate" not in slot["lane"][0]["naps"]


def test_a_broker_that_is_gone() -> None:
    with board(reply(DONE), close_after=1) as made:
        _, slot = play(made)
    assert made.asked == [LOW] and slot["lane"][0]["naps"]["pstate"] == 1


def test_a_silent_broker_delays_one_call_by_a_tenth_of_a_second() -> None:
    with board(lambda: None) as made:
        _, slot = play(made)
    assert made.asked == [LOW, RESTORE]
    assert "pstate" not in slot["lane"][0]["naps"], "what is not known to be low is not counted"
    assert slot["lane"][0]["calls"]["Recv"]["calls"] == 1
    assert WAIT_NS + 100_000_000 <= slot["end_ns"] - slot["start_ns"] < WAIT_NS + 101_000_000


def test_a_silent_broker_is_asked_again_ever_more_seldom() -> None:
    """After 10, 20 and 40 s of eighty, in which it costs four tenths of a second."""
    with board(lambda: None) as made:
        _, slot = play(made, "now_and_then")
    assert made.asked == [LOW, RESTORE] * 4
    assert 81.2e9 < slot["end_ns"] - slot["start_ns"] < 81.3e9


def test_who_was_silent_once_is_heard_again() -> None:
    """In the first of forty waits nobody answers; five waits later somebody does, and in each from then on."""
    answers = iter([None, None])
    with board(lambda: next(answers, (DONE, 1))) as made:
        _, slot = play(made, "now_and_then")
    assert made.asked == [LOW, RESTORE] * 36 and slot["lane"][0]["naps"]["pstate"] == 35


@pytest.mark.parametrize("identity", ["0:0", "1:1"])
def test_another_descriptor_at_that_number_is_not_spoken_to(identity: str) -> None:
    with board(reply(DONE)) as made:
        _, slot = play(made, identity=identity)
    assert made.asked == [] and slot["flags"] & 1 << 7


def through_shell(made: Board, script: str):
    """What a script does that starts the driver."""
    status = os.fstat(made.fd)
    config = f"{POLICY};cpufreq=lease:{made.fd}:{status.st_dev}:{status.st_ino}"
    done, segment = run(["bash", "-c", script], config, fds=(made.fd,), virtual=True, made=made.hear, TIME_ANSWERS="1")
    assert done.returncode == 0, done.stderr
    return [slot["lane"][0] for slot in segment["slots"]]


def test_what_another_process_was_answered_is_not_taken_for_ones_own() -> None:
    """The word's serial goes on where an earlier rank on that core left it."""
    with board(reply(DONE)) as made:
        lanes = through_shell(made, f"for i in 1 2 3; do taskset -c 0 {DRIVER} wait || exit 1; done")
    assert made.asked == [LOW, RESTORE] * 3
    assert [(lane["naps"]["pstate"], lane["transitions"]) for lane in lanes] == [(1, 2)] * 3


def test_what_a_killed_process_was_answered_is_not_taken_for_ones_own() -> None:
    """Its answer still stands when the next rank on that core asks, which hears nothing."""
    answers: list[tuple[int, int]] = [(DONE, 1)]
    with board(lambda: answers.pop() if answers else None) as made:
        lanes = through_shell(made, f"TIME_KILL=100000000 taskset -c 0 {DRIVER} wait\n"
                                    f"TIME_ANSWERS=0 exec taskset -c 0 {DRIVER} wait")
    assert made.asked == [LOW, LOW, RESTORE]
    assert [lane["naps"].get("pstate", 0) for lane in lanes] == [1, 0]


def test_descriptors_that_a_launcher_has_closed_are_opened_again() -> None:
    """Through the task, which has them: so do the ranks of mpirun, and so could no eventfd."""
    with board(reply(DONE)) as made:
        lanes = through_shell(made, f"exec {made.fd}<&- 210<&-; exec {DRIVER} wait")
    assert made.asked == [LOW, RESTORE] and [lane["transitions"] for lane in lanes] == [2]
