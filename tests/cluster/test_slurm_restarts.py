"""What administrators do to daemons while a job runs: its record stays whole, and its lease goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import await_lowered, file_name, frequencies, held, leases, program, release, wait_until_waited
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster

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
def test_a_running_jobs_record_is_whole(cluster: Cluster, change: Callable[[Cluster], None]) -> None:
    """On two nodes whose ranks wait at low frequency: the step holds what it held, and no counter has a gap."""
    before = [frequencies(cluster, node) for node in cluster.nodes]
    with held(cluster, ["-N2", "-n4", PSTATE]) as job:
        job.await_ranks(3)
        await_lowered(cluster, {"c1": {"policy1"}, "c2": {"policy0", "policy1"}})
        holds = [leases(cluster, node) for node in cluster.nodes]
        began = time.monotonic()
        change(cluster)
        assert [leases(cluster, node) for node in cluster.nodes] == holds
        assert [sum(f"held by job {job.job} step 0" in line for line in node) for node in holds] == [2, 2]
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
    assert grant["cores"] == 4 and grant["transitions"] >= 6 and grant["transitions"] % 2 == 0 and grant["low_s"] > 0


def test_a_step_after_a_killed_slurmd_adds_to_the_record(cluster: Cluster) -> None:
    """What the job's first step and its prolog left on the node counts on, from before slurmd was killed."""
    hold, go_on = file_name(cluster), file_name(cluster)
    script = (
        f"srun --overlap {' '.join(program(hold))} &\n"
        f"until [ -e {go_on} ]; do sleep 0.1; done\n"
        f"srun --overlap {PROGRAMS}/unbalanced 3 20 2\nwait\n"
    )
    job = jobs.sbatch(cluster, script, ["-w", "c1", "-n2", "--mpi-wait-policy=nap,profile"])
    wait_until_waited(cluster, "c1", job)
    cluster.kill("slurmd-c1", signal.SIGKILL)
    cluster.restart("slurmd-c1")
    release(cluster, go_on)
    wait_for(lambda: "3 iterations" in jobs.output(cluster, job), timeout_s=60)
    release(cluster, hold)
    assert cluster.wait_job(job) == "COMPLETED", jobs.output(cluster, job)
    record = jobs.record(cluster, job)
    steps = {step["id"]: step for step in record["steps"]}
    assert {name: step["ranks"] for name, step in steps.items()} == {"batch": 0, "0": 2, "1": 2}
    assert record["wait"]["ranks"] == 4 and {"MPI_Barrier", "MPI_Allreduce"} <= set(record["wait"]["by_call"])
    assert record["elapsed_s"] >= steps["0"]["elapsed_s"] > steps["1"]["elapsed_s"]
    assert record["energy"]["joules"] > steps["0"]["joules"] > steps["1"]["joules"] > 0
    assert not {"gaps", "dropped"} & set(record["energy"])
