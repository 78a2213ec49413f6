"""Jobs that give way: suspended by a job of a higher tier or by turns, requeued, cancelled. Their core does not stay
low, their record is right, and the time for which they were stopped is not waited."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jsonschema
import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import (
    Held,
    are_stopped,
    file_name,
    frequencies,
    held,
    lows,
    program,
    release,
    stopped_s,
    wait_until_waited,
)
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = pytest.mark.cluster

PSTATE = "--mpi-wait-policy=pstate"
CONF = {
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "SUSPEND,GANG",
    "SchedulerTimeSlice": "5",  # the shortest
}
PARTITIONS = {
    "suspended": "Nodes=c1 PriorityTier=1",
    "requeued": "Nodes=c1 PriorityTier=1 PreemptMode=REQUEUE",
    "cancelled": "Nodes=c1 PriorityTier=1 PreemptMode=CANCEL",
    "first": "Nodes=c1 PriorityTier=10 PreemptMode=OFF",
    "turns": "Nodes=c2 PriorityTier=1 OverSubscribe=FORCE:2",
}
STOPPED_S = 3


class Turns(NamedTuple):
    """Two jobs on the same two cores, by turns. The second, which is stopped at its start, could make no step then:
    mpirun starts its ranks."""

    first: Held
    second: int
    file: str
    before: str
    began: float


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Preemption on the first node, turns on the second."""
    cluster = start_or_skip(Cluster(nodes=2, slurm_conf=CONF, **project_cluster_arguments()))
    try:
        for name, words in PARTITIONS.items():
            create = ["scontrol", "create", f"PartitionName={name}", *words.split()]
            cluster.run(create, user="root", check=True)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module", autouse=True)
def turns(cluster: Cluster) -> Iterator[Turns]:
    """Slices last five seconds at least: the tests of the first node run meanwhile."""
    before, began = frequencies(cluster, "c2"), time.monotonic()
    with held(cluster, ["-p", "turns", "-n2", PSTATE]) as first:
        wait_for(lambda: lows(cluster, "c2"))
        file = file_name(cluster)
        script = f"mpirun.openmpi -n 2 {' '.join(program(file))}\n"
        second = jobs.sbatch(cluster, script, ["-p", "turns", "-n2", "--mpi-wait-policy=nap,profile"])
        yield Turns(first, second, file, before, began)
        release(cluster, file)


def state(cluster: Cluster, job: int) -> str:
    return cluster.run(["squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job)]).stdout.strip()


@contextmanager
def goes_first(cluster: Cluster) -> Iterator[str]:
    """A job without a policy that needs one core of the first node and may take it. Yields the file that ends it, and
    at the end what the frequencies of the node were while it ran."""
    file = file_name(cluster)
    wait = f"until [ -e {file} ]; do sleep 0.1; done; cat /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq"
    process = cluster.popen(["srun", "-p", "first", "-n2", "-l", "sh", "-c", wait])
    try:
        yield file
    finally:
        release(cluster, file)
        text, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert {line.split()[1] for line in text.splitlines()} == {"2400000"}, "the job that went first ran slowly"


def first_record(cluster: Cluster, job: int) -> dict[str, Any]:
    """Of the first run of a job that may be requeued."""
    def handed_in() -> str:
        jobs.flush(cluster)
        return (jobs.comments_of_all_runs(cluster, job) or [""])[0]

    document = json.loads(wait_for(handed_in, timeout_s=60))
    jsonschema.validate(document, jobs.SCHEMA)
    record: dict[str, Any] = document["mpi_wait"]
    return record


def check_record(record: dict[str, Any]) -> None:
    """Of a job of two ranks, of which one went low in one long wait."""
    assert record["nodes"] == {"reported": 1, "of": 1} and record["energy"]["joules"] > 0
    assert record["policy"] == {"asked": "pstate", "used": "pstate", "by": "job"}
    wait, grant = record["wait"], record["grant"]
    assert "doubtful" not in wait
    assert wait["ranks"] == 2 and wait["max"]["rank"] == 1 and wait["by_call"]["MPI_Barrier"]["waits"] >= 1
    assert (grant["mode"], grant["cores"], "refused" in grant) == ("lease", 2, False)
    assert grant["transitions"] > 0 and grant["transitions"] % 2 == 0 and grant["low_s"] > 0


def test_a_suspended_job_gives_its_core_back_and_does_not_wait(cluster: Cluster) -> None:
    before, began = frequencies(cluster, "c1"), time.monotonic()
    with held(cluster, ["-p", "suspended", "-n2", PSTATE]) as job:
        wait_for(lambda: lows(cluster, "c1") == ["policy1"])
        with goes_first(cluster):
            wait_for(lambda: state(cluster, job.job) == "SUSPENDED" and are_stopped(cluster, job.job), timeout_s=60)
            stopped = time.monotonic()
            wait_for(lambda: frequencies(cluster, "c1") == before)
            wait_for(lambda: time.monotonic() > stopped + STOPPED_S)
            not_there_s = time.monotonic() - stopped
        wait_for(lambda: state(cluster, job.job) == "RUNNING" and lows(cluster, "c1") == ["policy1"], timeout_s=60)
        job.end()
    there_s = time.monotonic() - began
    record = jobs.record(cluster, job.job)
    assert frequencies(cluster, "c1") == before
    check_record(record)
    wait = record["wait"]
    print(wait, there_s, not_there_s)
    assert 0 < wait["max"]["s"] < there_s - not_there_s
    assert record["grant"]["transitions"] >= 4, "low and back, twice; check_record: as often back as low"


def test_a_requeued_job_has_the_record_of_its_first_run(cluster: Cluster) -> None:
    before = frequencies(cluster, "c1")
    file = file_name(cluster)
    script = f"srun {' '.join(program(file))}\n"
    job = jobs.sbatch(cluster, script, ["-p", "requeued", "-n2", "--requeue", PSTATE])
    wait_for(lambda: lows(cluster, "c1") == ["policy1"])
    with goes_first(cluster):
        cluster.wait_job(job, states=["PENDING"])
        wait_for(lambda: frequencies(cluster, "c1") == before)
    record = first_record(cluster, job)
    cluster.run(["scancel", str(job)], check=True)
    check_record(record)
    assert [step["id"] for step in record["steps"]] == ["batch", "0"]
    rows = cluster.sacct(job, ["Start", "State"], extra=["-X", "-D"])
    assert min(rows, key=lambda row: row["Start"])["State"] == "PREEMPTED"


def test_a_cancelled_job_has_its_record(cluster: Cluster) -> None:
    before = frequencies(cluster, "c1")
    with held(cluster, ["-p", "cancelled", "-n2", PSTATE]) as job:
        wait_for(lambda: lows(cluster, "c1") == ["policy1"])
        with goes_first(cluster):
            assert cluster.wait_job(job.job) == "PREEMPTED"
            wait_for(lambda: frequencies(cluster, "c1") == before)
            job.process.communicate(timeout=60)
    check_record(jobs.record(cluster, job.job))


def test_jobs_that_take_turns(cluster: Cluster, turns: Turns) -> None:
    """Gang scheduling: low while it waits, not while it is stopped, and low again when it is its turn."""
    first, second, file, before, began = turns
    wait_for(lambda: are_stopped(cluster, first.job), timeout_s=60)
    wait_for(lambda: lows(cluster, "c2") == [])
    not_there_s = stopped_s(cluster, first.job)
    wait_for(lambda: lows(cluster, "c2") == ["policy1"])
    first.end()
    there_s = time.monotonic() - began
    wait_until_waited(cluster, "c2", second)
    release(cluster, file)
    assert cluster.wait_job(second) == "COMPLETED"
    given, taken = (jobs.record(cluster, job) for job in (first.job, second))
    assert frequencies(cluster, "c2") == before
    check_record(given)
    print(given["wait"], taken["wait"], there_s, not_there_s)
    assert 0 < given["wait"]["max"]["s"] < there_s - not_there_s
    assert taken["wait"]["ranks"] == 2 and taken["wait"]["naps"] > 0 and "doubtful" not in taken["wait"]
    assert taken["wait"]["max"]["s"] < float(taken["elapsed_s"]) - 1
    assert [step["id"] for step in taken["steps"]] == ["batch"]
