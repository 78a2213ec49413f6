"""Jobs that wait in MPI for as long as a test needs: tests/lib/programs/held.c, a file that ends the job, and the
waiting time of its ranks so far."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.lib import grants, jobs
from tests.lib.grants import wait_for
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster


def file_name(cluster: Cluster) -> str:
    """Returns the path of a file that does not exist yet."""
    return f"{cluster.share}/held-{secrets.token_hex(6)}"


def program(file: str) -> list[str]:
    return [f"{PROGRAMS}/held", file]


def release(cluster: Cluster, file: str) -> None:
    cluster.node_run("submit", ["touch", file], check=True)


class Held:
    """A job of srun's in which rank 0 keeps the other ranks in Barrier."""

    def __init__(self, cluster: Cluster, argv: Sequence[str], file: str = "") -> None:
        """Starts the job. file: the file that ends it; two jobs with the same file end together."""
        self.cluster = cluster
        self.file = file or file_name(cluster)
        name = f"t{secrets.token_hex(6)}"
        self.process = cluster.popen(["srun", f"--job-name={name}", *argv, *program(self.file)],
                                     stderr=subprocess.STDOUT)
        self.job = wait_for(lambda: jobs.job_named(cluster, name))

    def await_ranks(self, count: int) -> None:
        """Waits until `count` ranks have left MPI_Init and enter Barrier."""
        look = ["sh", "-c", f"ls {self.file}.*"]
        wait_for(lambda: len(self.cluster.node_run("submit", look).stdout.split()) >= count, timeout_s=60)

    def end(self, status: int = 0) -> str:
        """Lets the job run to its end; returns what it printed."""
        release(self.cluster, self.file)
        text, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == status, text
        return text

    def drop(self) -> None:
        """Cancels the job if it still runs."""
        if self.process.poll() is None:
            self.cluster.run(["scancel", str(self.job)], user="root")
            self.process.communicate(timeout=60)


@contextmanager
def held(cluster: Cluster, argv: Sequence[str], file: str = "") -> Iterator[Held]:
    job = Held(cluster, argv, file)
    try:
        yield job
    finally:
        job.drop()


def waited_s(cluster: Cluster, node: str, job: int) -> float:
    """Returns the longest waiting time of a rank of the job on that node, as of the sampler's last tick."""
    return max(jobs.waited_s(cluster, node, job), default=0)


def wait_until_waited(cluster: Cluster, node: str, job: int, seconds: float = 0) -> None:
    """Waits until a rank of the job has waited that long. The sampler ticks every second under "profile", every ten
    otherwise."""
    wait_for(lambda: waited_s(cluster, node, job) > seconds, timeout_s=60)


def frequencies(cluster: Cluster, node: str) -> str:
    """Returns value, owner and mode of every writable cpufreq file of a node."""
    return grants.files(cluster, node)


def lows(cluster: Cluster, node: str) -> list[str]:
    """Returns the node's domains whose maximum is the lowest frequency now."""
    lines = frequencies(cluster, node).splitlines()
    return [line.split("/")[0] for line in lines if "scaling_max_freq" in line and line.endswith(" 1000000")]


def lowered(cluster: Cluster, node: str) -> set[str]:
    """Returns the node's domains that were lowered since the last call, whatever happened to them afterwards."""
    writes = json.loads(cluster.read(node, "/run/simnode/fs/writes"))
    return {policy for _, policy, file, value in writes if (file, value) == ("scaling_max_freq", "1000000")}


def await_lowered(cluster: Cluster, domains: dict[str, set[str]]) -> None:
    """Waits until each of these domains, by node, has been low, though not all at once: a rank whose core other
    processes want takes that for progress, and has its clock back for a while."""
    found: dict[str, set[str]] = {node: set() for node in domains}

    def are_there() -> bool:
        for node in domains:
            found[node] |= lowered(cluster, node) | set(lows(cluster, node))
        return all(domains[node] <= found[node] for node in domains)

    for node in domains:
        lowered(cluster, node)
    wait_for(are_there, lambda: f"{domains} low, of which {found} were,")


def leases(cluster: Cluster, node: str) -> list[str]:
    """Returns the lease of each domain of a node, as its file says: the step and its process, and the values to
    restore."""
    return cluster.node_run(node, ["sh", "-c", "cat /run/mpi-wait/*/cpufreq/policy*"], check=True).stdout.splitlines()


def are_stopped(cluster: Cluster, job: int, step: int = 0) -> bool:
    """Returns true if the step has ranks and all of them are stopped."""
    stepd = cluster.node_run("submit", ["pgrep", "-f", rf"slurmstepd: \[{job}\.{step}\]"]).stdout.split()
    states = cluster.node_run("submit", ["ps", "-o", "stat=", "--ppid", ",".join(stepd or ["1"])]).stdout.split()
    return bool(stepd) and bool(states) and all(state[0] == "T" for state in states)


def stopped_s(cluster: Cluster, job: int, timeout_s: float = 60) -> float:
    """Waits until a stopped job goes on; returns the shortest time that it can have been stopped."""
    began = last = time.monotonic()
    while (now := time.monotonic()) and are_stopped(cluster, job):
        assert now < began + timeout_s, f"job {job} is still stopped"
        last = now
    return last - began
