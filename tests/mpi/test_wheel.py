"""mpi4py's wheel from PyPI asks at run time what the MPI has; large counts, which it prefers, pass through."""

from __future__ import annotations

import pytest

from tests.lib.launches import NAP, Launched
from tests.lib.libraries import LIBRARY, MPIS, PROGRAMS, PYTHON, Mpi
from tests.mpi.playing import available, built, launched, of

RESULTS = 26  # of each rank
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def play(mpi: Mpi, config: str | None) -> Launched:
    with available():
        return launched(mpi, [PYTHON, PROGRAMS / "wheel_mpi4py.py"], config, ranks=3, **mpi.below_mpi4py())


@of(*(mpi.name for mpi in MPIS))
def test_the_wheel_of_mpi4py_gives_the_same(mpi: Mpi) -> None:
    """What the MPI lacks, too; and what it has is counted, if mpi4py has called it."""
    expected = play(mpi, None).output.splitlines()
    assert len(expected) == 3 * RESULTS + 1, "the last one alone receives"
    done = play(mpi, NAP)
    assert done.output.splitlines() == expected
    seen = set().union(*(set(slot["lane"][0]["calls"]) for slot in done.segment["slots"]))
    assert {"Bcast", "Allgatherv", "Alltoallv", "Alltoallw", "Ialltoallv", "Test", "Put", "Waitall"} <= seen
    has = {"Isendrecv": "exchange", "Isendrecv_replace": "exchange_replace", "Bcast_init": "persistent"}
    lacking = {line.split()[1] for line in expected if line.endswith("the MPI lacks it")}
    assert seen & set(has) == {call for call, result in has.items() if result not in lacking}


@of("mpich", "mpich-5")
def test_large_counts_called_at_run_time(mpi: Mpi) -> None:
    done = launched(mpi, [built(mpi, "large_calls")])
    lines = [line.split() for line in done.output.splitlines()]
    flags = [line for line in lines if line[0] in ("gatherv", "in_place", "detached")]
    assert len(flags) == 1 + 2 * 2 and all(line[1] == "1" for line in flags), done.output
    calls = done.segment["slots"][0]["lane"][0]["calls"]
    assert calls["Ialltoallv"]["calls"] == 400 and calls["Gatherv"]["calls"] == 1
