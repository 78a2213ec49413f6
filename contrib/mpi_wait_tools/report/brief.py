"""mpi-wait report --brief: one line per job, for a list of jobs or for the jobs of users in a period."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..jobs.found import from_file, site_spool
from ..jobs.named import JOBS_MAX, jobs_named
from ..jobs.runs import latest_runs
from ..jobs.sacct import DAY_S, Filters, Period, me, moment, names, read_days, read_named
from ..meaning.cost import cost_words, saved_words
from ..meaning.line import Line, with_parts
from ..text.output import Refusal, output_is_utf8, output_width, wants_colour
from ..text.units import clock, percent, rounded, safe, scaled
from .lines import line_of_file, line_of_row

# Columns that go if there is no room, in this order.
DROPPED = ("name", "user", "asleep", "cost", "saved", "policy", "elapsed", "lost", "energy")
UNKNOWN_SHOWN = 8
STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "cyan"}


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


COLUMNS: dict[str, Callable[[Line], str]] = {
    "job": lambda line: safe(line.job, 24),
    "name": lambda line: safe(line.name, 12),
    "user": lambda line: safe(line.user, 10),
    "state": lambda line: safe(line.state, 13),
    "elapsed": lambda line: clock(line.elapsed_s),
    "policy": lambda line: line.policy or "–",
    "wait": lambda line: _share(line.wait),
    "asleep": lambda line: _share(line.asleep),
    "lost": lambda line: _share(line.lost),
    "cost": lambda line: "–" if line.cost is None else cost_words(line.cost),
    "saved": lambda line: "–" if line.saved is None else saved_words(line.saved),
    "energy": lambda line: "–" if line.joules is None else scaled(line.joules, "J"),
    "": lambda line: line.why,
}
OF_TEXT = ("job", "name", "user", "state", "policy", "")


def _columns(lines: Sequence[Line]) -> list[str]:
    """Returns the columns to show. Leaves out empty ones, and the user if all jobs are of one."""
    users = {line.user for line in lines}
    left_out = set() if len(users) > 1 else {"user"}
    if not any(line.state for line in lines):
        left_out |= {"name", "state"}
    if not any(line.why for line in lines):
        left_out |= {""}
    if not any(line.cost for line in lines):
        left_out |= {"cost"}
    if not any(line.saved for line in lines):
        left_out |= {"saved"}
    return [name for name in COLUMNS if name not in left_out]


def _style(name: str, line: Line) -> str:
    return STYLES.get(line.state, "red") if name == "state" else "dim" if name == "" else ""


def show_brief(width: int, colour: bool, utf8: bool, lines: Sequence[Line], unknown: Sequence[str]) -> str:
    """Returns the lines as text for people, and names the jobs that sacct does not know."""
    from rich.text import Text

    from ..text.canvas import Canvas, written

    canvas, names = Canvas(width, colour), _columns(lines)
    if lines:
        rows = [[Text(COLUMNS[name](line), _style(name, line)) for name in names] for line in lines]
        left = [index for index, name in enumerate(names) if name in OF_TEXT]
        canvas.table(names, rows, left, [names.index(name) for name in DROPPED if name in names])
    else:
        canvas.note(Text("no job in that time"))
    if unknown:
        more = f" and {len(unknown) - UNKNOWN_SHOWN} others" if len(unknown) > UNKNOWN_SHOWN else ""
        jobs = ", ".join(safe(job) for job in unknown[:UNKNOWN_SHOWN])
        canvas.blank()
        canvas.sentence("!", f"sacct knows no job {jobs}{more}.", "yellow")
    return written(canvas.lines(), utf8)


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
    """Returns the jobs and the paths of files that the user asked for."""
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
    """Refuses options that exclude --brief, and options that need it."""
    of_time = [name for name in ("user", "since", "until") if getattr(arguments, name) is not None]
    if not arguments.brief and of_time:
        arguments.refuse_usage(f"--{of_time[0]} is for --brief ('mpi-wait top' sums up the jobs of a period)")
    if not arguments.brief:
        return
    if arguments.csv or arguments.plot or arguments.html or arguments.all_ranks:
        arguments.refuse_usage("--brief prints one line a job, as text or --json: --csv, --plot, --html and "
                               "--all-ranks exclude it")
    if of_time and (arguments.jobs or arguments.record):
        arguments.refuse_usage(f"--{of_time[0]} and the name of a job exclude each other")


def _unknown(lines: Iterable[Line], jobs: Sequence[str]) -> list[str]:
    """Returns the jobs without a line. A job's number stands for all tasks of an array, and for all parts of a
    heterogeneous job."""
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
        text = show_brief(output_width(arguments), wants_colour(arguments), output_is_utf8(), lines, unknown)
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None
    sys.stdout.write(text)
    return 0
