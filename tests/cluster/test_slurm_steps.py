"""Steps of one job at the same time on the same nodes: on cores of their own, and on each other's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import await_lowered, file_name, frequencies, lows, program, release
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster

PSTATE = "--mpi-wait-policy=pstate"


def begin(cluster: Cluster, srun: str, argv: list[str]) -> tuple[int, str]:
    """A batch job of two steps that last until a file is there; returns its id and the file."""
    file = file_name(cluster)
    step = f"{srun} {' '.join(program(file))}"
    return jobs.sbatch(cluster, f"{step} &\n{step} &\nwait -n && wait -n\n", [*argv, PSTATE]), file


def step_ids(cluster: Cluster, node: str, job: int) -> list[str]:
    """The steps of srun's that the node knows of now."""
    return sorted(str(step["id"]) for step in jobs.steps(cluster, node, job) if step["id"] < 1 << 16)


def ended(cluster: Cluster, job: int, file: str) -> dict[str, Any]:
    release(cluster, file)
    assert cluster.wait_job(job) == "COMPLETED", jobs.output(cluster, job)
    return jobs.record(cluster, job)


def test_two_steps_have_cores_of_their_own(cluster: Cluster) -> None:
    """srun --exact: a rank of each on both nodes. Both wait low on the second node, so they are on different cores."""
    before = frequencies(cluster, "c2")
    job, file = begin(cluster, "srun --exact -N2 -n2 -c1", ["-N2", "-n4"])
    await_lowered(cluster, {"c2": {"policy0", "policy1"}})
    record = ended(cluster, job, file)
    assert frequencies(cluster, "c2") == before
    steps = {step["id"]: step for step in record["steps"]}
    assert {name: (step["nodes"], step["ranks"]) for name, step in steps.items()} == {
        "batch": (1, 0), "0": (2, 2), "1": (2, 2)}
    wait, grant, energy = record["wait"], record["grant"], record["energy"]
    assert wait["ranks"] == 4 and wait["by_call"]["MPI_Barrier"]["waits"] >= 2
    assert all(steps[step]["wait_s"] > 0 for step in "01")
    assert (grant["cores"], grant["transitions"] % 2, "refused" in grant) == (4, 0, False)
    assert energy["scope"] == "node"
    assert all(0 < steps[step]["joules"] < energy["joules"] for step in "01"), "of the nodes while it lasted"


def test_two_steps_on_the_same_cores(cluster: Cluster) -> None:
    """srun --overlap: the core that both wait on is one step's at a time, and nothing is low in the end."""
    before = frequencies(cluster, "c1")
    job, file = begin(cluster, "srun --overlap -N1 -n2", ["-w", "c1", "-n2"])
    wait_for(lambda: step_ids(cluster, "c1", job) == ["0", "1"], timeout_s=60)
    wait_for(lambda: lows(cluster, "c1") == ["policy1"])
    record = ended(cluster, job, file)
    assert frequencies(cluster, "c1") == before
    assert {step["id"]: step["ranks"] for step in record["steps"]} == {"batch": 0, "0": 2, "1": 2}
    wait = record["wait"]
    assert wait["ranks"] == 4 and wait["by_call"]["MPI_Barrier"]["waits"] >= 2
    assert record["grant"]["transitions"] > 0 and record["grant"]["low_s"] > 0
