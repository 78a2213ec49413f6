"""What faults must leave as it was: the nodes' states, their cores, /run, and what daemons hold."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lib import grants
from tests.lib.throwaway import Cluster

LEFT = "ls -d /run/mpi-wait/*/[0-9]* 2>/dev/null"
USABLE = ("idle", "mixed", "allocated", "completing")


@dataclass(frozen=True)
class Holding:
    """What a daemon has of the machine's."""

    resident_kb: int
    descriptors: int


def cores(cluster: Cluster) -> dict[str, str]:
    """Value, owner and mode of every cpufreq file, by node."""
    return {node: grants.files(cluster, node) for node in cluster.nodes}


def run_left(cluster: Cluster) -> dict[str, list[str]]:
    """What lies under /run/mpi-wait of jobs, which is all but a node's own accumulator, topology and free claims."""
    found = {node: cluster.node_run(node, ["sh", "-c", LEFT]).stdout.split() for node in cluster.nodes}
    return {node: names for node, names in found.items() if names}


def states(cluster: Cluster) -> dict[str, str]:
    lines = cluster.node_run("submit", ["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.splitlines()
    return {node: state for node, state in map(str.split, lines) if node in cluster.nodes}


def holding(cluster: Cluster, daemon: str) -> Holding:
    folder = cluster.inside.path(f"/proc/{cluster.daemons.pid(daemon)}")
    (resident,) = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS:")]
    return Holding(int(resident.split()[1]), len(list((folder / "fd").iterdir())))


def assert_well(cluster: Cluster, before: dict[str, str]) -> None:
    """No node out of service, no core changed, nothing under /run once the epilogs are through."""
    assert all(state in USABLE for state in states(cluster).values()), states(cluster)
    grants.wait_for(lambda: not run_left(cluster))
    assert cores(cluster) == before
