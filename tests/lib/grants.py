"""What the tests of the grant share: nodes by driver, and what happened to their cpufreq files."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS, begin
from tests.lib.throwaway import Cluster, Fleet, processes
from tests.lib.waiting import wait_for

CPUFREQ = "/sys/devices/system/cpu/cpufreq"
FILES = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_setspeed")
PSTATE = "--mpi-wait-policy=pstate"
UNBALANCED = [PSTATE, f"{PROGRAMS}/unbalanced", "4", "15", "3"]
# Rank 1 waits four times a quarter of a second for a sender that sleeps: however busy the machine is.
WAITS = [PSTATE, f"{PROGRAMS}/late_sender", "250", "4"]
WAITER = 1
# Rank 1 waits until somebody is killed.
LONG = [PSTATE, f"{PROGRAMS}/crash", "600000"]
HOSTILE = ["/usr/bin/python3", "/srv/cluster/lib/tests/lib/programs/hostile.py"]

Start = Callable[..., Cluster]
__all__ = ["begin", "wait_for"]


def clusters(fleet: Fleet) -> Iterator[Start]:
    """Gives variants of the fleet, each a node, one per set of options, and stops them all at the end."""

    def start(
        arguments: str = "", *, conf: dict[str, str] | None = None, simulated: bool = True, **model: Any
    ) -> Cluster:
        variant = fleet.variant(arguments, slurm_conf=conf, simulated=simulated, model=model)
        if simulated:
            take_writes(variant)
        return variant

    with fleet.variants():
        yield start


def files(cluster: Cluster, node: str = "") -> str:
    """A line for every cpufreq file of a node (the first) that can be written: name, owner and mode, value."""
    folder = cluster.inside.path(CPUFREQ, node or cluster.nodes[0])
    return "".join(_line(path) for name in FILES for path in sorted(folder.glob(f"policy*/{name}")))


def _line(path: Path) -> str:
    """One that cannot be read has no value."""
    status, value = path.stat(), ""
    with suppress(OSError):
        value = path.read_text().strip()
    return f"{path.parent.name}/{path.name} {status.st_uid}:{status.st_gid}:{status.st_mode & 0o7777:o} {value}\n"


def take_writes(cluster: Cluster) -> list[tuple[str, str, str]]:
    """What was written to cpufreq files since the last call: policy, file, text."""
    text = cluster.read(cluster.nodes[0], "/run/simnode/fs/writes")
    return [(policy, file, value) for _, policy, file, value in json.loads(text)]


def set_file(cluster: Cluster, policy: int, file: str, value: object) -> None:
    cluster.node_run(cluster.nodes[0], ["sh", "-c", f"echo {value} > {CPUFREQ}/policy{policy}/{file}"], check=True)


def heard(record: dict[str, Any]) -> int:
    """The changes that the ranks know of. Those whose answer came too late, on a busy machine, root alone counts:
    a rank waits for it for 100 ms."""
    count: int = record["wait"]["transitions"]
    return count


def left(cluster: Cluster) -> str:
    """What the node's /run still holds of jobs."""
    return cluster.node_run(cluster.nodes[0], ["sh", "-c", "ls -d /run/mpi-wait/*/[0-9]* 2>/dev/null"]).stdout


def small_run(cluster: Cluster) -> None:
    """/run/mpi-wait is a file system of its own, of two megabytes, for fill_run to fill."""
    script = "mkdir -p /run/mpi-wait && mount -t tmpfs -o size=2m,mode=755 none /run/mpi-wait"
    cluster.node_run(cluster.nodes[0], ["sh", "-c", script], check=True)


def fill_run(cluster: Cluster) -> None:
    """No room is left there."""
    script = "dd if=/dev/zero of=/run/mpi-wait/.full bs=4k 2>/dev/null; true"
    cluster.node_run(cluster.nodes[0], ["sh", "-c", script], check=True)


def free_run(cluster: Cluster) -> None:
    cluster.node_run(cluster.nodes[0], ["umount", "-l", "/run/mpi-wait"], check=True)


def hostile(cluster: Cluster, *command: str, argv: list[str] | None = None, **how: Any) -> dict[str, Any]:
    """Runs one task that tries something; returns what it printed."""
    _, done = jobs.srun(cluster, ["-N1", "-n1", *(argv or []), PSTATE, *HOSTILE, *command], **how)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def refused(cluster: Cluster, argv: list[str], program: str = "true") -> dict[str, int]:
    """Why not, and of how many cores."""
    job, _ = jobs.srun(cluster, ["-N1", *argv, PSTATE, *program.split()])
    reasons: dict[str, int] = jobs.record(cluster, job)["grant"].get("refused", {})
    return reasons


def control(cluster: Cluster, **words: Any) -> None:
    """Tells the simulated node something: see tests.lib.simnode.node.Node.control."""
    cluster.node_run(cluster.nodes[0], ["tee", "/run/simnode/fs/control"], input=json.dumps(words), check=True)


def lows(cluster: Cluster) -> list[str]:
    """The domains whose maximum is the lowest frequency now."""
    return [
        line.split("/")[0]
        for line in files(cluster).splitlines()
        if "scaling_max_freq" in line and line.endswith(" 1000000")
    ]


def is_clean(cluster: Cluster, before: str) -> bool:
    wait_for(lambda: not left(cluster))
    return files(cluster) == before


def stepd_of(cluster: Cluster, job: int) -> int:
    """The process id of the job's first step's slurmstepd, in the cluster."""
    found = cluster.node_run(cluster.nodes[0], ["pgrep", "-f", rf"slurmstepd: \[{job}\.0\]"]).stdout.split()
    return int(found[0]) if found else 0


def kill_processes(cluster: Cluster, job: int, *which: str, ends: bool = False) -> None:
    """kill -9 of the step's ranks, slurmstepd, the node's slurmd, in this order; returns when they are gone.

    ends: kills those that still are.
    """
    stepd, pids = stepd_of(cluster, job), []
    assert stepd or ends
    if stepd and "ranks" in which:
        pids = cluster.node_run(cluster.nodes[0], ["pgrep", "-P", str(stepd)]).stdout.split()
    if stepd and "slurmstepd" in which:
        pids.append(str(stepd))
    if pids:
        cluster.node_run(cluster.nodes[0], ["kill", "-9", *pids], check=not ends)
        stats = [cluster.inside.path(f"/proc/{pid}/stat", cluster.nodes[0]) for pid in pids]
        wait_for(lambda: all(map(processes.has_ended, stats)), "the end of who was killed")
    if "slurmd" in which:
        cluster.kill(f"slurmd-{cluster.nodes[0]}", signal.SIGKILL)


def kill(cluster: Cluster, job: int, how: str) -> None:
    kill_processes(cluster, job, how)
    if how != "ranks":
        cluster.run(["scancel", str(job)])
