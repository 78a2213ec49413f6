"""Measures a late partner: how much later a wait ends than without the library, and its CPU time."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import binding, picture, variants
from tests.bench.engine import Cell, Measured, Row, Sample, difference, quantile, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, worst
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import Mpi

NAME = "late-sender"
EVENT_OVERSHOOT = "1 ms late, event: median overshoot"
TITLE = "Waiting for a late partner"
ROUNDS = (3, 1)
UCX_GROUP = "openmpi-ucx"
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel")
# Repetitions, by microseconds late. They are many, so that a program's first waits, which are not forecast, hardly
# count.
SWEEP = {0: 300, 20: 300, 100: 300, 1000: 300, 10000: 100, 100000: 30}
SWEEP_SHORT = {20: 50, 1000: 30, 100000: 2}
OTHERS = {1000: 100, 10000: 50}
OTHERS_SHORT = {1000: 20}
CALLS = [(call, 8) for call in ("wait", "allreduce", "bcast", "barrier")]  # no sends: one of 8 bytes waits for no rank
LARGE = [(call, 1 << 20) for call in ("recv", "send", "allreduce", "bcast")]


def samples_read(output: str) -> list[Sample]:
    samples = []
    for words in (line.split() for line in output.splitlines()):
        if len(words) != 6:
            continue
        after = [float(value) for value in words[4].split(",")]
        figures = {"median_us": quantile(after, 0.5), "p90_us": quantile(after, 0.9), "p99_us": quantile(after, 0.99),
                   "cpu_share": float(words[3])}
        joules = dict(part.partition("=")[::2] for part in words[5].split(","))
        if "packages" in joules:
            figures["energy_j"] = float(joules["packages"])
        if joules.get("gpus", "-") != "-":
            figures["energy_gpus_j"] = float(joules["gpus"])
        if "node" in joules:
            figures["energy_node_j"] = float(joules["node"])
        samples.append(({"call": words[0], "bytes": int(words[1]), "delay_us": float(words[2])}, figures))
    return samples


def play(mpi: Mpi, variant: Variant, call: str, size: int, delays: dict[int, int],
         options: tuple[str, ...], bound: bool = True) -> list[Sample]:
    words = [f"{delay}:{count}" for delay, count in delays.items()]
    command = [str(variants.program(mpi, "late-sender")), call, str(size), *words]
    launch = binding.launch if bound else variants.launch
    return samples_read(launch(mpi, variant, 2, command, options))


def compared(mpi: Mpi, group: str, short: bool) -> list[Variant]:
    if group == UCX_GROUP:
        return [variants.bare(mpi), *variants.policy_variants(mpi, ("event", "nap"))]
    names = ("nap",) if short or mpi.name != "openmpi" else ("nap", "umwait", "mwaitx", "yield", "profile")
    return [variants.bare(mpi), *variants.knob(mpi), *variants.policy_variants(mpi, names)]


def cells(plan: Plan) -> list[Cell]:
    names = ("openmpi", "mpich") if plan.short else MPI_NAMES
    found = []
    for mpi in variants.available(names, "late-sender", plan.measured.unavailable):
        groups: dict[str, tuple[str, ...]] = {mpi.name: ()}
        if mpi.name == "openmpi" and (ucx := variants.ucx_options(plan.measured.unavailable)):
            groups[UCX_GROUP] = ucx
        for group, options in groups.items():
            delays = SWEEP_SHORT if plan.short else SWEEP
            found += [Cell(group, variant.name, partial(play, mpi, variant, "recv", 8, delays, options))
                      for variant in compared(mpi, group, plan.short)]
    return found + other_calls(plan)


def other_calls(plan: Plan) -> list[Cell]:
    """Returns the cells of all other calls, and of large messages, under Open MPI."""
    calls = CALLS[1:2] + LARGE[:1] if plan.short else CALLS + LARGE
    delays = OTHERS_SHORT if plan.short else OTHERS
    found = []
    for mpi in variants.available(("openmpi",), "late-sender", {}):
        for call, size in calls:
            found += [Cell("calls", variant.name, partial(play, mpi, variant, call, size, delays, ()))
                      for variant in (variants.bare(mpi), *variants.policy_variants(mpi, ("nap",)))]
    return found


def pairs(measured: Measured, variant: str, delay_us: float) -> list[tuple[str, Row, Row]]:
    """Returns, by group, the variant's row and the one without the library."""
    found = []
    for group in measured.groups():
        row = measured.find(group, variant, call="recv", delay_us=delay_us)
        bare = measured.find(group, BARE, call="recv", delay_us=delay_us)
        if row and bare and group != "calls" and (group != UCX_GROUP or variant == "event"):
            found.append((group, row, bare))
    return found


def judged(text: str, limit: float, unit: str, by_group: dict[str, float | None]) -> Target:
    """Returns a target whose value is the worst of the MPIs; its reason names all."""
    known = {group: value for group, value in by_group.items() if value is not None}
    why = ", ".join(f"{group} {number(value)}" for group, value in known.items())
    return at_most(text, worst(list(known.values())), limit, unit, why)


def cpu(measured: Measured, variant: str, delay_us: float) -> dict[str, float | None]:
    return {group: 100 * row.median("cpu_share") for group, row, _ in pairs(measured, variant, delay_us)}


def overshoot(measured: Measured, variant: str, delay_us: float) -> dict[str, float | None]:
    return {group: difference(row, bare, "median_us") for group, row, bare in pairs(measured, variant, delay_us)}


def tail(measured: Measured, variant: str, delay_us: float) -> dict[str, float | None]:
    """Returns the 99th percentile of the variant less the median without the library, whose own tail is the machine's
    noise."""
    return {group: row.median("p99_us") - bare.median("median_us")
            for group, row, bare in pairs(measured, variant, delay_us)}


def transfers(measured: Measured) -> dict[str, float | None]:
    """Returns, by call, the ratio of the times from the partner's arrival to the end, under Open MPI."""
    return {call: ratio(measured.find("calls", "nap", call=call, bytes=size, delay_us=10000),
                        measured.find("calls", BARE, call=call, bytes=size, delay_us=10000), "median_us")
            for call, size in LARGE}


def targets(measured: Measured) -> list[Target]:
    return [
        judged("1 ms late, nap: CPU share of the wait", 10, "%", cpu(measured, "nap", 1000)),
        judged("1 ms late, nap: median overshoot", 60, "µs", overshoot(measured, "nap", 1000)),
        judged("1 ms late, nap: 99th percentile of the overshoot", 130, "µs", tail(measured, "nap", 1000)),
        judged("1 ms late, event: CPU share of the wait", 6, "%", cpu(measured, "event", 1000)),
        judged(EVENT_OVERSHOOT, 60, "µs", overshoot(measured, "event", 1000)),
        judged("100 ms late, nap: CPU share of the wait", 4, "%", cpu(measured, "nap", 100000)),
        judged("100 ms late, event: CPU share of the wait", 4, "%", cpu(measured, "event", 100000)),
        judged("10 ms late, nap: the transfer of 1 MiB, times that without the library", 1.3, "", transfers(measured)),
        judged("20 µs late, nap: median overshoot", 1, "µs", overshoot(measured, "nap", 20)),
        judged("20 µs late, event: median overshoot", 1, "µs", overshoot(measured, "event", 20)),
    ]


def sweep_draw(axes: Any, results: dict[str, Any], group: str, figure: str, factor: float) -> None:
    rows = [row for row in picture.rows_of(results, group, call="recv") if row["point"]["delay_us"] > 0]
    for variant in picture.variants_of(rows):
        mine = [row for row in rows if row["variant"] == variant]
        picture.line(axes, mine, "delay_us", figure, variant, factor)
    picture.duration_ticks(axes, sorted({row["point"]["delay_us"] for row in rows}))
    axes.set_xlabel("partner late by")


def draw(results: dict[str, Any]) -> Any:
    """Draws a column per library: CPU share above, latency below."""
    groups = [group for group in picture.groups_of(results) if group != "calls"]
    plot = picture.pyplot()
    figure, panels = plot.subplots(2, len(groups), figsize=(2.3 * len(groups) + 0.7, 4.8), squeeze=False, sharey="row")
    for group, top, bottom in zip(groups, *panels):
        sweep_draw(top, results, group, "cpu_share", 100)
        sweep_draw(bottom, results, group, "median_us", 1)
        picture.plain_log(bottom, "y")
        for axes in (top, bottom):
            axes.tick_params(axis="x", labelrotation=45)
        top.set_title(picture.title_of(group))
        top.set_xlabel("")
        top.set_ylim(0, 108)
    panels[0][0].set_ylabel("CPU share of the wait (%)")
    panels[1][0].set_ylabel("end of the wait after the\npartner's arrival, median (µs)")
    picture.legend(figure, panels[0])
    return figure
