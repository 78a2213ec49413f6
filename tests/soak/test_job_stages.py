"""Whatever of a job is killed, at whichever stage: after the epilog or a restore, every cpufreq file is as before."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.lib import grants
from tests.lib.grants import HOSTILE, PSTATE, begin, files, is_clean, kill_processes, take_writes
from tests.lib.jobs import HELPER
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.soak]
VICTIMS = [("ranks",), ("slurmstepd",), ("slurmd",), ("ranks", "slurmstepd", "slurmd")]
EVERYTHING = VICTIMS[-1]
LOWEST = ("1000000", "800000")
TERMINATED_AGAIN_S = 200
"""slurmctld tells a slurmd that did not hear it that a job ends a second time: a minute or two later."""
DRIVERS = ("acpi-cpufreq", "intel_pstate")


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


def is_written_down(cluster: Cluster, job: int) -> bool:
    (node,) = cluster.nodes
    return f"held by job {job} " in cluster.node_run(node, ["cat", f"/run/mpi-wait/{node}/cpufreq/policy0"]).stdout


def is_low(cluster: Cluster) -> bool:
    """The lowest frequency of the two drivers."""
    lines = [line.split() for line in files(cluster).splitlines()]
    return any(is_lowest(*file.split("/"), value) for file, *_, value in lines)


def was_low(cluster: Cluster) -> bool:
    """Since it was last asked: what lasts as long as one lease may be over when somebody looks."""
    return any(is_lowest(*write) for write in take_writes(cluster))


def is_lowest(policy: str, file: str, value: str) -> bool:
    return policy == "policy0" and "min_freq" not in file and value.strip() in LOWEST


@dataclass(frozen=True)
class Stage:
    program: tuple[str, ...]
    arrive: Callable[[Cluster, int], object]
    ends: bool = False
    """Its ranks are gone already when somebody is killed."""


def low_and_back(cluster: Cluster, job: int) -> None:
    wait_for(lambda: was_low(cluster))
    wait_for(lambda: not is_low(cluster))


def low_and_over(cluster: Cluster, job: int) -> None:
    """slurmd stands still meanwhile: where it is killed, it has not been told yet that the job ends."""
    wait_for(lambda: is_low(cluster))
    cluster.kill(f"slurmd-{cluster.nodes[0]}", signal.SIGSTOP)
    kill_processes(cluster, job, "ranks")


STAGES = {
    "being granted": Stage(("renew", "40"), lambda cluster, job: wait_for(lambda: is_written_down(cluster, job))),
    "low": Stage(("renew", "40"), lambda cluster, job: wait_for(lambda: is_low(cluster))),
    "restored": Stage(("hold", "40"), low_and_back),
    "ending": Stage(("renew", "40"), low_and_over, ends=True),
}


def recover(cluster: Cluster, job: int, victims: tuple[str, ...], before: str) -> None:
    """What a site does: the health check or the boot service restores, slurmd comes back, the job is cancelled."""
    if "slurmd" in victims:
        done = cluster.node_run(cluster.nodes[0], [HELPER, "restore"])
        assert done.returncode == 0, done.stderr
        if "slurmstepd" in victims:
            assert files(cluster) == before
        cluster.restart(f"slurmd-{cluster.nodes[0]}")
    cluster.run(["scancel", str(job)])
    cluster.wait_job(job, timeout=TERMINATED_AGAIN_S)


def walk(cluster: Cluster, stage: Stage, victims: tuple[str, ...], *, full: bool = False) -> None:
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, *stage.program], stdout=subprocess.DEVNULL)
    try:
        stage.arrive(cluster, job)
        if full:
            grants.fill_run(cluster)
        left = tuple(who for who in victims if not stage.ends or who != "ranks")
        kill_processes(cluster, job, *left, ends=stage.ends)
        if stage.ends and "slurmd" not in victims:
            cluster.kill(f"slurmd-{cluster.nodes[0]}", signal.SIGCONT)
        recover(cluster, job, victims, before)
    finally:
        cluster.run(["scancel", str(job)])
        process.kill()
        process.communicate(timeout=60)
    assert is_clean(cluster, before)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
@pytest.mark.parametrize("name", STAGES)
def test_killed_at_a_stage(start: grants.Start, name: str, victims: tuple[str, ...], driver: str) -> None:
    walk(start(driver=driver), STAGES[name], victims)


@pytest.mark.parametrize("name", STAGES)
def test_killed_on_a_full_disk(start: grants.Start, name: str) -> None:
    """What was written down before the disk was full is enough to undo it."""
    cluster = start(driver="acpi-cpufreq")
    grants.small_run(cluster)
    try:
        walk(cluster, STAGES[name], EVERYTHING, full=True)
    finally:
        grants.free_run(cluster)


def test_a_new_slurmd_does_not_disturb_a_running_job(start: grants.Start) -> None:
    """It stays low through slurmd's death, a restore and slurmd's return, and is as before when it has ended."""
    cluster = start(driver="acpi-cpufreq")
    before = files(cluster)
    enough = cluster.root / "share/enough"
    argv = ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "60", f"{cluster.share}/{enough.name}"]
    job, process = begin(cluster, argv)
    wait_for(lambda: is_low(cluster))
    kill_processes(cluster, job, "slurmd")
    done = cluster.node_run(cluster.nodes[0], [HELPER, "restore"])
    assert done.returncode == 0 and "1 domains are in use" in done.stderr and is_low(cluster)
    cluster.restart(f"slurmd-{cluster.nodes[0]}")
    assert is_low(cluster)
    enough.touch()
    out, _ = process.communicate(timeout=60)
    assert '"last": "done", "restore": "done"' in out
    cluster.wait_job(job)
    assert is_clean(cluster, before)
