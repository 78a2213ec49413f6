"""An experiment, its settings and runs so far, and the file in the working directory that keeps it.

The file is checked when it is read. The file is whole at every moment, and has one writer.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..text.output import Refusal
from ..text.units import safe
from .energy import SCOPES

VERSION = 1
BASELINE = "off"
RUNS_MAX = 10_000
_STEP = re.compile(r"[0-9]{1,10}")
_JOB = re.compile(r"[1-9][0-9]{0,9}|")
_POLICY = re.compile(r"[A-Za-z0-9_.-]{1,64}(,[a-z]+(=[A-Za-z0-9_./-]{1,64})?)*")
NAME = "mpi-wait-try.json"
BYTES_MAX = 16 << 20


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    round: int  # from 1; 0 for the first run, which is thrown away
    policy: str
    status: int  # exit status, negative for a signal
    wall_s: float
    cpu_s: float | None = None
    figure: float | None = None  # the program's own figure of merit
    consumed_j: float | None = None  # joules by Slurm's own accounting
    joules: float | None = None  # joules by the job's record
    source: str = ""  # source of joules, from the record
    parts: str = ""  # the parts of the node that joules counts, from the record
    is_share: bool = False  # joules is the job's share of the nodes' energy, from the record
    local: dict[str, float] = field(default_factory=dict)  # joules by this node's counters, by scope (energy.py)
    lacks_gpus: bool = False  # local lacks one or more GPUs
    is_simulated: bool = False  # local comes from a simulated node
    used: str = ""  # the policy that ran, from the record
    job: str = ""  # the Slurm job of the run
    steps: tuple[str, ...] = ()  # the steps of the run in that job

    @property
    def processors_j(self) -> float | None:
        """The joules of processors and memory, by this node's counters."""
        return self.local["cpu"] + self.local.get("memory", 0.0) if "cpu" in self.local else None

    @property
    def with_gpus_j(self) -> float | None:
        """The joules of processors, memory and GPUs; None if one or more GPUs are not counted."""
        rest = self.joules if self.joules is not None else self.processors_j
        return None if rest is None or "gpu" not in self.local or self.lacks_gpus else rest + self.local["gpu"]

    def value(self, measure: str) -> float | None:
        return {
            "time": self.wall_s, "cpu": self.cpu_s, "figure": self.figure,
            "board": self.local.get("node"), "all": self.with_gpus_j, "energy": self.joules,
            "processors": self.processors_j, "gpus": self.local.get("gpu"), "consumed": self.consumed_j,
        }[measure]

    def kind(self, measure: str) -> tuple[str, ...]:
        """Returns the kind of a measure. Two runs can be compared only if theirs are equal: energies must be of one
        source and of the same parts."""
        of_record = measure == "energy" or (measure == "all" and self.joules is not None)
        return (self.source, self.parts) if of_record else (str(self.lacks_gpus),)


@dataclass(frozen=True)
class Experiment:
    """The settings of an experiment, and its runs so far."""

    command: tuple[str, ...]
    policies: tuple[str, ...]  # the candidates
    launcher: str
    figure: str = ""  # regular expression that finds the program's own figure of merit, "" for none
    more_is_better: bool = False
    allow: float = 0.01  # by how much a policy without slowdown= may be slower, as a part of 1
    seed: int = 0
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def with_run(self, run: Run) -> Experiment:
        return replace(self, runs=(*self.runs, run))

    def noted(self, note: str) -> Experiment:
        return self if note in self.notes else replace(self, notes=(*self.notes, note))

    def is_same(self, other: Experiment) -> bool:
        """Returns True if the runs of both experiments can be put together."""
        keys = ("command", "policies", "launcher", "figure")
        return all(getattr(self, key) == getattr(other, key) for key in keys)

    def rounds(self) -> Iterator[dict[str, Run]]:
        """Yields for each round its runs by policy. Leaves out rounds in which the program failed without a policy."""
        found: dict[int, dict[str, Run]] = {}
        for run in self.runs:
            found.setdefault(run.round, {})[run.policy] = run
        for number, runs in sorted(found.items()):
            if number and BASELINE in runs and runs[BASELINE].status == 0:
                yield runs

    def pairs(self, policy: str, measure: str) -> list[tuple[float, float]]:
        """Returns (value without, value with the policy) of each round in which both runs ended well, both values are
        known, and both are of one kind."""
        found = []
        for runs in self.rounds():
            if policy not in runs or runs[policy].status:
                continue
            bare, other = runs[BASELINE], runs[policy]
            before, after = bare.value(measure), other.value(measure)
            if before is None or after is None or bare.kind(measure) != other.kind(measure):
                continue
            found.append((before, after))
        return found

    def done(self) -> int:
        """Returns the number of whole rounds. A policy under which the program failed need not be in them."""
        left = [policy for policy in self.policies if not self.is_out(policy)]
        return sum(1 for runs in self.rounds() if all(policy in runs for policy in left))

    def failures(self, policy: str) -> list[Run]:
        return [run for run in self.runs if run.policy == policy and run.status]

    def is_out(self, policy: str) -> bool:
        """Returns True if the policy is not run again, because the program failed under it."""
        return policy != BASELINE and bool(self.failures(policy))


def is_policy(text: str) -> bool:
    return _POLICY.fullmatch(text) is not None


def as_json(experiment: Experiment) -> dict[str, Any]:
    runs = [{key: value for key, value in asdict(run).items() if value not in (None, "", (), {}) and value is not False}
            for run in experiment.runs]
    return {"mpi_wait_try": VERSION, **asdict(experiment), "runs": runs}


def _bad(where: str) -> Refusal:
    return Refusal(f"the state of the experiment is damaged: {safe(where)} is not as this release writes it")


def _checked(body: Any, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
    value = body.get(key, default)
    if isinstance(value, bool) and kind is not bool or not isinstance(value, kind):
        raise _bad(key)
    return value


def _texts(body: Any, key: str) -> tuple[str, ...]:
    words = _checked(body, key, (list, tuple), ())
    if not all(isinstance(word, str) for word in words):
        raise _bad(key)
    return tuple(words)


def _joules(body: Any) -> dict[str, float]:
    values = _checked(body, "local", dict, {})
    if not set(values) <= set(SCOPES):
        raise _bad("local")
    return {key: _number(values, key) or 0.0 for key in values}


def _number(body: Any, key: str) -> float | None:
    if key not in body:
        return None
    value = _checked(body, key, (int, float))
    if not math.isfinite(value) or (value < 0 and key != "figure"):
        raise _bad(key)
    return float(value)


def _run(body: Any, policies: tuple[str, ...]) -> Run:
    if not isinstance(body, dict):
        raise _bad("runs")
    run = Run(
        round=_checked(body, "round", int), policy=_checked(body, "policy", str), status=_checked(body, "status", int),
        wall_s=_number(body, "wall_s") or 0.0, cpu_s=_number(body, "cpu_s"), figure=_number(body, "figure"),
        consumed_j=_number(body, "consumed_j"), joules=_number(body, "joules"),
        source=_checked(body, "source", str, ""), parts=_checked(body, "parts", str, ""),
        is_share=_checked(body, "is_share", bool, False), local=_joules(body),
        lacks_gpus=_checked(body, "lacks_gpus", bool, False), is_simulated=_checked(body, "is_simulated", bool, False),
        used=_checked(body, "used", str, ""),
        job=_checked(body, "job", str, ""), steps=_texts(body, "steps"),
    )
    known = run.policy in (BASELINE, *policies) and run.round >= 0
    if not known or not _JOB.fullmatch(run.job) or not all(map(_STEP.fullmatch, run.steps)):
        raise _bad("runs")
    return run


def from_json(body: Any) -> Experiment:
    """Reads an experiment from the file's JSON. Raises Refusal if this release did not write it."""
    if not isinstance(body, dict) or "mpi_wait_try" not in body:
        raise Refusal("the file is no state of an experiment of 'mpi-wait try'")
    if body["mpi_wait_try"] != VERSION:
        raise Refusal(f"the experiment was begun by another release (version {safe(str(body['mpi_wait_try']))})")
    policies = _texts(body, "policies")
    runs = _checked(body, "runs", list, [])
    if len(runs) > RUNS_MAX or not all(map(is_policy, policies)) or not policies:
        raise _bad("runs")
    allow = _number(body, "allow")
    return Experiment(
        command=_texts(body, "command"), policies=policies, launcher=_checked(body, "launcher", str),
        figure=_checked(body, "figure", str, ""), more_is_better=_checked(body, "more_is_better", bool, False),
        allow=0.01 if allow is None else allow, seed=_checked(body, "seed", int),
        runs=tuple(_run(one, policies) for one in runs), notes=_texts(body, "notes"),
    )


class Store:
    def __init__(self, path: str) -> None:
        self.path = path
        self._written: tuple[int, int] | None = None  # the file when last read or written, None if absent

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be read: {error.strerror}") from None
        return status.st_ino, status.st_mtime_ns

    def load(self) -> Experiment | None:
        """Reads the experiment; None if there is no file."""
        self._written = self._stamp()
        if self._written is None:
            return None
        try:
            with open(self.path, "rb") as file:
                data = file.read(BYTES_MAX + 1)
            body = json.loads(data.decode("utf-8")) if len(data) <= BYTES_MAX else None
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            body = None
        try:
            return from_json(body)
        except Refusal as refusal:
            raise Refusal(f"{refusal} ('{safe(self.path, 200)}'; --new begins anew)") from None

    def forget(self) -> None:
        """Lets the next save() replace the file."""
        self._written = self._stamp()

    def save(self, experiment: Experiment) -> None:
        if self._stamp() != self._written:
            raise Refusal(f"another mpi-wait try writes '{safe(self.path, 200)}': one at a time, or --state FILE")
        part = f"{self.path}.{os.getpid()}"
        try:
            with open(part, "w", encoding="utf-8") as file:
                json.dump(as_json(experiment), file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be written: {error.strerror}") from None
        self._written = self._stamp()
