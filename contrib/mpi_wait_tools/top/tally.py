"""What top has read of a time: the uses of jobs, and the jobs that have none."""

from __future__ import annotations

from ..jobs.sacct import RECORD_FIELDS
from ..meaning.rows import JobUse, Run, use_of
from ..record.record import find_body, parse_record
from ..text.errors import Refusal


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 13 else None


def _run(row: dict[str, str]) -> Run:
    elapsed = _number(row["ElapsedRaw"])
    state = (row["State"].split() or [""])[0].rstrip("+")
    nodes = _number(row["NNodes"]) or 0
    return Run(row["JobName"], state, row["Start"], None if elapsed is None else float(elapsed), nodes)


class Tally:
    """What was read: the jobs with a record, and how many had none, one that cannot be read, or one in Extra."""

    def __init__(self) -> None:
        self.jobs = self.without = self.unreadable = self.from_extra = 0
        self.uses: list[JobUse] = []
        self.name = ""  # of the jobs that are asked for

    def add(self, row: dict[str, str]) -> None:
        self.jobs += 1
        if not row:
            self.unreadable += 1
            return
        if self.name and row["JobName"] != self.name:
            self.jobs -= 1
            return
        body, broken = None, False
        for field in RECORD_FIELDS:
            try:
                body = find_body(row.get(field, ""))
                if body is not None:
                    names = {"job": row["JobID"], "user": row["User"], "account": row["Account"]}
                    self.uses.append(use_of(parse_record(body), {**names, "partition": row["Partition"]}, _run(row)))
                    self.from_extra += field == "Extra"
                    return
            except Refusal:
                broken = True
        self.unreadable += broken
        self.without += not broken
