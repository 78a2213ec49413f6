"""Many nodes and many jobs at once, with a real slurmdbd: one record each, and slurmdbd hardly notices.

The nodes are played by tests.lib.storm. $MPI_WAIT_STORMS and $MPI_WAIT_ENDS make it larger: 50 storms and 1000 ends are
what the limits were set for.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs, spool_jobs
from tests.lib.faults import walk
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.soak]

STORMS = int(os.environ.get("MPI_WAIT_STORMS", "6"))
ENDS = int(os.environ.get("MPI_WAIT_ENDS", "120"))
ENDS_PER_S = 1000 / 60
NODES = 64


@pytest.fixture(scope="module")
def quiet() -> Iterator[Cluster]:
    """A cluster of one node that runs nothing: only its slurmdbd is needed."""
    cluster = Cluster(nodes=1, **project_cluster_arguments())
    yield start_or_skip(cluster)
    cluster.stop()


def test_a_storm_leaves_one_record(quiet: Cluster) -> None:
    """Whoever is killed, whenever: one record, complete unless a node never wrote its file, and nothing beside it."""
    jobs = spool_jobs.make_rows(quiet, 500_000, STORMS, f"n[01-{NODES}]", NODES)
    order = {"play": "storms", "jobs": jobs, "nodes": NODES, "kills": 16, "seed": 6}
    rounds = spool_jobs.play(quiet, order, 60 + 60 * STORMS)["rounds"]
    print(rounds)
    assert sum(item["killed"] for item in rounds) > 0
    assert [item["left"] for item in rounds] == [[]] * STORMS
    records = spool_jobs.records(quiet, 500_000, STORMS)
    for item in rounds:
        nodes = records[item["job"]]["nodes"]
        if item["missing"]:
            assert nodes == {"reported": NODES - 1, "of": NODES, "why": "nodes missing"}, item
        else:
            assert nodes == {"reported": NODES, "of": NODES}, item
    assert spool_jobs.modifications(quiet, 500_000, STORMS) == {item["job"]: 1 for item in jobs}
    row = f"records of {NODES} nodes each, by as many writers, some killed at random; no job ran"
    walk.count("records", STORMS, row)
    walk.count("kills", sum(item["killed"] for item in rounds), row)


def test_many_ends_leave_slurmdbd_alone(quiet: Cluster) -> None:
    """A thousand a minute: few connections, sacct is served as ever, every record is there after the sweep."""
    jobs = spool_jobs.make_rows(quiet, 600_000, ENDS, "n01", ago_s=10)
    order = {"play": "ends", "jobs": jobs, "seconds": ENDS / ENDS_PER_S, "first_delay": 4, "looks": 12}
    seen = spool_jobs.play(quiet, order, 300 + ENDS / 5)
    quiet_s, busy_s = statistics.median(seen["quiet_s"]), statistics.median(seen["busy_s"])
    print({**seen, "quiet_s": quiet_s, "busy_s": busy_s, "looks": len(seen["busy_s"])})
    assert seen["most_connections"] - seen["idle_connections"] <= 20
    spool_jobs.make_old(quiet, "submit", quiet.spool)
    assert spool_jobs.helper(quiet, "submit", "sweep").returncode == 0
    assert len(spool_jobs.records(quiet, 600_000, ENDS)) == ENDS
    assert set(spool_jobs.modifications(quiet, 600_000, ENDS).values()) == {1}
    assert spool_jobs.spool_left(quiet) == []
    walk.count("records", ENDS, "records by as many writers, 1000 a minute; no job ran")
    assert busy_s < (2 if ENDS >= 1000 else 4) * quiet_s, "is the machine busy with something else?"


def test_nothing_is_lost_when_slurmdbd_dies_during_a_sweep(quiet: Cluster) -> None:
    """A sweep commits job by job. Slurm's library opens a broken connection anew, and says nothing."""
    count = 150
    jobs = spool_jobs.make_rows(quiet, 700_000, count, "n01")
    spool_jobs.spool_fill(quiet, jobs)
    for pause_s in (0.4, 0.9, 1.4):
        spool_jobs.make_old(quiet, "submit", quiet.spool)
        with quiet.popen([spool_jobs.HELPER, "sweep", f"spool={quiet.spool}"], user="root") as sweep:
            time.sleep(pause_s)
            quiet.kill("slurmdbd", signal.SIGKILL)
            quiet.restart("slurmdbd")
            sweep.communicate(timeout=120)
    spool_jobs.make_old(quiet, "submit", quiet.spool)
    assert spool_jobs.helper(quiet, "submit", "sweep").returncode == 0
    assert len(spool_jobs.records(quiet, 700_000, count)) == count
    assert set(spool_jobs.modifications(quiet, 700_000, count).values()) == {1}
    assert spool_jobs.spool_left(quiet) == []


def test_a_flush_while_jobs_end_deadlocks_with_nobody(cluster: Cluster) -> None:
    """Of two transactions that deadlock the database rolls one back, and slurmdbd repeats its last statement only."""
    script = "for i in $(seq 25); do srun -N2 -n2 --mpi-wait-policy=nap true; done"
    ends = [cluster.popen(["sh", "-c", script]) for _ in range(2)]

    def over() -> bool:
        jobs.flush(cluster)
        return all(process.poll() is not None for process in ends)
    wait_for(over, "the end of both loops of jobs", timeout_s=600)
    assert [process.wait() for process in ends] == [0, 0]
    walk.count("jobs", 2 * 25, "jobs that end while all that is there is written")
    assert "deadlock" not in cluster.logs("slurmdbd").lower()
