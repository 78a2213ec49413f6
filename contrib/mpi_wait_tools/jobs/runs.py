"""Interprets a row of sacct: the run's state, if a record may still come, and which rows are of one job. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

SOON_S = 180  # after a job's end: the writer has given up by then, and only the sweep stores a record
NO_NODE = "None assigned"  # the NodeList in accounting of a job that never had a node
ACTIVE = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


class Outlook(Enum):
    """The prospect of a record. sacct does not show policies, so YET means only that a record could still come."""

    NOT_RUN = "the job waits for its run"
    RUNNING = "the job runs"
    YET = "the job has just ended"
    NEVER_RAN = "the job has ended, and no node ever was its"
    NONE = "the job has ended long ago"

    @property
    def may_come(self) -> bool:
        return self in (Outlook.NOT_RUN, Outlook.RUNNING, Outlook.YET)


def state_of(row: Mapping[str, str]) -> str:
    """Returns the first word of the state: CANCELLED for "CANCELLED by 1000"."""
    return (row["State"].split() or ["UNKNOWN"])[0].rstrip("+")


def ended_s_ago(row: Mapping[str, str], now: float) -> float | None:
    """Returns the seconds since the run's end; None if that is not known."""
    try:
        return now - time.mktime(time.strptime(row["End"], "%Y-%m-%dT%H:%M:%S"))
    except (KeyError, ValueError, OverflowError):
        return None


def outlook_of(row: Mapping[str, str], now: float) -> Outlook:
    """Returns the prospect of a record for sacct's row, which has State, End and NodeList.

    NodeList tells if a job ever ran: AllocCPUS does not, since a job that never ran has its requested CPUs there.
    """
    state, ago = state_of(row), ended_s_ago(row, now)
    if state in WAITING:
        return Outlook.NOT_RUN
    if state in ACTIVE:
        return Outlook.RUNNING
    if row.get("NodeList", "").strip() == NO_NODE:
        return Outlook.NEVER_RAN
    return Outlook.YET if ago is not None and -SOON_S < ago < SOON_S else Outlook.NONE


Row = TypeVar("Row", bound=Mapping[str, str])
CONTINUED = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")


def is_next_run(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Returns True if after is the next run of the same job as before.

    Older releases of sacct have no Restarts; for them the state in which the earlier run ended decides.
    """
    if any(before[name] != after[name] for name in ("User", "JobName")):
        return False
    restarts = after.get("Restarts", "").strip()
    return int(restarts) > 0 if restarts.isdigit() else state_of(before) in CONTINUED


def by_job(rows: Sequence[Row]) -> list[list[Row]]:
    """Splits the rows of one job number into jobs, each a list of its runs. The oldest come first."""
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
    """Returns begin and end of the run, in seconds since the epoch, the end being now if it runs. None before its
    begin."""
    ends: list[float | None] = []
    for name in ("Start", "End"):
        try:
            ends.append(time.mktime(time.strptime(row[name], "%Y-%m-%dT%H:%M:%S")))
        except (KeyError, ValueError, OverflowError):
            ends.append(None)
    start, end = ends
    return None if start is None else (start, time.time() if end is None else end)
