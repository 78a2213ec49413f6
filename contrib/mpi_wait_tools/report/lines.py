"""Makes lines of jobs from files and from sacct's rows."""

from __future__ import annotations

from ..jobs.found import Found, read_kept_of
from ..jobs.runs import Outlook, outlook_of, state_of
from ..jobs.sacct import RECORD_FIELDS
from ..meaning.advice import Ending
from ..meaning.line import Line, of_record
from ..record.record import find_body, parse_record
from ..text.output import Refusal


def line_of_file(found: Found) -> Line:
    return Line(found.name, "", "", "", found.record.elapsed, **of_record(found.record, Ending()))


WHY_NONE = {Outlook.YET: "no record yet", Outlook.NEVER_RAN: "never ran", Outlook.NONE: "no record"}


def line_of_row(row: dict[str, str], spool: str, now: float) -> Line:
    """Returns the line of a job in sacct's row. If the row has no record, searches spool, unless that is ""."""
    state, outlook = state_of(row), outlook_of(row, now)
    elapsed = row["ElapsedRaw"]
    has_run = outlook is not Outlook.NOT_RUN
    seconds = float(elapsed) if elapsed.isdigit() and len(elapsed) < 13 and has_run else None
    facts = (row["JobID"], row["JobName"], row["User"], state, seconds)
    ending, damaged = Ending(state, "+" in row["JobID"]), False
    for field in (*RECORD_FIELDS, ""):
        try:
            text = row.get(field, "") if field else read_kept_of(spool, row) or ""
            body = find_body(text)
            if body is not None:
                return Line(*facts, submit=row["Submit"], **of_record(parse_record(body), ending))
        except Refusal:
            damaged = True
    if damaged:
        return Line(*facts, why="record not readable", submit=row["Submit"])
    return Line(*facts, why=WHY_NONE.get(outlook, ""), submit=row["Submit"], may_come=outlook.may_come)
