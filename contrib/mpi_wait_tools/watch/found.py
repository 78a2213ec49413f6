"""Where the job's statistics are on this node: in the descriptors of the user's own processes.

A task of a step under a policy has MPI_WAIT_CONFIG in its environment, which names the segment's descriptor, device and
inode, and the task that holds it; the ranks that mpirun started have inherited it. Reading asks the kernel for no more
than the user's own processes: nothing is attached to, nothing is stopped.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

PROCESSES_MAX, SEGMENTS_MAX = 65536, 64
ENVIRONMENT_MAX = 1 << 21
SPARE = 1000  # INHERITED_SPARE of preload/contract/config_format.h
_SEGMENT = re.compile(rb"(?:^|;)segment=([0-9]{1,9}):([0-9]{1,20}):([0-9]{1,20});task=([0-9]{1,9})(?:;|$)")
_STEPS = {0xFFFFFFFB: "batch", 0xFFFFFFFA: "interactive", 0xFFFFFFFC: "extern"}


@dataclass(frozen=True)
class Segment:
    """descriptor: open for reading; the caller closes it."""

    step: str
    inode: tuple[int, int]
    descriptor: int


def _environment(pid: str) -> dict[bytes, bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read(ENVIRONMENT_MAX)
    except OSError:  # it has ended, or is somebody else's
        return {}
    wanted = (b"SLURM_JOB_ID", b"SLURM_STEP_ID", b"SLURMD_NODENAME", b"MPI_WAIT_CONFIG")
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {name: value for name, _, value in pairs if name in wanted}


def _own(uid: int) -> Iterator[str]:
    with os.scandir("/proc") as entries:
        for entry, _ in zip((entry for entry in entries if entry.name.isdigit()), range(PROCESSES_MAX)):
            try:
                if entry.stat().st_uid == uid:
                    yield entry.name
            except OSError:
                continue


def _step_name(text: bytes) -> str:
    """A batch script and what mpirun starts there have no step's number, or a reserved one."""
    number = int(text) if text.isdigit() and len(text) < 11 else None
    return "batch" if number is None else _STEPS.get(number, str(number))


def _opened(pids: tuple[str, str], number: int, inode: tuple[int, int]) -> int:
    """The descriptor is the process's own, or of the task that it descends from; -1: neither has it (any more). Each
    may have it at its number, or at its spare one."""
    for pid, at in product(pids, (number, number + SPARE)):
        try:
            descriptor = os.open(f"/proc/{pid}/fd/{at}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) == inode:
            return descriptor
        os.close(descriptor)
    return -1


def find_segments(job: int, step: str, node: str) -> list[Segment]:
    """
    Those of the job's steps that run now, each once; of one step alone, if it is named. node: as slurmd is called,
    since several may run on one machine.
    """
    found: dict[tuple[int, int], Segment] = {}
    for pid in _own(os.getuid()):
        environment = _environment(pid)
        match = _SEGMENT.search(environment.get(b"MPI_WAIT_CONFIG", b""))
        if match is None or environment.get(b"SLURM_JOB_ID") != str(job).encode():
            continue
        if environment.get(b"SLURMD_NODENAME", node.encode()) != node.encode():
            continue
        name, inode = _step_name(environment.get(b"SLURM_STEP_ID", b"")), (int(match[2]), int(match[3]))
        if inode in found or (step and name != step):
            continue
        descriptor = _opened((pid, match[4].decode()), int(match[1]), inode)
        if descriptor >= 0:
            found[inode] = Segment(name, inode, descriptor)
        if len(found) == SEGMENTS_MAX:
            break
    return [found[inode] for inode in sorted(found)]
