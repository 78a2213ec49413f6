"""Merging the record of a job of many nodes: time, memory and size. tests/bench/record measures, this file shows.

It is asked with --json (and --short), and prints {"rows": [{"nodes", "ranks", "merge_s", "memory_mib", "bytes"}]}.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import picture
from tests.bench.engine import Cell, Failure, Measured, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, worst

NAME = "record"
TITLE = "The record of a large job"
ROUNDS = (1, 1)
PROGRAM = Path(__file__).resolve().parents[1] / "record"
GROUP, VARIANT = "merge", "nap"
FIGURES = ("merge_s", "memory_mib", "bytes")
COLUMN_BYTES = 60000  # what a record may have; slurmdbd's column has 65535
MOST_S = 600


def play(short: bool) -> list[Sample]:
    command = [str(PROGRAM), "--json", *(["--short"] if short else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, check=False)
    if done.returncode:
        raise Failure(f"tests/bench/record: {done.stderr.strip()[-300:]}")
    try:
        rows = json.loads(done.stdout)["rows"]
        return [({"nodes": row["nodes"], "ranks": row["ranks"]}, {figure: float(row[figure]) for figure in FIGURES})
                for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"tests/bench/record printed something else than its rows: {error!r}") from error


def cells(plan: Plan) -> list[Cell]:
    if not os.access(PROGRAM, os.X_OK):
        plan.measured.unavailable["record"] = "there is no tests/bench/record"
        return []
    return [Cell(GROUP, VARIANT, partial(play, plan.short))]


def targets(measured: Measured) -> list[Target]:
    return [at_most("size of the largest record", worst([row.median("bytes") for row in measured.select(GROUP)]),
                    COLUMN_BYTES, "bytes")]


def draw(results: dict[str, Any]) -> Any:
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(11, 3.8))
    rows = results["rows"]
    labels = ("merge time (s)", "memory, at most (MiB)", "size of the record (kB)")
    for axes, name, label, factor in zip(panels, FIGURES, labels, (1, 1, 1e-3)):
        for place, ranks in enumerate(sorted({row["point"]["ranks"] for row in rows})):
            mine = [row for row in rows if row["point"]["ranks"] == ranks]
            picture.line(axes, mine, "nodes", name, f"{ranks} ranks per node", factor, number=place)
        axes.set_xscale("log")
        axes.set_xlabel("nodes of the job")
        axes.set_ylabel(label)
        if name != "bytes":
            axes.set_yscale("log")
    panels[2].axhline(COLUMN_BYTES * 1e-3, color="#888888", linestyle="--", linewidth=0.9)
    panels[2].set_ylim(bottom=0)
    panels[0].legend(fontsize=8)
    return figure
