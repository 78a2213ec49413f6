"""Many steps in one job, many short jobs: every record is there, and slurmd and slurmctld hold no more than before.

$MPI_WAIT_FAULTS=full: 1000 steps, and 200 jobs a minute for five minutes ($MPI_WAIT_SHORT_S: for as many seconds).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs, spool_jobs
from tests.lib.faults import health, walk
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.soak]
NAP = "--mpi-wait-policy=nap"
STEPS = 1000 if walk.FULL else 60
SHORT_S = int(os.environ.get("MPI_WAIT_SHORT_S", "300" if walk.FULL else "12"))
A_MINUTE = 200
WARM_UP = 20
DAEMONS = ("slurmd-c1", "slurmctld")
PER_JOB_KB = {"slurmd-c1": 8, "slurmctld": 32}
"""slurmctld keeps a job for MinJobAge seconds; an allocator keeps something of everything."""
SLACK_KB = 4096


@pytest.fixture(scope="module")
def sweeping() -> Iterator[Cluster]:
    """One node that leaves slurmdbd to the sweep, as sites with so many jobs do."""
    arguments = project_cluster_arguments()
    arguments["plugstack"] = arguments["plugstack"].rstrip() + " writer=sweep\n"
    cluster = start_or_skip(Cluster(nodes=1, **arguments))
    yield cluster
    cluster.stop()


def hold(cluster: Cluster) -> dict[str, health.Holding]:
    return {daemon: health.holding(cluster, daemon) for daemon in DAEMONS}


def assert_flat(before: dict[str, health.Holding], after: dict[str, health.Holding], items: int) -> None:
    print({name: (before[name], after[name]) for name in before})
    for name, was in before.items():
        assert after[name].descriptors <= was.descriptors + 2, (name, was, after[name])
        most_kb = was.resident_kb + SLACK_KB + PER_JOB_KB[name] * items
        assert after[name].resident_kb <= most_kb, (name, was, after[name])


def sweep(cluster: Cluster, jobs: int = 1) -> int:
    spool_jobs.make_old(cluster, "c1", cluster.spool, spool_jobs.OUTBOX)
    return spool_jobs.helper(cluster, "c1", "sweep", timeout=120 + jobs).returncode


def test_many_steps(sweeping: Cluster) -> None:
    cores = health.cores(sweeping)
    warm = jobs.sbatch(sweeping, "for i in {1..5}; do srun true; done\n", ["-n1", NAP])
    sweeping.wait_job(warm)
    before = hold(sweeping)
    job = jobs.sbatch(sweeping, f"for i in {{1..{STEPS}}}; do srun true; done\n", ["-n1", NAP])
    sweeping.wait_job(job, timeout=60 + 2 * STEPS)
    sweeping.wait_accounted(job, timeout=120)
    assert sweep(sweeping) == 0
    record = spool_jobs.record_of(jobs.comment(sweeping, job))
    seen = len(record["steps"]) + record.get("steps_rest", {}).get("steps", 0)
    assert seen == STEPS + 1, "the steps and the batch script"
    assert_flat(before, hold(sweeping), STEPS)
    health.assert_well(sweeping, cores)
    walk.count("jobs", 1, f"{STEPS} steps in one job")


def wait_for_all(cluster: Cluster, timeout: float) -> None:
    """By the queue: slurmctld forgets a job MinJobAge seconds after its end, while others are still to come."""
    argv = ["squeue", "-h", "-t", "pending,running,completing"]
    wait_for(lambda: cluster.node_run("submit", argv, check=True).stdout == "", "an empty queue", timeout)


def submit(cluster: Cluster, count: int) -> list[int]:
    """At the rate, from one shell: a client for each from here costs more than the job."""
    pause_s = 60 / A_MINUTE
    one = f"sbatch --parsable -n1 {NAP} -o /dev/null --wrap=true"
    script = f"for i in $(seq {count}); do {one} & sleep {pause_s}; done; wait"
    done = cluster.run(["sh", "-c", script], timeout=count * 3 + 60)
    return [int(line) for line in done.stdout.split()]


def test_many_short_jobs(sweeping: Cluster) -> None:
    cores = health.cores(sweeping)
    submit(sweeping, WARM_UP)
    wait_for_all(sweeping, 120)
    before = hold(sweeping)
    begun = time.monotonic()
    submitted = submit(sweeping, SHORT_S * A_MINUTE // 60)
    assert len(submitted) == SHORT_S * A_MINUTE // 60
    print(f"submitted in {time.monotonic() - begun:.0f} s")
    wait_for_all(sweeping, 300 + len(submitted))
    print(f"over after {time.monotonic() - begun:.0f} s")
    sweeping.wait_accounted(submitted[-1], timeout=120)
    wait_for(lambda: sweep(sweeping, len(submitted)) == 0, "a sweep that leaves nothing", 120, pause_s=1)
    assert spool_jobs.spool_left(sweeping) == []
    first, last = min(submitted), max(submitted)
    assert spool_jobs.records(sweeping, first, last - first + 1).keys() >= set(submitted)
    assert_flat(before, hold(sweeping), len(submitted))
    health.assert_well(sweeping, cores)
    walk.count("jobs", len(submitted), f"{A_MINUTE} short jobs a minute for {SHORT_S} s")
