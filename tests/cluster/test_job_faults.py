"""A daemon is killed or slow, or a node is lost, at each stage of a job: its record is there or queued.

$MPI_WAIT_FAULTS=full: also while a job ends and while its record is written, $MPI_WAIT_STAGE_KILLS times (6) each.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs, spool_jobs
from tests.lib.faults import health, walk
from tests.lib.jobs import HELPER, PROGRAMS
from tests.lib.throwaway import FINISHED, Cluster, ClusterError, project_cluster_arguments
from tests.lib.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.soak]
NAP = "--mpi-wait-policy=nap"
SCRIPT = f"srun -n2 -N2 {PROGRAMS}/unbalanced 2 300 3\necho over\n"
WAITS = "until [ -e $HOME/go-$SLURM_JOB_ID ]; do sleep 0.1; done\n"
WANTED = ["-N2", "-n2", NAP]
VICTIMS = ("slurmctld", "slurmdbd", "mariadb", "writer")
STAGES = ("running", "ending", "writing") if walk.FULL else ("running",)
KILLS = int(os.environ.get("MPI_WAIT_STAGE_KILLS", "6" if walk.FULL else "1"))
SLOW_S = 60 if walk.FULL else 5
GIVES_UP_S = 54
"""Slurm's clients wait for an answer of slurmdbd's for MessageTimeout and 35 s: here 55."""
PROXY_PORT = 7819


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Of its own: its daemons are killed."""
    cluster = start_or_skip(Cluster(nodes=2, **project_cluster_arguments()))
    yield cluster
    cluster.stop()


def kill(cluster: Cluster, victim: str, job: int) -> None:
    """And, but for a writer, has it started anew, as systemd does. slurmdbd may end where its database does."""
    if victim == "writer":
        for node in cluster.nodes:
            cluster.node_run(node, ["pkill", "-KILL", "-f", "mpi-wait-node (drain|sweep) "])
        return
    cluster.kill(victim, signal.SIGKILL)
    cluster.restart(victim)
    if victim == "mariadb":
        cluster.restart("slurmdbd")


def go(cluster: Cluster, job: int) -> None:
    cluster.run(["sh", "-c", f"touch $HOME/go-{job}"], check=True)


def arrive(cluster: Cluster, stage: str, job: int) -> None:
    """A job whose start slurmctld had not saved when it died is started again, and its first nodes are drained."""
    cluster.wait_job(job, ("RUNNING", *FINISHED))
    running, saved = time.time(), cluster.inside.path("/srv/cluster/state/job_state")
    cluster.node_run("submit", ["scontrol", "update", f"jobid={job}", "comment=save"], check=True)
    wait_for(lambda: saved.stat().st_mtime > running, "a saved state")
    if stage == "running":
        return
    go(cluster, job)
    said = ["grep", "over", f"{cluster.share}/{job}.out"]
    wait_for(lambda: cluster.node_run("submit", said).returncode == 0, "the end of the step")
    if stage == "writing":
        cluster.wait_job(job)
        cluster.wait_accounted(job, timeout=60)


def end_anew(cluster: Cluster, job: int) -> None:
    """A slurmctld that died before it had saved a job's end waits for that end; its user cancels the job in the end.

    Slurm finds out by itself when the batch host registers, which is once in minutes.
    """
    try:
        cluster.wait_job(job, timeout=15)
    except ClusterError:
        cluster.run(["scancel", str(job)], check=True)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("stage", STAGES)
def test_killed_at_a_stage(cluster: Cluster, stage: str, victim: str) -> None:
    before = health.cores(cluster)
    for _ in range(KILLS):
        job = jobs.sbatch(cluster, WAITS + SCRIPT, WANTED)
        arrive(cluster, stage, job)
        if stage == "writing":
            with cluster.popen([HELPER, "sweep", "--now", f"spool={cluster.spool}"], user="root") as flush:
                time.sleep(random.uniform(0, 0.2))
                kill(cluster, victim, job)
                flush.communicate(timeout=120)
        else:
            kill(cluster, victim, job)
            go(cluster, job)
        if victim == "slurmctld" and stage != "running":
            end_anew(cluster, job)
        record = jobs.record(cluster, job, timeout=120)
        assert record["nodes"] == {"reported": 2, "of": 2} and record["wait"]["ranks"] == 2
        assert spool_jobs.modifications(cluster, job, 1) == {job: 1}
        health.assert_well(cluster, before)
    assert spool_jobs.spool_left(cluster) == []
    walk.count("kills", KILLS, f"{victim}, {stage}")


def finish(cluster: Cluster, jobs_begun: list[int], timeout: float = 60) -> None:
    for job in jobs_begun:
        record = jobs.record(cluster, job, timeout=timeout)
        assert record["nodes"]["reported"] == record["nodes"]["of"]
        assert spool_jobs.modifications(cluster, job, 1) == {job: 1}


def test_a_slow_slurmdbd(cluster: Cluster) -> None:
    """It holds every answer back. Our client ends within a bounded time, and one record is there in the end."""
    before = health.cores(cluster)
    job = jobs.sbatch(cluster, SCRIPT, WANTED)
    cluster.wait_job(job)
    cluster.wait_accounted(job, timeout=60)
    conf = cluster.read("submit", "/srv/cluster/etc/slurm.conf")
    slow = conf.replace("AccountingStoragePort=6819", f"AccountingStoragePort={PROXY_PORT}")
    assert slow != conf
    cluster.node_run("submit", ["tee", f"{cluster.share}/slow.conf"], input=slow, check=True)
    argv = ["/usr/bin/python3", "-m", "tests.lib.faults.proxy", str(PROXY_PORT), "6819", str(SLOW_S)]
    with cluster.popen(argv, user="root", cwd="/srv/cluster/lib") as proxy:
        assert proxy.stdout and proxy.stdout.readline() == "ready\n"
        begun = time.monotonic()
        done = cluster.node_run(
            "c1", [HELPER, "sweep", "--now", f"spool={cluster.spool}"],
            env={"SLURM_CONF": f"{cluster.share}/slow.conf"},
            timeout=20 * SLOW_S + 60,
        )  # fmt: skip
        took_s = time.monotonic() - begun
        proxy.kill()
        proxy.communicate(timeout=10)
    print(f"exit status {done.returncode} after {took_s:.0f} s")
    assert done.returncode in (0, 1, 2) and took_s > min(SLOW_S, GIVES_UP_S)
    finish(cluster, [job], 120)
    health.assert_well(cluster, before)
    walk.count("faults", 1, f"slurmdbd that takes {SLOW_S} s for each answer")


def first_text(cluster: Cluster, job: int) -> str:
    """What is in the first row of a job that has several; "": nothing."""
    return jobs.comments_of_all_runs(cluster, job)[0]


@pytest.mark.parametrize("lost", ["node", "slurmd"])
@pytest.mark.parametrize("after", ["requeued", "cancelled"])
def test_a_node_is_lost(cluster: Cluster, after: str, lost: str) -> None:
    """It is set down: its stepds are dead too, or run on until slurmd is back. What is known of the run is there."""
    before = health.cores(cluster)
    job = jobs.sbatch(cluster, f"srun -n2 -N2 {PROGRAMS}/unbalanced 2 2000 10\n", [*WANTED, "--requeue"])
    cluster.wait_job(job, ("RUNNING",))
    wait_for(lambda: cluster.node_run("c2", ["pgrep", "-f", rf"slurmstepd: \[{job}\.0\]"]).stdout)
    if lost == "node":
        cluster.node_run("c2", ["pkill", "-KILL", "-f", rf"slurmstepd: \[{job}\."])
    cluster.kill("slurmd-c2", signal.SIGKILL)
    down = ["scontrol", "update", "nodename=c2", "state=down", "reason=lost"]
    cluster.node_run("submit", down, check=True)
    if after == "cancelled":
        cluster.run(["scancel", str(job)])
    cluster.node_run("submit", ["scontrol", "update", "nodename=c2", "state=resume"])
    cluster.restart("slurmd-c2")
    if after == "requeued":
        cluster.node_run("submit", ["scontrol", "release", str(job)])
        cluster.run(["scancel", str(job)])
    cluster.wait_job(job, timeout=60)
    cluster.wait_accounted(job, timeout=60)
    wait_for(lambda: len(spool_jobs.handed_in(cluster, job)) == 2 or first_text(cluster, job))
    spool_jobs.make_old(cluster, "c1", cluster.spool)
    assert spool_jobs.helper(cluster, "c1", "sweep", "--now", "--partial").returncode == 0
    assert spool_jobs.record_of(first_text(cluster, job))["nodes"] == {"reported": 2, "of": 2}
    cluster.wait_nodes()
    health.assert_well(cluster, before)
    walk.count("faults", 1, f"{'a node' if lost == 'node' else 'slurmd'} lost, its job {after}")
