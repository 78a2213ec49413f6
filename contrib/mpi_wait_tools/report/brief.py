"""mpi-wait report --brief: one line for a job, of a list of jobs or of those of a user and a time."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..jobs.chosen import me, moment, names
from ..jobs.found import from_file
from ..jobs.kept import site_spool
from ..jobs.runs import latest_runs
from ..jobs.sacct_many import DAY_S, Filters, Period, read_days, read_named
from ..text.errors import Refusal
from ..text.output import output_is_utf8, output_width, wants_colour
from ..text.units import rounded, safe
from .brief_line import Line, line_of_file, line_of_row, with_parts

JOBS_MAX = 1000
_ONE = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")
_TASKS = re.compile(r"([1-9][0-9]{0,9})_\[([0-9,-]{1,200})\]")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LISTED = re.compile(r",(?![^\[]*\])")


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
    days = read_days(_period(arguments), Filters(users=arguments.user or me("--brief")))
    rows = [row for day in days for row in day]
    yield from rows if arguments.duplicates or not all(rows) else latest_runs(rows)


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
        "policy": line.policy or None, **figures, "cost_percent": line.cost.percent if line.cost else None,
        "cost_error": line.cost.error if line.cost else None,
        "cost_windows": line.cost.windows if line.cost else None,
        "saved_percent": line.saved.percent if line.saved else None,
        "saved_error": line.saved.error if line.saved else None,
        "saved_looks": line.saved.looks if line.saved else None, "energy_of": line.energy_of or None,
        "simulated": line.simulated, "why": line.why, "may_come": line.may_come, "submit": line.submit or None,
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
    """Returns the jobs without a line. A number stands for all tasks of an array and parts of a heterogeneous job."""
    shown = {name for line in lines for name in (line.job, re.split("[_+]", line.job)[0])}
    return [asked for asked in jobs if asked not in shown]


def run(arguments: argparse.Namespace) -> int:
    jobs, paths = _asked(arguments)
    lines = with_parts(list(_lines(arguments, jobs, paths)))
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
