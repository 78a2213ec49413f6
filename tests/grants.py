"""What the tests of the grant share: clusters of one node, by driver, and what happened to its cpufreq files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster import Cluster, project_cluster_arguments
from tests.conftest import start_or_skip

NODE = "c1"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
FILES = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_setspeed")
SHOW = f"""
cd {CPUFREQ}
for file in policy*/scaling_governor policy*/scaling_m??_freq policy*/scaling_setspeed; do
    echo "$file $(stat -c '%u:%g:%a' $file) $(cat $file)"
done
"""

Start = Callable[..., Cluster]


def clusters() -> Iterator[Start]:
    """Starts one-node clusters, one per set of options, and stops them all at the end."""
    known: dict[str, Cluster] = {}

    def start(
        arguments: str = "", *, conf: dict[str, str] | None = None, simulated: bool = True, **model: Any
    ) -> Cluster:
        key = json.dumps([arguments, conf, simulated, model], sort_keys=True)
        if key not in known:
            project = project_cluster_arguments()
            project["plugstack"] = project["plugstack"].rstrip("\n") + f" {arguments}\n"
            known[key] = start_or_skip(Cluster(nodes=1, model=model, slurm_conf=conf, simulated=simulated, **project))
        if simulated:
            take_writes(known[key])
        return known[key]

    yield start
    for cluster in known.values():
        cluster.stop()


def files(cluster: Cluster) -> str:
    """Value, owner and mode of every cpufreq file that can be written."""
    return cluster.node_run(NODE, ["sh", "-c", SHOW], check=True).stdout


def take_writes(cluster: Cluster) -> list[tuple[str, str, str]]:
    """What was written to cpufreq files since the last call: policy, file, text."""
    text = cluster.read(NODE, "/run/simnode/fs/writes")
    return [(policy, file, value) for _, policy, file, value in json.loads(text)]


def set_file(cluster: Cluster, policy: int, file: str, value: object) -> None:
    cluster.node_run(NODE, ["sh", "-c", f"echo {value} > {CPUFREQ}/policy{policy}/{file}"], check=True)


def left(cluster: Cluster) -> str:
    """What the node's /run still holds of jobs."""
    return cluster.node_run(NODE, ["sh", "-c", "ls -d /run/mpi-wait/*/[0-9]* 2>/dev/null"]).stdout


def fill_run(cluster: Cluster) -> None:
    """No room is left below /run/mpi-wait."""
    script = (
        "mkdir -p /run/mpi-wait && mount -t tmpfs -o size=64k,mode=755 none /run/mpi-wait &&"
        " dd if=/dev/zero of=/run/mpi-wait/full bs=4k 2>/dev/null; true"
    )
    cluster.node_run(NODE, ["sh", "-c", script], check=True)


def empty_run(cluster: Cluster) -> None:
    cluster.node_run(NODE, ["umount", "-l", "/run/mpi-wait"], check=True)
