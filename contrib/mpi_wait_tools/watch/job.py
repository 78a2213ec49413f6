"""Asks squeue for the job to watch, which must run and be the caller's own, and collects the looks of all its nodes.

srun starts one step for the looks, which ends with its standard input. The step overlaps the job's own steps, is bound
to no CPU, has no wait policy, and runs only 'mpi-wait watch-node'. If this process dies, its end of the pipe closes,
and the step ends too.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..jobs.sacct import Target
from ..site.host import Host, own_command
from ..text.output import Refusal
from ..text.units import safe
from .look import Look, look_of

FIELDS = "%A|%U|%u|%D|%M|%T|%j"  # the job's name comes last, since it may hold any character
NODES_MAX = 1 << 20
PENDING_MAX = 1 << 20  # bytes that are kept of an unfinished line
END_S = 5.0


@dataclass(frozen=True)
class Watched:
    """The job to watch."""

    shown: str  # the job as the user named it
    number: int  # the job's number for srun
    step: str
    nodes: int
    ran_s: int  # seconds that it had run when squeue answered
    name: str


def seconds_of(text: str) -> int:
    """Returns the seconds of a time of squeue: 5:07, 1:05:07, 2-01:05:07. 0 if text is no such time."""
    match = re.fullmatch(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{2})", text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _rows(host: Host, job: str) -> list[list[str]]:
    """Returns squeue's rows of a job; [] if it knows no such job (any more)."""
    asked = host.run(["squeue", "--noheader", "--states=all", f"--jobs={job}", f"--format={FIELDS}"])
    if asked.missing:
        raise Refusal("squeue was not found: run this where Slurm's commands are")
    if not asked.done and "Invalid job id" not in asked.problem:
        raise Refusal(f"squeue does not answer: {asked.problem}")
    rows = [line.split("|", 6) for line in asked.out.splitlines()]
    return [row for row in rows if len(row) == 7 and all(row[i].isdigit() for i in (0, 1, 3))]


def state_of(host: Host, number: int) -> str:
    """Returns the job's state, such as RUNNING or COMPLETED; "" if squeue no longer knows the job."""
    rows = _rows(host, str(number))
    return rows[0][5] if rows else ""


def ask_job(host: Host, target: Target) -> Watched:
    """Returns the job to watch. Raises Refusal if it does not run, or is not the caller's."""
    if shutil.which("srun") is None:
        raise Refusal("srun was not found: --watch starts a process on each node with it")
    rows = _rows(host, target.job)
    after = f"of a job that has ended, 'mpi-wait report {target.job}' shows the record"
    if not rows:
        raise Refusal(f"squeue knows no job {target.job}: {after}")
    if len(rows) > 1:
        raise Refusal(f"job {target.job} has several parts, as {rows[0][0]}: name one, {target.job}_N of an array")
    number, uid, user, nodes, ran, state, name = rows[0]
    if int(uid) != os.getuid():
        raise Refusal(f"job {target.job} is {safe(user)}'s: only its owner can watch it")
    if state in ("PENDING", "CONFIGURING", "SUSPENDED", "STOPPED"):
        raise Refusal(f"job {target.job} does not run now: it is {state}")
    if state != "RUNNING":
        raise Refusal(f"job {target.job} does not run: it is {safe(state)}; {after}")
    return Watched(target.job, int(number), target.step or "", min(int(nodes), NODES_MAX), seconds_of(ran), name)


def _srun_words(job: Watched, command: list[str]) -> list[str]:
    alone = ["--overlap", "--mpi=none", "--cpu-bind=none", "--gres=none", "--kill-on-bad-exit=0"]
    place = [f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1", "--chdir=/"]
    step = [f"--step={job.step}"] if job.step else []
    return ["srun", f"--jobid={job.number}", "--job-name=mpi-wait-watch", "--quiet", *alone, *place,
            *command, "watch-node", *step, str(job.number)]


def _environment() -> dict[str, str]:
    """Returns the environment of srun. Leaves out the variables of a job in which this process itself may run, and sets
    the policy to off, whatever the site's default."""
    kept = {name: value for name, value in os.environ.items()
            if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SBATCH_", "SALLOC_", "SRUN_"))}
    return {**kept, "MPI_WAIT_POLICY": "off"}


class Nodes:
    """Collects the looks. looks has each node's latest look, and the time.monotonic() at which it came."""

    def __init__(self, process: subprocess.Popen[bytes], most: int) -> None:
        self.process, self.most = process, most
        self.looks: dict[str, tuple[Look, float]] = {}
        self.rounds = 0  # number of looks from the node with the fewest
        self.ended = False
        self.said = ""
        self._given: dict[str, int] = {}
        self._pending = {"out": b"", "err": b""}
        self.selector = selectors.DefaultSelector()
        for name, stream in (("out", process.stdout), ("err", process.stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.selector.register(stream, selectors.EVENT_READ, name)

    def _line(self, name: str, line: str, now: float) -> None:
        if name == "err":
            self.said = line.strip() or self.said
            return
        look = look_of(line.strip())
        if look is None or (look.node not in self.looks and len(self.looks) >= self.most):
            return
        self.looks[look.node] = look, now
        self._given[look.node] = self._given.get(look.node, 0) + 1
        if len(self._given) == self.most:
            self.rounds = min(self._given.values())

    def take(self, seconds: float) -> set[str]:
        """Reads looks as soon as some are there, at latest after that time. Returns the names of other inputs that are
        ready: "key"."""
        ready = self.selector.select(max(0.0, seconds))
        others = set()
        for key, _ in ready:
            if key.data not in self._pending:
                others.add(str(key.data))
                continue
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                self.selector.unregister(key.fileobj)
                self.ended |= key.data == "out"
            *lines, rest = (self._pending[key.data] + chunk).split(b"\n")
            self._pending[key.data] = rest if len(rest) <= PENDING_MAX else b""
            for line in lines:
                self._line(key.data, line.decode("utf-8", "replace"), time.monotonic())
        return others

    def why(self) -> str:
        """Returns the last words of srun, for people."""
        text = self.said.replace("srun: error: ", "").replace("srun: ", "")
        return safe(text, 300) or "srun said nothing"


@contextmanager
def looking(job: Watched) -> Iterator[Nodes]:
    """Starts the looks, and ends them with all of their processes when the block ends."""
    try:
        process = subprocess.Popen(_srun_words(job, own_command()), env=_environment(), start_new_session=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Refusal(f"srun cannot be run: {error.strerror}") from None
    nodes = Nodes(process, job.nodes)
    try:
        yield nodes
    finally:
        _end(process)
        nodes.selector.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends srun. Closes its input, with which the step ends; if it goes on, asks it to end, and then kills it."""
    if process.stdin is not None:
        process.stdin.close()
    for stop in (lambda: None, process.terminate, process.kill):
        stop()
        try:
            process.wait(END_S)
            return
        except subprocess.TimeoutExpired:
            continue
