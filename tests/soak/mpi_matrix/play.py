"""Plays rows of the matrix, and judges them: no hang, the same results to the bit, and waits that are slept through."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lib.emulate import emulation
from tests.lib.libraries import BUILD, Mpi, Unavailable, launch
from tests.soak.mpi_matrix.plan import JUDGED, LAST, SPAWN, Row, coverage, lists, policy_variables

WAIT_MS, REFERENCE_MS = 50, 5
TIMEOUT_S = 90
TRIES = 4
SPAWN_TRIES = 3
# A wait that is slept through costs some hundredths, one that spins all of its time. In between lies the noise of a
# small virtual machine on which one nanosleep can cost what ten cost elsewhere; coverage.json has the aim, 20 %.
SPINS = 0.45

Cell = tuple[str, str, str]  # function, library, binding


@dataclass
class Outcome:
    """What one launch printed. A share is None where the call did not wait."""

    shares: dict[str, list[float | None]] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass
class Report:
    """What is known so far: shares by cell, what is wrong, and what could not be tried."""

    shares: dict[Cell, list[float | None]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    launches: int = 0

    def add(self, row: Row, outcome: Outcome) -> None:
        for function, shares in outcome.shares.items():
            self.shares.setdefault((function, row.mpi.name, row.binding), []).extend(shares)


def outcome_read(output: str) -> Outcome:
    outcome = Outcome()
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3:
            outcome.shares[words[0]] = [None if word == "-" else float(word) for word in words[1].split(",")]
            outcome.results[words[0]] = words[2]
    return outcome


def prefix_of(row: Row) -> tuple[str, ...]:
    """Others on its core make a rank that spins look like one that naps, and the other way round."""
    return emulation.undisturbed() if row.policy == JUDGED and SPAWN not in row.functions else ()


def row_launch(row: Row, milliseconds: int, repetitions: int, variables: dict[str, str]) -> Outcome:
    """MPICH 5 by UCX does not reach what it spawned in one launch of twenty or so, without the library too."""
    for _ in range(SPAWN_TRIES if SPAWN in row.functions else 1):
        outcome = launch_once(row, milliseconds, repetitions, variables)
        if not outcome.problem:
            break
    return outcome


def launch_once(row: Row, milliseconds: int, repetitions: int, variables: dict[str, str]) -> Outcome:
    arguments = [str(milliseconds), str(repetitions), *row.functions]
    status, output, errors = launch(row.mpi, row.binding, arguments, variables, TIMEOUT_S, prefix_of(row))
    outcome = outcome_read(output)
    missing = [name for name in (*row.functions, LAST) if name not in outcome.results]
    if status is None:
        outcome.problem = f"hung for {TIMEOUT_S} s in {missing[0] if missing else 'its launcher'}"
    elif status != 0 or missing:
        tail = " | ".join(errors.strip().splitlines()[-3:])
        outcome.problem = f"exit status {status}, without {', '.join(missing) or 'nothing'}: {tail}"[:600]
    return outcome


class References:
    """The results without the library, once per library, binding and functions."""

    def __init__(self, repetitions: int) -> None:
        self.repetitions = repetitions
        self.outcomes: dict[tuple, Outcome] = {}

    def of(self, row: Row) -> Outcome:
        key = (row.mpi.name, row.binding)
        known = self.outcomes.setdefault(key, Outcome())
        new = tuple(name for name in row.functions if name not in known.results)
        if new and not known.problem:
            played = row_launch(Row(row.mpi, row.binding, "none", new), REFERENCE_MS, self.repetitions, {})
            known.results.update(played.results)
            known.problem = played.problem
        return known


def row_play(row: Row, references: References, report: Report, repetitions: int) -> None:
    """One launch, compared with the reference; what went wrong is noted."""
    where = f"{row.mpi.name}, {row.binding}, {row.policy}"
    try:
        expected = references.of(row)
        variables = policy_variables(row.policy, BUILD / "tests/soak/mpi_matrix/counters")
        played = row_launch(row, WAIT_MS, repetitions, variables)
    except Unavailable as reason:
        report.unavailable[f"{row.mpi.title}, {row.binding}"] = str(reason)
        return
    report.launches += 2
    if expected.problem:
        report.problems.append(f"{where}: without the library: {expected.problem}")
        return
    if played.problem:
        report.problems.append(f"{where}: {played.problem}")
    for name, result in played.results.items():
        if result != expected.results.get(name, result):
            report.problems.append(f"{where}: {name} gave {result} instead of {expected.results[name]}")
    if row.policy == JUDGED:
        report.add(row, played)


def state_of(cell: Cell, shares: list[float | None]) -> str:
    """Either "naps", "spins" or "returns" (did not wait). What coverage.json says decides which doubt counts."""
    waits = [share for share in shares if share is not None]
    if not waits:
        return "returns"
    listed = lists("spins", *cell)
    return "spins" if (max(waits) if listed else min(waits)) > SPINS else "naps"


def cell_is_fine(cell: Cell, shares: list[float | None]) -> bool:
    state = state_of(cell, shares)
    if lists("unjudged", *cell):
        return True
    if lists("returns", *cell):
        return state == "returns"
    return state == ("spins" if lists("spins", *cell) else "naps")


def row_judge(row: Row, references: References, report: Report, repetitions: int, aimed: bool = False) -> None:
    """Plays a row of the judged policy again, with the cells that are not yet what they should be, a few times.

    With aimed, so does a cell above the aim: its figure is the median of all its waits, over a longer time then.
    """
    for _ in range(TRIES):
        known = len(report.problems)
        row_play(row, references, report, repetitions)
        doubtful = tuple(
            name for name in (*row.functions, LAST)
            if (cell := (name, row.mpi.name, row.binding)) in report.shares
            and (not cell_is_fine(cell, report.shares[cell]) or (aimed and cell in exceeding(report))))
        if not doubtful or len(report.problems) > known:
            break
        row = Row(row.mpi, row.binding, row.policy, tuple(name for name in doubtful if name != LAST) or ("Barrier",))


def cell_problem(cell: Cell, shares: list[float | None]) -> str:
    where = f"{cell[0]} ({cell[1]}, {cell[2]})"
    state = state_of(cell, shares)
    seen = ", ".join("-" if share is None else f"{share:.2f}" for share in shares)
    said = "spins" if lists("spins", *cell) else "returns" if lists("returns", *cell) else "naps"
    reason = lists("spins", *cell) or lists("returns", *cell)
    return f"{where} {state}, but tests/coverage.json says that it {said}{f' ({reason})' if reason else ''}: {seen}"


def cells_judge(report: Report) -> list[str]:
    return [cell_problem(cell, shares) for cell, shares in sorted(report.shares.items())
            if not cell_is_fine(cell, shares)]


def exceeding(report: Report) -> dict[Cell, float]:
    """Cells whose median is above the aim though they are not listed as spinning."""
    medians = {cell: median(shares) for cell, shares in report.shares.items()
               if not lists("spins", *cell) and not lists("unjudged", *cell)}
    return {cell: share for cell, share in medians.items() if share is not None and share > coverage()["aim"]}


def median(shares: list[float | None]) -> float | None:
    waits = sorted(share for share in shares if share is not None)
    return waits[len(waits) // 2] if waits else None


def columns(report: Report, mpis: tuple[Mpi, ...], binding: str) -> list[Mpi]:
    return [mpi for mpi in mpis if any(cell[1:] == (mpi.name, binding) for cell in report.shares)]
