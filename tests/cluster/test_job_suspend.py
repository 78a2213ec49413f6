"""scontrol suspend in the middle of a wait: the time is nobody's, and the cores are free for the next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.lib import grants, jobs
from tests.lib.grants import CPUFREQ, HOSTILE, PSTATE, begin, files, hostile, is_clean, lows, stepd_of
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

ABSENT = [f"{jobs.PROGRAMS}/absent"]
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


def control(cluster: Cluster, verb: str, job: int) -> None:
    cluster.run(["scontrol", verb, str(job)], user="root", check=True)


def suspend(cluster: Cluster, job: int) -> None:
    """Returns when the job's tasks have stopped: Slurm asks them first, and waits."""
    control(cluster, "suspend", job)
    look = ["ps", "-o", "stat=", "--ppid", str(stepd_of(cluster, job))]

    def stopped() -> bool:
        states = cluster.node_run(cluster.nodes[0], look).stdout.split()
        return bool(states) and all(state[0] == "T" for state in states)
    wait_for(stopped, "the stop of all tasks")


@pytest.mark.parametrize("policy", ["nap", "profile", "pstate"])
def test_suspended_time_is_no_wait(start: grants.Start, policy: str) -> None:
    cluster = start()
    began = time.monotonic()
    argv = ["-N1", "-n2", f"--mpi-wait-policy={policy}", *ABSENT, "10", "200", "3"]
    job, process = begin(cluster, argv)
    assert process.stdout and process.stdout.readline() == "met\n"
    suspend(cluster, job)
    stopped = time.monotonic()
    wait_for(lambda: time.monotonic() - stopped > 1.5 * (stopped - began), "more suspended than running time")
    control(cluster, "resume", job)
    suspended_s = time.monotonic() - stopped
    process.communicate(timeout=60)
    assert process.returncode == 0
    running_s = time.monotonic() - began - suspended_s
    wait = jobs.record(cluster, job)["wait"]
    print(wait["per_rank_s"], running_s, suspended_s)
    assert 0.5 < wait["per_rank_s"][0] < running_s
    assert wait["asleep_s"] + wait.get("low_s", 0) < running_s


@pytest.mark.release
def test_a_suspended_job_gives_its_core_back(start: grants.Start) -> None:
    """A second job on that core runs at the found frequency, and may have a lease; after resume the first goes on."""
    cluster = start()
    before = files(cluster)
    waits = ["--cpu-bind=map_cpu:1,0", f"{jobs.PROGRAMS}/late_sender", "1000", "8"]
    job, process = begin(cluster, ["-N1", "-n2", PSTATE, *waits])
    assert wait_for(lambda: lows(cluster)) == ["policy0"]
    suspend(cluster, job)
    wait_for(lambda: not lows(cluster), "the end of the lease")
    show = ["cat", f"{CPUFREQ}/policy0/scaling_max_freq"]
    other, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi-wait-policy=off", *show])
    assert done.stdout.strip() == "2400000" and files(cluster) == before
    claims = hostile(cluster, "low")
    assert claims == {"own": "0", "low": "done", "restore": "done"} and not lows(cluster)
    control(cluster, "resume", job)
    assert process.wait(timeout=60) == 0
    cluster.wait_job(job)
    cluster.wait_job(other)
    assert is_clean(cluster, before)
    record = jobs.record(cluster, job)
    assert record["grant"]["low_s"] < record["elapsed_s"] - 1, "suspended time is not low time"


@pytest.mark.parametrize("taken", [False, True])
def test_after_resume_there_is_no_lease_or_a_fresh_one(start: grants.Start, taken: bool) -> None:
    """Where another job had the core meanwhile, the first has lost it; where nobody had, it may be lowered anew."""
    cluster = start()
    before = files(cluster)
    enough = cluster.root / f"share/resumed-{taken}"
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "300", f"{cluster.share}/{enough.name}"])
    assert wait_for(lambda: lows(cluster)) == ["policy0"]
    suspend(cluster, job)
    wait_for(lambda: not lows(cluster), "the end of the lease")
    if taken:
        assert hostile(cluster, "low")["low"] == "done"
    control(cluster, "resume", job)
    if not taken:
        wait_for(lambda: lows(cluster), "a fresh lease")
    enough.touch()
    out, _ = process.communicate(timeout=60)
    end = "over" if taken else "done"
    assert json.loads(out) == {"own": "0", "last": end, "restore": end}
    cluster.wait_job(job)
    assert is_clean(cluster, before)
