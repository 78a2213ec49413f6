"""The page of the runs of one program: time, energy, and what its ranks' time went to, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..meaning.parts import kinds_of, kinds_words
from ..meaning.rows import JobUse
from ..text.units import plural, scaled
from .style import (
    ASLEEP,
    COMPUTING,
    ENERGY,
    INK,
    LEFT,
    POLLING,
    QUIET,
    RIGHT,
    footer,
    new_page,
    plain,
    save_page,
    style,
    time_axis,
    value_axis,
)

LABELS_MAX = 24


def _places(axes: Any, uses: Sequence[JobUse], named: bool) -> None:
    every = -(-len(uses) // LABELS_MAX)
    places = list(range(0, len(uses), every))
    axes.set_xlim(-0.6, max(2, len(uses)) - 0.4)
    axes.set_xticks(places)
    labels = [f"{plain(uses[place].names['job'], 12)}\n{uses[place].names['policy']}" for place in places]
    axes.set_xticklabels(labels if named else [""] * len(places), fontsize=7 if len(uses) < 12 else 5.5)


def _line(axes: Any, values: Sequence[float | None], colour: str) -> float:
    """A point for every run that is known, joined. Returns the highest."""
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    axes.plot([place for place, _ in known], [value for _, value in known], "o-", color=colour, linewidth=1.6,
              markersize=4)
    return max((value for _, value in known), default=0.0)


def _draw_time(axes: Any, uses: Sequence[JobUse]) -> None:
    top = _line(axes, [use.run.elapsed_s for use in uses], INK)
    style(axes, "Time", [("", "from begin to end, as sacct has it")])
    time_axis(axes.yaxis, top or 1.0)
    axes.set_ylim(0, (top or 1.0) * 1.12)
    _places(axes, uses, False)


def _draw_energy(axes: Any, uses: Sequence[JobUse]) -> None:
    top = _line(axes, [use.joules for use in uses], ENERGY)
    said = "simulated, not measured" if any(use.simulated for use in uses) else "as the records have it"
    kinds = kinds_of(use.energy_of for use in uses)
    if len(kinds) > 1:
        said = f"not comparable: {kinds_words(kinds, 'run')}"
    style(axes, "Energy", [("", said)])
    value_axis(axes.yaxis, lambda value: scaled(value, "J"), 4)
    axes.set_ylim(0, (top or 1.0) * 1.12)
    _places(axes, uses, False)


def _draw_shares(axes: Any, uses: Sequence[JobUse]) -> None:
    places = list(range(len(uses)))
    asleep = [100 * (use.share(use.asleep_s) or 0.0) for use in uses]
    waiting = [100 * (use.share(use.wait_s) or 0.0) for use in uses]
    axes.bar(places, [100.0 if use.ranks_s > 0 else 0.0 for use in uses], width=0.72, color=COMPUTING)
    axes.bar(places, waiting, width=0.72, color=POLLING)
    axes.bar(places, asleep, width=0.72, color=ASLEEP)
    legend = [(ASLEEP, "asleep"), (POLLING, "awake"), ("#cfd5da", "computing and all else")]
    style(axes, "What the ranks' time went to", legend)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 50, 100])
    axes.set_yticklabels(["0 %", "50 %", "100 %"])
    axes.grid(True, axis="y", color=QUIET, alpha=0.2, linewidth=0.8)
    _places(axes, uses, True)


def draw_trend(path: str, name: str, when: str, uses: Sequence[JobUse]) -> None:
    """Writes the page. Refusal where the file cannot be written."""
    figure = new_page(f"{plural(len(uses), 'run')} of {plain(name, 28)}", when)
    for bottom, height, draw in ((0.67, 0.16, _draw_time), (0.41, 0.16, _draw_energy), (0.12, 0.19, _draw_shares)):
        draw(figure.add_axes((LEFT + 0.02, bottom, RIGHT - LEFT - 0.02, height)), uses)
    footer(figure, "One run each: how much such runs differ by themselves shows only in several that are alike.")
    save_page(figure, path)
