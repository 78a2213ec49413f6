"""What sleeping saved, measured by a job on a simulated node: while all ranks look, one of them burns its core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lib import jobs
from tests.lib.throwaway import Cluster, Fleet

ABSENT = f"{jobs.PROGRAMS}/absent"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def burning(cluster: Fleet) -> Iterator[Cluster]:
    """A node that draws next to nothing but for what its CPUs do."""
    with cluster.variants():
        yield cluster.variant(model={"packages": 1, "package_idle_w": 5.0, "dram_idle_w": 0.5, "package_busy_w": 50.0})


def test_the_record_has_what_sleeping_saved(burning: Cluster) -> None:
    """One rank waits for 1.4 ms of each 5.4, the shorter wait in which looks are not slept in."""
    job, _ = jobs.srun(burning, ["-N1", "-n2", "--exclusive", "--mpi-wait-policy=nap", ABSENT, "12000", "4", "0.35"],
                       timeout=240)
    record = jobs.record(burning, job)
    print(record["energy"], record["wait"].get("cost"), record["wait"]["asleep_s"], record["wait"]["total_s"])
    assert 0
