"""What Slurm knows of a run: the steps that it made in this job, their CPU time and energy; later, the job's record."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..jobs.found import from_sacct
from ..jobs.kept import site_spool
from ..jobs.sacct import TIMEOUT_S, Target, environment
from ..jobs.use import cpu_seconds, joules_of
from ..record.record import Record
from ..text.errors import NoRecord, Refusal
from ..text.units import safe
from .experiment import BASELINE, Experiment, Run

PATIENCE_S = 15  # slurmdbd hears of a step's end a moment later
PAUSE_S = 0.3
FAILURES_MAX = 3  # of sacct, one after the other
FIELDS = ("JobIDRaw", "State", "TotalCPU", "ConsumedEnergyRaw")
LIVING = ("RUNNING", "PENDING", "SUSPENDED")


@dataclass(frozen=True)
class StepUse:
    has_ended: bool
    cpu_s: float | None
    joules: float | None


def steps_in(output: str) -> dict[str, StepUse]:
    """sacct's lines of one job: its numbered steps."""
    found = {}
    for line in output.splitlines():
        cells = line.split("|")
        if len(cells) == len(FIELDS) and cells[0].partition(".")[2].isdigit():
            state = (cells[1].split() or [""])[0]
            found[cells[0].partition(".")[2]] = StepUse(
                state not in LIVING, cpu_seconds(cells[2]), joules_of(cells[3]))
    return found


def read_steps(job: str) -> dict[str, StepUse] | None:
    """None: sacct does not answer."""
    words = ["sacct", "-P", "-n", "-j", job, "--delimiter=|", f"--format={','.join(FIELDS)}"]
    try:
        done = subprocess.run(words, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                              errors="replace", timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return steps_in(done.stdout) if done.returncode == 0 else None


class Steps:
    """Those of this job. expected: how many a run makes; None until the first run has shown it."""

    def __init__(self, job: str, by_srun: bool) -> None:
        self.job, self.known, self.expected = job, set(read_steps(job) or {}) if job else set(), None if job else 0
        self.by_srun, self.problem = by_srun, ""

    def new(self) -> dict[str, StepUse]:
        """The steps of the run that has just ended, all of them ended; {}: none, or sacct does not tell in time."""
        if self.expected == 0:
            return {}
        deadline = time.monotonic() + (PATIENCE_S if self.by_srun or self.expected else PATIENCE_S / 3)
        found: dict[str, StepUse] = {}
        failures = 0
        while failures < FAILURES_MAX and time.monotonic() < deadline:
            listed = read_steps(self.job)
            failures = failures + 1 if listed is None else 0
            fresh = {name: step for name, step in (listed or {}).items() if name not in self.known}
            settled = bool(fresh) and all(step.has_ended for step in fresh.values())
            again, found = fresh.keys() == found.keys(), fresh
            if settled and (again if self.expected is None else len(fresh) >= self.expected):
                break
            time.sleep(PAUSE_S)
        self.known |= set(found)
        if self.expected is None:
            self.expected = len(found)
        if len(found) < self.expected or (self.by_srun and not found):
            how = "failed" if failures else f"did not tell of a step within {PATIENCE_S} s"
            self.problem = f"sacct {how}: CPU time is not known from there on"
            self.expected = 0
            return {}
        return found if all(step.has_ended for step in found.values()) else {}


def summed(values: Iterable[float | None]) -> float | None:
    """None where one is not known, or there is none."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if listed and len(known) == len(listed) else None


def with_record(run: Run, record: Record) -> Run:
    """The run with what the record of its job says of its steps."""
    steps = {step.id: step for step in record.steps}
    mine = [steps[name] for name in run.steps if name in steps]
    if not mine or len(mine) < len(run.steps):
        return run
    used = {step.policy.used for step in mine if step.policy is not None}
    joules = summed(step.joules for step in mine) if record.energy is not None else None
    return replace(run, joules=joules, source=record.energy.source if record.energy and joules is not None else "",
                   used=used.pop() if len(used) == 1 else "")


def with_records(experiment: Experiment, spool: str | None = None) -> tuple[Experiment, list[str]]:
    """The experiment with the energies of jobs whose record is there by now, and why others have none."""
    said: list[str] = []
    records: dict[str, Record | None] = {}
    jobs = {run.job for run in experiment.runs if run.job and run.steps and run.joules is None}
    for job in sorted(jobs, key=int):
        records[job] = _record(job, site_spool() if spool is None else spool, said)
    found = replace(experiment, runs=tuple(_one(run, records) for run in experiment.runs))
    known = {run.policy for run in found.runs if run.round and run.joules is not None}
    if known and BASELINE not in known:
        said.append("Energy is not known of the runs without a policy, which are in the records of batch jobs under "
                    "one alone: --sbatch, or #SBATCH --mpi-wait-policy=profile.")
    return found, said


def _one(run: Run, records: Mapping[str, Record | None]) -> Run:
    record = records.get(run.job)
    return with_record(run, record) if record is not None and run.joules is None else run


def _record(job: str, spool: str, said: list[str]) -> Record | None:
    try:
        record = from_sacct(Target(job, None), False, spool)[-1].record
    except NoRecord as problem:
        said.append(f"Energy is not known yet: {safe(str(problem), 300)}.")
        return None
    except Refusal as problem:
        waits = "still running" in str(problem)
        said.append("Energy is in the job's record, which is written some seconds after its end: 'mpi-wait try --show' "
                    "in this directory has it then." if waits else f"Energy is not known: {safe(str(problem), 300)}.")
        return None
    if not record.is_complete:
        said.append(f"Of job {job} nodes did not report: its energy is left out.")
        return None
    if record.energy is None:
        said.append(f"Energy is not known: {safe(record.energy_why) or 'no counters'} on the nodes of job {job}.")
    return record
