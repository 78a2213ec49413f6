"""Refusals that take some spoiling of the node: each has its message in the record, and changes nothing."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import default_way, grants, jobs
from tests.lib.grants import PSTATE, begin, control, files, refused, take_writes
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


def held_once(cluster: Cluster) -> str:
    """From now on there is a domain's file: this one."""
    file = f"/run/mpi-wait/{cluster.nodes[0]}/cpufreq/policy0"
    jobs.srun(cluster, ["-N1", "-n2", PSTATE, "true"])
    cluster.node_run(cluster.nodes[0], ["test", "-f", file], check=True)
    return file


def test_a_domain_that_is_locked(start: grants.Start) -> None:
    cluster = start()
    file = held_once(cluster)
    hold = f"exec 9<{file} && flock 9 && exec cat"
    locker = cluster.inside.popen(["sh", "-c", hold], host=cluster.nodes[0], stdin=subprocess.PIPE)
    try:
        wait_for(lambda: cluster.node_run(cluster.nodes[0], ["flock", "-n", file, "true"]).returncode != 0)
        assert refused(cluster, ["-n2"]) == {"held by somebody else": 1}
    finally:
        locker.communicate(timeout=60)
    assert refused(cluster, ["-n2"]) == {}


def test_a_domains_file_that_is_none(start: grants.Start) -> None:
    cluster = start()
    file = held_once(cluster)
    before = files(cluster)
    cluster.node_run(cluster.nodes[0], ["sh", "-c", f"echo nonsense > {file}"], check=True)
    try:
        assert refused(cluster, ["-n2"]) == {"the domain's file refused": 1}
        assert files(cluster) == before
    finally:
        cluster.node_run(cluster.nodes[0], ["rm", file], check=True)


def test_a_kernel_that_refuses(start: grants.Start) -> None:
    cluster = start("grant=file")
    before = files(cluster)
    control(cluster, deny=["scaling_max_freq"])
    try:
        assert refused(cluster, ["-n2"]) == {"the kernel refused": 2}
    finally:
        control(cluster, deny=[])
    assert files(cluster) == before and take_writes(cluster) == []


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("scaling_max_freq", "much", "cpufreq files make no sense"),
        ("cpuinfo_min_freq", "-5", "cpufreq files make no sense"),
        ("scaling_driver", "tegra194", "cpufreq driver not known"),
        ("related_cpus", "0 x", "no cpufreq"),
    ],
)
def test_files_that_make_no_sense(start: grants.Start, file: str, text: str, why: str) -> None:
    cluster = start()
    control(cluster, show={file: text})
    try:
        assert refused(cluster, ["-n2"]) == {why: 2}
    finally:
        control(cluster, show={})
    assert take_writes(cluster) == []


def test_a_cap(start: grants.Start) -> None:
    """The firmware's: what was set cannot be read while it lasts."""
    cluster = start()
    before = files(cluster)
    control(cluster, firmware={"0": 1_600_000})
    capped = files(cluster)
    try:
        found = refused(cluster, ["-n2"])
    finally:
        control(cluster, firmware={"0": 0})
    assert "policy0/scaling_max_freq 0:0:644 1600000" in capped
    assert (found, files(cluster)) == ({"a cap holds the clock down now": 1}, before)


def test_cores_that_disagree_with_the_affinity(start: grants.Start) -> None:
    """Slurm says core 0, and the task runs on CPU 1: the mapping must be wrong."""
    cluster = start("pin=none", conf={"TaskPlugin": "task/none"})
    slurmd = str(cluster.daemons.pid(f"slurmd-{cluster.nodes[0]}"))
    cluster.node_run(cluster.nodes[0], ["taskset", "-a", "-c", "-p", "1", slurmd], check=True)
    try:
        assert refused(cluster, ["-n1"]) == {"Slurm's cores and the tasks' affinity disagree": 1}
    finally:
        cluster.node_run(cluster.nodes[0], ["taskset", "-a", "-c", "-p", "0-1", slurmd], check=True)
    assert take_writes(cluster) == []


@pytest.mark.parametrize(("pages", "granted"), [(0, 0), (1, 1)])
def test_a_disk_that_is_full_after_the_prolog(start: grants.Start, pages: int, granted: int) -> None:
    """A domain's file takes a page.

    Room for so many more pages when slurmstepd begins, and again at its end, when it says what happened."""
    script = (
        "#!/bin/sh\nd=/run/mpi-wait/.full; test -e /run/mpi-wait/.fill || exit 0\n"
        "dd if=/dev/zero of=$d bs=4k 2>/dev/null\ntruncate -s -$(($(cat /run/mpi-wait/.fill) * 4096)) $d\n"
    )
    prolog, flag = "/srv/cluster/share/prolog.sh", f"/srv/cluster/share/{secrets.token_hex(4)}"
    cluster = start(conf={"Prolog": prolog})
    cluster.node_run(cluster.nodes[0], ["sh", "-c", f"cat > {prolog}; chmod 755 {prolog}"], input=script, check=True)
    grants.small_run(cluster)
    try:
        before = files(cluster)
        first, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", "true"])
        jobs.record(cluster, first)
        wait_for(lambda: not default_way.writers(cluster), "the end of the first job's writer, which frees pages")
        cluster.node_run(cluster.nodes[0], ["sh", "-c", f"echo {pages} > /run/mpi-wait/.fill"], check=True)
        stays = f"touch {flag}.$SLURM_PROCID; until test -e {flag}; do sleep .1; done"
        job, process = begin(cluster, ["-N1", "-n2", PSTATE, "sh", "-c", stays], stderr=subprocess.DEVNULL)
        wait_for(lambda: len(list(cluster.root.glob(f"share/{Path(flag).name}.*"))) == 2, "the tasks")
        cluster.node_run(cluster.nodes[0], ["rm", "/run/mpi-wait/.full", "/run/mpi-wait/.fill"], check=True)
        (cluster.root / "share" / Path(flag).name).touch()
        assert process.wait(timeout=60) == 0
        grant = jobs.record(cluster, job)["grant"]
        assert (grant["cores"], grant["refused"]) == (granted, {"no room for the domain's file": 2 - granted})
        assert files(cluster) == before
    finally:
        grants.free_run(cluster)
