"""The panels of one job's page. Each draws into the axes that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..meaning.imbalance import Imbalance
from ..meaning.reading import Rank, rank_name, whole_words
from ..meaning.scale import scale_of
from ..meaning.worlds import are_apart
from ..record.ends import RankWait
from ..record.record import Energy, Record, Step, Wait
from ..text.bars import quantile
from ..text.units import core_time, count, duration, percent, plural, scaled
from .style import (
    ASLEEP,
    COMPUTING,
    ENERGY,
    ENERGY_PART,
    INK,
    LOST,
    POLLING,
    QUIET,
    TRANSFER,
    WAITING,
    bar_names,
    plain,
    share_ticks,
    style,
    time_axis,
    value_axis,
)

BARS_UP_TO = 64  # ranks; more are drawn as one outline
ROWS_MIN, ROWS_MAX, ROWS_OF_STEPS = 3, 7, 5  # lying bars in a panel
BAR_HEIGHT = 0.66
BINS = 40
STEPS_SHOWN = 40
COMPUTING_EDGE = "#cfd5da"
ZONES = {
    "package": ("packages", ENERGY),
    "core": ("  of it cores", ENERGY_PART),
    "uncore": ("  of it uncore", ENERGY_PART),
    "dram": ("DRAM", ENERGY),
    "psys": ("whole board", QUIET),
}


def nothing(axes: Any, title: str, why: str, left: float | None = None) -> None:
    style(axes, title, [("", why)], left)
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_ranks(axes: Any, record: Record, ranks: Sequence[Rank], step: Step | None) -> None:
    """Every rank in its place, its waiting in two parts; where that is a visible part, before its whole run."""
    most = max(rank.seconds for rank in ranks)
    scale = scale_of(record, step, len(ranks), most)
    told_apart = any(rank.asleep is not None for rank in ranks)
    asleep = [min(rank.seconds, rank.seconds if rank.asleep is None else rank.asleep) for rank in ranks]
    waits = [rank.seconds for rank in ranks]
    places = list(range(len(ranks)))
    if len(ranks) <= BARS_UP_TO:
        if scale.run:
            axes.bar(places, [scale.run] * len(ranks), width=0.72, color=COMPUTING)
        axes.bar(places, waits, width=0.72, color=POLLING)
        axes.bar(places, asleep, width=0.72, color=ASLEEP if told_apart else WAITING)
    else:
        edges = [place - 0.5 for place in range(len(ranks) + 1)]
        if scale.run:
            axes.fill_between([edges[0], edges[-1]], scale.run, color=COMPUTING, linewidth=0)
        for values, colour in ((waits, POLLING), (asleep, ASLEEP if told_apart else WAITING)):
            axes.fill_between(edges, [*values, values[-1]], step="post", color=colour, linewidth=0)
    mean = sum(waits) / len(waits)
    axes.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    style(axes, "Waiting by rank", _colours(told_apart, scale.run, mean))
    time_axis(axes.yaxis, scale.top)
    axes.set_ylim(0, max(scale.top, 1e-9) * 1.02)
    axes.set_xlim(-0.6, len(ranks) - 0.4)
    _rank_ticks(axes, ranks)


def _colours(told_apart: bool, run: float, mean: float) -> list[tuple[str, str]]:
    parts = [(ASLEEP, "asleep"), (POLLING, "polling")] if told_apart else [(WAITING, "waiting")]
    if run:
        parts.append((COMPUTING_EDGE, "the rest of the run"))
    return [*parts, ("", f"- - -  mean {duration(mean)}")]


def _rank_ticks(axes: Any, ranks: Sequence[Rank]) -> None:
    number = len(ranks)
    every = 1 if number <= 24 else next(size for size in _round_sizes() if number / size <= 12)
    places = list(range(0, number, every))
    axes.set_xticks(places)
    axes.set_xticklabels([ranks[place].label for place in places])
    axes.set_xlabel(ranks[0].noun, fontsize=8.5)


def _round_sizes() -> list[int]:
    return [digit * 10**power for power in range(0, 9) for digit in (1, 2, 5)]


def draw_order(axes: Any, record: Record, wait: Wait, ranks: Sequence[Rank], imbalance: Imbalance | None) -> None:
    """The ranks in the order of their waiting: what is above the least one is lost to the imbalance, in one world."""
    values = sorted(rank.seconds for rank in ranks) if ranks else wait.quantiles
    number = len(ranks) or wait.ranks
    if ranks and len(values) <= BARS_UP_TO:
        edges = [100 * place / len(values) for place in range(len(values) + 1)]
        curve, how = [*values, values[-1]], "post"
    else:
        edges = [100 * place / (len(values) - 1) for place in range(len(values))]
        curve, how = list(values), None
    is_lost = imbalance is not None and not imbalance.lone and not (wait.worlds and are_apart(record))
    above = LOST if is_lost else WAITING
    axes.fill_between(edges, values[0], curve, step=how, color=above, alpha=0.22 if is_lost else 0.12, linewidth=0)
    axes.fill_between(edges, 0, [values[0]] * len(edges), color=WAITING, alpha=0.25, linewidth=0)
    axes.plot(edges, curve, color=INK, linewidth=1.6, drawstyle="steps-post" if how else "default")
    share = f", {percent(imbalance.share)} of their time" if imbalance and imbalance.share is not None else ""
    words = "more than the one that waits least, be it of another world" if wait.worlds else (
        "more than the one that waits least")
    if imbalance is not None and is_lost:
        words = f"lost to the imbalance: {core_time(imbalance.lost_s)}{share}"
    legend = [("#eab5b3" if is_lost else "#efebf4", words)]
    style(axes, f"{plural(number, 'rank')} in the order of their waiting", legend)
    time_axis(axes.yaxis, values[-1])
    axes.set_ylim(0, max(values[-1], 1e-9) * 1.08)
    share_ticks(axes)


def draw_distribution(axes: Any, record: Record, wait: Wait) -> None:
    """How many ranks wait how long, from the quantiles, between which ranks are taken to be spread evenly."""
    least, most = wait.quantiles[0], wait.quantiles[-1]
    samples = [quantile(wait.quantiles, (place + 0.5) / 5000) for place in range(5000)]
    bins = [0] * BINS
    for value in samples:
        bins[min(BINS - 1, int((value - least) / (most - least) * BINS)) if most > least else 0] += 1
    width = (most - least) / BINS or 1e-9
    ranks = [number * wait.ranks / len(samples) for number in bins]
    axes.bar([least + (place + 0.5) * width for place in range(BINS)], ranks, width=width * 0.86, color=WAITING)
    axes.axvline(wait.mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    ends = f"{_place(record, wait.least)} least, {_place(record, wait.most)} most"
    style(axes, "How many ranks wait how long", [("", f"{ends}     - - -  mean {duration(wait.mean)}")])
    value_axis(axes.yaxis, lambda value: count(round(value)))
    time_axis(axes.xaxis, most, 8)
    axes.set_xlim(0, most * 1.02 or 1)
    axes.xaxis.grid(False)


def _place(record: Record, one: RankWait) -> str:
    return rank_name(record, one) + (f" ({plain(one.node, 20)})" if one.node else "")


def _with_energy(record: Record) -> list[Step]:
    return [step for step in record.steps if step.joules is not None and step.elapsed]


def rows_of(record: Record) -> int:
    """How many lying bars the lower panels need."""
    wait, energy = record.wait, record.energy
    profiled = [call for call in wait.profile if call.time > 0] if wait is not None else []
    calls = len(profiled or wait.calls) if wait is not None else 0
    parts = ROWS_OF_STEPS if over_time(record) else len(energy.zones) if energy is not None else 0
    return max(ROWS_MIN, min(ROWS_MAX, max(calls, parts)))


def draw_calls(axes: Any, record: Record, wait: Wait, left: float) -> None:
    """Where they waited; under profile, waiting against transfer."""
    profiled = [call for call in wait.profile if call.time > 0][:ROWS_MAX]
    if profiled:
        rows = [(call.name, min(call.wait, call.time), call.time) for call in profiled]
        whole = sum(call.time for call in wait.profile)
        legend = [(WAITING, "waiting"), (TRANSFER, "transfer and the MPI's own work")]
        style(axes, "Time in MPI calls", legend, left)
    else:
        rows = [(call.name, call.seconds, call.seconds) for call in wait.calls[:ROWS_MAX]]
        whole = wait.total
        style(axes, "Waiting by call", [("", "all ranks together")], left)
    most = max((row[2] for row in rows), default=0.0) or 1.0
    places = list(range(len(rows)))
    axes.barh(places, [row[2] for row in rows], height=BAR_HEIGHT, color=TRANSFER)
    axes.barh(places, [row[1] for row in rows], height=BAR_HEIGHT, color=WAITING)
    for place, (_, _, time) in enumerate(rows):
        share = f"  {percent(min(1.0, time / whole))}" if whole > 0 else ""
        axes.text(time + most * 0.012, place, f"{core_time(time)}{share}", va="center", fontsize=8.2, color=INK)
    _lying(axes, [row[0] for row in rows], most, left, rows_of(record))


def over_time(record: Record) -> bool:
    """Whether the power is drawn over an axis of time."""
    sampled = record.energy is not None and any(watts is not None for watts in record.energy.power)
    return sampled or len(_with_energy(record)) > 1


def draw_power(axes: Any, record: Record, left: float) -> None:
    """Power over time, where it was sampled; else over steps with energy; else the zones."""
    steps, energy = _with_energy(record), record.energy
    if energy is not None and any(watts is not None for watts in energy.power):
        _power_over_time(axes, record, energy)
    elif len(steps) > 1:
        _power_of_steps(axes, steps[:STEPS_SHOWN])
    elif record.energy is not None and record.energy.zones:
        _energy_of_zones(axes, record, record.energy.zones, left)
    else:
        nothing(axes, "Energy", "not known: " + (plain(record.energy_why) or "no counters could be read"), left)


def _known_runs(power: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    """(place of the first, watts) of what lies between unknown parts."""
    runs: list[tuple[int, list[float]]] = []
    for place, watts in enumerate(power):
        if watts is None:
            continue
        if place == 0 or power[place - 1] is None:
            runs.append((place, []))
        runs[-1][1].append(watts)
    return runs


def _power_over_time(axes: Any, record: Record, energy: Energy) -> None:
    """A line in steps: each is the mean of its part of the time, so that the area is the energy."""
    part = record.elapsed / len(energy.power)
    for start, watts in _known_runs(energy.power):
        edges = [part * (start + place) for place in range(len(watts) + 1)]
        curve = [*watts, watts[-1]]
        axes.fill_between(edges, 0, curve, step="post", color=ENERGY, alpha=0.25, linewidth=0)
        axes.plot(edges, curve, color=ENERGY, linewidth=1.6, drawstyle="steps-post")
    mean = energy.joules / record.elapsed if record.elapsed > 0 else 0.0
    axes.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    source = "simulated, " if energy.source == "simulated" else ""
    style(axes, "Power over time", [("", f"{source}- - -  mean {scaled(mean, 'W')}")])
    value_axis(axes.yaxis, lambda value: scaled(value, "W"), 4)
    time_axis(axes.xaxis, record.elapsed, 4)
    axes.xaxis.grid(False)
    axes.set_xlim(0, record.elapsed or 1)
    axes.set_ylim(0, max(mean, *(value or 0.0 for value in energy.power)) * 1.1 or 1)


def _power_of_steps(axes: Any, steps: Sequence[Step]) -> None:
    """One step after the other, each as wide as it lasted: the area is its energy."""
    start = 0.0
    most = max((step.joules or 0) / (step.elapsed or 1) for step in steps)
    whole = sum(step.elapsed or 0 for step in steps)
    for index, step in enumerate(steps):
        lasted, joules = step.elapsed or 1e-9, step.joules or 0.0
        axes.bar(start, joules / lasted, width=lasted, align="edge", color=ENERGY if index % 2 == 0 else ENERGY_PART)
        if lasted / whole > 0.12:
            axes.text(start + lasted / 2, most * 0.04, f"step {step.id}", ha="center", fontsize=8, color="white")
        start += lasted
    style(axes, "Mean power of each step", [("", "one after the other; the area is the energy")])
    value_axis(axes.yaxis, lambda value: scaled(value, "W"), 4)
    time_axis(axes.xaxis, start, 4)
    axes.xaxis.grid(False)
    axes.set_xlim(0, start)


def _energy_of_zones(axes: Any, record: Record, zones: dict[str, float], left: float) -> None:
    rows = [(name, zones[key], colour) for key, (name, colour) in ZONES.items() if key in zones]
    most = max(row[1] for row in rows)
    for place, (_, joules, colour) in enumerate(rows):
        axes.barh(place, joules, height=BAR_HEIGHT, color=colour)
        axes.text(joules + most * 0.012, place, scaled(joules, "J"), va="center", fontsize=8.2)
    style(axes, "Energy by part", [("", f"of {whole_words(record)}, by their counters")], left)
    _lying(axes, [row[0] for row in rows], most, left, rows_of(record))


def _lying(axes: Any, names: Sequence[str], most: float, left: float, rows: int) -> None:
    """What all panels of lying bars have in common: bars of one height, however few, and room for their values."""
    bar_names(axes, names, left)
    axes.set_ylim(rows - 0.4, -0.5)
    axes.set_xlim(0, (most or 1.0) * 1.3)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
