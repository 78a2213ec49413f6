"""What all pictures look like: one palette (also told apart by the colour-blind), quiet axes, sizes of type."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib  # type: ignore[import]
from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import]
from matplotlib.figure import Figure  # type: ignore[import]
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea  # type: ignore[import]
from matplotlib.ticker import FuncFormatter, MaxNLocator  # type: ignore[import]
from matplotlib.transforms import blended_transform_factory  # type: ignore[import]

from ..text.errors import Refusal
from ..text.units import safe

PAGE_INCHES = (11.69, 8.27)  # A4, lying
DOTS_PER_INCH = 120
INK, QUIET, FAINT, PAPER = "#1f2d3a", "#697782", "#dfe4e8", "#ffffff"
ASLEEP, POLLING, COMPUTING, LOST, TRANSFER = "#2878b5", "#f0a43a", "#edf0f2", "#c8443f", "#b9c2c9"
WAITING, ENERGY, ENERGY_PART = "#8a6fa8", "#3b8f6a", "#8cc3a9"  # waiting: where it is not told apart
JOBS = ("#697782", "#2878b5", "#f0a43a", "#3b8f6a", "#8a6fa8", "#c8443f", "#5bb0c9", "#9c7a4d")
LEFT, RIGHT = 0.06, 0.97  # of the page's width, within which everything stands
TIME_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))

matplotlib.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": QUIET,
        "axes.linewidth": 0.8,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "svg.hashsalt": "mpi-wait",
    }
)


def plain(text: str, limit: int = 64) -> str:
    """Foreign text: no control characters, and a dollar is a dollar, not the begin of a formula."""
    return safe(text, limit).replace("$", r"\$")


def new_page(title: str, subtitle: str) -> Figure:
    figure = Figure(figsize=PAGE_INCHES, facecolor=PAPER)
    figure.text(LEFT, 0.95, title, fontsize=18, fontweight="bold", va="center")
    figure.text(LEFT, 0.915, subtitle, fontsize=10, color=QUIET, va="center")
    return figure


def stamp(figure: Figure, words: str) -> None:
    """What must not be overlooked, in red across the top of the page."""
    figure.text(
        RIGHT, 0.95, words, fontsize=13, fontweight="bold", color=LOST, ha="right", va="center",
        bbox={"boxstyle": "round,pad=0.4", "facecolor": PAPER, "edgecolor": LOST, "linewidth": 1.8},
    )


def footer(figure: Figure, *lines: str) -> None:
    for index, line in enumerate(reversed(lines)):
        figure.text(LEFT, 0.02 + index * 0.018, line, fontsize=7.5, color=QUIET, va="center")


def save_page(figure: Figure, path: str) -> None:
    """Refusal where the file cannot be written."""
    FigureCanvasAgg(figure)
    dated = {} if path.lower().endswith(".png") else {"Date" if path.lower().endswith(".svg") else "CreationDate": None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of characters that the font does not have
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata=dated)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be written: {error.strerror or 'the file system refuses'}") from None


def style(axes: Any, title: str, legend: Sequence[tuple[str, str]] = (), left: float | None = None) -> None:
    """legend: (colour, what it stands for); a colour of "" has no swatch. left: of the page, where the title begins."""
    place = axes.get_position()
    start = 0.0 if left is None else (left - place.x0) / place.width
    axes.text(
        start, 1.0, title, transform=axes.transAxes, fontsize=10.5, fontweight="bold", color=INK, va="bottom"
    ).set_y(1.0 + (0.28 if legend else 0.13) / (place.height * PAGE_INCHES[1]))
    if legend:
        axes.add_artist(_legend(axes, start, legend, 0.06 / (place.height * PAGE_INCHES[1])))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5)
    axes.set_axisbelow(True)


def _legend(axes: Any, start: float, legend: Sequence[tuple[str, str]], above: float) -> AnchoredOffsetbox:
    parts = []
    for colour, words in legend:
        swatch = [TextArea("\u25a0", textprops={"color": colour, "fontsize": 9})] if colour else []
        said = TextArea(words, textprops={"color": QUIET, "fontsize": 8.2})
        parts.append(HPacker(children=[*swatch, said], align="baseline", pad=0, sep=3))
    row = HPacker(children=parts, align="baseline", pad=0, sep=9)
    return AnchoredOffsetbox(
        "lower left", child=row, pad=0, borderpad=0, frameon=False,
        bbox_to_anchor=(start, 1.0 + above), bbox_transform=axes.transAxes,
    )


def value_axis(axis: Any, shown: Callable[[float], str], ticks: int = 5) -> None:
    """Ticks with their unit, and faint lines to read values from."""
    axis.set_major_locator(MaxNLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value) if value >= 0 else ""))
    axis.grid(True, color=FAINT, linewidth=0.8)


def time_axis(axis: Any, top: float, ticks: int = 5) -> None:
    """An axis of times from 0 to top, all in one unit and round in it: "40 s", "2.5 h"."""
    factor, unit = next((pair for pair in TIME_UNITS if top >= pair[0] * 2), TIME_UNITS[-1])
    value_axis(axis, lambda value: f"{value / factor:.4g} {unit}")
    axis.set_ticks([value * factor for value in MaxNLocator(ticks).tick_values(0, top / factor)])


def share_ticks(axes: Any) -> None:
    """Below a curve over the ranks in their order."""
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xticklabels(["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.get_xticklabels()[0].set_horizontalalignment("left")
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.set_xlabel("of the ranks", fontsize=8.5)


def bar_names(axes: Any, names: Sequence[str], left: float) -> None:
    """Names of lying bars, beginning where the title does."""
    axes.set_yticks([])
    where = blended_transform_factory(axes.figure.transFigure, axes.transData)
    for place, name in enumerate(names):
        axes.text(left, place, name, transform=where, va="center", fontsize=8.5, color=INK)
