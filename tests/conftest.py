"""Fixtures and reporting for all tests: the shared clusters, and no silent skip."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.lib.site import debs, rpms
from tests.lib.throwaway import (
    Cluster,
    Fleet,
    MissingRequirements,
    ProfileUnavailable,
    Variant,
    project_cluster_arguments,
    registry,
)

pytest_plugins = ["tests.lib.rules"]
LOG_TAIL = 3000


# A file is one worker's (--dist loadfile), so those of a cluster begin with what takes longest. They mostly wait, and
# the others mostly compute: these come evenly between them, so that the cores are neither idle nor crowded.
LONGEST_FIRST = (
    "test_packages_debian.py", "test_cgroup_v2.py", "test_job_energy.py", "test_job_record.py", "test_job_grant.py",
    "test_job_spool.py", "test_job_grant_modes.py", "test_try_cluster.py", "test_job_suspend.py", "test_job_rows.py",
    "test_job_faults.py", "test_throwaway.py", "test_job_csv.py", "test_check_cluster.py", "test_manual_examples.py",
    "test_release.py", "test_job_grant_refusals.py", "test_job_disk.py", "test_job_hostile.py",
    "test_node_topology.py", "test_site_recipes.py", "test_slurm_preemption.py", "test_job_threads.py",
    "test_slurm_selection.py", "test_slurm_writer.py", "test_slurm_configless.py",
)  # fmt: skip


# Its tests share nothing and the longest takes as long as a file of others: each is handed out by itself, these first.
PROGRAMS = "tests/unit/test_programs.py"
# Of what computes, the files that would be left over at the end.
COMPUTING_LONGEST = ("test_programs.py", "test_try.py", "test_recorded.py", "test_step_bounds.py", "test_check.py")

SOAK_TIMEOUT_S = 1800  # packages are built, and Slurm is installed in new roots


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order in which files begin; soak has the time that it takes."""
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S))
    files = list(dict.fromkeys(item.path for item in items))
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    waiting = sorted((file for file in files if file.parent.name == "cluster" or file.name in place),
                     key=lambda file: place.get(file.name, len(place)))
    computing = [file for file in files if file not in set(waiting)]
    turn = {file: (number + 0.5) / len(group) for group in (waiting, computing) for number, file in enumerate(group)}
    turn |= {file: 0 for file in computing if file.name in COMPUTING_LONGEST}
    items.sort(key=lambda item: turn[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """--dist loadfile, but for PROGRAMS."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith(PROGRAMS) else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


Started = TypeVar("Started", bound=Cluster)


def start_or_skip(cluster: Started) -> Started:
    """Starts it; a machine or kernel that cannot run it makes the test a skip with the reason."""
    try:
        cluster.start()
    except (MissingRequirements, ProfileUnavailable) as error:
        pytest.skip(str(error))
    return cluster


def project_fleet(profile: str) -> Iterator[Fleet]:
    fleet = start_or_skip(Fleet(nodes=2, profile=profile, **project_cluster_arguments()))
    yield fleet
    fleet.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Fleet]:
    """Two simulated nodes, proctrack/linuxproc, with the staged project if there is one; and variants on demand."""
    yield from project_fleet("linuxproc")


@pytest.fixture(scope="session")
def cluster_cgroup() -> Iterator[Fleet]:
    """The same with proctrack/cgroup, task/cgroup, ConstrainCores and PrologFlags=Contain."""
    yield from project_fleet("cgroup")


@pytest.fixture(scope="module")
def unbinding_cluster(cluster: Fleet) -> Iterator[Variant]:
    """One node on which Slurm binds nothing: TaskPlugin=task/none."""
    with cluster.variants():
        yield cluster.variant(slurm_conf={"TaskPlugin": "task/none"})


@pytest.fixture(scope="session")
def debian_packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name, what packaging/make-deb makes of the release tarball: once for all tests that run side by side."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "debs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "debs").exists():
            tree = rpms.unpacked(rpms.tarball(folder / "dist"), folder)
            debs.build(folder / "debs.new", tree=tree)
            (folder / "debs.new").rename(folder / "debs")
    return debs.found(folder / "debs")


LOGS_BEFORE = pytest.StashKey[dict[int, dict[str, int]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    registry.forget_failures()
    item.stash[LOGS_BEFORE] = registry.sizes()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failed test, or a fixture of it that failed, what the daemons of all clusters have logged meanwhile."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name, text in registry.news(item.stash.get(LOGS_BEFORE, {})):
            report.sections.append((f"log of {name}", text[-LOG_TAIL:]))
        report.sections.extend(registry.LATE)
        if report.when == "call":
            registry.end_jobs()
