"""mpi4py's wheel from PyPI asks at run time for large-count functions, and finds ours where Open MPI has none."""

from __future__ import annotations

import pytest

from tests.lib.launches import NAP, Launched
from tests.lib.libraries import LIBRARY, PROGRAMS, PYTHON, Mpi, mpi4py
from tests.mpi.playing import available, built, launched, of

RESULTS = 19  # of each rank
REFUSALS = ("too_many", "handler_called", "negative", "count_in_array", "place_in_array")
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def play(mpi: Mpi, config: str | None) -> Launched:
    libmpi = mpi.libraries() / "libmpi.so.40" if mpi.wheel else "libmpi.so.40"
    with available():
        variables = {"PYTHONPATH": str(mpi4py()), "MPI4PY_LIBMPI": str(libmpi)}
        return launched(mpi, [PYTHON, PROGRAMS / "large_counts_mpi4py.py"], config, ranks=3, **variables)


@of("openmpi", "openmpi-5")
def test_the_wheel_of_mpi4py_gives_the_same(mpi: Mpi) -> None:
    expected = play(mpi, None).output.splitlines()
    assert len(expected) == 3 * RESULTS + 1, "the last one alone receives"
    assert [line for line in expected if "refused" in line] == [f"{rank} refused True" for rank in range(3)]
    done = play(mpi, NAP)
    assert done.output.splitlines() == expected
    seen = set().union(*(set(slot["lane"][0]["calls"]) for slot in done.segment["slots"]))
    assert {"Bcast", "Allgatherv", "Alltoallv", "Alltoallw", "Ialltoallv", "Test", "Put", "Waitall"} <= seen


@of("openmpi", "openmpi-5", "mpich", "mpich-5")
def test_large_counts_called_at_run_time(mpi: Mpi) -> None:
    """MPICH has its own: there the same calls only pass through. Nothing of ours stays allocated once requests are
    complete."""
    narrowed = mpi.name.startswith("openmpi")
    output = launched(mpi, [built(mpi, "large_calls"), "arrays" if narrowed else ""]).output
    lines = [line.split() for line in output.splitlines()]
    refusals = [line[1] for line in lines if line[0] in REFUSALS]
    flags = [line for line in lines if line[0] in ("gatherv", "in_place", "detached")]
    assert len(flags) == 1 + 2 * 2 and all(line[1] == "1" for line in flags), output
    if narrowed:
        assert all(float(line[1]) < 1 for line in lines if line[0] == "kept_bytes_per_call"), output
        assert refusals == ["1"] * 2 * len(REFUSALS), output
