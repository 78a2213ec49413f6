"""How waits were served, from the segment to sacct and the report."""

from __future__ import annotations

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster


def test_the_hook_that_served_is_in_the_record(cluster: Cluster) -> None:
    job, _ = jobs.srun(
        cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "3", "20", "2"]
    )
    wait = jobs.record(cluster, job)["wait"]
    assert set(wait["hooks"]) == {"opal"} and wait["hooks"]["opal"] > 0
    assert "no_hook" not in wait.get("flags", {})


def test_a_rank_that_nothing_wakes_naps_and_says_so(cluster: Cluster) -> None:
    """On a host without a fast network Open MPI does not choose its pml ucx by itself."""
    job, _ = jobs.srun(
        cluster, ["-N1", "-n2", "--mpi-wait-policy=event", f"{PROGRAMS}/unbalanced", "3", "20", "2"]
    )
    record = jobs.record(cluster, job)
    assert record["policy"] == {"asked": "event", "used": "event", "by": "job"}
    assert record["wait"]["flags"]["no_event"] == 2 and record["wait"]["naps"] > 0
    shown = cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], user="root").stdout
    assert "2 ranks were not woken by messages, and napped instead." in " ".join(shown.split())


def test_a_barrier_before_collectives_runs_on_all_nodes(cluster: Cluster) -> None:
    """The wait is in our loop; what the collective itself does after it is transfer."""
    job, _ = jobs.srun(
        cluster,
        [
            "-N2",
            "-n4",
            "--mpi-wait-policy=nap,collectives=ibarrier",
            f"{PROGRAMS}/unbalanced",
            "5",
            "20",
            "2",
        ],
    )
    wait = jobs.record(cluster, job)["wait"]
    assert wait["hooks"]["loop"] > 0 and wait["by_call"]["MPI_Allreduce"]["waits"] > 0


def test_ranks_that_ucx_wakes(cluster: Cluster) -> None:
    """The receiver, of a sender that sleeps for a second."""
    variables = {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
    exports = ",".join(f"OMPI_MCA_{name}={value}" for name, value in variables.items())
    job, _ = jobs.srun(
        cluster,
        [
            "-N1",
            "-n2",
            f"--export=ALL,{exports}",
            "--mpi-wait-policy=event",
            f"{PROGRAMS}/late_sender",
            "1000",
        ],
    )
    wait = jobs.record(cluster, job)["wait"]
    assert "no_event" not in wait.get("flags", {})
    assert wait["naps"] > 0 and 0 < wait["per_rank_asleep_s"][1] <= wait["per_rank_s"][1]
