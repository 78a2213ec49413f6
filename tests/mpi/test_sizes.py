"""Message sizes under profile, on real MPIs: what is counted is what the program says it should be."""

from __future__ import annotations

import pytest
from test_hooks import MPIS, NAP, Mpi

from tests.lib.doubles.support import run

# Not Intel MPI 2021: there the program crashes or hangs at times, without the library too.
SERVED = ("openmpi", "mpich", "openmpi-5", "mpich-5-abi")


def play(mpi: Mpi, config: str) -> tuple[str, list[dict]]:
    command = [mpi.tool(mpi.launcher, mpi.wheel), *mpi.options, "-n", "3", mpi.program("message_sizes")]
    done, segment = run(command, config, **mpi.environment())
    assert done.returncode == 0, done.stderr
    return done.stdout, segment["slots"]


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.name in SERVED], ids=lambda mpi: mpi.name)
def test_sizes_are_what_the_program_handed_over(mpi: Mpi) -> None:
    output, slots = play(mpi, NAP + ";profile=1")
    expected = [line.split() for line in output.splitlines()]
    assert len(expected) == 3 * 25
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
    _, slots = play(MPIS[0], NAP)
    assert not any(slot["sizes"] for slot in slots)
    assert not any(call["bytes"] or call["time_ns"] for slot in slots for call in slot["lane"][0]["calls"].values())
