"""Measures how much of its rate a polling program, or a thread that polls beside a waiting one, keeps with the
library."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Measured, Sample, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_least, least, number
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import Mpi, Unavailable, program

NAME = "polling"
TITLE = "Programs and threads that poll"
ROUNDS = (7, 1)
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel")
ALONE, BESIDE = "none", ("Recv", "Allreduce", "Waitany")
POLLS, POLLS_SHORT = 1000000, 50000


def samples_read(output: str) -> list[Sample]:
    lines = [words for words in (line.split() for line in output.splitlines()) if len(words) == 5]
    return [({"beside": words[0]}, {"rate": float(words[1])}) for words in lines]


def play(mpi: Mpi, variant: Variant, short: bool) -> list[Sample]:
    polls = POLLS_SHORT if short else POLLS
    return samples_read(variants.launch(mpi, variant, 2, [str(program(mpi, "polls")), str(polls), "0", ALONE, *BESIDE]))


def cells(plan: Plan) -> list[Cell]:
    found = []
    for mpi in (variants.BY_NAME[name] for name in (MPI_NAMES[::2] if plan.short else MPI_NAMES)):
        try:
            program(mpi, "polls")
        except Unavailable as reason:
            plan.measured.unavailable[mpi.title] = str(reason)
            continue
        for variant in (variants.bare(mpi), *variants.policy_variants(mpi, ("nap",))):
            found.append(Cell(mpi.name, variant.name, partial(play, mpi, variant, plan.short)))
    return found


def kept(measured: Measured, beside: str) -> dict[str, float | None]:
    """Returns the rate with nap in per cent of that without the library, by library."""
    found = {}
    for group in measured.groups():
        share = ratio(measured.find(group, "nap", beside=beside), measured.find(group, BARE, beside=beside), "rate")
        found[group] = None if share is None else 100 * share
    return found


def judged(text: str, limit: float, by_group: dict[str, float | None]) -> Target:
    why = ", ".join(f"{group} {number(value)}" for group, value in by_group.items() if value is not None)
    return at_least(text, least([*by_group.values()]), limit, "%", why)


def targets(measured: Measured) -> list[Target]:
    return [judged("a program that polls by Test and Iprobe, of the rate without the library", 85,
                   kept(measured, ALONE)),
            *(judged(f"a thread that polls beside one in {call}, of the rate without the library", 50,
                     kept(measured, call)) for call in BESIDE)]


def draw(results: dict[str, Any]) -> Any:
    groups = picture.groups_of(results)
    names = picture.variants_of(results["rows"])
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 1 + len(BESIDE), figsize=(11.5, 0.9 + 0.7 * len(groups)), sharey=True)
    for axes, beside in zip(panels, (ALONE, *BESIDE)):
        series = {variant: [rate_of(results, group, variant, beside) for group in groups] for variant in names}
        picture.bars(axes, groups, series, 1, "{:.2g}")
        axes.set_xlabel("polls per second\n" + ("alone" if beside == ALONE else f"beside a thread in {beside}"))
    picture.legend(figure, [panels[0]])
    return figure


def rate_of(results: dict[str, Any], group: str, variant: str, beside: str) -> dict[str, float] | None:
    rows = picture.rows_of(results, group, variant, beside=beside)
    return rows[0]["figures"].get("rate") if rows else None
