"""Whether a job that has no record may still get one, by what sacct shows of it. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum

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
