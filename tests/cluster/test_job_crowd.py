"""Sixty-four real ranks on one node of two cores: each has its slot, its line in the record, and its rows."""

from __future__ import annotations

import csv
import io

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster
RANKS = 64
ROUNDS = 3


def test_sixty_four_ranks_on_a_node(cluster: Cluster) -> None:
    place = f"{cluster.share}/csv-crowd"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    argv = ["-N1", f"-n{RANKS}", "--overcommit", "-w", "c1", f"--mpi-wait-policy=nap,csv={place}",
            f"{PROGRAMS}/unbalanced", str(ROUNDS), "0", "0"]
    job, done = jobs.srun(cluster, argv)
    assert done.stdout.startswith(f"{RANKS} ranks, {ROUNDS} iterations, checksum=")
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == len(wait["per_rank_s"]) == len(wait["per_rank_asleep_s"]) == RANKS
    assert "unseen" not in wait and "doubtful" not in wait
    assert wait["profile"]["MPI_Allreduce"]["calls"] == RANKS * ROUNDS
    assert wait["flags"]["shared_cores"] > 0, "of those that had to wait"
    text = cluster.run(["cat", f"{place}/mpi-wait_time.{job}.0.c1.csv"], check=True).stdout
    waited = [0.0] * RANKS
    calls = [0] * RANKS
    for row in csv.DictReader(io.StringIO(text)):
        waited[int(row["rank"])] += float(row["wait_s"])
        calls[int(row["rank"])] += int(row["calls"]) * (row["function"] == "MPI_Allreduce")
        assert row["end"] == "finalized"
    assert calls == [ROUNDS] * RANKS
    assert wait["per_rank_s"] == pytest.approx(waited, abs=0.002), "what the last rank read of each"
