"""The event rung: ranks that the message itself wakes, under Open MPI with its pml ucx over shared memory."""

from __future__ import annotations

import pytest

from tests.lib.doubles.support import BUILD
from tests.lib.launches import Absence, Launched, napping, ranks_launch
from tests.lib.libraries import LIBRARY, UCX, Mpi
from tests.mpi.playing import (
    BY_HOOKED,
    EVENT,
    OPENMPI,
    available,
    built,
    expected,
    flags_of,
    late,
    launched,
    results,
    sleepless,
)

NO_EVENT = 32
LOST_MOST = 4
TIMEOUT_S = 60
WAKES = 10000
TRIED = 8  # waits, of which one tries whether a message wakes it, until that is proven
OB1 = ("--mca", "pml", "ob1")
MESSAGES = ("Recv", "Ssend", "Sendrecv", "Waitall", "Waitany", "Probe", "Barrier", "Bcast", "Alltoall", "Allreduce")
ASLEEP = Absence(sleeps=10**9, asleep=True)
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def ucx(mpi: Mpi) -> tuple[str, ...]:
    if mpi.name == "openmpi":
        return UCX
    return (*UCX[:3], *(word for name in ("tls", "devices") for word in ("--mca", f"opal_common_ucx_{name}", "any")))


def lanes(done: Launched) -> list[dict]:
    return [slot["lane"][0] for slot in done.segment["slots"]]


@pytest.mark.parametrize("mpi", [OPENMPI, BY_HOOKED["openmpi-5"]], ids=lambda mpi: mpi.name)
def test_every_message_wakes_and_gives_the_same(mpi: Mpi) -> None:
    """
    The partner comes when the rank is in one sleep for milliseconds, which no nap lasts; at first, while it is tried
    whether messages wake at all, after a while. Open MPI 5 has a newer UCX, with parameters that older ones lack.
    """
    proven = late(mpi, "Recv", *MESSAGES[1:], config=EVENT, repetitions=2 * TRIED, options=ucx(mpi),
                  ends=Absence(sleeps=20, asleep=True))
    assert results(proven.seen()) == expected(MESSAGES, repetitions=2 * TRIED)
    assert sleepless(proven.seen(), MESSAGES) == {}
    for name in MESSAGES[1:]:
        assert proven.seen()[name].ends[-1] == "s", name
    flags, (_, lane) = flags_of(proven), lanes(proven)
    assert not flags[1] & NO_EVENT
    assert lane["event_wakes"] > 5 * TRIED and lane["event_lost"] == 0


def test_no_wake_up_is_lost_in_ten_thousand_sleeps() -> None:
    """A sleep that is not ended by its message lasts a minute here."""
    done = launched(OPENMPI, [built(OPENMPI, "mixed_messages"), "400000", "100", str(WAKES)],
                    f"{EVENT};event_ns={TIMEOUT_S}000000000", options=ucx(OPENMPI), timeout_s=200)
    seen = dict(line.split() for line in done.output.splitlines())
    wakes = sum(lane["event_wakes"] for lane in lanes(done))
    print(f"{wakes} wake-ups in {seen['steps']} steps, the longest of {seen['longest_s']} s")
    assert wakes >= WAKES and seen["wrong"] == "0"
    assert float(seen["longest_s"]) < TIMEOUT_S / 2
    assert not any(lane["event_lost"] for lane in lanes(done))


@pytest.mark.parametrize(("pml", "more"), [(OB1, {}), (UCX, {"UCX_TLS": "self,tcp"}),
                                           (UCX, {"MPI_UCX_TLS": "self,tcp"})], ids=["ob1", "ucx-tcp", "ucx-mpi-tcp"])
def test_where_nothing_wakes_it_naps_and_says_so(pml: tuple[str, ...], more: dict[str, str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who chose transports keeps them all: wake-up support would take away those that lack it. UCX has nothing
    to say about that."""
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    done = late(OPENMPI, "Recv", config=EVENT, options=pml)
    assert all(flag & NO_EVENT for flag in flags_of(done)) and sleepless(done.seen(), ("Recv",)) == {}
    assert all("event" not in lane["naps"] and lane["event_wakes"] == 0 for lane in lanes(done))
    assert lanes(done)[1]["naps"]["nap"] >= sum(done.seen()["Recv"].sleeps)
    assert "UCX" not in done.output + done.errors


def test_ucx_says_once_why_it_fails() -> None:
    """Wake-ups were asked for, and the second try is without."""
    variables = {**napping(EVENT), "UCX_TLS": "sysv", "UCX_SHM_DEVICES": "none"}
    with available():
        done = ranks_launch(OPENMPI, [built(OPENMPI, "pingpong"), "1"], variables, options=UCX, ranks=1)
    assert done.status not in (0, None) and (done.output + done.errors).count("no usable transports") == 1


def test_where_wake_ups_are_lost_it_naps_and_says_so() -> None:
    """The first few waits show it: no sleep is longer than the budget before it is trusted. This one leaves room for a
    busy machine, on which a nap that ends too late is not taken again for a while."""
    roomy = EVENT.replace("absolute_ns=0;max_ns=100000", "absolute_ns=2000000;max_ns=2000000")
    done = late(OPENMPI, "Recv", config=roomy, repetitions=12 * TRIED, options=UCX, ends=Absence(sleeps=1),
                preload=f"{LIBRARY}:{BUILD / 'tests/lib/doubles/libucx-deaf.so'}")
    lane = lanes(done)[1]
    assert flags_of(done)[1] & NO_EVENT and lane["event_lost"] == LOST_MOST and lane["event_wakes"] == 0
    assert lane["naps"]["nap"] > lane["naps"]["event"]


def test_a_second_thread_ends_it() -> None:
    """A sleep for events is for a thread that is alone: it would take the signals of the other's messages."""
    done = launched(OPENMPI, [built(OPENMPI, "polls"), "1000", "3", "Recv"], EVENT, options=UCX)
    assert [bool(flag & NO_EVENT) for flag in flags_of(done)] == [False, True]
