"""Measures one benchmark, from the plan to the document; tests/bench/run and a carried copy's `run` both do it so."""

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


def minutes(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@dataclass
class Asked:
    """`rounds`: launches of each variant; 0: as many as usual."""

    short: bool = False
    rounds: int = 0
    applications: dict[str, str] = field(default_factory=dict)
    picked: Picked = field(default_factory=Picked)


def measure(module: ModuleType, asked: Asked, begin: Callable[[int, float], None],
            step: Callable[[str], None]) -> dict[str, Any]:
    """Launches, judges, and returns the results; what the benchmark opened is closed again.

    `begin` is told how many launches there are, and how many seconds they take, 0 if unknown; `step` what comes next.
    """
    began, before, stolen = time.time(), machine.loads(), machine.jiffies()
    measured = engine.Measured()
    rounds = asked.rounds or module.ROUNDS[asked.short]
    with ExitStack() as stack:
        cells = module.cells(Plan(asked.short, stack, measured, asked.applications, asked.picked))
        if asked.rounds:
            cells = [replace(cell, rounds=asked.rounds) for cell in cells]
        begin(engine.launches(cells, rounds), engine.expected_s(cells, rounds))
        engine.run(cells, rounds, measured, step)
    judged = module.targets(measured)
    results = document.make(module.NAME, module.TITLE, measured, judged, asked.short, rounds, began, before)
    results["short"] = asked.short and not getattr(module, "SHORT_IS_A_PART", False)
    results["command"] += "".join(f" --pick {shlex.quote(text)}" for text in asked.picked.texts)
    return {**results, "stolen_percent": round(machine.stolen_percent(stolen, machine.jiffies()), 2)}
