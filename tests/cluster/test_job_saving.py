"""What sleeping saved, as a job on a simulated node measures it: from real ranks that look together to the record.
tests/unit/spank/test_saving.py has the figures, under a clock of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lib import jobs
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

ABSENT = [f"{jobs.PROGRAMS}/absent", "1000000", "4", "0.35"]
"""One rank waits for 1.4 ms of each 5.4: in looks nobody sleeps in waits as short as that."""
REASONS = ("too few looks", "counters too coarse", "no rank slept", "ranks slept in looks", "no periods were compared")

pytestmark = [pytest.mark.cluster, pytest.mark.soak]  # ranks that the machine holds up rarely look together


@pytest.fixture(scope="module")
def burning(cluster: Fleet) -> Iterator[Cluster]:
    """A node that draws next to nothing but for what its CPUs do."""
    with cluster.variants():
        yield cluster.variant(model={"packages": 1, "package_idle_w": 5.0, "dram_idle_w": 0.5, "package_busy_w": 50.0})


def looks_read(cluster: Cluster, node: str, job: int) -> dict[str, Any] | None:
    """What the step's file on the node has of looks."""
    shown = cluster.node_run(node, ["sh", "-c", f"cat /run/mpi-wait/*/{job}/step.0.json"]).stdout
    return json.loads(shown).get("saving") if shown else None


def test_looks_of_real_ranks_are_read(burning: Cluster) -> None:
    """By slurmstepd, which finds them by the clock and by what the ranks tell. How many come in time is the machine's
    affair; one look is no saving yet, and the record says so."""
    (node,) = burning.nodes
    job, running = jobs.begin(burning, ["-N1", "-n2", "--exclusive", "--output=none", "--mpi-wait-policy=nap", *ABSENT])
    saving = wait_for(lambda: looks_read(burning, node, job), "a look", 100)
    burning.run(["scancel", str(job)])
    running.wait(30)
    energy = jobs.record(burning, job)["energy"]
    assert saving["each"] >= 1 or saving["still"] >= 1
    assert energy["source"] == "simulated"
    assert energy["saved"]["looks"] >= 20 if "saved" in energy else energy["saved_why"] in REASONS
