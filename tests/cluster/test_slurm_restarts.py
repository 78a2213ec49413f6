"""What administrators do to daemons while a job runs: its record stays whole, and its lease goes on."""

from __future__ import annotations

import time

import pytest

from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import frequencies, held, lows
from tests.lib.throwaway import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.release]

PSTATE = "--mpi-wait-policy=pstate"


def slurmds_restart(cluster: Cluster) -> None:
    for node in cluster.nodes:
        cluster.restart(f"slurmd-{node}")


def slurmctld_reconfigure(cluster: Cluster) -> None:
    """slurmctld has the slurmds read it too, and they say when they do."""
    def count() -> list[int]:
        return [cluster.logs(f"slurmd-{node}").count("reconfigure request") for node in cluster.nodes]

    before = count()
    cluster.run(["scontrol", "reconfigure"], user="root", check=True)
    wait_for(lambda: all(now > old for now, old in zip(count(), before, strict=True)), timeout_s=60)


@pytest.mark.parametrize("change", [slurmctld_reconfigure, slurmds_restart], ids=["scontrol-reconfigure", "slurmd"])
def test_a_running_jobs_record_is_whole(cluster: Cluster, change: object) -> None:
    """On two nodes whose ranks wait at low frequency: nothing is put back meanwhile, and no counter has a gap."""
    assert callable(change)
    before = [frequencies(cluster, node) for node in cluster.nodes]
    with held(cluster, ["-N2", "-n4", PSTATE]) as job:
        wait_for(lambda: [len(lows(cluster, node)) for node in cluster.nodes] == [1, 2])
        began = time.monotonic()
        change(cluster)
        assert [len(lows(cluster, node)) for node in cluster.nodes] == [1, 2]
        waited_s = time.monotonic() - began
        job.end()
    cluster.wait_nodes()
    record = jobs.record(cluster, job.job)
    assert [frequencies(cluster, node) for node in cluster.nodes] == before
    assert record["nodes"] == {"reported": 2, "of": 2}
    assert record["policy"] == {"asked": "pstate", "used": "pstate", "by": "job"}
    assert [(step["id"], step["nodes"], step["ranks"]) for step in record["steps"]] == [("0", 2, 4)]
    assert record["energy"]["joules"] > 0 and not {"nodes", "gaps", "dropped"} & set(record["energy"])
    wait, grant = record["wait"], record["grant"]
    assert wait["ranks"] == 4 and "doubtful" not in wait and "unseen" not in wait
    assert wait["by_call"]["MPI_Barrier"]["waits"] >= 3 and min(wait["per_rank_s"][1:]) > waited_s / 2
    assert grant["cores"] == 4 and grant["transitions"] % 2 == 0 and grant["low_s"] > 0
