"""The period that a command reads from sacct: its options, and a progress bar while it is read."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .sacct import DAY_S, DAYS_MAX, Period, moment


def add_period_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--since", metavar="TIME", type=moment, help=f"12h, 7d, today, 2026-11-21 (default: {default})")
    parser.add_argument("--until", metavar="TIME", type=moment, help="the same (default: now)")


def period_of(arguments: argparse.Namespace, days: int) -> Period:
    """Returns the period that the user asked for; the last days of it if no begin was named. Exits on wrong usage."""
    until = arguments.until if arguments.until is not None else time.time()
    since = arguments.since if arguments.since is not None else until - days * DAY_S
    if since >= until:
        arguments.refuse_usage("--since is not before --until")
    if until - since > DAYS_MAX * DAY_S:
        arguments.refuse_usage(f"more than {DAYS_MAX} days")
    return Period(since, until)


def with_progress(days: Iterator[Any], number: int, jobs: Callable[[], int]) -> Iterator[Any]:
    """Passes the days on. While sacct is read, shows a progress bar on standard error, if that is a terminal. jobs
    returns the number of jobs read so far."""
    if not sys.stderr.isatty():
        yield from days
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield from days
        return
    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TextColumn("days, {task.fields[jobs]} jobs"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=number, jobs=0)
        for day in days:
            yield day
            progress.update(task, advance=1, jobs=jobs())
