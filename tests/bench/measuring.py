"""Measures one benchmark, from the plan to the document, for tests/bench/run and a carried copy's `run`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from tests.bench import document, engine, machine
from tests.bench.picked import Picked
from tests.bench.plan import Plan

KEEP_S = 20  # describing the machine takes a second
NOT_REACHED = "not reached before it was ended"


def minutes(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@dataclass
class Asked:
    """A request. `rounds`: launches of each variant; 0: the usual number."""

    short: bool = False
    rounds: int = 0
    applications: dict[str, str] = field(default_factory=dict)
    picked: Picked = field(default_factory=Picked)


def measure(module: ModuleType, asked: Asked, begin: Callable[[int, float], None], step: Callable[[str], None],
            keep: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """Launches, judges, and returns the results. Closes what the benchmark opened.

    begin: called with the number of launches and their seconds, 0 if unknown. step: called with the next launch. keep:
    called about every KEEP_S seconds, after any group but the last, with the results so far, which say that they are
    incomplete.
    """
    began, before, stolen = time.time(), machine.loads(), machine.jiffies()
    measured = engine.Measured()
    rounds = asked.rounds or module.ROUNDS[asked.short]

    def made() -> dict[str, Any]:
        results = document.make(module.NAME, module.TITLE, measured, module.targets(measured), asked.short, rounds,
                                began, before)
        results["short"] = asked.short and not getattr(module, "SHORT_IS_A_PART", False)
        results["command"] += "".join(f" --pick {shlex.quote(text)}" for text in asked.picked.texts)
        return {**results, "stolen_percent": round(machine.stolen_percent(stolen, machine.jiffies()), 2)}

    with ExitStack() as stack:
        cells = module.cells(Plan(asked.short, stack, measured, asked.applications, asked.picked))
        if asked.rounds:
            cells = [replace(cell, rounds=asked.rounds) for cell in cells]
        begin(engine.launches(cells, rounds), engine.expected_s(cells, rounds))
        groups = len({cell.group for cell in cells})
        last = began

        def group_done() -> None:
            nonlocal last
            if keep and len(measured.groups()) < groups and time.time() >= last + KEEP_S:
                last = time.time()
                keep(with_note(made(), f"{groups - len(measured.groups())} of {groups} groups", NOT_REACHED))

        engine.run(cells, rounds, measured, step, group_done)
    return made()


def with_note(results: dict[str, Any], what: str, reason: str) -> dict[str, Any]:
    return {**results, "unavailable": {**results["unavailable"], what: reason}}
