"""What top has read of a time: the uses of jobs, and the jobs that have none."""

from __future__ import annotations

from dataclasses import replace

from ..jobs.runs import by_job
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
    seconds = None if elapsed is None else float(elapsed)
    return Run(row["JobName"], state, row["Start"], seconds, nodes, row["Submit"])


class Tally:
    """What was read: the jobs with a record, and how many had none, one that cannot be read, or one in Extra."""

    def __init__(self) -> None:
        self.jobs = self.without = self.unreadable = self.from_extra = 0
        self.uses: list[JobUse] = []
        self.name = ""  # of the jobs that are asked for
        self.numbers_again = 0  # numbers that several jobs had
        self._rows: dict[str, list[dict[str, str]]] = {}  # what tells a job, by its number, of each use

    def _note(self, row: dict[str, str]) -> None:
        """The row of the latest use."""
        told = {name: row.get(name, "") for name in ("User", "JobName", "State", "Submit", "Start", "Restarts")}
        self._rows.setdefault(row["JobID"], []).append({**told, "use": str(len(self.uses) - 1)})

    def tell_jobs_apart(self) -> None:
        """Once all rows are there: runs of one job get one key, and other jobs of its number others."""
        for number, rows in self._rows.items():
            jobs = by_job(rows)
            self.numbers_again += len(jobs) > 1
            for index, runs in enumerate(jobs):
                for row in runs:
                    place = int(row["use"])
                    self.uses[place] = replace(self.uses[place], job_key=f"{number} {index}")

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
                    self._note(row)
                    self.from_extra += field == "Extra"
                    return
            except Refusal:
                broken = True
        self.unreadable += broken
        self.without += not broken
