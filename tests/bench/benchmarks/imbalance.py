"""Measures unequal work between two Allreduce: wall time, and CPU time against the physical limit, the work alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.bench import binding, picture, variants
from tests.bench.engine import Cell, Measured, Row, Sample, difference, quantile, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import Mpi

NAME = "imbalance"
TITLE = "Unequal work: compute, then Allreduce"
ROUNDS = (3, 1)
UCX_GROUP = "openmpi-ucx"
IMBALANCES, IMBALANCES_SHORT = (0, 20, 40, 80), (80,)
STEPS = {100: 2000, 200: 1000, 500: 800, 2000: 200, 5000: 80, 20000: 20}
STEPS_SHORT = {500: 100, 2000: 40}
SPIN_US, RELATIVE, MAX_US = 20, 1 / 16, 400  # the budget of nap and event


def samples_read(output: str, imbalance: int) -> list[Sample]:
    samples = []
    for words in (line.split() for line in output.splitlines() if line.startswith("steps ")):
        step_us, count, wall_s, cpu_s, compute_s = (float(words[place]) for place in (1, 2, 4, 5, 6))
        samples.append(({"imbalance": imbalance, "step_us": step_us},
                        {"step_wall_us": wall_s / count * 1e6, "cpu_over_work": cpu_s / compute_s}))
    return samples


def play(mpi: Mpi, variant: Variant, imbalance: int, steps: dict[int, int],
         options: tuple[str, ...]) -> list[Sample]:
    words = [f"{step}:{count}" for step, count in steps.items()]
    command = [str(variants.program(mpi, "steps")), str(imbalance), *words]
    return samples_read(binding.launch(mpi, variant, 2, command, options), imbalance)


def cells(plan: Plan) -> list[Cell]:
    steps = STEPS_SHORT if plan.short else STEPS
    imbalances = IMBALANCES_SHORT if plan.short else IMBALANCES
    found = []
    for mpi in variants.available(("openmpi",), "steps", plan.measured.unavailable):
        compared = [variants.bare(mpi), *variants.knob(mpi),
                    *variants.policy_variants(mpi, ("nap", "umwait", "mwaitx", "yield"))]
        by_ucx = [variants.bare(mpi), *variants.policy_variants(mpi, ("event",))]
        for imbalance in imbalances:
            found += [Cell(mpi.name, variant.name, partial(play, mpi, variant, imbalance, steps, ()))
                      for variant in compared]
        if ucx := variants.ucx_options(plan.measured.unavailable):
            found += [Cell(UCX_GROUP, variant.name, partial(play, mpi, variant, imbalances[-1], steps, ucx))
                      for variant in by_ucx]
    return found


def budget_us(waited_us: float) -> float:
    return 0 if waited_us < SPIN_US else min(RELATIVE * waited_us, MAX_US)


def napping(measured: Measured, least_us: float, most_us: float = 1e9) -> list[tuple[Row, Row]]:
    """Returns nap's and event's rows of those step lengths, each with the one without the library."""
    rows = [row for variant in ("nap", "event") for row in measured.select(variant=variant)
            if least_us <= row.point["step_us"] <= most_us]
    pairs = [(row, measured.find(row.group, BARE, **row.point)) for row in rows]
    return [(row, bare) for row, bare in pairs if bare]


def where_step(row: Row) -> str:
    return f"{row.variant}, {picture.duration(row.point['step_us'])}"


def where(row: Row) -> str:
    return f"{where_step(row)}, {row.point['imbalance']:g} % imbalance"


def worst_of(text: str, limit: float, unit: str, values: list[tuple[Row, float | None]],
             place: Callable[[Row], str] = where) -> Target:
    known = [(value, row) for row, value in values if value is not None]
    if not known:
        return at_most(text, None, limit, unit)
    value, row = max(known, key=lambda item: item[0])
    over = sum(value > limit for value, _ in known)
    return at_most(text, value, limit, unit,
                   f"worst of {len(known)} at {place(row)}; {over} above" if over else f"worst at {place(row)}")


def by_step(values: list[tuple[Row, float | None]]) -> list[tuple[Row, float | None]]:
    """Returns the median over all imbalances of a step length: a single one is mostly noise."""
    found: dict[tuple[str, float], list[tuple[Row, float]]] = {}
    for row, value in values:
        if value is not None:
            found.setdefault((row.variant, row.point["step_us"]), []).append((row, value))
    return [(members[0][0], quantile([value for _, value in members], 0.5)) for members in found.values()]


def targets(measured: Measured) -> list[Target]:
    def excess(pairs: list[tuple[Row, Row]]) -> list[tuple[Row, float | None]]:
        return [(row, 100 * (row.median("cpu_over_work") - 1)) for row, _ in pairs]

    def slower(pairs: list[tuple[Row, Row]]) -> list[tuple[Row, float | None]]:
        return [(row, 100 * (found - 1)) for row, bare in pairs
                if (found := ratio(row, bare, "step_wall_us")) is not None]

    def beyond(pairs: list[tuple[Row, Row]]) -> list[tuple[Row, float | None]]:
        return [(row, added - budget_us(row.point["step_us"] * row.point["imbalance"] / 100)) for row, bare in pairs
                if (added := difference(row, bare, "step_wall_us")) is not None]

    every, half_ms, two_ms = napping(measured, 0), napping(measured, 500), napping(measured, 2000)
    return [
        worst_of("CPU time above the work alone, steps of 2 ms and more", 8, "%", excess(two_ms)),
        worst_of("CPU time above the work alone, steps of 500 µs", 15, "%", excess(napping(measured, 500, 500))),
        worst_of("wall time of a step beyond that without the library and the budget, median of the imbalances", 0,
                 "µs", by_step(beyond(every)), where_step),
        worst_of("wall time above that without the library, steps of 500 µs and more, median of the imbalances", 1,
                 "%", by_step(slower(half_ms)), where_step),
    ]


def panel(axes: Any, results: dict[str, Any], imbalance: int, figure: str, relative: bool) -> None:
    for group in picture.groups_of(results):
        rows = picture.rows_of(results, group, imbalance=imbalance)
        base = {row["point"]["step_us"]: row["figures"][figure]["median"] for row in rows if row["variant"] == BARE}
        for variant in picture.variants_of(rows):
            if group == UCX_GROUP and variant == BARE:
                continue
            mine = [row for row in rows if row["variant"] == variant]
            if relative:
                mine = [scaled(row, figure, base[row["point"]["step_us"]]) for row in mine]
            label = f"{variant} (UCX)" if group == UCX_GROUP else variant
            picture.line(axes, mine, "step_us", figure, variant, 100, label=label)
    picture.duration_ticks(axes, sorted({row["point"]["step_us"] for row in results["rows"]}))
    axes.axhline(100, color="#888888", linewidth=0.9, linestyle="--")
    axes.set_title(f"{number(imbalance)} % imbalance")


def scaled(row: dict[str, Any], figure: str, base: float) -> dict[str, Any]:
    found = {key: row["figures"][figure][key] / base for key in ("median", "low", "high")}
    return {**row, "figures": {figure: found}}


def draw(results: dict[str, Any]) -> Any:
    imbalances = sorted({row["point"]["imbalance"] for row in results["rows"]})
    plot = picture.pyplot()
    figure, panels = plot.subplots(2, len(imbalances), figsize=(max(3 * len(imbalances), 6) + 0.8, 5.6), squeeze=False,
                                   sharey="row", sharex=True)
    for number_of, imbalance in enumerate(imbalances):
        panel(panels[0][number_of], results, imbalance, "cpu_over_work", relative=False)
        panel(panels[1][number_of], results, imbalance, "step_wall_us", relative=True)
        panels[1][number_of].set_title("")
        panels[1][number_of].set_xlabel("step")
        panels[1][number_of].tick_params(axis="x", labelrotation=45)
    panels[0][0].set_ylabel("CPU time, of the work alone (%)")
    panels[1][0].set_ylabel("wall time, of that\nwithout the library (%)")
    picture.legend(figure, panels[0])
    return figure
