"""Message sizes under profile, on real MPIs: what is counted is what the program says it should be."""

from __future__ import annotations

import pytest

from tests.lib.launches import NAP
from tests.lib.libraries import LIBRARY, Mpi
from tests.mpi.playing import OPENMPI, built, launched, of

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def play(mpi: Mpi, config: str, preload: str = f"{LIBRARY}") -> tuple[str, list[dict]]:
    done = launched(mpi, [built(mpi, "message_sizes")], config, ranks=3, preload=preload)
    return done.output, done.segment["slots"]


@of("openmpi", "mpich", "openmpi-5", "mpich-5-abi")
@pytest.mark.parametrize("beside", ["", "tool"], ids=["alone", "before a tool"])
def test_sizes_are_what_the_program_handed_over(mpi: Mpi, beside: str) -> None:
    """Not under Intel MPI: there the program crashes or hangs at times, without the library too."""
    behind = f":{built(mpi, beside, '-shared', '-fPIC')}" if beside else ""
    output, slots = play(mpi, NAP + ";profile=1", f"{LIBRARY}{behind}")
    expected = [line.split() for line in output.splitlines()]
    assert len(expected) == 3 * 29
    for rank, call, size, calls, least in expected:
        slot = slots[int(rank)]
        seen = sum(lane["calls"].get(call, {}).get("bytes", 0) for lane in slot["lane"])
        classes = slot["sizes"].get(call, {})
        assert (call, rank, seen, sum(classes.values())) == (call, rank, int(size), int(calls))
        assert max(classes) == int(least)
    times = slots[0]["lane"][0]["calls"]
    assert times["Bcast"]["time_ns"] > 0 and times["Isend"]["time_ns"] == times["Irecv"]["time_ns"] == 0
    assert times["Waitall"]["time_ns"] > 0 and "Waitall" not in slots[0]["sizes"] and "Barrier" not in slots[0]["sizes"]


def test_without_profile_nothing_is_looked_up() -> None:
    _, slots = play(OPENMPI, NAP)
    assert not any(slot["sizes"] for slot in slots)
    assert not any(call["bytes"] or call["time_ns"] for slot in slots for call in slot["lane"][0]["calls"].values())
