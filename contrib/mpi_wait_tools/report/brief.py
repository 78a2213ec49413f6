"""mpi-wait report --brief: one line per job, for a list of jobs or for the jobs of users in a period."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from ..jobs.found import from_file, site_spool
from ..jobs.named import JOBS_MAX
from ..jobs.period import period_of
from ..jobs.runs import latest_runs
from ..jobs.sacct import Filters, me, moment, names, read_days, read_named
from ..meaning.line import Line, with_parts
from ..meaning.spread import sums_of
from ..text.output import Refusal, output_is_utf8, output_width, wants_colour
from .asked import Asked
from .lines import as_json, known_or_refused, line_of_file, lines_of_rows


def show_brief(width: int, colour: bool, utf8: bool, lines: Sequence[Line], remarks: Sequence[str]) -> str:
    """Returns the lines as text for people, of several jobs with their total, and then the remarks."""
    from rich.text import Text

    from ..text.canvas import Canvas, written
    from .table import columns_of, draw_lines

    canvas, sums = Canvas(width, colour), sums_of(lines) if len(lines) > 1 else None
    if lines:
        draw_lines(canvas, lines, columns_of(lines, ranks=False), sums)
    else:
        canvas.note(Text("no job in that time"))
    said = [*([sums.lacking] if sums is not None and sums.lacking else []), *remarks]
    if said:
        canvas.blank()
    for sentence in said:
        canvas.sentence("!", sentence, "yellow")
    return written(canvas.lines(), utf8)


def _rows(arguments: argparse.Namespace, jobs: Sequence[str]) -> Iterable[dict[str, str]]:
    if jobs:
        return read_named(jobs, arguments.duplicates)
    days = read_days(period_of(arguments, 1), Filters(users=arguments.user or me("--brief")))
    rows = [row for day in days for row in day]
    return rows if arguments.duplicates or not all(rows) else latest_runs(rows)


def _lines(arguments: argparse.Namespace, asked: Asked) -> list[Line]:
    lines = [line_of_file(from_file(path, asked.text if path == "-" and asked.text else None)) for path in asked.paths]
    if asked.paths and not asked.jobs:
        return lines
    spool = arguments.spool if arguments.spool is not None else site_spool()
    return lines + lines_of_rows(_rows(arguments, asked.jobs), spool)


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
    if arguments.site:
        arguments.refuse_usage("--brief shows no prices, which --site is for")
    if of_time and (arguments.jobs or arguments.record):
        arguments.refuse_usage(f"--{of_time[0]} and the name of a job exclude each other")


def run(arguments: argparse.Namespace, asked: Asked) -> int:
    if len(asked.targets) + len(asked.paths) > JOBS_MAX and not asked.is_list:
        arguments.refuse_usage(f"more than {JOBS_MAX} jobs")
    lines = with_parts(_lines(arguments, asked))
    unknown = known_or_refused(lines, asked.jobs)
    if arguments.json:
        print(json.dumps([as_json(line) for line in lines], indent=2, allow_nan=False))
        return 0
    try:
        from .table import unknown_line

        remarks = [unknown_line(unknown)] * bool(unknown) + asked.remarks
        text = show_brief(output_width(arguments), wants_colour(arguments), output_is_utf8(), lines, remarks)
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None
    sys.stdout.write(text)
    return 0
