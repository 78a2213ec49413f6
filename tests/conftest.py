"""Fixtures and reporting for all tests: the shared clusters, and no silent skip."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.site import debs
from tests.lib.throwaway import (
    Cluster,
    MissingRequirements,
    ProfileUnavailable,
    project_cluster_arguments,
)

pytest_plugins = ["tests.lib.rules"]
LOG_TAIL = 3000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest on one worker begins first."""
    items.sort(key=lambda item: item.path.name != "test_packages_debian.py")


def start_or_skip(cluster: Cluster) -> Cluster:
    """Starts it; a machine or kernel that cannot run it makes the test a skip with the reason."""
    try:
        return cluster.start()
    except (MissingRequirements, ProfileUnavailable) as error:
        pytest.skip(str(error))


def project_cluster(profile: str) -> Iterator[Cluster]:
    cluster = start_or_skip(Cluster(nodes=2, profile=profile, **project_cluster_arguments()))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two simulated nodes, proctrack/linuxproc, with the staged project if there is one."""
    yield from project_cluster("linuxproc")


@pytest.fixture(scope="session")
def cluster_cgroup() -> Iterator[Cluster]:
    """The same with proctrack/cgroup, task/cgroup, ConstrainCores and PrologFlags=Contain."""
    yield from project_cluster("cgroup")


@pytest.fixture(scope="session")
def unbinding_cluster() -> Iterator[Cluster]:
    """One node on which Slurm binds nothing: TaskPlugin=task/none."""
    conf = {"TaskPlugin": "task/none"}
    cluster = Cluster(nodes=1, slurm_conf=conf, **project_cluster_arguments())
    yield start_or_skip(cluster)
    cluster.stop()


@pytest.fixture(scope="session")
def debian_packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name, what packaging/make-deb makes of the working tree: once for all tests that run side by side."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "debs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "debs").exists():
            debs.build(folder / "debs.new")
            (folder / "debs.new").rename(folder / "debs")
    return debs.found(folder / "debs")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failed test, the ends of the daemons' logs of the clusters that it used."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, Cluster):
            for name, text in value.all_logs().items():
                if text:
                    report.sections.append((f"log of {name}", text[-LOG_TAIL:]))
