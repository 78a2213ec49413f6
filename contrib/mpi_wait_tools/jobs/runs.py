"""What a row of sacct's says of a run: its state, whether a record may come, which rows are of one job. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

SOON_S = 180  # the writer has tried everything by then; later only the sweep stores a record
NO_NODE = "None assigned"  # what accounting has for the nodes of a job that had none
ACTIVE = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


class Outlook(Enum):
    """sacct does not show policies, so YET says only that a record would still be in time."""

    NOT_RUN = "the job waits for its run"
    RUNNING = "the job runs"
    YET = "the job has just ended"
    NEVER_RAN = "the job has ended, and no node ever was its"
    NONE = "the job has ended long ago"

    @property
    def may_come(self) -> bool:
        return self in (Outlook.NOT_RUN, Outlook.RUNNING, Outlook.YET)


def state_of(row: Mapping[str, str]) -> str:
    """The state's word: "CANCELLED by 1000" is CANCELLED."""
    return (row["State"].split() or ["UNKNOWN"])[0].rstrip("+")


def ended_s_ago(row: Mapping[str, str], now: float) -> float | None:
    """None: not known."""
    try:
        return now - time.mktime(time.strptime(row["End"], "%Y-%m-%dT%H:%M:%S"))
    except (KeyError, ValueError, OverflowError):
        return None


def outlook_of(row: Mapping[str, str], now: float) -> Outlook:
    """row: sacct's, with State, End and NodeList. AllocCPUS of a job that never ran is what the job had asked for."""
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
