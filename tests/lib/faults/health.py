"""The state that faults must not change: the nodes' states, their cores, /run, and the daemons' resources."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lib import grants
from tests.lib.throwaway import Cluster

LEFT = "ls -d /run/mpi-wait/*/[0-9]* 2>/dev/null"
USABLE = ("idle", "mixed", "allocated", "completing")


@dataclass(frozen=True)
class Holding:
    """Resources that a daemon holds."""

    resident_kb: int
    descriptors: int


def cores(cluster: Cluster) -> dict[str, str]:
    """Returns text, owner and mode of every cpufreq file, by node."""
    return {node: grants.files(cluster, node) for node in cluster.nodes}


def run_left(cluster: Cluster) -> dict[str, list[str]]:
    """Returns the files below /run/mpi-wait that belong to jobs: all but a node's own accumulator, topology and free
    claims."""
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
    """Asserts that no node is out of service, that no core has changed, and that nothing is left under /run after the
    epilogs."""
    assert all(state in USABLE for state in states(cluster).values()), states(cluster)
    grants.wait_for(lambda: not run_left(cluster))
    assert cores(cluster) == before
