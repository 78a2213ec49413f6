"""Injects one fault after another: a trial is repeated with its first call failing, then its second, until none fails.

$MPI_WAIT_FAULTS=full tries every call with every error; without it, every 61st ($MPI_WAIT_FAULT_STEP). The figures are
added up in the file $MPI_WAIT_FIGURES, if that is set (tests/soak/faults/run).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from tests.lib.record_tools import BUILD

MODULE = BUILD / "tests/lib/faults/fault.so"
RECORD_DRIVER = BUILD / "tests/lib/faults/record-driver"
FULL = os.environ.get("MPI_WAIT_FAULTS") == "full"
STEP = 1 if FULL else int(os.environ.get("MPI_WAIT_FAULT_STEP", "61"))
MOST = 20_000
SHOWN = 20


@dataclass(frozen=True)
class Plan:
    """The calls that fail, and how. `rest`: all calls after the first failing one fail too."""

    kind: str
    error: int
    rest: bool = False

    @property
    def name(self) -> str:
        return f"{errno.errorcode[self.error]} {'from then on' if self.rest else 'once'}"

    def environment(self, number: int, log: Path) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(MODULE),
            "MPIWAIT_FAULT": f"{self.kind}:{number}{'+' if self.rest else ''}:{self.error}",
            "MPIWAIT_FAULT_LOG": str(log),
            "MALLOC_PERTURB_": "165",
        }


ERRORS = {"memory": errno.ENOMEM, "io": errno.EIO}
PLANS = [Plan(kind, error, rest) for rest in (False, True) for kind, error in ERRORS.items()]
if FULL:
    PLANS += [Plan("io", errno.ENOSPC), Plan("io", errno.EMFILE)]

Trial = Callable[[dict[str, str]], None]
"""Runs the whole trial with that environment, and asserts what must hold afterwards."""


def walk(name: str, plan: Plan, folder: Path, trial: Trial, step: int = STEP) -> int:
    """Returns the number of injected faults. Ends with the first trial in which no call failed."""
    log = folder / "failed"
    faults, number, problems = 0, 1, []
    while len(problems) < SHOWN:
        assert number < MOST
        log.unlink(missing_ok=True)
        try:
            trial(plan.environment(number, log))
        except (AssertionError, TimeoutExpired) as problem:
            what = log.read_text().split()[0] if log.exists() else "nothing"
            problems.append(f"call {number}, {what}: {problem}")
        if not log.exists():
            break
        faults += 1
        number += step
    count("faults", faults, name)
    count("findings", len(problems), name)
    assert not problems, "\n".join([f"{name}, {plan.name}", *problems])
    assert faults, "nothing failed: is it preloaded?"
    return faults


def count(what: str, number: int, of: str) -> None:
    """Adds a figure to the file $MPI_WAIT_FIGURES."""
    if not (name := os.environ.get("MPI_WAIT_FIGURES")):
        return
    with open(name, "a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        have = json.loads(file.read() or "{}")
        row = have.setdefault(of, {})
        row[what] = row.get(what, 0) + number
        file.truncate(0)
        file.write(json.dumps(have))
