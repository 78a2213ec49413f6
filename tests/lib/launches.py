"""Launches ranks with a stats segment, and the program `late`, whose rank 0 stays away until rank 1 has slept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.lib.doubles import segment_tool
from tests.lib.libraries import LIBRARY, MEMORY, Mpi, absence, execute

OWN = ("LD_PRELOAD", "MPI_WAIT_CONFIG", "MPI_WAIT_POLICY")
NAP = segment_tool.NAP
SLEEPS = ("umwait", "mwaitx", "nap", "event")  # rungs in which the rank is off its core, or the core sleeps
WAIT_MS = 30000
"""The longest absence of rank 0 if rank 1 does not sleep. Rank 1 sleeps earlier even on a very busy machine."""


def rungs_mask(rungs: tuple[str, ...]) -> str:
    return f"{sum(1 << segment_tool.RUNG_NAMES.index(rung) for rung in rungs):x}"


@dataclass(frozen=True)
class Absence:
    """How rank 0's absence ends, by the rules of absence.h. In the calls that `spins` names, the absence lasts 50
    ms."""

    sleeps: int = 3
    rungs: tuple[str, ...] = SLEEPS
    asleep: bool = False
    spins: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        found = {"LATE_SLEEPS": str(self.sleeps), "LATE_RUNGS": rungs_mask(self.rungs),
                 "LATE_SPINS": ",".join(self.spins)}
        return {**found, "LATE_ASLEEP": "1"} if self.asleep else found


@dataclass(frozen=True)
class Seen:
    """One call as rank 1 saw it, by repetition. A repetition in which the call did not wait has share None and end
    "r"."""

    shares: list[float | None]
    sleeps: list[int]
    ends: str
    result: str


@dataclass
class Launched:
    """A finished launch. `status` is None if it hung and was killed. `segment` holds the ranks' figures."""

    status: int | None
    output: str
    errors: str
    segment: dict[str, Any] = field(default_factory=dict)

    def seen(self) -> dict[str, Seen]:
        """Returns what rank 1 of the program `late` saw, by function."""
        found = {}
        for words in (line.split() for line in self.output.splitlines()):
            if len(words) == 5:
                shares = [None if word == "-" else float(word) for word in words[1].split(",")]
                found[words[0]] = Seen(shares, [int(word) for word in words[2].split(",")], words[3], words[4])
        return found


def napping(flat: str = NAP) -> dict[str, str]:
    """Returns the variables that give a rank a policy."""
    return {"LD_PRELOAD": str(LIBRARY), "MPI_WAIT_CONFIG": flat if flat.startswith("v=") else f"v=1;{flat}"}


@contextmanager
def segment(slots: int = 64) -> Iterator[int]:
    """Makes a segment. The ranks open it through /proc, as below a launcher that closes inherited descriptors."""
    made = segment_tool.segment_make(slots)
    try:
        yield made
    finally:
        os.close(made)


def configured(variables: dict[str, str], made: int) -> dict[str, str]:
    """Returns the variables with the segment added to the policy, as slurmstepd would."""
    if "MPI_WAIT_CONFIG" not in variables:
        return variables
    flat = f"{variables['MPI_WAIT_CONFIG']};{segment_tool.segment_field(made)}"
    return {**variables, "MPI_WAIT_CONFIG": flat, "LATE_SEGMENT": f"/proc/{os.getpid()}/fd/{made}"}


def environment_of(mpi: Mpi, binding: str = "C") -> dict[str, str]:
    """Returns the launcher's environment, without the variables of the project."""
    variables = {key: value for key, value in os.environ.items() if key not in OWN}
    return {**variables, **mpi.environment(binding)}


def ranks_launch(mpi: Mpi, command: list[Any], variables: dict[str, str], *, ranks: int = 2, timeout_s: float = 100,
                 options: tuple[str, ...] = (), prefix: tuple[str, ...] = (), **more: str) -> Launched:
    """Runs a command on ranks. `variables` and `prefix` reach the ranks only, `more` the launcher too."""
    with segment() as made:
        rank = [*prefix, "env", *(f"{key}={value}" for key, value in configured(variables, made).items())]
        words = [*mpi.launcher(), *options, "-n", str(ranks), *rank, *map(str, command)]
        done = execute(words, {**environment_of(mpi), **more}, timeout_s)
        return Launched(*done, segment_tool.segment_read(made))


def late_launch(mpi: Mpi, binding: str, arguments: list[str], variables: dict[str, str], timeout_s: float, *,
                ends: Absence | None = None, options: tuple[str, ...] = (), prefix: tuple[str, ...] = ()) -> Launched:
    """Runs `late MILLISECONDS REPETITIONS FUNCTION...` in that binding."""
    command = mpi.command(binding)
    more = {**mpi.environment(binding), "LATE_PROGRAM": command[0]}
    if binding == "mpi4py":
        more["LATE_ABSENCE"] = str(absence())
    with tempfile.TemporaryDirectory(prefix="mpi-late-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        rank = {**variables, "LATE_FOLDER": folder, **(ends.variables() if ends else {})}
        return ranks_launch(mpi, [*command, *arguments], rank, timeout_s=timeout_s, options=options, prefix=prefix,
                            **more)
