"""Disks that are full or must not be written, where records pass: no job notices, and its record comes later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lib import jobs, spool_jobs
from tests.lib.faults import health, walk
from tests.lib.jobs import HELPER
from tests.lib.spool_jobs import OUTBOX
from tests.lib.throwaway import Cluster, Fleet

pytestmark = pytest.mark.cluster
NAP = "--mpi-wait-policy=nap"


@pytest.fixture(scope="module")
def sweeping(cluster: Fleet) -> Iterator[Cluster]:
    """One node that leaves slurmdbd to the sweep."""
    with cluster.variants():
        yield cluster.variant("writer=sweep", name="disk")


def run_job(cluster: Cluster) -> int:
    job, done = jobs.srun(cluster, ["-N1", "-n1", NAP, "true"])
    assert done.returncode == 0 and done.stderr == ""
    cluster.wait_job(job)
    return job


def arrives(cluster: Cluster, job: int) -> None:
    """Two timers later: the first puts into the outbox what is not there yet, and leaves what is young."""
    for _ in range(2):
        spool_jobs.make_old(cluster, cluster.nodes[0], OUTBOX, cluster.spool)
        assert spool_jobs.helper(cluster, cluster.nodes[0], "move").returncode == 0
    cluster.wait_accounted(job, timeout=60)
    spool_jobs.make_old(cluster, cluster.nodes[0], cluster.spool)
    assert spool_jobs.helper(cluster, cluster.nodes[0], "sweep").returncode == 0
    assert spool_jobs.record_of(jobs.comment(cluster, job))["nodes"] == {"reported": 1, "of": 1}


def test_a_spool_that_must_not_be_written(sweeping: Cluster) -> None:
    before = health.cores(sweeping)
    bind = f"mount --bind {sweeping.spool} {sweeping.spool} && mount -o remount,ro,bind {sweeping.spool}"
    sweeping.node_run(sweeping.nodes[0], ["sh", "-c", bind], check=True)
    job = run_job(sweeping)
    command = f"sleep 1; {HELPER} flush spool={sweeping.spool} writer=sweep"
    said = sweeping.node_run(sweeping.nodes[0], ["script", "-qec", command, "/dev/null"])
    assert said.returncode == 2 and "Read-only file system; the record stays in" in said.stdout, said.stdout
    health.assert_well(sweeping, before)
    sweeping.node_run(sweeping.nodes[0], ["umount", sweeping.spool], check=True)
    arrives(sweeping, job)
    walk.count("faults", 1, "a spool that is read-only")


def test_an_outbox_that_is_full(sweeping: Cluster) -> None:
    """The epilog cannot hand the record on: it stays with the node's notes, and the next timer brings it."""
    before = health.cores(sweeping)
    folder = "/var/spool/mpi-wait"
    small = f"mkdir -p {folder} && mount -t tmpfs -o size=16k,mode=755 none {folder} && mkdir -m 700 {OUTBOX}"
    sweeping.node_run(sweeping.nodes[0], ["sh", "-c", f"{small}; head -c 1M /dev/zero >{folder}/old"])
    job = run_job(sweeping)
    assert sweeping.node_run(sweeping.nodes[0], ["sh", "-c", f"ls {OUTBOX}"]).stdout == ""
    sweeping.node_run(sweeping.nodes[0], ["umount", folder], check=True)
    arrives(sweeping, job)
    health.assert_well(sweeping, before)
    walk.count("faults", 1, "an outbox that is full")
