"""Makes lines of jobs from files and from sacct's rows; prints them for programs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..jobs.found import UNKNOWN_WHY, Found, Kept
from ..jobs.named import NAMED_MAX
from ..jobs.runs import Outlook, outlook_of, state_of
from ..jobs.sacct import LAST, RECORD_FIELDS
from ..meaning.advice import Ending
from ..meaning.line import Line, of_record
from ..record.record import find_body, parse_record
from ..text.output import Refusal
from ..text.units import rounded


def line_of_file(found: Found) -> Line:
    return Line(found.name, "", "", "", found.record.elapsed, **of_record(found.record, Ending()))


WHY_NONE = {Outlook.YET: "no record yet", Outlook.NEVER_RAN: "never ran", Outlook.NONE: "no record"}


def _line_of_row(row: Mapping[str, str], kept: Kept, now: float) -> Line:
    """Returns the line of a job in sacct's row. If the row has no record, searches those that are kept."""
    state, outlook = state_of(row), outlook_of(row, now)
    elapsed = row["ElapsedRaw"]
    has_run = outlook is not Outlook.NOT_RUN
    seconds = float(elapsed) if elapsed.isdigit() and len(elapsed) < 13 and has_run else None
    line = Line(row["JobID"], row["JobName"], row["User"], state, seconds, submit=row["Submit"], raw=row[LAST])
    ending, damaged = Ending(state, "+" in row["JobID"]), False
    for field in (*RECORD_FIELDS, ""):
        try:
            text = row.get(field, "") if field else kept.read_of(row) or ""
            body = find_body(text)
            if body is not None:
                return replace(line, **of_record(parse_record(body), ending))
        except Refusal:
            damaged = True
    if damaged:
        return replace(line, why="record not readable")
    return replace(line, why=WHY_NONE.get(outlook, ""), may_come=outlook.may_come)


def lines_of_rows(rows: Iterable[Mapping[str, str]], spool: str) -> list[Line]:
    """Returns the lines of sacct's rows, of a row that comes twice one. Keeps no row, since each may hold a record.
    Raises Refusal for a damaged row, and if the jobs are too many."""
    now, seen, kept = time.time(), set(), Kept(spool)
    lines: list[Line] = []
    for row in rows:
        if not row:
            raise Refusal("sacct's answer has a row that is not of the fields asked for")
        key = (row["JobID"], row[LAST], row["Submit"], row["Start"])
        if key in seen:
            continue
        if len(lines) == NAMED_MAX:
            raise Refusal(f"more than {NAMED_MAX} jobs: 'mpi-wait top' is for many")
        seen.add(key)
        lines.append(_line_of_row(row, kept, now))
    return lines


def unknown_of(lines: Iterable[Line], jobs: Sequence[str]) -> list[str]:
    """Returns the jobs without a line. A job's number stands for all tasks of an array, and for all parts of a
    heterogeneous job."""
    shown = {name for line in lines for name in (line.job, re.split("[_+]", line.job)[0], line.raw)}
    return [asked for asked in jobs if asked not in shown]


def known_or_refused(lines: Sequence[Line], jobs: Sequence[str]) -> list[str]:
    """Returns the jobs without a line. Raises Refusal if no job has one."""
    unknown = unknown_of(lines, jobs)
    if jobs and not lines:
        raise Refusal(f"sacct knows no job {', '.join(unknown[:4])}: {UNKNOWN_WHY}")
    return unknown


def as_json(line: Line) -> dict[str, Any]:
    figures = {name: rounded(getattr(line, name)) for name in ("wait", "asleep", "lost", "joules")}
    return {
        "job": line.job, "name": line.name, "user": line.user, "state": line.state, "elapsed_s": line.elapsed_s,
        "policy": line.policy or None, "ranks": line.ranks, **figures,
        "cost_percent": line.cost.percent if line.cost else None,
        "cost_error": line.cost.error if line.cost else None,
        "cost_windows": line.cost.windows if line.cost else None,
        "saved_percent": line.saved.percent if line.saved else None,
        "saved_error": line.saved.error if line.saved else None,
        "saved_looks": line.saved.looks if line.saved else None, "energy_of": line.energy_of or None,
        "simulated": line.simulated, "why": line.why, "may_come": line.may_come, "submit": line.submit or None,
    }
