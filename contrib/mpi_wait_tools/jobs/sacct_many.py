"""Reads many jobs from sacct, those of a time a day at a time and line by line, so that nobody has to hold them all."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..text.errors import Refusal
from ..text.units import safe
from .sacct import LAST, RECORD_FIELDS, cut_rows, environment, new_delimiter, text_fields

DAY_S = 86_400
DAYS_MAX = 3660
FACTS = ("JobID", "User", "Account", "Partition", "Submit", "Start", "End", "State", "ElapsedRaw", "NNodes", "NodeList")
_AGO = re.compile(r"([1-9][0-9]{0,4})(min|h|d|w)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")  # sacct cuts at commas and takes quotes for its own
_SECONDS = {"min": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


@dataclass(frozen=True)
class Period:
    """Seconds since the epoch."""

    since: float
    until: float

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
    name: str = ""  # of the jobs, one. sacct is not asked for one that it would cut or not compare: the caller looks

    def arguments(self) -> list[str]:
        asked = [("--user", self.users), ("--accounts", self.accounts), ("--partition", self.partitions)]
        if _PLAIN_NAME.fullmatch(self.name):
            asked.append(("--name", self.name))
        chosen = [f"{name}={value}" for name, value in asked if value]
        return chosen if self.users else ["--allusers", *chosen]


def parse_time(text: str, now: float) -> float | None:
    """30min, 12h, 7d, 2w (ago), today, now, 2026-11-21, 2026-11-21T16:40; None: none of them."""
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
    """What sacct is asked for the jobs of a day."""
    runs = ["-D"] if duplicates else []
    return [*runs, f"--starttime={_shown(day.since)}", f"--endtime={_shown(day.until)}", *filters.arguments()]


def _rows(asked: Sequence[str], texts: Sequence[str]) -> Iterator[dict[str, str]]:
    """A row that is none is an empty dictionary."""
    names = [*FACTS, *texts, LAST]
    delimiter = new_delimiter()
    arguments = ["sacct", "-X", "-P", "-n", f"--delimiter={delimiter}", f"--format={','.join(names)}", *asked]
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


def read_named(jobs: Sequence[str], duplicates: bool) -> Iterator[dict[str, str]]:
    """The rows of these jobs; duplicates: those of every run of a job that was requeued."""
    return _rows([*(["-D"] if duplicates else []), "-j", ",".join(jobs)], _texts())


def read_days(period: Period, filters: Filters, duplicates: bool = True) -> Iterator[Iterator[dict[str, str]]]:
    """For each day the rows of the jobs that ran in it; a job of several days comes once, with its first."""
    texts = _texts()
    seen: set[tuple[str, str]] = set()

    def unseen(day: Period) -> Iterator[dict[str, str]]:
        for row in _rows(_one_day(day, filters, duplicates), texts):
            key = (row[LAST], f"{row['Submit']} {row['Start']}" if duplicates else "") if row else None
            if key is None:
                yield row
            elif key not in seen:
                seen.add(key)
                yield row

    for day in period.days():
        yield unseen(day)
