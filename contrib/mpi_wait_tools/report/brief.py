"""mpi-wait report --brief: one line for a job, of a list of jobs or of those of a user and a time."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..jobs.chosen import me, moment, names
from ..jobs.found import ACTIVE, SOON_S, WAITING, Found, from_file
from ..jobs.kept import read_kept, site_spool
from ..jobs.sacct import LAST, RECORD_FIELDS
from ..jobs.sacct_many import DAY_S, Filters, Period, read_days, read_named
from ..meaning.advice import Ending
from ..meaning.imbalance import imbalance_of
from ..record.record import Record, find_body, parse_record
from ..text.errors import Refusal
from ..text.output import output_is_utf8, output_width, wants_colour
from ..text.units import rounded, safe

JOBS_MAX = 1000
_ONE = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")
_TASKS = re.compile(r"([1-9][0-9]{0,9})_\[([0-9,-]{1,200})\]")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LISTED = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class Line:
    """What is said of one job. None: not known, or there is nothing to say. why: what there is to know of the record,
    in a word or two; "" for nothing."""

    job: str
    name: str
    user: str
    state: str
    elapsed_s: float | None
    policy: str = ""
    wait: float | None = None  # of the ranks' time
    asleep: float | None = None  # of the waiting
    lost: float | None = None  # of the ranks' time
    joules: float | None = None
    simulated: bool = False
    why: str = ""


def jobs_named(text: str) -> list[str] | None:
    """ "123", "123_4", "123_[1-4,7]", "123+1", and lists of them with commas; None: none of them, or too many."""
    found: list[str] = []
    for word in _LISTED.split(text):
        tasks = _TASKS.fullmatch(word)
        if tasks is None:
            if not _ONE.fullmatch(word):
                return None
            found.append(word)
            continue
        for part in tasks.group(2).split(","):
            ends = _RANGE.fullmatch(part)
            if ends is None:
                return None
            first, last = int(ends.group(1)), int(ends.group(2) or ends.group(1))
            if last < first or last - first >= JOBS_MAX:
                return None
            found += [f"{tasks.group(1)}_{task}" for task in range(first, last + 1)]
    return found if len(found) <= JOBS_MAX else None


def _of_record(record: Record, ending: Ending) -> dict[str, Any]:
    """Of a job that did not run to its end nothing is said to be lost, nor where nodes are missing."""
    wait, energy = record.wait, record.energy
    imbalance = imbalance_of(record) if not ending.is_broken else None
    simulated = energy is not None and energy.source == "simulated"
    why = [] if record.is_complete else [f"{record.nodes_reported} of {record.nodes_of} nodes"]
    return {
        "policy": record.policy.used,
        "wait": wait.share if wait else None,
        "asleep": min(1.0, wait.asleep / wait.total) if wait and wait.asleep is not None and wait.total > 0 else None,
        "lost": imbalance.share if imbalance is not None and not imbalance.lone else None,
        "joules": energy.joules if energy else None,
        "simulated": simulated,
        "why": ", ".join(why + ["simulated"] * simulated),
    }


def line_of_file(found: Found) -> Line:
    return Line(found.name, "", "", "", found.record.elapsed, **_of_record(found.record, Ending()))


def _ended_s_ago(row: dict[str, str], now: float) -> float | None:
    try:
        start = time.mktime(time.strptime(row["Start"], "%Y-%m-%dT%H:%M:%S"))
        return now - start - int(row["ElapsedRaw"])
    except (ValueError, OverflowError):
        return None


def _why_none(row: dict[str, str], state: str, now: float) -> str:
    if state in ACTIVE or state in WAITING:
        return ""
    ago = _ended_s_ago(row, now)
    return "record to come" if ago is not None and -SOON_S < ago < SOON_S else "no record"


def line_of_row(row: dict[str, str], spool: str, now: float) -> Line:
    """row: sacct's, of one job. spool: where else its record may be, "" for nowhere."""
    state = (row["State"].split() or ["UNKNOWN"])[0].rstrip("+")
    elapsed = row["ElapsedRaw"]
    seconds = float(elapsed) if elapsed.isdigit() and len(elapsed) < 13 and state not in WAITING else None
    facts = (row["JobID"], row["JobName"], row["User"], state, seconds)
    ending, damaged = Ending(state, "+" in row["JobID"]), False
    for field in (*RECORD_FIELDS, ""):
        try:
            text = row.get(field, "") if field else (read_kept(spool, row[LAST]) or "") if spool else ""
            body = find_body(text)
            if body is not None:
                return Line(*facts, **_of_record(parse_record(body), ending))
        except Refusal:
            damaged = True
    return Line(*facts, why="record not readable" if damaged else _why_none(row, state, now))


def _period(arguments: argparse.Namespace) -> Period:
    until = arguments.until if arguments.until is not None else time.time()
    since = arguments.since if arguments.since is not None else until - DAY_S
    if since >= until:
        arguments.refuse_usage("--since is not before --until")
    return Period(since, until)


def _rows(arguments: argparse.Namespace, jobs: Sequence[str]) -> Iterator[dict[str, str]]:
    if jobs:
        yield from read_named(jobs, arguments.duplicates)
        return
    for day in read_days(_period(arguments), Filters(users=arguments.user or me("--brief")), arguments.duplicates):
        yield from day


def _is_of(job: str, asked: str) -> bool:
    return job == asked or (asked.isdigit() and job.startswith((f"{asked}_", f"{asked}+")))


def _lines(arguments: argparse.Namespace, jobs: Sequence[str], paths: Sequence[str]) -> Iterator[Line]:
    yield from (line_of_file(from_file(path)) for path in paths)
    if paths and not jobs:
        return
    spool = arguments.spool if arguments.spool is not None else site_spool()
    now = time.time()
    for row in _rows(arguments, jobs):
        if not row:
            raise Refusal("sacct's answer has a row that is not of the fields asked for")
        yield line_of_row(row, spool, now)


def _as_json(line: Line) -> dict[str, Any]:
    figures = {name: rounded(getattr(line, name)) for name in ("wait", "asleep", "lost", "joules")}
    return {
        "job": line.job, "name": line.name, "user": line.user, "state": line.state, "elapsed_s": line.elapsed_s,
        "policy": line.policy or None, **figures, "simulated": line.simulated, "why": line.why,
    }


def _asked(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The jobs, and the paths of files."""
    paths = arguments.record + ["-" for word in arguments.jobs if word == "-"]
    jobs: list[str] = []
    for word in arguments.jobs:
        named = jobs_named(word) if word != "-" else []
        if named is None:
            arguments.refuse_usage(
                f"'{safe(word)}' is no job, and no list of at most {JOBS_MAX} "
                "(accepted with --brief: 123, 123_4, 123_[1-4,7], 123+1, with commas between)"
            )
        jobs += named or []
    if len(jobs) + len(paths) > JOBS_MAX:
        arguments.refuse_usage(f"more than {JOBS_MAX} jobs")
    return jobs, paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brief", action="store_true", help="one line a job; without a job your own of the last day")
    parser.add_argument("-u", "--user", metavar="NAME,...", type=names, help="with --brief: the jobs of these users")
    parser.add_argument(
        "-S", "--since", metavar="TIME", type=moment, help="with --brief: 12h, 7d, today, 2026-11-21 (default: 1d)"
    )
    parser.add_argument("-E", "--until", metavar="TIME", type=moment, help="the same (default: now)")


def check_usage(arguments: argparse.Namespace) -> None:
    """What goes with --brief, and what only with it."""
    of_time = [name for name in ("user", "since", "until") if getattr(arguments, name) is not None]
    if not arguments.brief and of_time:
        arguments.refuse_usage(f"--{of_time[0]} is for --brief ('mpi-wait top' sums up the jobs of a time)")
    if not arguments.brief:
        return
    if arguments.csv or arguments.plot or arguments.html or arguments.all_ranks:
        arguments.refuse_usage("--brief is one line a job, as text or --json: the others say more")
    if of_time and (arguments.jobs or arguments.record):
        arguments.refuse_usage(f"--{of_time[0]} and the name of a job exclude each other")


def _unknown(lines: Iterable[Line], jobs: Sequence[str]) -> list[str]:
    shown = [line.job for line in lines]
    return [asked for asked in jobs if not any(_is_of(job, asked) for job in shown)]


def run(arguments: argparse.Namespace) -> int:
    jobs, paths = _asked(arguments)
    lines = list(_lines(arguments, jobs, paths))
    unknown = _unknown(lines, jobs)
    if jobs and not lines:
        raise Refusal(f"sacct knows no job {', '.join(unknown[:4])}: another cluster's, too old, or somebody else's")
    if arguments.json:
        print(json.dumps([_as_json(line) for line in lines], indent=2, allow_nan=False))
        return 0
    try:
        from .brief_view import show_brief
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None
    sys.stdout.write(show_brief(output_width(arguments), wants_colour(arguments), output_is_utf8(), lines, unknown))
    return 0
