"""grant=fd hands down a descriptor that cannot be taken back: what a copy of it is worth, and when it is nothing."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import grants
from tests.lib.grants import HOSTILE, PSTATE, begin, files, is_clean
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
SPEED = f"{grants.CPUFREQ}/policy0/scaling_setspeed"


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


class Keeper:
    """A process outside every job, of some user, that got hold of a task's descriptor."""

    def __init__(self, cluster: Cluster, path: str, way: str, user: str = "alice") -> None:
        command = [*HOSTILE, "keep", way, path]
        self.process = cluster.inside.popen(command, host=cluster.nodes[0], user=user, stdin=subprocess.PIPE)
        assert self.process.stdout
        self.answers: dict[str, str] = json.loads(self.process.stdout.readline())

    def write(self, khz: int) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{khz}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.communicate(timeout=20)


def hand_out(cluster: Cluster, user: str = "alice") -> tuple[str, int, subprocess.Popen[str]]:
    path = f"{cluster.share}/{secrets.token_hex(4)}"
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hand_out", path, "30"], user=user)
    wait_for(lambda: (cluster.root / "share" / Path(path).name).exists())
    return path, job, process


def end(cluster: Cluster, job: int, process: subprocess.Popen[str]) -> None:
    cluster.run(["scancel", str(job)], user="root", check=True)
    process.communicate(timeout=30)
    cluster.wait_job(job)


@pytest.mark.parametrize("way", ["rights", "pidfd"])
def test_a_kept_descriptor_is_worth_nothing_once_the_governor_is_back(start: grants.Start, way: str) -> None:
    cluster = start("grant=fd governor=userspace")
    before = files(cluster)
    path, job, process = hand_out(cluster)
    keeper = Keeper(cluster, path, way)
    assert keeper.answers == {"taken": "True", "proc": "EACCES", "again": "EACCES"}
    assert keeper.write(1_200_000) == "done" and cluster.read(cluster.nodes[0], SPEED) == "1200000\n"
    end(cluster, job, process)
    assert is_clean(cluster, before)
    assert keeper.write(1_000_000) == "EINVAL" and files(cluster) == before
    keeper.stop()


def test_another_user_cannot_take_it(start: grants.Start) -> None:
    cluster = start("grant=fd governor=userspace")
    path, job, process = hand_out(cluster)
    keeper = Keeper(cluster, path, "pidfd", user="bob")
    assert keeper.answers["taken"] == "False" and keeper.answers["proc"] == "EACCES"
    keeper.stop()
    end(cluster, job, process)


def test_under_a_later_jobs_userspace_governor_it_works_again(start: grants.Start) -> None:
    """The documented price of grant=fd: within that core's limits, until the governor is back. Nothing of it stays."""
    cluster = start("grant=fd governor=userspace")
    before = files(cluster)
    path, job, process = hand_out(cluster)
    keeper = Keeper(cluster, path, "rights")
    end(cluster, job, process)
    _, other, second = hand_out(cluster, user="bob")
    assert keeper.write(1_000_000) == "done" and cluster.read(cluster.nodes[0], SPEED) == "1000000\n"
    assert keeper.write(9_000_000) == "done" and cluster.read(cluster.nodes[0], SPEED) == "2400000\n"
    end(cluster, other, second)
    assert is_clean(cluster, before)
    assert keeper.write(1_000_000) == "EINVAL" and files(cluster) == before
    keeper.stop()
