"""Measures many ranks on shared cores: a farm, a pipeline, a tree, a halo exchange, a non-blocking collective."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from tests.bench import binding, picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, worst
from tests.bench.variants import BARE, KNOBS, Variant
from tests.lib.libraries import BY_NAME, Mpi

NAME = "patterns"
TITLE = "More ranks than two"
ROUNDS = (3, 1)
MPI_NAMES, MPI_NAMES_SHORT = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel"), ("openmpi", "mpich")
PATTERNS = ("farm", "pipeline", "tree", "halo", "iallreduce")
POLICIES = ("nap", "ladder", "yield")
JUDGED = ("nap",)
RANKS, RANKS_SHORT = (16, 64), (16,)
WORK_US = 300
STEPS, STEPS_SHORT, STEPS_POLLING = 20, 3, 1  # where ranks poll, a step takes time slices: seconds with 64 ranks


def group_of(mpi: Mpi, ranks: int) -> str:
    return f"{mpi.name}, {ranks} ranks"


def samples_read(output: str, ranks: int) -> list[Sample]:
    samples: list[Sample] = []
    for words in (line.split() for line in output.splitlines() if line.startswith("pattern ")):
        wall_us, cpu_us, work_us = (float(words[place]) for place in (4, 5, 6))
        samples.append(({"pattern": words[1], "ranks": ranks},
                        {"step_wall_us": wall_us, "step_cpu_us": cpu_us, "cpu_over_work": cpu_us / work_us}))
    return samples


def play(mpi: Mpi, variant: Variant, ranks: int, short: bool) -> list[Sample]:
    steps = STEPS_POLLING if variant.name == BARE else STEPS_SHORT if short else STEPS
    command = [str(variants.program(mpi, "patterns")), f"{WORK_US}:{steps}"]
    samples = samples_read(binding.launch(mpi, variant, ranks, command), ranks)
    if len(samples) != len(PATTERNS):
        raise Failure(f"figures of {len(samples)} patterns, not of {len(PATTERNS)}")
    return samples


def cells(plan: Plan) -> list[Cell]:
    names, counts = (MPI_NAMES_SHORT, RANKS_SHORT) if plan.short else (MPI_NAMES, RANKS)
    cores = len(os.sched_getaffinity(0))
    found = []
    for mpi in variants.available(names, "patterns", plan.measured.unavailable):
        for ranks in counts:
            compared = [variants.bare(mpi), *variants.knob(mpi),
                        *variants.policy_variants(mpi, POLICIES, shared=ranks > cores)]
            found += [Cell(group_of(mpi, ranks), variant.name, partial(play, mpi, variant, ranks, plan.short))
                      for variant in compared]
    return found


def reference_of(group: str) -> str:
    """Returns the runtime's own setting for shared cores, or no library if it has none (Debian's MPICH 4.0)."""
    name = group.partition(",")[0]
    return KNOBS[name].name if name in KNOBS else BARE


def compared(measured: Measured, variant: str, figure: str) -> dict[str, float | None]:
    return {f"{row.group}, {row.point['pattern']}":
            ratio(row, measured.find(row.group, reference_of(row.group), **row.point), figure)
            for row in measured.select(variant=variant)}


def named(values: dict[str, float | None]) -> str:
    """Returns a text that names each pattern once, with the worst of the libraries and sizes."""
    found = []
    for pattern in PATTERNS:
        known = [(value, where) for where, value in values.items()
                 if value is not None and where.endswith(f", {pattern}")]
        if known:
            value, where = max(known)
            found.append(f"{pattern}: {number(value)} ({where.rpartition(', ')[0]})")
    return "; ".join(found)


def targets(measured: Measured) -> list[Target]:
    found = []
    for variant in JUDGED:
        for figure, what, limit in (("step_wall_us", "wall time", 1.02), ("step_cpu_us", "CPU time", 1)):
            values = compared(measured, variant, figure)
            found.append(at_most(f"many ranks on shared cores, {variant}: {what}, times that of the MPI's own yielding",
                                 worst([*values.values()]), limit, "", named(values)))
    return found


def title_of(group: str) -> str:
    name, _, ranks = group.partition(", ")
    return f"{picture.title_of(BY_NAME[name].name)}\n{ranks}"


def relative(results: dict[str, Any], group: str, variant: str, pattern: str, figure: str) -> dict[str, float] | None:
    rows = [picture.rows_of(results, group, name, pattern=pattern) for name in (variant, reference_of(group))]
    if not all(rows):
        return None
    base = rows[1][0]["figures"][figure]["median"]
    return {key: rows[0][0]["figures"][figure][key] / base for key in ("median", "low", "high")}


def draw(results: dict[str, Any]) -> Any:
    groups = picture.groups_of(results)
    policies = [name for name in picture.variants_of(results["rows"]) if name in POLICIES]
    plot = picture.pyplot()
    figure, panels = plot.subplots(2, len(PATTERNS), figsize=(11.5, 1.6 + 0.9 * len(groups)), sharey=True,
                                   sharex="row", squeeze=False)
    for row, name, label in ((0, "step_wall_us", "wall time of a step"), (1, "step_cpu_us", "CPU time of a step")):
        for axes, pattern in zip(panels[row], PATTERNS):
            series = {variant: [relative(results, group, variant, pattern, name) for group in groups]
                      for variant in policies}
            picture.bars(axes, groups, {key: found for key, found in series.items() if any(found)}, 1, "{:.2f}")
            axes.set_yticks(range(len(groups)), [title_of(group) for group in groups])
            axes.axvline(1, color="#888888", linewidth=0.9, linestyle="--")
            axes.margins(x=0.25)
            axes.set_title(pattern if row == 0 else "")
        panels[row][len(PATTERNS) // 2].set_xlabel(f"{label}, times that of the MPI's own yielding")
    picture.legend(figure, [panels[0][0]])
    return figure
