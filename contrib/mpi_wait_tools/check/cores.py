"""check: whether Slurm counts this node's cores as the machine has them, and which of them it keeps from jobs."""

from __future__ import annotations

import re

from ..site.host import Host
from ..site.slurm import Slurm
from ..text.units import plural, safe
from .finding import Finding, not_seen, ok, warn

CPUS = "/sys/devices/system/cpu"
ADVICE = "Sockets=, CoresPerSocket= and ThreadsPerCore= in slurm.conf as 'slurmd -C' prints them"


def _machine(host: Host) -> tuple[int, int]:
    """Cores and hardware threads that are online; zeros where the kernel does not say."""
    cores = set()
    threads = 0
    for name in host.names(CPUS) or []:
        siblings = host.line(f"{CPUS}/{name}/topology/thread_siblings_list")
        if siblings and re.fullmatch("cpu[0-9]+", name):
            cores.add(siblings)
            threads += 1
    return len(cores), threads


def _number(node: dict[str, str], key: str) -> int:
    value = node.get(key, "")
    return int(value) if re.fullmatch("[0-9]{1,6}", value) else 0


def _numbering(cores: int, threads: int, counted: int, per_core: int) -> Finding:
    """counted: Slurm's cores, of so many threads each."""
    machine = f"the machine has {plural(cores, 'core')} with {plural(threads, 'hardware thread')}"
    if counted == cores:
        return ok("cores", f"{plural(counted, 'core')}, as Slurm counts them")
    said = f"Slurm counts {plural(counted, 'core')} here, {machine}"
    if counted * per_core > threads:
        return warn("cores", said, "which CPUs a job has is not known: the records of jobs that share the node have no"
                    " energy, and nobody is bound", ADVICE)
    if counted > cores:
        return warn("cores", said, "two jobs may have a hardware thread each of one core: they share energy by threads,"
                    " and nobody is bound", ADVICE)
    return ok("cores", f"{said}: a job that has all of Slurm's has the whole node")


def _kept(node: dict[str, str]) -> list[Finding]:
    """Cores that no job can have; a job with all others has the whole node."""
    count, listed = _number(node, "CoreSpecCount"), node.get("CPUSpecList", "")
    if not count and not listed:
        return []
    what = f"CPUSpecList={safe(listed, 60)}" if listed else f"CoreSpecCount={count}"
    return [ok("kept from jobs", f"{what}: a job that has all other cores has the whole node")]


def check_cores(host: Host, slurm: Slurm, name: str) -> list[Finding]:
    if not slurm.there or slurm.problem:
        return []
    asked = host.run(["scontrol", "-o", "show", "node", name])
    node = dict(word.partition("=")[::2] for word in asked.out.split()) if asked.done else {}
    counted = _number(node, "Sockets") * _number(node, "CoresPerSocket")
    cores, threads = _machine(host)
    if not counted or not cores:
        return [not_seen("cores", f"how many Slurm counts on '{safe(name)}' could not be seen", "run this on a node")]
    return [_numbering(cores, threads, counted, max(1, _number(node, "ThreadsPerCore"))), *_kept(node)]
