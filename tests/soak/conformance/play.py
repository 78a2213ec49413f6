"""Plays the rows: a program under a policy, beside the same program without the library."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.variants import UCX
from tests.lib.doubles import segment_tool
from tests.lib.launches import segment
from tests.lib.libraries import BUILD, Mpi, Unavailable, execute
from tests.soak.conformance import packages
from tests.soak.conformance.compare import Lines, Reference, stable
from tests.soak.conformance.programs import Program
from tests.soak.conformance.work import Work, configured, work_of
from tests.soak.mpi_matrix.plan import EMULATED, policies, policy_variables

REFERENCE_S = 600  # a program may take so long without the library
REFERENCES = 3  # runs without the library, which tell what is not the same each time
LEAST_S, TIMES = 90, 20  # with it, so long, or that many times as long as without it
OWN = ("LD_PRELOAD", "MPI_WAIT_CONFIG", "MPI_WAIT_POLICY")
SERIAL = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # threads add in another order


Key = tuple[str, str, tuple[str, ...]]  # program, library, transport


class Failure(Exception):
    """A launch did not do what it should; the text says what."""


@dataclass(frozen=True)
class Row:
    program: Program
    mpi: Mpi
    policy: str

    def transport(self) -> tuple[str, ...]:
        """Events are UCX's, which Open MPI uses on one node only when told to."""
        return UCX if self.policy == "event" and self.mpi.name == "openmpi" else ()

    def __str__(self) -> str:
        return f"{self.program.name}, {self.mpi.name}, {self.policy}"


@dataclass
class Outcome:
    """Of one launch."""

    lines: Lines
    seconds: float
    work: Work


@dataclass
class Verdict:
    """Of one row. Without a problem, all that was compared was equal, and the library was at work."""

    row: Row
    problems: list[str]
    work: Work = field(default_factory=Work)
    compared: int = 0
    left_out: int = 0
    seconds: float = 0


def words_of(row: Row, variables: dict[str, str], short: bool) -> list[str]:
    """`variables` reach the ranks only."""
    rank = ["env", *(f"{key}={value}" for key, value in variables.items())]
    return [*row.mpi.launcher(), *row.transport(), "-n", str(row.program.ranks), *rank,
            *row.program.words(row.mpi, short)]


def environment_of(mpi: Mpi) -> dict[str, str]:
    variables = {key: value for key, value in os.environ.items() if key not in OWN}
    return {**variables, **mpi.environment("C"), **SERIAL}


def lines_read(program: Program, folder: Path, output: str, errors: str) -> Lines:
    """Raises Failure where a file was not written."""
    texts = {"stdout": output, **({"stderr": errors} if "stderr" in program.files else {})}
    for name in set(program.files) - set(texts):
        try:
            texts[name] = (folder / name).read_text(errors="replace")
        except OSError:
            raise Failure(f"no {name} was written") from None
    return {name: stable(text, program.keep, program.cut) for name, text in texts.items()}


def has_cores(row: Row) -> bool:
    """One for each rank."""
    return row.program.ranks <= (os.cpu_count() or 1)


def launch(row: Row, short: bool, timeout_s: float, bare: bool = False) -> Outcome:
    """In a directory of its own. bare: without the library, over what the row's policy would use."""
    folder = Path(tempfile.mkdtemp(prefix="conformance-", dir=BUILD))
    try:
        row.program.prepare(folder, short)
        variables = {} if bare else policy_variables(row.policy, folder / "counters")
        with segment() as made:
            words = words_of(row, configured(variables, made, row.policy, not has_cores(row)), short)
            began = time.monotonic()
            status, output, errors = execute(words, environment_of(row.mpi), timeout_s, folder)
            seconds = time.monotonic() - began
            work = work_of(segment_tool.segment_read(made))
            work.shared = not has_cores(row)
        if status != 0:
            said = " | ".join((errors.strip() or output.strip()).splitlines()[-3:])[:400]
            raise Failure(f"hung for {timeout_s:.0f} s" if status is None else f"exit status {status}: {said}")
        return Outcome(lines_read(row.program, folder, output, errors), seconds, work)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def absent(mpi: Mpi) -> str:
    """Why this machine cannot have it; asked once, because it may take a while to learn that there is no network."""
    try:
        mpi.launcher()
    except Unavailable as reason:
        return str(reason)
    return ""


class References:
    """What programs print without the library: each runs a few times when it is first asked for."""

    def __init__(self, short: bool) -> None:
        self.short = short
        self.known: dict[Key, Reference] = {}
        self.failures: dict[Key, Failure | Unavailable] = {}

    def of(self, row: Row) -> Reference:
        key = (row.program.name, row.mpi.name, row.transport())
        if key in self.failures:
            raise self.failures[key]
        if key not in self.known:
            try:
                self.known[key] = self.made(row)
            except (Failure, Unavailable) as failure:
                self.failures[key] = failure
                raise
        return self.known[key]

    def made(self, row: Row) -> Reference:
        if reason := absent(row.mpi):
            raise Unavailable(reason)
        packages.provide(row.program.section, row.program.needs(row.mpi))
        first = self.launch(row)
        reference = Reference(first.lines, seconds=first.seconds)
        for _ in range(1, REFERENCES):
            reference.learn(self.launch(row).lines)
        return reference

    def launch(self, row: Row) -> Outcome:
        try:
            return launch(row, self.short, REFERENCE_S, bare=True)
        except Failure as failure:
            raise Failure(f"without the library: {failure}") from None


def row_play(row: Row, references: References) -> Verdict:
    """Raises Unavailable where this machine cannot have the program or the policy."""
    if row.program.traps and row.policy in EMULATED and row.policy not in policies():
        raise Unavailable("the program's own handler of SIGILL takes the place of the emulator's")
    try:
        expected = references.of(row)
        if not expected.compared():
            raise Failure("no line is the same each time without the library")
        outcome = launch(row, references.short, max(LEAST_S, TIMES * expected.seconds))
    except Failure as failure:
        return Verdict(row, [str(failure)])
    wrong = expected.differences(outcome.lines)
    idle = outcome.work.problem(row.policy, row.program.ranks)
    return Verdict(row, [*wrong[:3], *([idle] if idle else [])], outcome.work, expected.compared(),
                   len(expected.left_out), outcome.seconds)
