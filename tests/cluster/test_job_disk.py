"""Disks that are full, must not be written or do not answer, where records pass: no job notices, and its record comes
later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lib import jobs, spool_jobs
from tests.lib.faults import health, walk
from tests.lib.jobs import HELPER
from tests.lib.spool_jobs import OUTBOX
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
NAP = "--mpi-wait-policy=nap"
POLICIES = "/run/policies-of-the-site"


@pytest.fixture(scope="module")
def sweeping(cluster: Fleet) -> Iterator[Cluster]:
    """One node that leaves slurmdbd to the sweep, and whose own policies are in a directory that is not there."""
    with cluster.variants():
        yield cluster.variant(f"writer=sweep policies={POLICIES}", name="disk")


def run_job(cluster: Cluster, says: str = "") -> int:
    job, done = jobs.srun(cluster, ["-N1", "-n1", NAP, "true"])
    assert done.returncode == 0 and (says in done.stderr if says else done.stderr == "")
    cluster.wait_job(job)
    return job


def arrives(cluster: Cluster, job: int) -> None:
    """Two timers later: the first puts into the outbox what is not there yet, and leaves what is young."""
    for _ in range(2):
        spool_jobs.make_old(cluster, cluster.nodes[0], OUTBOX, cluster.spool)
        assert spool_jobs.helper(cluster, cluster.nodes[0], "sweep", "--only-move").returncode == 0
    cluster.wait_accounted(job, timeout=60)
    spool_jobs.make_old(cluster, cluster.nodes[0], cluster.spool)
    assert spool_jobs.helper(cluster, cluster.nodes[0], "sweep").returncode == 0
    assert spool_jobs.record_of(jobs.comment(cluster, job))["nodes"] == {"reported": 1, "of": 1}


def test_a_spool_that_must_not_be_written(sweeping: Cluster) -> None:
    before = health.cores(sweeping)
    bind = f"mount --bind {sweeping.spool} {sweeping.spool} && mount -o remount,ro,bind {sweeping.spool}"
    sweeping.node_run(sweeping.nodes[0], ["sh", "-c", bind], check=True)
    job = run_job(sweeping)
    command = f"sleep 1; {HELPER} sweep --now spool={sweeping.spool} writer=sweep"
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


@contextmanager
def hung(cluster: Cluster, folder: str) -> Iterator[None]:
    """On its node that directory is a file system that answers nobody, until it is taken away."""
    node = cluster.nodes[0]
    program = cluster.put(jobs.REPOSITORY / "tests/lib/programs/stuck.py")
    cluster.node_run(node, ["mkdir", "-p", "-m", "700", folder], check=True)
    server = cluster.inside.popen(["/usr/bin/python3", program, "hang", folder], host=node, user="root")
    try:
        assert server.stdout and server.stdout.readline() == "hangs\n"
        yield
    finally:
        server.kill()
        server.communicate(timeout=60)
        cluster.node_run(node, ["umount", "-l", folder], check=True)


def helpers(cluster: Cluster) -> list[int]:
    """The processes of mpi-wait-node on its node."""
    return cluster.pids_named(cluster.nodes[0], "mpi-wait-node")


PLACES = {"outbox": lambda cluster: OUTBOX, "spool": lambda cluster: cluster.spool,
          "policies": lambda cluster: POLICIES}


@pytest.mark.parametrize("what", PLACES)
def test_a_file_system_that_does_not_answer(sweeping: Cluster, what: str) -> None:
    """Neither a job nor an epilog waits for it, and one process does, however many jobs end."""
    before = health.cores(sweeping)
    with hung(sweeping, PLACES[what](sweeping)):
        ended = [run_job(sweeping, "are left out" if what == "policies" else "") for _ in range(4)]
        wait_for(lambda: len(helpers(sweeping)) == (what != "policies"), lambda: f"one process: {helpers(sweeping)}")
        assert all(state in health.USABLE for state in health.states(sweeping).values())
    wait_for(lambda: not helpers(sweeping), "the end of the process that waited")
    for job in ended:
        arrives(sweeping, job)
    health.assert_well(sweeping, before)
    walk.count("faults", 1, f"{what}: a file system that does not answer")
