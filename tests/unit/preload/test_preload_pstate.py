"""The rung pstate on the fake MPI, under the virtual clock, against a broker that answers as told, and at once."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.lib.doubles.support import BUILD, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
MAGIC = 0x314C574D
LOW, RESTORE = 1, 2
DONE, NOT_YOURS, NOT_NOW, BUSY, OVER = range(5)
POLICY = "rungs=pause+yield+pstate;spin_ns=20000;relative_ppm=62500;max_ns=100000;pstate_after_ns=10000000"
AFTER_NS, WAIT_NS = 10_000_000, 200_000_000  # of the policy, and of the scene "wait"

Answer = Callable[[int], "bytes | None"]


def reply(answer: int, changes: int = 1) -> Answer:
    return lambda serial: struct.pack("4I", MAGIC, serial, answer, changes)


@contextmanager
def broker(answer: Answer, close_after: int = 0) -> Iterator[tuple[int, list[int]]]:
    """The task's end, and what was asked there."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked: list[int] = []

    def serve() -> None:
        with suppress(ConnectionResetError):  # it ended with a reply unread
            obey()
        ours.close()

    def obey() -> None:
        while packet := ours.recv(64):
            magic, verb, cpu, tid, serial = struct.unpack("5I", packet)
            assert magic == MAGIC and tid > 1
            assert cpu < 4096
            asked.append(verb)
            text = answer(serial)
            if text:
                ours.send(text)
            if close_after and len(asked) >= close_after:
                break

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield theirs.fileno(), asked
    finally:
        theirs.close()
        thread.join()


def play(fd: int, scene: str = "wait", identity: str = "", policy: str = POLICY, **options: str):
    status = os.fstat(fd)
    config = f"{policy};cpufreq=lease:{fd}:{identity or f'{status.st_dev}:{status.st_ino}'}"
    done, segment = run([DRIVER, scene], config, fds=(fd,), virtual=True, **{"TIME_ANSWERS": "1", **options})
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0]


def test_lowered_once_and_restored_before_the_call_returns() -> None:
    with broker(reply(DONE)) as (fd, asked):
        seen, slot = play(fd)
    lane = slot["lane"][0]
    assert seen["code"] == 0 and seen["errno"] == 4711
    assert asked == [LOW, RESTORE]
    assert lane["naps"]["pstate"] == 1 and lane["transitions"] == 2
    assert abs(lane["asleep_ns"]["pstate"] - (WAIT_NS - AFTER_NS)) < 100_000


def test_a_lease_is_asked_for_again_before_it_ends() -> None:
    """A wait of half a second, and one of a tenth."""
    with broker(reply(DONE)) as (fd, asked):
        _, slot = play(fd, "stopped")
    assert asked == [LOW, LOW, RESTORE, LOW, RESTORE]
    assert slot["lane"][0]["naps"]["pstate"] == 2


def test_the_other_rungs_go_on_at_low_frequency() -> None:
    with broker(reply(DONE)) as (fd, _):
        seen, slot = play(fd)
    assert slot["lane"][0]["naps"]["yield"] == seen["kernel_yields"] > 300_000, "400 ns each, of 200 ms"


def test_a_short_wait_is_left_alone() -> None:
    with broker(reply(DONE)) as (fd, asked):
        play(fd, policy=POLICY.replace("10000000", "400000000"))
    assert asked == []


def test_progress_restores() -> None:
    """A poll that finds work begins the wait anew: it never comes to the threshold, a tenth of the whole."""
    with broker(reply(DONE)) as (fd, asked):
        play(fd, "progress", policy=POLICY.replace("10000000", "50000000"))
    assert asked == []


def test_a_wait_of_many_steps_changes_the_frequency_a_few_times() -> None:
    """
    A hundred of 100 us after one of 20 ms. Each is above the threshold of 10 us at first; that doubles with each, and
    after those above 10, 20, 40 and 80 us the core is not lowered again.
    """
    with broker(reply(DONE)) as (fd, asked):
        play(fd, "visible_steps", policy=POLICY.replace("10000000", "10000"))
    assert asked == [LOW, RESTORE] * 4


@pytest.mark.parametrize(("scene", "times"), [("longjmp", 1), ("threads", None), ("signals", 1), ("inner", 1)])
def test_whatever_happens_to_the_call_it_is_restored(scene: str, times: int | None) -> None:
    """Of several threads that wait at once, one has it at a time."""
    signals = {"TIME_SIGNAL": "310000"} if scene == "signals" else {}
    with broker(reply(DONE)) as (fd, asked):
        _, slot = play(fd, scene, policy=POLICY.replace("10000000", "1000000"), **signals)
    assert asked == [LOW, RESTORE] * (times or len(asked) // 2) and asked
    assert all(lane["asleep_ns"].get("pstate", 0) < 50e6 for lane in slot["lane"])


def test_who_waits_for_a_lock_of_others_is_not_slowed() -> None:
    with broker(reply(DONE)) as (fd, asked):
        play(fd, "lock", policy=POLICY.replace("10000000", "1000000"))
    assert asked == []


@pytest.mark.parametrize("answer", [NOT_NOW, BUSY])
def test_a_refusal_is_not_asked_about_again_at_once(answer: int) -> None:
    """But after a tenth of a second: once more in a wait of two tenths."""
    with broker(reply(answer, 0)) as (fd, asked):
        _, slot = play(fd)
    assert asked == [LOW, LOW]
    assert "pstate" not in slot["lane"][0]["naps"] and slot["lane"][0]["transitions"] == 0


@pytest.mark.parametrize(
    "answer",
    [reply(OVER, 0), reply(NOT_YOURS, 0), lambda serial: b"x", lambda serial: b"x" * 60, lambda serial: b"\0" * 16],
    ids=["over", "not yours", "short", "long", "zeros"],
)
def test_an_end_is_an_end(answer: Answer) -> None:
    with broker(answer) as (fd, asked):
        _, slot = play(fd)
    assert asked == [LOW] and "pstate" not in slot["lane"][0]["naps"]


def test_a_broker_that_is_gone() -> None:
    with broker(reply(DONE), close_after=1) as (fd, asked):
        _, slot = play(fd)
    assert asked == [LOW] and slot["lane"][0]["naps"]["pstate"] == 1


def test_a_silent_broker_delays_one_call_by_a_tenth_of_a_second() -> None:
    with broker(lambda serial: None) as (fd, asked):
        _, slot = play(fd, TIME_ANSWERS="0")
    assert asked == [LOW, RESTORE]
    assert "pstate" not in slot["lane"][0]["naps"], "what is not known to be low is not counted"
    assert slot["lane"][0]["calls"]["Recv"]["calls"] == 1
    assert WAIT_NS + 100_000_000 <= slot["end_ns"] - slot["start_ns"] < WAIT_NS + 101_000_000


@pytest.mark.parametrize("identity", ["0:0", "1:1"])
def test_another_descriptor_at_that_number_is_not_spoken_to(identity: str) -> None:
    with broker(reply(DONE)) as (fd, asked):
        _, slot = play(fd, identity=identity)
    assert asked == [] and slot["flags"] & 1 << 7
