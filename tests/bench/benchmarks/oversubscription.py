"""Measures more ranks than cores: round trips, and unequal work, with the ranks on one or two cores of this machine."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import binding, machine, picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_least, at_most, number, worst
from tests.bench.variants import BARE, KNOBS, Variant
from tests.lib.libraries import Mpi

NAME = "oversubscription"
TITLE = "More ranks than cores"
ROUNDS = (3, 1)
YIELD = KNOBS["openmpi"].name
NOT_TOLD = "nap, not told"
PLACES, PLACES_SHORT = ((2, 1), (2, 2), (4, 2), (8, 2)), ((2, 1), (4, 2))
ROUNDS_POLLING, ROUNDS_OTHER = (100, 20), (40000, 5000)
STEPS, STEPS_SHORT = {100: 400, 500: 200, 2000: 100}, {500: 40, 2000: 30}


def group_of(ranks: int, cores: int) -> str:
    return f"{ranks} ranks on {cores} core{'s' if cores > 1 else ''}"


def pinned(ranks: int, cores: int) -> tuple[str, ...]:
    """Returns a prefix that binds the ranks to that many cores, neighbours together."""
    chosen = machine.cpus()[:cores]
    if len(chosen) < cores:
        raise Failure(f"this machine has no {cores} cores")
    return binding.prefix(binding.shared(chosen, ranks))


def rate_of(mpi: Mpi, variant: Variant, ranks: int, cores: int, rounds: int) -> float:
    command = [str(variants.program(mpi, "pingpong")), str(rounds)]
    output = variants.launch(mpi, variant, ranks, command, binding.options_of(mpi), pinned(ranks, cores))
    return float(output.split()[output.split().index("rate") + 1])


def steps_of(mpi: Mpi, variant: Variant, ranks: int, cores: int, steps: dict[int, int]) -> list[Sample]:
    words = [f"{step}:{count}" for step, count in steps.items()]
    command = [str(variants.program(mpi, "steps")), "100", *words]
    output = variants.launch(mpi, variant, ranks, command, binding.options_of(mpi), pinned(ranks, cores))
    samples: list[Sample] = []
    for line in (line.split() for line in output.splitlines() if line.startswith("steps ")):
        step_us, wall_s, cpu_s, compute_s = (float(line[place]) for place in (1, 4, 5, 6))
        # only one rank at a time has work: this is the least time
        samples.append(({"what": "steps", "step_us": step_us},
                        {"wall_over_ideal": wall_s / compute_s, "cpu_over_work": cpu_s / compute_s}))
    return samples


def play(mpi: Mpi, variant: Variant, ranks: int, cores: int, short: bool) -> list[Sample]:
    polls = variant.name == BARE and ranks > cores
    rate = rate_of(mpi, variant, ranks, cores, (ROUNDS_POLLING if polls else ROUNDS_OTHER)[short])
    counts = STEPS_SHORT if short else STEPS
    if polls:  # a step takes time slices, whatever its length
        counts = {step_us: max(count // 5, 10) for step_us, count in counts.items()}
    return [({"what": "ping-pong"}, {"rate": rate}), *steps_of(mpi, variant, ranks, cores, counts)]


def cells(plan: Plan) -> list[Cell]:
    found = []
    for mpi in variants.available(("openmpi",), "steps", plan.measured.unavailable):
        variants.program(mpi, "pingpong")
        for ranks, cores in PLACES_SHORT if plan.short else PLACES:
            shared = ranks > cores
            policies = variants.policy_variants(mpi, ("nap", "yield"), shared)
            compared = [variants.bare(mpi), *variants.knob(mpi), *policies]
            if shared:
                compared.append(Variant(NOT_TOLD, variants.base_options(mpi),
                                        variants.policy(mpi, "nap").variables))
            found += [Cell(group_of(ranks, cores), variant.name, partial(play, mpi, variant, ranks, cores, plan.short))
                      for variant in compared]
    return found


def compared_steps(measured: Measured, figure: str) -> dict[str, float | None]:
    group = group_of(4, 2)
    return {f"{row.point['step_us']:g} µs": ratio(row, measured.find(group, YIELD, **row.point), figure)
            for row in measured.select(group, "nap", what="steps")}


def named(values: dict[str, float | None]) -> str:
    return ", ".join(f"{name}: {number(value)}" for name, value in values.items() if value is not None)


def targets(measured: Measured) -> list[Target]:
    one_core, group = group_of(2, 1), group_of(4, 2)
    nap = measured.find(one_core, "nap", what="ping-pong")
    two_ms = measured.find(group, "nap", what="steps", step_us=2000)
    wall, cpu = compared_steps(measured, "wall_over_ideal"), compared_steps(measured, "cpu_over_work")
    not_told = measured.find(one_core, NOT_TOLD, what="ping-pong")
    return [
        at_least("2 ranks on 1 core, round trips, times those of polling",
                 ratio(nap, measured.find(one_core, BARE, what="ping-pong"), "rate"), 1000, "",
                 f"{number(nap.median('rate'))} per second" if nap else ""),
        at_least(f"2 ranks on 1 core, round trips, of those of {YIELD}",
                 ratio(nap, measured.find(one_core, YIELD, what="ping-pong"), "rate"), 0.85, "",
                 f"not told that cores are shared: {number(not_told.median('rate'))} per second" if not_told else ""),
        at_most(f"{group}, unequal work, wall time, times that of {YIELD}", worst([*wall.values()]), 1, "",
                named(wall)),
        at_most(f"{group}, unequal work, CPU time, times that of {YIELD}", worst([*cpu.values()]), 1, "", named(cpu)),
        at_most(f"{group}, unequal work, steps of 2 ms, wall time above the ideal",
                100 * (two_ms.median("wall_over_ideal") - 1) if two_ms else None, 10, "%"),
    ]


def figure_at(results: dict[str, Any], group: str, variant: str, figure: str, **point: Any) -> dict[str, float] | None:
    rows = picture.rows_of(results, group, variant, **point)
    return rows[0]["figures"].get(figure) if rows else None


def draw(results: dict[str, Any]) -> Any:
    groups = picture.groups_of(results)
    names = picture.variants_of(results["rows"])
    steps = sorted({row["point"]["step_us"] for row in results["rows"] if "step_us" in row["point"]})
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(11.5, 0.9 + 0.95 * len(groups)), sharey=True)
    picked = steps[len(steps) // 2]
    work = f"unequal work, steps of {picture.duration(picked)}:\n"
    for axes, name, point, label, room in (
            (panels[0], "rate", {"what": "ping-pong"}, "round trips per second", 20),
            (panels[1], "wall_over_ideal", {"step_us": picked}, f"{work}wall time, times the ideal", 1.8),
            (panels[2], "cpu_over_work", {"step_us": picked}, f"{work}CPU time, times the work", 1.8)):
        series = {variant: [figure_at(results, group, variant, name, **point) for group in groups]
                  for variant in names}
        picture.bars(axes, groups, series, 1, "{:,.0f}" if name == "rate" else "{:.2f}")
        axes.set_xlabel(label)
        low, high = axes.get_xlim()
        axes.set_xlim(10 if name == "rate" else 0.8, high * room)
        picture.plain_log(axes, "x")
    picture.legend(figure, [panels[0]])
    return figure
