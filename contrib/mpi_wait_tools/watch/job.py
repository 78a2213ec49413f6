"""The job that is to be watched, as squeue knows it: the caller's own, and running."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from ..jobs.sacct import Target
from ..site.host import Host
from ..text.errors import Refusal
from ..text.units import safe

FIELDS = "%A|%U|%u|%D|%M|%T|%j"  # the name, which may hold anything, comes last
NODES_MAX = 1 << 20


@dataclass(frozen=True)
class Watched:
    """shown: as the user named it; number: as srun takes it; ran_s: for how long it had run when squeue was asked."""

    shown: str
    number: int
    step: str
    nodes: int
    ran_s: int
    name: str


def seconds_of(text: str) -> int:
    """squeue's time: 5:07, 1:05:07, 2-01:05:07. What is none is 0."""
    match = re.fullmatch(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{2})", text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _rows(host: Host, job: str) -> list[list[str]]:
    """squeue's rows of a job; none: it knows no such job (any more)."""
    asked = host.run(["squeue", "--noheader", "--states=all", f"--jobs={job}", f"--format={FIELDS}"])
    if asked.missing:
        raise Refusal("squeue was not found: run this where Slurm's commands are")
    if not asked.done and "Invalid job id" not in asked.problem:
        raise Refusal(f"squeue does not answer: {asked.problem}")
    rows = [line.split("|", 6) for line in asked.out.splitlines()]
    return [row for row in rows if len(row) == 7 and all(row[i].isdigit() for i in (0, 1, 3))]


def state_of(host: Host, number: int) -> str:
    """RUNNING, COMPLETED and so on; "" where squeue knows the job no more."""
    rows = _rows(host, str(number))
    return rows[0][5] if rows else ""


def ask_job(host: Host, target: Target) -> Watched:
    """Refusal: there is nothing to watch, or it is not the caller's to watch."""
    if shutil.which("srun") is None:
        raise Refusal("srun was not found: --watch starts a look on each node with it")
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
