"""Gathers the facts of jobs from sacct's rows of jobs and steps, by program."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from ..jobs.sacct import LAST
from ..meaning.imbalance import ranks_time_in_sums
from ..meaning.programs import Fact, Program, fact_of
from ..meaning.rows import record_in
from ..record.record import Record
from ..text.output import Refusal

# Names of steps that start or wrap a program: the program behind them has another name, which sacct does not tell.
STARTERS = re.compile(
    r"orted|prted|prte|prterun|prun|mpirun|mpiexec(\.hydra)?|hydra_\w+_proxy|pmi_proxy|env|(ba|da|c|k|z|tc)?sh|"
    r"python[0-9.]*|perl|julia|singularity|apptainer|ch-run|shifter|numactl|taskset|chrt|nice|ionice|nohup|setsid|stdbuf|"
    "time|timeout|perf|valgrind|gdb|strace|ltrace"
)


@dataclass(frozen=True)
class _Job:
    """One job with a record. ranked names the steps whose ranks waited, "" if the record does not tell."""

    raw_id: str
    name: str
    ranked: frozenset[str]
    fact: Fact


class Gathered:
    """The jobs that were read, and their number: in all, without a record, with one that cannot be read, with one in
    Extra, of nodes that did not all report, and of several programs."""

    def __init__(self) -> None:
        self.jobs = self.without = self.unreadable = self.from_extra = self.incomplete = self.of_several = 0
        self._jobs: list[_Job] = []
        self._steps: dict[str, dict[str, str]] = {}  # by job number: the names of its steps

    @property
    def used(self) -> int:
        return len(self._jobs) - self.of_several

    def add(self, row: dict[str, str]) -> None:
        """Takes a row of a job or of a step; {} is a row that is damaged."""
        job, _, step = row.get(LAST, "").partition(".")
        if step:
            if step.isdigit():
                self._steps.setdefault(job, {})[step] = row["JobName"]
            return
        self.jobs += 1
        try:
            found = record_in(row) if row else None
        except Refusal:
            self.unreadable += 1
            return
        if not row or found is None:
            self.unreadable += not row
            self.without += bool(row)
            return
        self._add_record(row, *found)

    def _add_record(self, row: dict[str, str], record: Record, field: str) -> None:
        if not record.is_complete:
            self.incomplete += 1
            return
        self.from_extra += field == "Extra"
        ranked = frozenset(step.id for step in record.steps if step.ranks)
        fact = fact_of(record, row["User"], ranks_time_in_sums(record))
        self._jobs.append(_Job(row[LAST], row["JobName"], ranked, fact))

    def _names_of(self, job: _Job) -> set[str]:
        """Returns the names of the programs that the job's ranks ran, as far as the names of its steps tell."""
        steps = self._steps.get(job.raw_id, {})
        ranked = {name for step, name in steps.items() if step in job.ranked} or set(steps.values())
        return {name for name in ranked if name and not STARTERS.fullmatch(name)}

    def programs(self, pattern: str = "") -> list[Program]:
        """Returns the jobs by program; with pattern, only programs of such names. Jobs that ran several programs are
        left out: a record has the sum over them."""
        found: dict[str, Program] = {}
        self.of_several = 0
        for job in self._jobs:
            names = self._names_of(job)
            if len(names) > 1:
                self.of_several += 1
                continue
            name = next(iter(names), job.name)
            if pattern and not fnmatch.fnmatchcase(name, pattern):
                continue
            program = found.setdefault(name, Program(name))
            program.facts.append(job.fact)
            program.by_job_name += not names
        return list(found.values())
