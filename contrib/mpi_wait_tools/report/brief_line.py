"""What is said of one job in one line, from sacct's row or from a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..jobs.found import Found
from ..jobs.kept import read_kept_of
from ..jobs.outlook import Outlook, outlook_of, state_of
from ..jobs.sacct import RECORD_FIELDS
from ..meaning.advice import Ending
from ..meaning.imbalance import imbalance_of
from ..meaning.parts import energy_of, gpus_tail, kinds_of
from ..meaning.saving import saving_of
from ..record.cost import Cost, Saved
from ..record.record import Record, find_body, parse_record
from ..text.errors import Refusal


@dataclass(frozen=True)
class Line:
    """What is said of one job. None: not known, or there is nothing to say. why: what there is to know of the record,
    in a word or two; "" for nothing."""

    job: str
    name: str
    user: str
    state: str
    elapsed_s: float | None
    policy: str = ""
    wait: float | None = None  # of the ranks' time
    asleep: float | None = None  # of the waiting
    lost: float | None = None  # of the ranks' time
    cost: Cost | None = None  # of sleeping; None: not known, or too little was seen to tell
    saved: Saved | None = None  # by sleeping, of the energy of a step; None: not known
    joules: float | None = None
    energy_of: str = ""  # the parts that joules are of
    simulated: bool = False
    why: str = ""
    submit: str = ""  # as sacct has it: a number may come again, and then tells no job
    may_come: bool = False  # there is no record, and there may still be one


def _of_record(record: Record, ending: Ending) -> dict[str, Any]:
    """Of a job that did not run to its end nothing is said to be lost, nor where nodes are missing."""
    wait, energy = record.wait, record.energy
    imbalance = imbalance_of(record) if not ending.is_broken else None
    simulated = energy is not None and energy.source == "simulated"
    missing = gpus_tail(energy) if energy is not None else ""
    why = [] if record.is_complete else [f"{record.nodes_reported} of {record.nodes_of} nodes"]
    return {
        "policy": record.policy.used,
        "wait": wait.share if wait else None,
        "asleep": min(1.0, wait.asleep / wait.total) if wait and wait.asleep is not None and wait.total > 0 else None,
        "cost": wait.cost if wait is not None and wait.cost is not None and wait.cost.is_known else None,
        "saved": saving_of(record),
        "lost": imbalance.share if imbalance is not None and not imbalance.lone else None,
        "joules": energy.joules if energy else None,
        "energy_of": energy_of(record),
        "simulated": simulated,
        "why": ", ".join(why + [missing] * bool(missing) + ["simulated"] * simulated),
    }


def with_parts(lines: list[Line]) -> list[Line]:
    """The same; where their energies are not all of the same parts, each says of which its own is."""
    if len(kinds_of(line.energy_of for line in lines)) < 2:
        return lines
    named = [(line, f"energy of {line.energy_of}") for line in lines]
    return [replace(line, why=", ".join(filter(None, (line.why, words)))) if line.energy_of else line
            for line, words in named]


def line_of_file(found: Found) -> Line:
    return Line(found.name, "", "", "", found.record.elapsed, **_of_record(found.record, Ending()))


WHY_NONE = {Outlook.YET: "no record yet", Outlook.NEVER_RAN: "never ran", Outlook.NONE: "no record"}


def line_of_row(row: dict[str, str], spool: str, now: float) -> Line:
    """row: sacct's, of one job. spool: where else its record may be, "" for nowhere."""
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
                return Line(*facts, submit=row["Submit"], **_of_record(parse_record(body), ending))
        except Refusal:
            damaged = True
    if damaged:
        return Line(*facts, why="record not readable", submit=row["Submit"])
    return Line(*facts, why=WHY_NONE.get(outlook, ""), submit=row["Submit"], may_come=outlook.may_come)
