"""The page of several jobs: how they differ in time, energy and waiting, and their ranks in the order of waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure  # type: ignore[import]

from ..jobs.found import Found
from ..meaning.compare import Measure, label, measures, remarks
from ..meaning.imbalance import ranks_time
from ..meaning.reading import incomplete_line, ranks_of
from ..text.units import plural
from .style import (
    ASLEEP,
    COMPUTING,
    INK,
    JOBS,
    LEFT,
    POLLING,
    RIGHT,
    bar_names,
    footer,
    new_page,
    plain,
    share_ticks,
    stamp,
    style,
    time_axis,
)

SECOND = 0.56  # of the page's width, where the second column begins
NAMED_UP_TO = 8  # jobs whose names stand below their bars


def _colour(index: int) -> str:
    return JOBS[index % len(JOBS)]


def _draw_measure(axes: Any, measure: Measure, founds: Sequence[Found]) -> None:
    values = [value or 0.0 for value in measure.values]
    most = max(values) or 1.0
    places = list(range(len(values)))
    axes.bar(places, values, width=0.66, color=[_colour(place) for place in places])
    for place, value in enumerate(measure.values):
        shown = "–" if value is None else measure.shown(value)
        change = measure.difference(place) if place else ""
        middle = {"ha": "center", "va": "bottom"}
        axes.text(place, values[place] + most * 0.02, shown, fontsize=8.6, color=INK, **middle)
        if change:
            axes.text(place, values[place] + most * 0.1, change, fontsize=9, fontweight="bold", **middle)
    style(axes, measure.name)
    axes.set_ylim(0, most * 1.25)
    axes.set_yticks([])
    middle_place, half = (len(values) - 1) / 2, max(3, len(values)) / 2 + 0.1
    axes.set_xlim(middle_place - half, middle_place + half)
    names = [plain(found.name, 14) for found in founds] if len(founds) <= NAMED_UP_TO else [""] * len(founds)
    axes.set_xticks(places)
    axes.set_xticklabels(names)
    axes.tick_params(axis="x", labelsize=8 if len(founds) < 5 else 6.5)


def _draw_orders(axes: Any, founds: Sequence[Found]) -> None:
    drawn = 0
    for index, found in enumerate(founds):
        wait = found.record.wait
        ranks = sorted(rank.seconds for rank in ranks_of(found.record, found.step))
        values = ranks or (wait.quantiles if wait is not None and found.step is None else [])
        if len(values) < 2:
            continue
        drawn += 1
        edges = [100 * place / (len(values) - 1) for place in range(len(values))]
        axes.plot(edges, values, color=_colour(index), linewidth=1.8, label=plain(label(found), 40))
    style(axes, "Ranks in the order of their waiting", [("", "the flatter, the better balanced")])
    top = axes.get_ylim()[1]
    time_axis(axes.yaxis, top)
    axes.set_ylim(0, top)
    share_ticks(axes)
    if drawn:
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def _draw_shares(axes: Any, founds: Sequence[Found]) -> None:
    """What the ranks' time went to, job by job, of each its own whole."""
    for place, found in enumerate(founds):
        wait, time = found.record.wait, ranks_time(found.record, found.step)
        if wait is None or not time:
            continue
        total = found.step.wait if found.step else wait.total
        asleep = wait.asleep if wait.asleep is not None and found.step is None else 0.0
        axes.barh(place, 100, height=0.6, color=COMPUTING)
        axes.barh(place, min(100.0, 100 * total / time), height=0.6, color=POLLING)
        axes.barh(place, min(100.0, 100 * asleep / time), height=0.6, color=ASLEEP)
    legend = [(ASLEEP, "asleep"), (POLLING, "polling"), ("#cfd5da", "computing and all else")]
    style(axes, "What the ranks' time went to", legend, SECOND)
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 50, 100])
    axes.set_xticklabels(["0 %", "50 %", "100 %"])
    axes.get_xticklabels()[0].set_horizontalalignment("left")
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.set_ylim(max(2.5, len(founds) - 0.5), -0.5)
    bar_names(axes, [plain(label(found), 24) for found in founds], SECOND)


def comparison_page(founds: Sequence[Found]) -> Figure:
    names = ", ".join(plain(label(found), 30) for found in founds[1:4]) + (", ..." if len(founds) > 4 else "")
    figure = new_page(f"{plural(len(founds), 'job')} compared", f"{names} with {plain(label(founds[0]), 30)}")
    chosen = [measure for measure in measures(founds) if measure.of_interest]
    width = (RIGHT - LEFT - 0.05 * (len(chosen) - 1)) / max(1, len(chosen))
    for index, measure in enumerate(chosen):
        _draw_measure(figure.add_axes((LEFT + index * (width + 0.05), 0.56, width, 0.28)), measure, founds)
    _draw_orders(figure.add_axes((LEFT, 0.125, 0.43, 0.27)), founds)
    _draw_shares(figure.add_axes((0.73, 0.125, RIGHT - 0.73, 0.27)), founds)
    missing = [found for found in founds if not found.record.is_complete]
    if missing:
        stamp(figure, "; ".join(f"{plain(found.name, 14)} {incomplete_line(found.record)}" for found in missing[:2]))
    footer(figure, *remarks(founds)[-2:])
    return figure
