"""Runs: tells whether rows of sacct with one number are runs of one job or several jobs. Pure.

Numbers come again after MaxJobId, or where slurmctld has lost its state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from .outlook import state_of

Row = TypeVar("Row", bound=Mapping[str, str])
CONTINUED = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")


def is_next_run(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Older releases of sacct do not say how often a job was restarted: there the end of the run before tells."""
    if any(before[name] != after[name] for name in ("User", "JobName")):
        return False
    restarts = after.get("Restarts", "").strip()
    return int(restarts) > 0 if restarts.isdigit() else state_of(before) in CONTINUED


def by_job(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of one number as jobs, each with its runs; the oldest first."""
    jobs: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (row.get("Submit", ""), row["Start"])):
        if jobs and is_next_run(jobs[-1][-1], row):
            jobs[-1].append(row)
        else:
            jobs.append([row])
    return jobs


def latest_runs(rows: Sequence[Row]) -> list[Row]:
    """Returns the latest run of each job, in the order of rows."""
    numbers: dict[str, list[Row]] = {}
    for row in rows:
        numbers.setdefault(row["JobID"], []).append(row)
    latest = {id(job[-1]) for number in numbers.values() for job in by_job(number)}
    return [row for row in rows if id(row) in latest]


def span_of(row: Mapping[str, str]) -> tuple[float, float] | None:
    """When the run was, in seconds since the epoch; None: it has not begun."""
    ends: list[float | None] = []
    for name in ("Start", "End"):
        try:
            ends.append(time.mktime(time.strptime(row[name], "%Y-%m-%dT%H:%M:%S")))
        except (KeyError, ValueError, OverflowError):
            ends.append(None)
    start, end = ends
    return None if start is None else (start, time.time() if end is None else end)
