"""Plays rows of the matrix, and judges them: no hang, the same results to the bit, and waits in which a rank sleeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lib.emulate import emulation
from tests.lib.launches import SLEEPS, Absence, Seen, late_launch
from tests.lib.libraries import BUILD, Mpi, Unavailable
from tests.soak.mpi_matrix.plan import LAST, SPAWN, Row, coverage, lists, policy_variables

WAIT_MS, REFERENCE_MS = 50, 5
RESTED_MS = 20000
"""The partner comes once the rank has slept; that it has not by now is what "spins" means."""
TIMEOUT_S = 90
RUNGS = {"yield": ("yield",), "umwait": (*SLEEPS, "yield"), "mwaitx": (*SLEEPS, "yield"), "event": SLEEPS,
         "nap": SLEEPS}
"""The rungs that count as sleeps under a policy. A rank that shares its core yields where an instruction would hold
it."""

Cell = tuple[str, str, str]  # function, library, binding


@dataclass
class Outcome:
    """What one launch printed."""

    seen: dict[str, Seen] = field(default_factory=dict)
    problem: str = ""


@dataclass
class Report:
    """What is known so far: shares by cell, cells whose sleeps were counted, what is wrong, what could not be tried."""

    shares: dict[Cell, list[float | None]] = field(default_factory=dict)
    counted: set[Cell] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    launches: int = 0


def row_launch(row: Row, milliseconds: int, repetitions: int, variables: dict[str, str],
               ends: Absence | None = None, prefix: tuple[str, ...] = ()) -> Outcome:
    arguments = [str(milliseconds), str(repetitions), *row.functions]
    done = late_launch(row.mpi, row.binding, arguments, variables, TIMEOUT_S, ends=ends, prefix=prefix)
    outcome = Outcome(done.seen())
    missing = [name for name in (*row.functions, LAST) if name not in outcome.seen]
    if done.status is None:
        outcome.problem = f"hung for {TIMEOUT_S} s in {missing[0] if missing else 'its launcher'}"
    elif done.status != 0 or missing:
        tail = " | ".join(done.errors.strip().splitlines()[-3:])
        outcome.problem = f"exit status {done.status}, without {', '.join(missing) or 'nothing'}: {tail}"[:600]
    return outcome


class References:
    """The results without the library, once per library, binding and functions."""

    def __init__(self, repetitions: int) -> None:
        self.repetitions = repetitions
        self.outcomes: dict[tuple, Outcome] = {}

    def of(self, row: Row) -> Outcome:
        key = (row.mpi.name, row.binding)
        known = self.outcomes.setdefault(key, Outcome())
        new = tuple(name for name in row.functions if name not in known.seen)
        if new and not known.problem:
            played = row_launch(Row(row.mpi, row.binding, "none", new), REFERENCE_MS, self.repetitions, {})
            known.seen.update(played.seen)
            known.problem = played.problem
        return known


def where_of(row: Row) -> str:
    return f"{row.mpi.name}, {row.binding}, {row.policy}"


def compared(row: Row, references: References, report: Report, milliseconds: int, ends: Absence | None,
             prefix: tuple[str, ...] = ()) -> Outcome | None:
    """One launch, compared with the reference; what went wrong is noted. None where it could not be tried."""
    try:
        expected = references.of(row)
        variables = policy_variables(row.policy, BUILD / "tests/soak/mpi_matrix/counters")
        played = row_launch(row, milliseconds, references.repetitions, variables, ends, prefix)
    except Unavailable as reason:
        report.unavailable[f"{row.mpi.title}, {row.binding}"] = str(reason)
        return None
    report.launches += 2
    if expected.problem:
        report.problems.append(f"{where_of(row)}: without the library: {expected.problem}")
        return None
    if played.problem:
        report.problems.append(f"{where_of(row)}: {played.problem}")
    for name, seen in played.seen.items():
        known = expected.seen[name].result if name in expected.seen else seen.result
        if seen.result != known:
            report.problems.append(f"{where_of(row)}: {name} gave {seen.result} instead of {known}")
    return played


def judged(row: Row, played: Outcome) -> dict[str, Seen]:
    """What counts as a cell: not how a program ends that has spawned, perhaps over another network (plan.spawning)."""
    return {name: seen for name, seen in played.seen.items() if name != LAST or SPAWN not in row.functions}


def row_play(row: Row, references: References, report: Report) -> None:
    """With a partner that comes once the rank has slept, and does not where the policy has no sleeps."""
    spins = tuple(name for name in (*row.functions, LAST)
                  if expected_state((name, row.mpi.name, row.binding)) in ("spins", "unjudged"))
    rungs = RUNGS.get(row.policy)
    ends = Absence(rungs=rungs, asleep=row.policy == "event", spins=spins) if rungs else None
    played = compared(row, references, report, RESTED_MS if ends else REFERENCE_MS, ends)
    if not played or not ends:
        return
    for name, seen in judged(row, played).items():
        cell = (name, row.mpi.name, row.binding)
        report.counted.add(cell)
        if problem := cell_problem(cell, seen):
            report.problems.append(f"{where_of(row)}: {problem}")


def row_measure(row: Row, references: References, report: Report) -> None:
    """With a partner that comes WAIT_MS late: the share of CPU time. Others on its core would spoil the figure."""
    prefix = emulation.undisturbed() if SPAWN not in row.functions else ()
    played = compared(row, references, report, WAIT_MS, None, prefix)
    for name, seen in judged(row, played).items() if played else ():
        report.shares.setdefault((name, row.mpi.name, row.binding), []).extend(seen.shares)


def expected_state(cell: Cell) -> str:
    """What coverage.json says: a cell that it does not list sleeps."""
    return next((kind for kind in ("unjudged", "returns", "spins") if lists(kind, *cell)), "sleeps")


def state_of(seen: Seen) -> str:
    """Of a cell whose sleeps were counted: what it did every time, or "differs"."""
    states = {{"r": "returns", "n": "sleeps", "s": "sleeps"}.get(end, "spins") for end in seen.ends}
    return states.pop() if len(states) == 1 else "differs"


def cell_problem(cell: Cell, seen: Seen) -> str:
    """Empty if there is none."""
    state, expected = state_of(seen), expected_state(cell)
    if expected in (state, "unjudged"):
        return ""
    reason = lists(expected, *cell) if expected != "sleeps" else ""
    return (f"{cell[0]} {state}, but tests/coverage.json says that it {expected}{f' ({reason})' if reason else ''}: "
            f"sleeps {', '.join(map(str, seen.sleeps))}, ends {seen.ends}")


def median(shares: list[float | None]) -> float | None:
    waits = sorted(share for share in shares if share is not None)
    return waits[len(waits) // 2] if waits else None


def exceeding(report: Report) -> dict[Cell, float]:
    """Cells whose median is above the aim though they are not listed as spinning."""
    medians = {cell: median(shares) for cell, shares in report.shares.items()
               if not lists("spins", *cell) and not lists("unjudged", *cell)}
    return {cell: share for cell, share in medians.items() if share is not None and share > coverage()["aim"]}


def shares_judge(report: Report) -> list[str]:
    """Cells above the aim. Not those of which coverage.json says that this kind of machine breaks the promise."""
    return [f"{', '.join(cell)}: {100 * share:.0f} % of a CPU, above the aim of {100 * coverage()['aim']:.0f}"
            for cell, share in sorted(exceeding(report).items()) if not lists("above", *cell)]


def columns(report: Report, mpis: tuple[Mpi, ...], binding: str) -> list[Mpi]:
    cells = {*report.shares, *report.counted}
    return [mpi for mpi in mpis if any(cell[1:] == (mpi.name, binding) for cell in cells)]


