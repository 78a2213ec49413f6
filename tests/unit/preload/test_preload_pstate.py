"""The rung pstate on the fake MPI, against a broker that answers as told, and against files."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.lib.doubles.support import BUILD, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason=f"not built: {DRIVER}")

MAGIC = 0x314C574D
LOW, RESTORE = 1, 2
DONE, NOT_YOURS, NOT_NOW, BUSY, OVER = range(5)
POLICY = "rungs=pause+yield+pstate;spin_ns=20000;relative_ppm=62500;max_ns=100000;pstate_after_ns=10000000"
WAIT_S = 0.2  # of the scene "wait"
TRIES = 5  # on a busy machine a yield may take four milliseconds, and a step may not be seen

Answer = Callable[[int], "bytes | None"]


def reply(answer: int, changes: int = 1) -> Answer:
    return lambda serial: struct.pack("4I", MAGIC, serial, answer, changes)


@contextmanager
def broker(answer: Answer, close_after: int = 0) -> Iterator[tuple[int, list[tuple[float, int, int]]]]:
    """The task's end, and what was asked there: when, verb and CPU."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked: list[tuple[float, int, int]] = []

    def serve() -> None:
        with suppress(ConnectionResetError):  # it ended with a reply unread
            obey()
        ours.close()

    def obey() -> None:
        while packet := ours.recv(64):
            magic, verb, cpu, tid, serial = struct.unpack("5I", packet)
            assert magic == MAGIC and tid > 1
            asked.append((time.monotonic(), verb, cpu))
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


def play(fd: int, scene: str = "wait", identity: str = "", policy: str = POLICY):
    status = os.fstat(fd)
    config = f"{policy};cpufreq=lease:{fd}:{identity or f'{status.st_dev}:{status.st_ino}'}"
    began = time.monotonic()
    done, segment = run([DRIVER, scene], config, fds=(fd,))
    assert done.returncode == 0, done.stderr
    return values(done), segment["slots"][0], time.monotonic() - began


def test_lowered_once_and_restored_before_the_call_returns() -> None:
    with broker(reply(DONE)) as (fd, asked):
        seen, slot, _ = play(fd)
    lane = slot["lane"][0]
    assert seen["code"] == 0 and seen["errno"] == 4711
    assert {verb for _, verb, _ in asked} == {LOW, RESTORE} and asked[-1][1] == RESTORE
    lows = sum(verb == LOW for _, verb, _ in asked)
    assert lane["naps"]["pstate"] == sum(verb == RESTORE for _, verb, _ in asked) <= lows
    assert lane["transitions"] == len(asked)
    low_s = lane["asleep_ns"]["pstate"] / 1e9
    print(f"{low_s:.3f} s of {WAIT_S} s low, {lows} requests")
    assert 0.5 * WAIT_S < low_s < WAIT_S


def test_the_other_rungs_go_on_at_low_frequency() -> None:
    yields = []
    for _ in range(TRIES):
        with broker(reply(DONE)) as (fd, _):
            _, slot, _ = play(fd)
        yields.append(slot["lane"][0]["naps"]["yield"])
        if yields[-1] > 100:
            break
    assert max(yields) > 100, yields


def test_a_short_wait_is_left_alone() -> None:
    with broker(reply(DONE)) as (fd, asked):
        play(fd, policy=POLICY.replace("10000000", "400000000"))
    assert asked == []


def test_progress_restores() -> None:
    """A poll that finds work begins the wait anew: it never comes to the threshold, a tenth of the whole."""
    with broker(reply(DONE)) as (fd, asked):
        play(fd, scene="progress", policy=POLICY.replace("10000000", "50000000"))
    assert len(asked) <= 4


def test_a_wait_of_many_steps_changes_the_frequency_a_few_times() -> None:
    """A hundred of 100 us, each above the threshold, which doubles with each: the core is not lowered in all."""
    lows = []
    for _ in range(TRIES):
        with broker(reply(DONE)) as (fd, asked):
            play(fd, scene="visible_steps", policy=POLICY.replace("10000000", "50000"))
        lows.append(sum(verb == LOW for _, verb, _ in asked))
    assert 1 <= max(lows) <= 16


@pytest.mark.parametrize("scene", ["longjmp", "threads", "signals", "lock", "inner"])
def test_whatever_happens_to_the_call_it_is_restored(scene: str) -> None:
    with broker(reply(DONE)) as (fd, asked):
        _, slot, _ = play(fd, scene, policy=POLICY.replace("10000000", "1000000"))
    lows = [verb for _, verb, _ in asked]
    print(lows)
    assert not lows or lows[-1] == RESTORE
    assert all(lane["asleep_ns"].get("pstate", 0) < 5e9 for lane in slot["lane"])


@pytest.mark.parametrize("answer", [NOT_NOW, BUSY])
def test_a_refusal_is_not_asked_about_again_at_once(answer: int) -> None:
    with broker(reply(answer, 0)) as (fd, asked):
        _, slot, _ = play(fd)
    assert 1 <= len(asked) <= 2 and all(verb == LOW for _, verb, _ in asked)
    assert "pstate" not in slot["lane"][0]["naps"] and slot["lane"][0]["transitions"] == 0


@pytest.mark.parametrize(
    "answer",
    [reply(OVER, 0), reply(NOT_YOURS, 0), lambda serial: b"x", lambda serial: b"x" * 60, lambda serial: b"\0" * 16],
    ids=["over", "not yours", "short", "long", "zeros"],
)
def test_an_end_is_an_end(answer: Answer) -> None:
    with broker(answer) as (fd, asked):
        _, slot, _ = play(fd)
    assert len(asked) == 1 and "pstate" not in slot["lane"][0]["naps"]


def test_a_broker_that_is_gone() -> None:
    with broker(reply(DONE), close_after=1) as (fd, asked):
        _, slot, _ = play(fd)
    assert len(asked) == 1 and slot["lane"][0]["naps"]["pstate"] == 1


def test_a_silent_broker_delays_one_call_by_a_tenth_of_a_second() -> None:
    with broker(lambda serial: None) as (fd, asked):
        seen, slot, elapsed = play(fd)
    verbs = [verb for _, verb, _ in asked]
    assert verbs.count(RESTORE) <= 1 + verbs.count(LOW) and verbs[-1] == RESTORE
    assert "pstate" not in slot["lane"][0]["naps"], "what is not known to be low is not counted"
    assert slot["lane"][0]["calls"]["Recv"]["calls"] == 1


@pytest.mark.parametrize("identity", ["0:0", "1:1"])
def test_another_descriptor_at_that_number_is_not_spoken_to(identity: str) -> None:
    with broker(reply(DONE)) as (fd, asked):
        _, slot, _ = play(fd, identity=identity)
    assert asked == [] and slot["flags"] & 1 << 7
