"""The default way of a record: epilog, detached writer, slurmdbd, sacct. Nothing here hands in or sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.lib import default_way, jobs
from tests.lib.grants import wait_for
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.release]

NAP = "--mpi-wait-policy=nap"
UNBALANCED = [NAP, f"{PROGRAMS}/unbalanced", "5", "5", "3"]


class Submitted(NamedTuple):
    """Three jobs; the writer that had the record of the first was killed."""

    killed: int
    one_node: int
    two_nodes: int


def run_to_end(cluster: Cluster, argv: list[str]) -> int:
    job, _ = jobs.srun(cluster, argv)
    cluster.wait_job(job)
    return job


@pytest.fixture(scope="module")
def submitted(cluster: Cluster) -> Iterator[Submitted]:
    """All run before the first is asked for: their writers wait at the same time."""
    killed = run_to_end(cluster, ["-N1", "-n1", NAP, "true"])
    wait_for(lambda: any(path.startswith(cluster.spool) for path in default_way.left(cluster, killed)))
    for pid, *_ in wait_for(lambda: default_way.writers(cluster)):
        cluster.node_run("submit", ["kill", "-9", pid])
    wait_for(lambda: not default_way.writers(cluster))
    yield Submitted(killed, run_to_end(cluster, ["-N1", "-n2", *UNBALANCED]),
                    run_to_end(cluster, ["-N2", "-n4", *UNBALANCED]))
    jobs.flush(cluster)


def is_gone(cluster: Cluster, job: int) -> bool:
    """Neither a file nor a writer is left of a record."""
    return not default_way.left(cluster, job) and not default_way.writers(cluster)


def test_one_writer_stores_the_record_of_two_nodes(cluster: Cluster, submitted: Submitted) -> None:
    """The second node's hands its file over and ends. Neither belongs to a slurmd or is in its session."""
    (record,), seen = default_way.stored(cluster, [submitted.two_nodes])
    assert record["nodes"] == {"reported": 2, "of": 2} and record["wait"]["ranks"] == 4
    assert record["energy"]["joules"] > 0 and "nodes" not in record["energy"]
    assert {row[3] for row in seen} == {"drain"}, "something else may have stored it"
    daemons = {str(cluster.daemons.pid(f"slurmd-{node}")) for node in cluster.nodes}
    assert not daemons & {word for row in seen for word in row[1:3]}
    wait_for(lambda: is_gone(cluster, submitted.two_nodes))


def test_a_writer_stores_the_record_of_one_node(cluster: Cluster, submitted: Submitted) -> None:
    (record,), seen = default_way.stored(cluster, [submitted.one_node])
    assert record["nodes"] == {"reported": 1, "of": 1} and record["wait"]["ranks"] == 2
    assert record["energy"]["joules"] > 0
    assert {row[3] for row in seen} <= {"drain"}
    wait_for(lambda: is_gone(cluster, submitted.one_node))


def test_without_its_writer_a_record_waits_in_the_spool(cluster: Cluster, submitted: Submitted) -> None:
    """Nothing else stores: what the other two tests see is the writers' work."""
    default_way.stored(cluster, [submitted.one_node, submitted.two_nodes])
    assert default_way.text_of(cluster, submitted.killed) == ""
    assert any(path.startswith(cluster.spool) for path in default_way.left(cluster, submitted.killed))
    assert jobs.record(cluster, submitted.killed)["nodes"] == {"reported": 1, "of": 1}
