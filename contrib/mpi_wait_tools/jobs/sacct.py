"""Asks sacct about one job or many, and reads its answers."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..text.output import Refusal
from ..text.units import safe
from .runs import state_of

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
RECORD_FIELDS = ("AdminComment", "SystemComment", "Extra")  # searched for a record in this order
TEXTS = ("AdminComment", "SystemComment", "JobName", "Extra", "Restarts")
YOUNGER = ("Extra", "Restarts")  # fields that Slurm 22.05 does not have
LAST = "JobIDRaw"  # the last field of a row: a number, so a text before it cannot be taken for the row's end
_RAW_ID = re.compile(r"[0-9]+(?:\.(?:[0-9]+|batch|extern|interactive))?")
TIMEOUT_S = 60
ROW_BYTES_MAX = 4 << 20
_JOB_ID = re.compile(
    r"([1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?)(?:\.(batch|extern|interactive|[0-9]{1,10}))?"
)


@dataclass(frozen=True)
class Target:
    """A job as sacct names it ("123", "123_4", "123+1"), and one step of it, or None for the whole job."""

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
    """Parses 123, 123_4 (array), 123+1 (heterogeneous), 123.0 and 123.batch (steps). None if text is none of these."""
    match = _JOB_ID.fullmatch(text)
    return Target(match.group(1), match.group(2)) if match else None


def environment() -> dict[str, str]:
    """Returns the environment without the variables that change sacct's output."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SACCT_", "SLURM_TIME_"))}


def run_sacct(arguments: list[str]) -> subprocess.CompletedProcess[str]:
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
    known = set(run_sacct(["--helpformat"]).stdout.split())
    return [name for name in TEXTS if name in known or name not in YOUNGER]


def new_delimiter() -> str:
    """Returns a random delimiter, to be used for one call of sacct only. A user who submits a job may have seen the
    delimiters of earlier calls in their command lines, but cannot guess the next."""
    return f"\x1f{secrets.token_hex(16)}\x1f"


def cut_rows(lines: Iterable[str], cells: int, delimiter: str) -> Iterator[list[str]]:
    """Yields the rows of sacct's output as lists of `cells` texts; [] for a row that is damaged.

    The last cell is the number of a job, or of a step. A cell may hold newlines, so a row may span several lines. Each
    line is read only once, so the time is linear in the output.
    """
    pending: list[str] = []
    found, size = 1, 0
    for line in lines:
        pending.append(line)
        found, size = found + line.count(delimiter), size + len(line)
        if found < cells and size <= ROW_BYTES_MAX:
            continue
        row = "".join(pending).rstrip("\n").split(delimiter)
        yield row if len(row) == cells and _RAW_ID.fullmatch(row[-1]) else []
        pending, found, size = [], 1, 0
    if "".join(pending).strip():
        yield []


def _rows_of(target: Target, jobs: Sequence[Job]) -> list[Job]:
    """Returns the rows of a job, of the tasks of an array or the parts of a heterogeneous job, or of the job with that
    raw number."""
    own = [job for job in jobs if target.job in (job.id, re.split("[_+]", job.id)[0])]
    return own or [job for job in jobs if job.fields[LAST] == target.job]


def read_jobs(targets: Sequence[Target], duplicates: bool) -> dict[Target, list[Job]]:
    """Asks sacct once, and returns the rows of each target, oldest first; without duplicates, only those of its latest
    run. A target that sacct does not know has none. Raises Refusal if sacct fails."""
    texts = text_fields()
    names = [*PLAIN, *texts, LAST]
    delimiter = new_delimiter()
    asked = ",".join(dict.fromkeys(target.job for target in targets))
    arguments = [
        "-j",
        asked,
        "-X",
        "-P",
        "-n",
        f"--delimiter={delimiter}",
        "--format=" + ",".join(names),
    ]
    result = run_sacct(arguments + (["--duplicates"] if duplicates else []))
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()] or [
            f"exit status {result.returncode}"
        ]
        raise Refusal(f"sacct failed: {safe(lines[0].replace('sacct: error: ', ''), 200)}")
    rows = list(cut_rows(result.stdout.splitlines(True), len(names), delimiter))
    if not all(rows):
        raise Refusal(f"sacct's answer on job {asked} has rows that are not of the {len(names)} fields asked for")
    jobs = [Job(dict(zip(names, row))) for row in rows]
    if len(targets) == 1:
        return {targets[0]: jobs}
    return {target: _rows_of(target, jobs) for target in targets}


DAY_S = 86_400
DAYS_MAX = 3660
FACTS = ("JobID", "User", "Account", "Partition", "Submit", "Start", "End", "State", "ElapsedRaw", "NNodes", "NodeList")
_AGO = re.compile(r"([1-9][0-9]{0,4})(min|h|d|w)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")  # others sacct may misread: it splits at commas, eats quotes
_SECONDS = {"min": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


@dataclass(frozen=True)
class Period:
    """A period of time."""

    since: float  # seconds since the epoch
    until: float  # seconds since the epoch

    def words(self) -> str:
        ends = (time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) for moment in (self.since, self.until))
        return " to ".join(ends)

    def days(self) -> list[Period]:
        starts = [self.since + DAY_S * index for index in range(int(-(-(self.until - self.since) // DAY_S)))]
        return [Period(start, min(self.until, start + DAY_S)) for start in starts]


@dataclass(frozen=True)
class Filters:
    users: str = ""
    accounts: str = ""
    partitions: str = ""
    name: str = ""  # one job name; the caller filters by it too, since a name that sacct would misread is not passed on

    def arguments(self) -> list[str]:
        asked = [("--user", self.users), ("--accounts", self.accounts), ("--partition", self.partitions)]
        if _PLAIN_NAME.fullmatch(self.name):
            asked.append(("--name", self.name))
        chosen = [f"{name}={value}" for name, value in asked if value]
        return chosen if self.users else ["--allusers", *chosen]


def parse_time(text: str, now: float) -> float | None:
    """Parses 30min, 12h, 7d, 2w (ago), today, now, 2026-11-21 and 2026-11-21T16:40. None if text is none of these.

    Returns seconds since the epoch.
    """
    ago = _AGO.fullmatch(text)
    if ago:
        return now - int(ago.group(1)) * _SECONDS[ago.group(2)]
    if text in ("now", "today"):
        return now if text == "now" else time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    for form in _FORMATS:
        try:
            return time.mktime(time.strptime(text, form)[:8] + (-1,))
        except (ValueError, OverflowError):
            continue
    return None


def _shown(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


def _one_day(day: Period, filters: Filters, duplicates: bool) -> list[str]:
    """Returns sacct's arguments for the jobs of one day."""
    runs = ["-D"] if duplicates else []
    return [*runs, f"--starttime={_shown(day.since)}", f"--endtime={_shown(day.until)}", *filters.arguments()]


def _rows(asked: Sequence[str], texts: Sequence[str], steps: bool = False) -> Iterator[dict[str, str]]:
    """Runs sacct and yields its rows, with steps also those of the jobs' steps; {} for a row that is damaged."""
    names = [*FACTS, *texts, LAST]
    delimiter = new_delimiter()
    arguments = ["sacct", *([] if steps else ["-X"]), "-P", "-n", f"--delimiter={delimiter}",
                 f"--format={','.join(names)}", *asked]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            process = subprocess.Popen(
                arguments,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise Refusal(f"sacct cannot be run: {error.strerror}") from None
        with process:
            try:
                assert process.stdout is not None
                yield from (dict(zip(names, row)) for row in cut_rows(process.stdout, len(names), delimiter))
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            said.seek(0)
            lines = [line for line in said.read(4096).splitlines() if line.strip()] or ["it says nothing"]
            raise Refusal(f"sacct failed: {safe(lines[0].replace('sacct: error: ', ''), 200)}")


def _texts() -> list[str]:
    return [name for name in text_fields() if name in (*RECORD_FIELDS, "JobName", "Restarts")]


BATCH = 500  # jobs of one call: 500 names of 22 characters are far from the 128 KiB that one argument may have


def read_named(jobs: Sequence[str], duplicates: bool) -> Iterator[dict[str, str]]:
    """Yields the rows of these jobs; with duplicates, a row for every run of a job that was requeued. A job that is
    named twice, by its own number and by its array's, may come twice."""
    texts = _texts()
    for start in range(0, len(jobs), BATCH):
        yield from _rows([*(["-D"] if duplicates else []), "-j", ",".join(jobs[start : start + BATCH])], texts)


def read_days(
    period: Period, filters: Filters, duplicates: bool = True, steps: bool = False
) -> Iterator[Iterator[dict[str, str]]]:
    """Yields for each day the rows of the jobs that ran in it, with steps also those of their steps. A job of several
    days comes only with its first day."""
    texts = _texts()
    seen: set[tuple[str, str]] = set()

    def unseen(day: Period) -> Iterator[dict[str, str]]:
        for row in _rows(_one_day(day, filters, duplicates), texts, steps):
            key = (row[LAST], f"{row['Submit']} {row['Start']}" if duplicates else "") if row else None
            if key is None:
                yield row
            elif key not in seen:
                seen.add(key)
                yield row

    for day in period.days():
        yield unseen(day)


NAMES_MAX = 4000  # characters


def names(text: str) -> str:
    """Returns text, a list of users, accounts or partitions. Checks little: names of winbind have a backslash, others
    have spaces, and sacct itself knows which exist."""
    each = text.split(",")
    if not text.isprintable() or len(text) > NAMES_MAX or any(not name.strip() or name[0] == "-" for name in each):
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no name, and no list of names with commas")
    return text


def moment(text: str) -> float:
    found = parse_time(text, time.time())
    if found is None:
        accepted = "12h, 7d, today, 2026-11-21, 2026-11-21T16:40"
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no time (accepted: {accepted})")
    return found


def me(asked: str) -> str:
    """Returns the name of this user. asked names the option that wants it, for the message of the Refusal."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise Refusal(f"{asked}: uid {os.getuid()} has no name on this host (--user names one)") from None
