"""Tests that the benchmark of merging runs, and that its figures grow no faster than the job."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent / "record"
BUILT = Path(__file__).resolve().parents[2] / "build/spank/mpi-wait-node"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the spool must be root's"),
    pytest.mark.skipif(not BUILT.exists(), reason="mpi-wait-node is not built"),
]


def bench(*words: str) -> list[dict[str, float]]:
    done = subprocess.run([str(BENCH), "--json", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results: list[dict[str, float]] = json.loads(done.stdout)["results"]
    return results


def test_the_cost_grows_with_the_nodes_and_no_faster() -> None:
    """The limits are for 10 000 nodes: 4 000 may take their part of the memory, plus the program itself."""
    small, large = bench("--nodes", "1000", "4000")
    assert (small["ranks"], large["ranks"]) == (128_000, 512_000)
    assert large["max_rss_mib"] < 0.4 * 256 + 20
    assert large["cpu_s"] < 3 * 4 * small["cpu_s"] + 0.5
    assert max(small["record_bytes"], large["record_bytes"]) <= 60_000


@pytest.mark.parametrize(
    "words",
    [
        ["--ranks", "1", "--nodes", "3000"],
        ["--ranks", "1", "--nodes", "6000"],
        ["--ranks", "2", "--steps", "400", "--nodes", "8"],
        ["--ranks", "1024", "--nodes", "4"],
    ],
    ids=" ".join,
)
def test_the_record_fits_whatever_the_shape_of_the_job(words: list[str]) -> None:
    bench(*words)
