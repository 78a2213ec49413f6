"""Shared by the tests of the grant: nodes by driver, and what happened to their cpufreq files."""

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
# Rank 1 waits four times 250 ms for a sender that sleeps, however busy the machine is.
WAITS = [PSTATE, f"{PROGRAMS}/late_sender", "250", "4"]
WAITER = 1
# Rank 1 waits until a process is killed.
LONG = [PSTATE, f"{PROGRAMS}/crash", "600000"]
HOSTILE = ["/usr/bin/python3", "/srv/cluster/lib/tests/lib/programs/hostile.py"]

Start = Callable[..., Cluster]
__all__ = ["begin", "wait_for"]


def clusters(fleet: Fleet) -> Iterator[Start]:
    """Makes variants of the fleet, each of one node, one per set of options, and stops them all at the end."""

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
    """Returns a line for every writable cpufreq file of a node (default: the first): name, owner and mode, value."""
    folder = cluster.inside.path(CPUFREQ, node or cluster.nodes[0])
    return "".join(_line(path) for name in FILES for path in sorted(folder.glob(f"policy*/{name}")))


def _line(path: Path) -> str:
    """Returns a file's line, with no value if the file cannot be read."""
    status, value = path.stat(), ""
    with suppress(OSError):
        value = path.read_text().strip()
    return f"{path.parent.name}/{path.name} {status.st_uid}:{status.st_gid}:{status.st_mode & 0o7777:o} {value}\n"


def take_writes(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Returns and clears the list of writes to cpufreq files: policy, file, text."""
    text = cluster.read(cluster.nodes[0], "/run/simnode/fs/writes")
    return [(policy, file, value) for _, policy, file, value in json.loads(text)]


def set_file(cluster: Cluster, policy: int, file: str, value: object) -> None:
    cluster.node_run(cluster.nodes[0], ["sh", "-c", f"echo {value} > {CPUFREQ}/policy{policy}/{file}"], check=True)


def check_changes(record: dict[str, Any], waits: int) -> bool:
    """Checks the changes of frequency that root counted, and those that the ranks know of. Each wait has two, down and
    up. Returns false if a rank missed an answer: it waits 100 ms for one, which a busy machine may exceed. Then it does
    not ask again for 10 s, so fewer waits are low."""
    root: int = record["grant"]["transitions"]
    ranks: int = record["wait"]["transitions"]
    assert 0 < ranks <= root
    assert ranks < root or root >= 2 * waits
    return ranks == root


def left(cluster: Cluster) -> str:
    """Returns the files of jobs that are still below the node's /run."""
    return cluster.node_run(cluster.nodes[0], ["sh", "-c", "ls -d /run/mpi-wait/*/[0-9]* 2>/dev/null"]).stdout


def small_run(cluster: Cluster) -> None:
    """Mounts a file system of two megabytes at /run/mpi-wait, for fill_run to fill."""
    script = "mkdir -p /run/mpi-wait && mount -t tmpfs -o size=2m,mode=755 none /run/mpi-wait"
    cluster.node_run(cluster.nodes[0], ["sh", "-c", script], check=True)


def fill_run(cluster: Cluster) -> None:
    """Fills /run/mpi-wait until no space is left."""
    script = "dd if=/dev/zero of=/run/mpi-wait/.full bs=4k 2>/dev/null; true"
    cluster.node_run(cluster.nodes[0], ["sh", "-c", script], check=True)


def free_run(cluster: Cluster) -> None:
    cluster.node_run(cluster.nodes[0], ["umount", "-l", "/run/mpi-wait"], check=True)


def hostile(cluster: Cluster, *command: str, argv: list[str] | None = None, **how: Any) -> dict[str, Any]:
    """Runs hostile.py as a job of one task; returns the JSON that it printed."""
    _, done = jobs.srun(cluster, ["-N1", "-n1", *(argv or []), PSTATE, *HOSTILE, *command], **how)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def refused(cluster: Cluster, argv: list[str], program: str = "true") -> dict[str, int]:
    """Runs a job that is refused a grant; returns the number of cores by reason."""
    job, _ = jobs.srun(cluster, ["-N1", *argv, PSTATE, *program.split()])
    reasons: dict[str, int] = jobs.record(cluster, job)["grant"].get("refused", {})
    return reasons


def control(cluster: Cluster, **words: Any) -> None:
    """Sends a command to the simulated node: see tests.lib.simnode.node.Node.control."""
    cluster.node_run(cluster.nodes[0], ["tee", "/run/simnode/fs/control"], input=json.dumps(words), check=True)


def lows(cluster: Cluster) -> list[str]:
    """Returns the domains whose maximum is the lowest frequency now."""
    return [
        line.split("/")[0]
        for line in files(cluster).splitlines()
        if "scaling_max_freq" in line and line.endswith(" 1000000")
    ]


def is_clean(cluster: Cluster, before: str) -> bool:
    wait_for(lambda: not left(cluster))
    return files(cluster) == before


def stepd_of(cluster: Cluster, job: int) -> int:
    """Returns the process id, inside the cluster, of the slurmstepd of the job's step 0; 0 if it has ended."""
    found = cluster.node_run(cluster.nodes[0], ["pgrep", "-f", rf"slurmstepd: \[{job}\.0\]"]).stdout.split()
    return int(found[0]) if found else 0


def kill_processes(cluster: Cluster, job: int, *which: str, ends: bool = False) -> None:
    """Kills the step's ranks, its slurmstepd and the node's slurmd, whichever are named, in this order, by SIGKILL.
    Returns when they are gone.

    ends: the job may be ending by itself; processes that are gone are no error.
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
