"""Runs the program once, with a policy or without, and measures its time, its CPU time here, and its own figure. Then
asks Slurm about the steps of the run, their CPU time and energy; later, reads the job's record.

If srun starts the ranks, it gets the policy as its option. Any other launcher gets it in its environment:
MPI_WAIT_POLICY for an srun that it may call itself, and the library and its configuration for the ranks that it starts.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from ..jobs.found import cpu_seconds, from_sacct, joules_of, site_spool
from ..jobs.sacct import Target, run_sacct
from ..meaning.reading import energy_of, meters_line
from ..record.energy import Energy
from ..record.record import Record
from ..text.output import NoRecord, NotEnded, Refusal
from ..text.units import safe, scaled
from .experiment import BASELINE, Experiment, Run

SRUN = "srun"
END_S = 20  # time for a program to end after SIGTERM
TAIL_LINES = 6
LINE_MAX = 1 << 16
# In the source tree, and below the prefix: PREFIX/share/mpi-wait/mpi_wait_tools/trial.
_HERE = os.path.dirname(os.path.realpath(__file__))
_ROOTS = (os.path.join(_HERE, "..", "..", ".."), os.path.join(_HERE, "..", "..", "..", ".."))
_LIBRARIES = ("build/preload/libmpiwait.so", "lib*/mpi-wait/libmpiwait.so", "lib/*/mpi-wait/libmpiwait.so")
_POLICIES = ("policies", "share/mpi-wait/policies", "../etc/mpi-wait/policies")
PATIENCE_S = 15  # slurmdbd learns of a step's end a moment after the end
PAUSE_S = 0.3
FAILURES_MAX = 3  # sacct may fail so often in a row
FIELDS = ("JobIDRaw", "State", "TotalCPU", "ConsumedEnergyRaw")
LIVING = ("RUNNING", "PENDING", "SUSPENDED")


@dataclass(frozen=True)
class Outcome:
    """The end of one run."""

    status: int
    wall_s: float
    cpu_s: float  # CPU time of this process's children, and of theirs
    figure: float | None
    tail: str  # the last lines that the program printed


@dataclass(frozen=True)
class Preload:
    """The files that ranks need if Slurm does not start them."""

    library: str
    policies: str


def _first(patterns: Sequence[str]) -> str:
    for root in _ROOTS:
        for pattern in patterns:
            for path in sorted(glob.glob(os.path.join(root, pattern))):
                return os.path.realpath(path)
    return ""


def find_preload() -> Preload:
    library, policies = _first(_LIBRARIES), _first(_POLICIES)
    if not library or not policies:
        raise Refusal("libmpiwait.so or the policies were not found beside this mpi-wait: ranks that Slurm does not "
                      "start need them here")
    return Preload(library, policies)


def config_of(policy: Mapping[str, Any]) -> str:
    """Returns the string of preload/contract/config_format.h, for a rank that gets none from slurmstepd."""
    budget = policy.get("budget") or dict.fromkeys(("spin_us", "relative", "absolute_us", "max_us", "rma_us"), 0)
    times = ";".join(f"{key}_ns={round(budget[f'{key}_us'] * 1000)}" for key in ("spin", "absolute", "max", "rma"))
    rungs = "+".join(policy["rungs"]) or "none"
    percent = policy.get("slowdown_percent")
    account = f";slowdown_ppm={round(percent * 1e4)}" if percent else ""
    return f"v=1;rungs={rungs};{times};relative_ppm={round(budget['relative'] * 1e6)}{account}"


def _policy_file(preload: Preload, name: str) -> dict[str, Any]:
    if "," in name:
        raise Refusal(f"'{safe(name)}' has keys, which only srun serves: with another launcher name the policy alone")
    try:
        with open(os.path.join(preload.policies, f"{name}.json"), encoding="utf-8") as file:
            policy = json.load(file)
    except (OSError, ValueError):
        raise Refusal(f"there is no policy '{safe(name)}' in {preload.policies}") from None
    if not isinstance(policy, dict) or not policy.get("rungs"):
        raise Refusal(f"'{safe(name)}' is no policy that sleeps, or Slurm chooses one on the nodes: with another "
                      "launcher name one that does, nap")
    return policy


def index_of_srun(command: Sequence[str], launcher: str) -> int | None:
    """Returns the index of the word srun, which gets the option; None if the policy goes by the environment."""
    if os.path.basename(launcher) != SRUN:
        return None
    for place, word in enumerate(command):
        if os.path.basename(word) == SRUN:
            return place
    raise Refusal("the command has no srun: --launcher NAME says what starts its ranks")


def command_with(command: Sequence[str], launcher: str, policy: str) -> list[str]:
    place = index_of_srun(command, launcher)
    if place is None:
        return list(command)
    return [*command[: place + 1], f"--mpi-wait-policy={policy}", *command[place + 1 :]]


def environment_with(environment: Mapping[str, str], policy: str, preload: Preload | None) -> dict[str, str]:
    """Returns the environment of a run, without the variables of an outer policy. preload is None if srun's option
    names the policy."""
    changed = {key: value for key, value in environment.items() if not key.startswith("MPI_WAIT_")}
    entries = [path for path in re.split("[ :]+", environment.get("LD_PRELOAD", "")) if path]
    entries = [path for path in entries if os.path.basename(path) != "libmpiwait.so"]
    if preload is not None:
        changed["MPI_WAIT_POLICY"] = policy
        if policy != BASELINE:
            entries.insert(0, preload.library)
            changed["MPI_WAIT_CONFIG"] = config_of(_policy_file(preload, policy))
    changed.pop("LD_PRELOAD", None)
    return {**changed, **({"LD_PRELOAD": ":".join(entries)} if entries else {})}


def figure_in(lines: IO[bytes], pattern: re.Pattern[str] | None) -> tuple[float | None, str]:
    """Returns the first group of the last match as a number, and the last lines. Splits lines at LINE_MAX bytes."""
    figure: float | None = None
    tail: list[str] = []
    while line := lines.readline(LINE_MAX):
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text.strip():
            tail = [*tail, text][-TAIL_LINES:]
        match = pattern.search(text) if pattern else None
        if match:
            with contextlib.suppress(ValueError, TypeError, IndexError):
                value = float(match.group(1))
                figure = value if 0 < value < float("inf") else figure
    return figure, "\n".join(safe(one, 160) for one in tail)


class Ending:
    """Within its with-statement, Ctrl-C, scancel and the end of the job's time end the running program, and run() then
    raises KeyboardInterrupt.

    The signal handler does not raise it: the program may just be starting, and would go on alone.
    """

    def __init__(self) -> None:
        self.asked = False
        self.process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, Any] = {}

    def _signal(self, number: int) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _ask(self, number: int, frame: Any) -> None:
        """Asks the program to end, and kills it END_S later. srun ends its step on SIGTERM."""
        self.asked = True
        self._signal(signal.SIGTERM)
        signal.alarm(END_S)

    def _insist(self, number: int, frame: Any) -> None:
        self._signal(signal.SIGKILL)

    def __enter__(self) -> Ending:
        hear = {signal.SIGINT: self._ask, signal.SIGTERM: self._ask, signal.SIGALRM: self._insist}
        self._before = {number: signal.signal(number, handler) for number, handler in hear.items()}
        return self

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, process: subprocess.Popen[bytes]) -> int:
        """Waits for the program's end; returns its exit status."""
        self.process = process
        if self.asked:
            self._signal(signal.SIGTERM)
        status = process.wait()
        self.process = None
        if self.asked:
            raise KeyboardInterrupt
        return status


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_once(argv: Sequence[str], environment: Mapping[str, str], pattern: re.Pattern[str] | None,
             ending: Ending) -> Outcome:
    """Runs the program to its end, without standard input. Raises KeyboardInterrupt if the user asked for an end; the
    program has ended then."""
    with tempfile.TemporaryFile() as said:
        cpu_s, began = _children_s(), time.monotonic()
        try:
            process = subprocess.Popen(argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=said,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Refusal(f"'{safe(argv[0], 200)}' cannot be run: {error.strerror}") from None
        status = ending.run(process)
        wall_s = time.monotonic() - began
        said.seek(0)
        figure, tail = figure_in(said, pattern)
        return Outcome(status, wall_s, _children_s() - cpu_s, figure, tail)


@dataclass(frozen=True)
class StepUse:
    has_ended: bool
    cpu_s: float | None
    joules: float | None


def steps_in(output: str) -> dict[str, StepUse]:
    """Returns the numbered steps in sacct's lines of one job."""
    found = {}
    for line in output.splitlines():
        cells = line.split("|")
        if len(cells) == len(FIELDS) and cells[0].partition(".")[2].isdigit():
            state = (cells[1].split() or [""])[0]
            found[cells[0].partition(".")[2]] = StepUse(
                state not in LIVING, cpu_seconds(cells[2]), joules_of(cells[3]))
    return found


def read_steps(job: str) -> dict[str, StepUse] | None:
    """Asks sacct for the numbered steps of a job; None if it does not answer."""
    try:
        done = run_sacct(["-P", "-n", "-j", job, "--delimiter=|", f"--format={','.join(FIELDS)}"])
    except Refusal:
        return None
    return steps_in(done.stdout) if done.returncode == 0 else None


class Steps:
    """The steps of this job. expected is the number of steps that a run makes, None until the first run has ended."""

    def __init__(self, job: str, by_srun: bool) -> None:
        self.job, self.known, self.expected = job, set(read_steps(job) or {}) if job else set(), None if job else 0
        self.by_srun, self.problem = by_srun, ""

    def new(self, has_failed: bool) -> dict[str, StepUse]:
        """Returns the steps of the run that has just ended, once they have all ended in sacct; {} if the run made none,
        or sacct does not tell in time. A run that has_failed may have made none, as where srun refuses a policy."""
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
        if has_failed and len(found) < (self.expected or 1):
            return {}
        if self.expected is None:
            self.expected = len(found)
        if len(found) < self.expected or (self.by_srun and not found):
            how = "failed" if failures else f"did not tell of a step within {PATIENCE_S} s"
            self.problem = f"sacct {how}: CPU time is not known from there on"
            self.expected = 0
            return {}
        return found if all(step.has_ended for step in found.values()) else {}


def summed(values: Iterable[float | None]) -> float | None:
    """Returns the sum of values; None if one of them is None, or if there are none."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if listed and len(known) == len(listed) else None


def with_record(run: Run, record: Record) -> Run:
    """Adds to a run the figures of its steps in the job's record."""
    steps = {step.id: step for step in record.steps}
    mine = [steps[name] for name in run.steps if name in steps]
    if not mine or len(mine) < len(run.steps):
        return run
    used = {step.policy.used for step in mine if step.policy is not None}
    found = replace(run, used=used.pop() if len(used) == 1 else "")
    joules = summed(step.joules for step in mine)
    if record.energy is None or joules is None:
        return found
    return replace(found, joules=joules, source=record.energy.source, parts=energy_of(record),
                   is_share=record.energy.scope == "share")


def with_records(experiment: Experiment, spool: str | None = None) -> tuple[Experiment, list[str]]:
    """Adds the energies of the records that exist by now; also returns sentences on runs without energy."""
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
        record = from_sacct([Target(job, None)], False, spool)[-1].record
    except NoRecord as problem:
        said.append(f"Energy is not known yet: {safe(str(problem), 300)}.")
        return None
    except NotEnded:  # a job that began a moment ago is still PENDING in sacct
        said.append("Energy is in the job's record, which is written some seconds after its end: 'mpi-wait try --show' "
                    "in this directory has it then.")
        return None
    except Refusal as problem:
        said.append(f"Energy is not known: {safe(str(problem), 300)}.")
        return None
    if not record.is_complete:
        said.append(f"Of job {job} nodes did not report: its energy is left out.")
        return None
    if record.energy is None:
        said.append(f"Energy is not known: {safe(record.energy_why) or 'no counters'} on the nodes of job {job}.")
    else:
        said += _other_energy(record.energy, job)
    return record


def _other_energy(energy: Energy, job: str) -> list[str]:
    """Returns a sentence on energies that the record has only for the job as a whole."""
    parts = [f"its GPUs {scaled(energy.gpu_joules, 'J')}"] if energy.gpu_joules is not None else []
    parts += [meters_line(energy)] if energy.meters else []
    return [f"Job {job} as a whole used, by other counters, {'; '.join(parts)}."] if parts else []
