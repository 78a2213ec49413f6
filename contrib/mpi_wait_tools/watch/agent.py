"""mpi-wait watch-node: prints a look a second, until its standard input ends. 'mpi-wait report --watch' has srun start
it on each node of a job.

The command finds the stats segments in the descriptors of the user's own processes. A task of a step under a policy has
MPI_WAIT_CONFIG in its environment. The variable names the segment's descriptor, device and inode, and the task that
holds it; ranks that mpirun started have inherited both. The program mpi-wait-segment reads the segments, with the code
of root's half. No process is attached to or stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from ..site.host import SIMULATED, Host, find_installed
from .look import HERE, PROBLEM_MAX, SHOWN, Look, Waiting, line_of

SUMMARY = "what 'mpi-wait report --watch' runs on the nodes of a job"
EVERY_S = 1.0
NICE = 10  # lets the ranks run first
SEARCH_EVERY = 5  # looks between two searches of the processes, since a large node has many

PROCESSES_MAX, SEGMENTS_MAX = 65536, 64
ENVIRONMENT_MAX = 1 << 21
SPARE = 1000  # INHERITED_SPARE of preload/contract/config_format.h
_SEGMENT = re.compile(rb"(?:^|;)segment=([0-9]{1,9}):([0-9]{1,20}):([0-9]{1,20});task=([0-9]{1,9})(?:;|$)")
_STEPS = {0xFFFFFFFB: "batch", 0xFFFFFFFA: "interactive", 0xFFFFFFFC: "extern"}

READER = "libexec/mpi-wait/mpi-wait-segment"

POWERCAP = "/sys/class/powercap"
PARTS = ("package", "dram")  # other zones lie within a package, or contain all of these


# The segments of the job on this node.


@dataclass(frozen=True)
class Segment:
    """The stats segment of one step."""

    step: str
    inode: tuple[int, int]  # device and inode
    descriptor: int  # open for reading; find_segments()'s caller closes it


def _environment(pid: str) -> dict[bytes, bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read(ENVIRONMENT_MAX)
    except OSError:  # the process has ended, or belongs to another user
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
    """Returns the step's name for SLURM_STEP_ID. A batch script, and the ranks that mpirun starts in it, have none
    there, or a reserved number."""
    number = int(text) if text.isdigit() and len(text) < 11 else None
    return "batch" if number is None else _STEPS.get(number, str(number))


def _opened(pids: tuple[str, str], number: int, inode: tuple[int, int]) -> int:
    """Opens the segment through a descriptor of the process, or of the task from which it descends; -1 if neither has
    it (any more). Each may hold it at its number, or at its spare number."""
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
    """Returns the segments of the job's running steps, each once; with step, only that step's. node is slurmd's name of
    this node, since several slurmds may run on one machine.
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


# The ranks in the segments.


@dataclass(frozen=True)
class Rank:
    """One running rank, as mpi-wait-segment prints it. Ranks of one world have the same launch and size."""

    segment: int  # descriptor of its segment, as it was handed to mpi-wait-segment
    slot: int
    rank: int  # number in its world, -1 if not known
    size: int  # size of its world
    launch: int  # identifies its world, 0 if not known
    task: int  # number of its Slurm task, -1 if not known
    call: str  # the MPI call in which the rank waits now, "" if it does not wait
    open_ns: int  # time that it has waited in that call
    ran_ns: int  # time since MPI_Init
    waited_ns: int  # time waited since MPI_Init
    asleep_ns: int  # time asleep since MPI_Init


RANK_FIELDS = tuple(field.name for field in fields(Rank))


def _rank_of(values: dict[str, Any]) -> Rank:
    return Rank(**{name: values[name] for name in RANK_FIELDS})


def read_ranks(host: Host, reader: str, descriptors: Sequence[int]) -> tuple[list[Rank], str]:
    """Returns the ranks between MPI_Init and MPI_Finalize, and why some or all of them are missing; "" if none is."""
    if not descriptors:
        return [], ""
    if not reader:
        return [], "mpi-wait-segment, which reads the statistics, is not installed: spank-mpi-wait's package has it"
    ran = host.run([reader, *map(str, descriptors)], descriptors)
    if not ran.done:
        return [], ran.problem
    try:
        lines = [json.loads(line) for line in ran.out.splitlines()]
        problems = [str(line["problem"]) for line in lines if "problem" in line]
        return [_rank_of(line) for line in lines if "problem" not in line], problems[0] if problems else ""
    except (ValueError, KeyError, TypeError):
        return [], f"the answer of '{reader}' is not understood: it is of another release"


# The power of the node.


def _zones(host: Host) -> Iterator[str]:
    for name in host.names(POWERCAP) or []:
        if re.fullmatch(r"intel-rapl(:[0-9]+){1,2}", name):
            path = f"{POWERCAP}/{name}"
            if (host.line(f"{path}/name") or "").startswith(PARTS):
                yield path


class Counters:
    """Computes the watts of this node from the energy counters of packages and memory between two looks.

    Since Linux 5.10 only root may read these, unless the site has opened them. They count the energy of the whole node,
    not only the job's. The caller passes the time of each look, in nanoseconds of CLOCK_MONOTONIC.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.before_ns = 0
        self.before: dict[str, int] = {}
        try:
            self.zones = list(_zones(host))
        except OSError:
            self.zones = []
        self.simulated = bool(self.zones) and host.status(SIMULATED) is not None

    def _read(self) -> dict[str, int]:
        values = {}
        for zone in self.zones:
            value = self.host.number(f"{zone}/energy_uj")
            if value is not None:
                values[zone] = value
        return values

    def _used_uj(self, zone: str, now: int) -> int:
        used = now - self.before[zone]
        if used < 0:  # the counter has begun anew
            used += self.host.number(f"{zone}/max_energy_range_uj") or 0
        return max(0, used)

    def watts(self, now_ns: int) -> float | None:
        """Returns the mean watts since the last call; None at the first call, or if a counter cannot be read."""
        try:
            values = self._read()
            whole = bool(self.zones) and values.keys() == self.before.keys() == set(self.zones)
            used_uj = sum(self._used_uj(zone, value) for zone, value in values.items()) if whole else 0
        except OSError:
            self.zones = []
            return None
        passed_ns, self.before, self.before_ns = now_ns - self.before_ns, values, now_ns
        return used_uj * 1000 / passed_ns if whole and passed_ns > 0 else None


# The looks.

Place = tuple[tuple[int, int], int]  # a rank's segment and slot


def _share(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0


def _grown(now: dict[Place, Rank], before: dict[Place, Rank]) -> tuple[float, float] | None:
    """Returns the shares of the time since the last look in which the ranks waited and slept. Counts only ranks that
    were there at the last look; None if there are none."""
    pairs = [(rank, before[place]) for place, rank in now.items() if place in before]
    ran = sum(max(0, rank.ran_ns - old.ran_ns) for rank, old in pairs)
    if ran == 0:
        return None
    waited = sum(max(0, rank.waited_ns - old.waited_ns) for rank, old in pairs)
    asleep = sum(max(0, rank.asleep_ns - old.asleep_ns) for rank, old in pairs)
    return _share(waited, ran), _share(min(asleep, waited), ran)


def _waiting(ranks: Sequence[tuple[str, Rank]]) -> list[Waiting]:
    longest = sorted((one for one in ranks if one[1].call), key=lambda one: -one[1].open_ns)
    return [
        Waiting(-1 if _is_alone(rank) else rank.rank, step, rank.call, rank.open_ns / 1e9,
                _share(rank.waited_ns, rank.ran_ns), _share(rank.asleep_ns, rank.ran_ns), rank.launch, rank.task)
        for step, rank in longest[:SHOWN]
    ]


def _is_alone(rank: Rank) -> bool:
    """Returns True if only its Slurm task tells this rank from others."""
    return rank.launch == 0 and rank.size == 1 and rank.task >= 0


def _world(ranks: Sequence[tuple[str, Rank]]) -> int:
    """Returns the world of these ranks, for Look.world."""
    worlds = {(rank.launch, rank.size) for _, rank in ranks}
    launch, size = next(iter(worlds)) if len(worlds) == 1 else (0, 0)
    numbers = {rank.rank for _, rank in ranks}
    if len(numbers) < len(ranks) or -1 in numbers:
        return 0
    return launch or (HERE if size == len(ranks) else 0)


class Node:
    """Looks at the job on this node. Keeps the segments open between looks, and searches for them anew every
    SEARCH_EVERY looks, since steps begin and end."""

    def __init__(self, job: int, step: str, name: str, host: Host, reader: str) -> None:
        self.job, self.step, self.name, self.host, self.reader = job, step, name, host, reader
        self.counters = Counters(host)
        self.segments: list[Segment] = []
        self.before: dict[Place, Rank] = {}
        self.looks = 0

    def close(self) -> None:
        for segment in self.segments:
            os.close(segment.descriptor)
        self.segments = []

    def _search(self) -> None:
        if self.looks % SEARCH_EVERY == 0 or not self.segments:
            self.close()
            self.segments = find_segments(self.job, self.step, self.name)
        self.looks += 1

    def look(self) -> Look:
        self._search()
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        segments = {segment.descriptor: segment for segment in self.segments}
        found, problem = read_ranks(self.host, self.reader, list(segments))
        now = {(segments[rank.segment].inode, rank.slot): rank for rank in found}
        grown, self.before = _grown(now, self.before), now
        ranks = [(segments[rank.segment].step, rank) for rank in found]
        ran = sum(rank.ran_ns for rank in found)
        least = min(found, key=lambda rank: _share(rank.waited_ns, rank.ran_ns), default=None)
        return Look(
            node=self.name,
            segments=len(self.segments),
            ranks=len(ranks),
            waiting=sum(bool(rank.call) for rank in found),
            waited=_share(sum(rank.waited_ns for rank in found), ran),
            asleep=_share(sum(rank.asleep_ns for rank in found), ran),
            waited_now=grown[0] if grown else None,
            asleep_now=grown[1] if grown else None,
            world=_world(ranks),
            least=(least.rank, _share(least.waited_ns, least.ran_ns)) if least else None,
            watts=self.counters.watts(now_ns),
            simulated=self.counters.simulated,
            problem=problem.encode("ascii", "replace").decode()[:PROBLEM_MAX],
            longest=_waiting(ranks),
        )


# The command.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=int, help="the job's number")
    parser.add_argument("--step", default="", help="only this step")
    parser.add_argument("--reader", default="", help="path of mpi-wait-segment")


def _ends_within(seconds: float) -> bool:
    """Returns True if standard input ends within that time. Other input is ignored."""
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([0], [], [], max(0.0, end - time.monotonic()))
        if not ready or time.monotonic() > end:
            return False
        if not os.read(0, 4096):
            return True


def run(arguments: argparse.Namespace) -> int:
    host = Host()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    name = os.environ.get("SLURMD_NODENAME") or host.name.split(".")[0]
    node = Node(arguments.job, arguments.step, name, host, arguments.reader or find_installed(READER))
    try:
        while True:
            print(line_of(node.look()))
            sys.stdout.flush()
            if _ends_within(EVERY_S):
                return 0
    finally:
        node.close()
