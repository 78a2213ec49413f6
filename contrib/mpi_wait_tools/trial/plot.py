"""The page of an experiment: each policy's intervals, beside what it is compared with."""

from __future__ import annotations

import shlex
from typing import Any

from ..pictures.style import FAINT, INK, JOBS, LEFT, QUIET, footer, new_page, plain, save_page, style
from ..text.units import plural
from .experiment import BASELINE, Experiment
from .show import known_measures, title_of
from .verdict import SMALL_USE, USE, Verdict, change, energy_of, verdicts

GREEN = "#3b8f6a"


def _draw_measure(axes: Any, name: str, found: list[Verdict], named: bool) -> None:
    """A dot for the ratio, a line for its interval, around the line of no difference."""
    reach = 0.005
    for place, verdict in enumerate(found):
        ratio = verdict.measures.get(name)
        if ratio is None:
            continue
        ends = [100 * (value - 1) for value in (ratio.low, ratio.high) if value is not None]
        middle = 100 * (ratio.ratio - 1)
        colour = JOBS[(place + 1) % len(JOBS)]
        if len(ends) == 2:
            axes.plot(ends, [place, place], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([middle], [place], "o", color=colour, markersize=7)
        axes.annotate(change(ratio), (middle, place), xytext=(0, 9), textcoords="offset points", fontsize=8, color=INK,
                      ha="center")
        reach = max(reach, abs(middle), *(abs(end) for end in ends))
    axes.axvline(0, color=QUIET, linewidth=1)
    axes.set_xlim(-1.6 * reach, 1.6 * reach)
    axes.set_ylim(len(found) - 0.5, -0.7)
    axes.set_yticks(range(len(found)))
    axes.set_yticklabels([plain(verdict.policy, 24) if named else "" for verdict in found])
    axes.grid(True, axis="x", color=FAINT, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.3g} %".replace("-", "−"))


def draw_experiment(path: str, experiment: Experiment) -> None:
    """Writes the page. Refusal where the file cannot be written."""
    found = verdicts(experiment)
    figure = new_page(plain(shlex.join(experiment.command), 60),
                      f"each policy beside {BASELINE}, {plural(experiment.done(), 'round')}: ratios and 95 % intervals")
    names = known_measures(experiment, found)
    if names:
        width = (0.97 - LEFT - 0.08) / len(names)
        for index, name in enumerate(names):
            axes = figure.add_axes((LEFT + 0.08 + index * width, 0.34, width - 0.03, 0.44))
            _draw_measure(axes, name, found, index == 0)
            style(axes, plain(title_of(experiment, name), 40))
    for index, verdict in enumerate(found):
        colour = GREEN if verdict.kind in (USE, SMALL_USE) else INK
        figure.text(LEFT, 0.25 - 0.03 * index, plain(verdict.sentence, 200), fontsize=9.5, color=colour)
    energy = energy_of(experiment)
    simulated = energy.measure and not energy.is_measured
    lines = ["Energy is of simulated nodes, not measured."] if simulated else []
    footer(figure, "An interval that holds 0 shows no difference.", *lines)
    save_page(figure, path)
