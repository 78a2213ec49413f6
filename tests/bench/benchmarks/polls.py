"""Measures polls=on in loops that programs write themselves: one that only tests, and one that works in between."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import binding, picture, variants
from tests.bench.engine import Cell, Measured, Sample, difference, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_least, at_most, least, number, worst
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import Mpi

NAME = "polls"
TITLE = "Loops of programs that only ask"
ROUNDS = (3, 1)
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel")
ON = "nap, polls=on"
HOW = ("test", "iprobe", "both")
DELAYS = {100: 200, 1000: 200, 20000: 100}  # microseconds
DELAYS_SHORT = {1000: 20}
WORK_US = (3, 10)


def samples_read(output: str) -> list[Sample]:
    samples: list[Sample] = []
    for words in (line.split() for line in output.splitlines()):
        if len(words) == 4 and words[0] in HOW:
            figures = {"cpu_share": float(words[2]), "after_us": float(words[3])}
            samples.append(({"how": words[0], "delay_us": float(words[1])}, figures))
        elif len(words) == 3 and words[0] == "work":
            samples.append(({"work_us": float(words[1])}, {"rate": float(words[2])}))
    return samples


def play(mpi: Mpi, variant: Variant, short: bool) -> list[Sample]:
    delays = [f"{delay}:{count}" for delay, count in (DELAYS_SHORT if short else DELAYS).items()]
    samples = []
    for how in HOW[:1] if short else HOW:
        works = ["work", *map(str, WORK_US)] if how == HOW[0] else []
        command = [str(variants.program(mpi, "asks")), how, *delays, *works]
        samples += samples_read(binding.launch(mpi, variant, 2, command))
    return samples


def sleeping(mpi: Mpi) -> Variant:
    nap = variants.policy(mpi, "nap")
    return Variant(ON, nap.options, {**nap.variables, "MPI_WAIT_CONFIG": nap.variables["MPI_WAIT_CONFIG"] + ";polls=1"})


def cells(plan: Plan) -> list[Cell]:
    names = MPI_NAMES[:1] if plan.short else MPI_NAMES
    return [Cell(mpi.name, variant.name, partial(play, mpi, variant, plan.short))
            for mpi in variants.available(names, "asks", plan.measured.unavailable)
            for variant in (variants.bare(mpi), *variants.policy_variants(mpi, ("nap",)), sleeping(mpi))]


def used(measured: Measured, delay_us: float) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for row in measured.select(variant=ON, delay_us=delay_us):
        found[f"{row.group} {row.point['how']}"] = 100 * row.median("cpu_share")
    return found


def later(measured: Measured, delay_us: float) -> dict[str, float | None]:
    return {f"{row.group} {row.point['how']}":
            difference(row, measured.find(row.group, BARE, **row.point), "after_us")
            for row in measured.select(variant=ON, delay_us=delay_us)}


def kept(measured: Measured, variant: str) -> dict[str, float | None]:
    """Returns the tests a second in per cent of those without the library, where there is work between tests."""
    found = {}
    for row in measured.select(variant=variant):
        if "work_us" in row.point:
            share = ratio(row, measured.find(row.group, BARE, **row.point), "rate")
            found[f"{row.group} {row.point['work_us']:g} µs"] = None if share is None else 100 * share
    return found


def why(by_group: dict[str, float | None]) -> str:
    return ", ".join(f"{group} {number(value)}" for group, value in by_group.items() if value is not None)


def targets(measured: Measured) -> list[Target]:
    cpu, delay, rate = used(measured, 20000.0), later(measured, 1000.0), kept(measured, ON)
    return [at_most("a loop for a message that is 20 ms late, polls=on: share of a CPU", worst([*cpu.values()]), 8, "%",
                    why(cpu)),
            at_most("the same, 1 ms late: median overshoot", worst([*delay.values()]), 60, "µs", why(delay)),
            at_least("a loop with work between its tests, polls=on: of the tests without the library",
                     least([*rate.values()]), 98, "%", why(rate))]


def draw(results: dict[str, Any]) -> Any:
    groups, names = picture.groups_of(results), picture.variants_of(results["rows"])
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 2, figsize=(10, 1.2 + 0.7 * len(groups)), sharey=True)
    for axes, measure, factor, title in (
        (panels[0], "cpu_share", 100, "a loop of MPI_Test, 1 ms: share of a CPU, %"),
        (panels[1], "after_us", 1, "the message is noticed after, µs"),
    ):
        series = {name: [figure_of(results, group, name, measure) for group in groups] for name in names}
        picture.bars(axes, groups, series, factor, "{:.2g}")
        axes.set_xlabel(title)
    picture.legend(figure, [panels[0]])
    return figure


def figure_of(results: dict[str, Any], group: str, variant: str, measure: str) -> dict[str, float] | None:
    rows = picture.rows_of(results, group, variant, how="test", delay_us=1000.0)
    return rows[0]["figures"].get(measure) if rows else None
