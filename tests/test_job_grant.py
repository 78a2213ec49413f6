"""Under pstate an unprivileged job changes the frequency of its own cores while it waits, and of no other, ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import grants, jobs
from tests.grants import files, take_writes
from tests.jobs import PROGRAMS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
UNBALANCED = ["--mpi-wait-policy=pstate", f"{PROGRAMS}/unbalanced", "4", "30", "3"]


@pytest.fixture(scope="module")
def start() -> Iterator[grants.Start]:
    yield from grants.clusters()


@pytest.mark.parametrize("driver", ["acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate-epp"])
def test_a_lease_lowers_and_restores(start: grants.Start, driver: str) -> None:
    cluster = start(driver=driver)
    before = files(cluster)
    job, done = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    cluster.wait_job(job)
    writes = take_writes(cluster)
    print(writes, done.stdout, done.stderr)
    print(cluster.logs("slurmd-c1")[-3000:])
    assert files(cluster) == before
    assert {file for _, file, _ in writes} == {"scaling_max_freq"}
