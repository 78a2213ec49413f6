"""Asks sacct for one job.

The text fields may hold anything that a user likes (quotes, newlines, delimiters). So the delimiter is a new one in
every call, which nobody can foresee, and rows are cut by counting.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..text.errors import Refusal
from ..text.units import safe
from .outlook import state_of

PLAIN = (
    "JobID",
    "State",
    "Elapsed",
    "ElapsedRaw",
    "User",
    "Submit",
    "Start",
    "End",
    "NNodes",
    "NodeList",
    "AllocCPUS",
    "ConsumedEnergyRaw",
)
RECORD_FIELDS = ("AdminComment", "SystemComment", "Extra")  # in the order in which a record is looked for
TEXTS = ("AdminComment", "SystemComment", "JobName", "Extra", "Restarts")
YOUNGER = ("Extra", "Restarts")  # than Slurm 22.05
LAST = "JobIDRaw"  # a number after the texts: where it stands, the row ends
TIMEOUT_S = 60
ROW_BYTES_MAX = 4 << 20
_JOB_ID = re.compile(
    r"([1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?)(?:\.(batch|extern|interactive|[0-9]{1,10}))?"
)


@dataclass(frozen=True)
class Target:
    """A job as sacct knows it ("123", "123_4", "123+1"), and perhaps one step of it."""

    job: str
    step: str | None


@dataclass(frozen=True)
class Job:
    """One row of sacct: a run of a job."""

    fields: dict[str, str]

    @property
    def id(self) -> str:
        return self.fields["JobID"]

    @property
    def state(self) -> str:
        return state_of(self.fields)


def parse_target(text: str) -> Target | None:
    """123, 123_4 (array), 123+1 (heterogeneous), 123.0, 123.batch (steps); None: none of them."""
    match = _JOB_ID.fullmatch(text)
    return Target(match.group(1), match.group(2)) if match else None


def environment() -> dict[str, str]:
    """Without what would change sacct's output."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SACCT_", "SLURM_TIME_"))}


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["sacct", *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise Refusal(
            "sacct was not found: run this where Slurm's commands are, or read a file with --record"
        ) from None
    except OSError as error:
        raise Refusal(f"sacct cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Refusal(
            f"sacct did not answer within {TIMEOUT_S} s: the accounting database may be busy"
        ) from None


def text_fields() -> list[str]:
    """Returns the fields of TEXTS that this sacct has."""
    known = set(_run(["--helpformat"]).stdout.split())
    return [name for name in TEXTS if name in known or name not in YOUNGER]


def new_delimiter() -> str:
    """Of this call alone: whoever submits a job sees the command line of other calls, but not of the next."""
    return f"\x1f{secrets.token_hex(16)}\x1f"


def cut_rows(lines: Iterable[str], cells: int, delimiter: str) -> Iterator[list[str]]:
    """
    The rows of sacct's output, each a list of that many cells, the last of them a number; an empty list for a row that
    is none. A cell may hold newlines, so a row may take several lines: each is looked at once, however many they are.
    """
    pending: list[str] = []
    found, size = 1, 0
    for line in lines:
        pending.append(line)
        found, size = found + line.count(delimiter), size + len(line)
        if found < cells and size <= ROW_BYTES_MAX:
            continue
        row = "".join(pending).rstrip("\n").split(delimiter)
        yield row if len(row) == cells and re.fullmatch("[0-9]+", row[-1]) else []
        pending, found, size = [], 1, 0
    if "".join(pending).strip():
        yield []


def read_jobs(target: Target, duplicates: bool) -> list[Job]:
    """The job's rows, oldest first; without duplicates, its latest run. Refusal: none."""
    texts = text_fields()
    names = [*PLAIN, *texts, LAST]
    delimiter = new_delimiter()
    arguments = [
        "-j",
        target.job,
        "-X",
        "-P",
        "-n",
        f"--delimiter={delimiter}",
        "--format=" + ",".join(names),
    ]
    result = _run(arguments + (["--duplicates"] if duplicates else []))
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()] or [
            f"exit status {result.returncode}"
        ]
        raise Refusal(f"sacct failed: {safe(lines[0].replace('sacct: error: ', ''), 200)}")
    rows = list(cut_rows(result.stdout.splitlines(True), len(names), delimiter))
    if not all(rows):
        raise Refusal(f"sacct's answer on job {target.job} has rows that are not of the {len(names)} fields asked for")
    jobs = [Job(dict(zip(names, row))) for row in rows]
    if not jobs:
        raise Refusal(
            f"sacct knows no job {target.job}: "
            "it may be another cluster's, too old, or somebody else's"
        )
    return jobs
