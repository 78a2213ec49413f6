"""Measures the merge of a job's record from many nodes: time, memory and size. tests/bench/record measures; this file
shows."""

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
from tests.bench.targets import Target, at_most, number, worst

NAME = "record"
TITLE = "The record of a large job"
ROUNDS = (1, 1)
PROGRAM = Path(__file__).resolve().parents[1] / "record"
GROUP, VARIANT = "merge", "nap"
NODES, NODES_SHORT = (1, 10, 100, 1000, 10000), (1, 10)
RANKS, RANKS_SHORT = (1, 16, 128, 256), (2,)  # ranks on each node
FIGURES = {"merge_s": "seconds", "memory_mib": "max_rss_mib", "bytes": "record_bytes"}
COLUMN_BYTES = 60000  # limit of a record; slurmdbd's column has 65535 bytes
LARGE = {"nodes": 10000, "ranks": 128}
MOST_S = 600


def play(nodes: tuple[int, ...], ranks: int) -> list[Sample]:
    """Runs tests/bench/record. Exit status 1 means that a limit was exceeded, which is a result."""
    command = [str(PROGRAM), "--json", f"--ranks={ranks}", "--nodes", *map(str, nodes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, check=False)
    try:
        found = json.loads(done.stdout)["results"]
        return [({"nodes": item["nodes"], "ranks": ranks},
                 {figure: float(item[key]) for figure, key in FIGURES.items()}) for item in found]
    except (ValueError, KeyError, TypeError) as error:
        said = done.stderr.strip()[-300:]
        raise Failure(f"tests/bench/record ({done.returncode}): {said or repr(error)}") from error


def cells(plan: Plan) -> list[Cell]:
    if not os.access(PROGRAM, os.X_OK) or os.geteuid() != 0:
        plan.measured.unavailable["record"] = "there is no tests/bench/record, or the user is not root"
        return []
    nodes, every = (NODES_SHORT, RANKS_SHORT) if plan.short else (NODES, RANKS)
    return [Cell(GROUP, VARIANT, partial(play, nodes, ranks)) for ranks in every]


def targets(measured: Measured) -> list[Target]:
    large = measured.find(GROUP, VARIANT, **LARGE)
    why = f"{number(LARGE['nodes'])} nodes of {LARGE['ranks']} ranks"
    return [
        at_most("size of the largest record", worst([row.median("bytes") for row in measured.select(GROUP)]),
                COLUMN_BYTES, "bytes"),
        at_most("time to merge a large job's record", large.median("merge_s") if large else None, 10, "s", why),
        at_most("memory to merge a large job's record", large.median("memory_mib") if large else None, 256, "MiB", why),
    ]


def draw(results: dict[str, Any]) -> Any:
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(11, 3.8))
    rows = results["rows"]
    labels = ("merge time (s)", "memory, at most (MiB)", "size of the record (kB)")
    for axes, name, label, factor in zip(panels, FIGURES, labels, (1, 1, 1e-3)):
        for place, ranks in enumerate(sorted({row["point"]["ranks"] for row in rows})):
            mine = [row for row in rows if row["point"]["ranks"] == ranks]
            label = f"{ranks} rank{'s' if ranks > 1 else ''} a node"
            picture.line(axes, mine, "nodes", name, label, factor, number=place)
        picture.plain_log(axes, "x")
        axes.set_xlabel("nodes of the job")
        axes.set_ylabel(label)
        if name != "bytes":
            picture.plain_log(axes, "y")
    panels[2].axhline(COLUMN_BYTES * 1e-3, color="#888888", linestyle="--", linewidth=0.9)
    panels[2].set_ylim(bottom=0)
    picture.legend(figure, panels[:1])
    return figure
