"""Measures launches of two ranks one by one.

In a launch of a second, a single late wake-up may end all naps for most of the time. A median of launches hides that.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.bench import picture, variants
from tests.bench.benchmarks import foresight, late_sender
from tests.bench.engine import Cell, Measured, Sample, quantile
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, verdict, worst
from tests.lib.libraries import OVER_OFI, Mpi

NAME = "launches"
TITLE = "Launches, one by one"
ROUNDS = (20, 1)
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel", *(mpi.name for mpi in OVER_OFI))
WAITS = {1000: 700, 5000: 150}  # by microseconds late
WAITS_SHORT = {1000: 30}
UNBOUND = ("openmpi-5", "intel")
"""These are launched unbound as well, to show what the kernel makes of it."""
ASLEEP_US = 1000
"""Length of the naps that are measured beside. A host may hold up a core that wakes, in a nap more than else."""
ASLEEP = "a sleep"
MOST = 20
"""Per cent of a CPU: a launch above that hardly slept."""


def play(mpi: Mpi, delay_us: int, count: int, bound: bool = True) -> list[Sample]:
    (nap,) = variants.policy_variants(mpi, ("nap",))
    samples = late_sender.play(mpi, nap, "recv", 8, {delay_us: count}, (), bound)
    return [(point, {"cpu_share": figures["cpu_share"]}) for point, figures in samples]


def cells(plan: Plan) -> list[Cell]:
    names = MPI_NAMES[:1] if plan.short else MPI_NAMES
    mpis = variants.available(names, "late-sender", plan.measured.unavailable)
    found = [Cell(ASLEEP, ASLEEP, partial(foresight.play_naps, {ASLEEP_US: 100}))]
    for delay_us, count in (WAITS_SHORT if plan.short else WAITS).items():
        found += [Cell(mpi.name, "nap", partial(play, mpi, delay_us, count)) for mpi in mpis]
        found += [Cell(mpi.name, "nap, unbound", partial(play, mpi, delay_us, count, bound=False))
                  for mpi in mpis if mpi.name in UNBOUND]
    return found


def shares(measured: Measured, delay_us: float, part: float, names: tuple[str, ...] = MPI_NAMES) -> dict[str, float]:
    """Returns by MPI what that part of its launches stays below, in per cent of a CPU."""
    return {row.group: 100 * quantile(row.values["cpu_share"], part)
            for row in measured.select(variant="nap", delay_us=delay_us) if row.group in names}


def targets(measured: Measured) -> list[Target]:
    over_ofi = tuple(mpi.name for mpi in OVER_OFI)
    wanted = (("1 ms late: CPU share of the wait, median of the launches", 10, shares(measured, 1000, 0.5)),
              ("1 ms late: CPU share of the wait, worst launch", MOST, shares(measured, 1000, 1)),
              ("5 ms late, over libfabric: CPU share of the wait, median of the launches", 12,
               shares(measured, 5000, 0.5, over_ofi)))
    return [at_most(text, worst([*found.values()]), limit, "%",
                    ", ".join(f"{group} {number(value)}" for group, value in found.items()))
            for text, limit, found in wanted]


def name_of(row: dict[str, Any]) -> str:
    return picture.title_of(row["group"]) + row["variant"].removeprefix("nap")


def launches_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row["group"] != ASLEEP]


def held_line(results: dict[str, Any]) -> str:
    """Tells how late naps ended beside the launches."""
    (figures,) = [row["figures"] for row in results["rows"] if row["group"] == ASLEEP]
    usual, mean = (figures[name]["median"] for name in ("late_us", "mean_us"))
    return (f"Between the launches, a sleep of {picture.duration(ASLEEP_US)} ended {usual:.0f} µs late in the median "
            f"and {mean:.0f} µs in the mean. No forecast foresees the difference, "
            f"{100 * max(mean - usual, 0) / ASLEEP_US:.1f} % of the sleep here: the host has held the core up. It "
            "counts among the 1 % that `slowdown` allows.")


def row_line(row: dict[str, Any]) -> str:
    values = sorted(100 * value for value in row["figures"]["cpu_share"]["values"])
    shown = " | ".join(f"{quantile(values, part):.1f}" for part in (0, 0.5, 0.9, 1))
    late = picture.duration(row["point"]["delay_us"])
    many = sum(value > MOST for value in values)
    return f"| {name_of(row)} | {late} | {shown} | {many} of {len(values)} |"


def section_lines(results: dict[str, Any]) -> list[str]:
    sleep = results["machine"]["nap"]
    return ["Two ranks, one of which waits for the other, as `late-sender` plays them: "
            f"{WAITS[1000]} waits of 1 ms in a launch, or {WAITS[5000]} of 5 ms. Each figure: the CPU time of a "
            "launch's waits, in % of what polling takes. Each rank is bound to a core of its own, as the plugin binds "
            "the tasks of a step, but where the table says unbound: the kernel may then put a rank that wakes on the "
            "core that the other one polls on. On this machine a sleep of 100 µs ended "
            f"{sleep['late_us']:.0f} µs late, one in ten {sleep['late_most_us']:.0f} µs or more.", "",
            held_line(results), "",
            "A nap can cost more than its own lateness: the rank finds cold caches, and a host that gave the idle core "
            "to other work is slow to give it back. Where that is more than `slowdown` allows, ranks sleep for a part "
            "of the time.", "",
            f"| MPI | late by | least | median | nine of ten below | most | launches above {MOST} % |",
            "|---|---:|---:|---:|---:|---:|---:|", *map(row_line, launches_of(results)), "",
            "| wanted | at most | measured | |", "|---|---:|---:|---|",
            *(f"| {target['text']} | {number(target['limit'])} {target['unit']} | "
              f"{'–' if target['value'] is None else number(target['value']) + ' ' + target['unit']} | "
              f"{verdict(target)} |" for target in results["targets"]), ""]


def draw(results: dict[str, Any]) -> Any:
    """Draws a line per MPI and length of its waits, with a mark for each launch."""
    rows = launches_of(results)
    figure, axes = picture.pyplot().subplots(figsize=(6.5, 0.8 + 0.28 * len(rows)))
    for place, row in enumerate(rows):
        values = [100 * value for value in row["figures"]["cpu_share"]["values"]]
        axes.plot(values, [place] * len(values), "|", color=picture.colour("nap"), markersize=9)
    axes.set_yticks(range(len(rows)), [f"{name_of(row)}, {picture.duration(row['point']['delay_us'])}" for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("CPU time of a launch's waits (%)")
    return figure
