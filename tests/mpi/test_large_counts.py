"""mpi4py's wheel from PyPI asks at run time for large-count functions, and finds ours where Open MPI has none."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
from test_hooks import MPIS, NAP, Mpi

from tests.lib.doubles.support import BUILD, ROOT, run

REQUIREMENT = "mpi4py==4.1.2"
RESULTS = 19  # of each rank
REFUSALS = ("too_many", "handler_called", "negative", "count_in_array", "place_in_array")


@functools.cache
def mpi4py_wheel() -> Path:
    folder = BUILD / "wheels" / REQUIREMENT.replace("==", "-")
    if not (folder / "mpi4py").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, REQUIREMENT]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            pytest.skip(f"{REQUIREMENT} could not be had from PyPI: {done.stderr.strip()[-200:]}")
    return folder


def libmpi(mpi: Mpi) -> str:
    linked = subprocess.run(["ldd", mpi.program("late_sender")], capture_output=True, text=True, check=True).stdout
    return next(line.split()[2] for line in linked.splitlines() if line.strip().startswith("libmpi.so"))


def play(mpi: Mpi, config: str | None) -> tuple[list[str], dict]:
    bare = [] if config else ["env", "LD_PRELOAD="]
    command = [mpi.tool(mpi.launcher, mpi.wheel), *mpi.options, "-n", "3", *bare, sys.executable]
    done, segment = run([*command, ROOT / "tests/lib/programs/large_counts_mpi4py.py"], config, **mpi.environment(),
                        PYTHONPATH=str(mpi4py_wheel()), MPI4PY_LIBMPI=libmpi(mpi))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), segment


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.name in ("openmpi", "openmpi-5")],
                         ids=lambda mpi: mpi.name)
def test_the_wheel_of_mpi4py_gives_the_same(mpi: Mpi) -> None:
    expected, _ = play(mpi, None)
    assert len(expected) == 3 * RESULTS + 1, "the last one alone receives"
    assert [line for line in expected if "refused" in line] == [f"{rank} refused True" for rank in range(3)]
    got, segment = play(mpi, NAP)
    assert got == expected
    seen = set().union(*(set(slot["lane"][0]["calls"]) for slot in segment["slots"]))
    assert {"Bcast", "Allgatherv", "Alltoallv", "Alltoallw", "Ialltoallv", "Test", "Put", "Waitall"} <= seen


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.name in ("openmpi", "openmpi-5", "mpich", "mpich-5")],
                         ids=lambda mpi: mpi.name)
def test_large_counts_called_at_run_time(mpi: Mpi) -> None:
    """MPICH has its own: there the same calls only pass through. Nothing of ours stays allocated once requests are
    complete."""
    narrowed = mpi.name.startswith("openmpi")
    output, _ = mpi.launch("large_calls", "arrays" if narrowed else "")
    lines = [line.split() for line in output.splitlines()]
    refusals = [line[1] for line in lines if line[0] in REFUSALS]
    flags = [line for line in lines if line[0] in ("gatherv", "in_place", "detached")]
    assert len(flags) == 1 + 2 * 2 and all(line[1] == "1" for line in flags), output
    if narrowed:
        assert all(float(line[1]) < 1 for line in lines if line[0] == "kept_bytes_per_call"), output
        assert refusals == ["1"] * 2 * len(REFUSALS), output
