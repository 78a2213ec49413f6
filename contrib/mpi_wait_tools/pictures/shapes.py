"""Pictures as shapes: bars, columns, curves, intervals and heat maps, whose values show on hover. Pure.

Turns numbers and words into shapes. templates/ print these as SVG, in pages or alone. A shape's class names its colour.
A colour has the same meaning in all pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..text.units import safe

WIDTH = 640
NAME_WIDTH, VALUE_WIDTH, ROW, BAR = 190, 70, 20, 13
PLOT_LEFT, PLOT_RIGHT, PLOT_HEIGHT, ABOVE = 64, 14, 140, 8  # pixels, for standing columns and curves
LETTER = 9.3  # width of a character in pixels on a narrow screen, for which the page enlarges letters
LETTER_MOST = 8.0  # most width of a character in pixels if letters are not enlarged
TICKS = 4
TIME_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
JOBS = ("#697782", "#2878b5", "#f0a43a", "#3b8f6a", "#8a6fa8", "#c8443f", "#5bb0c9", "#9c7a4d")
PALETTE = {
    "asleep": ("#2878b5", "#5aa5de"),
    "awake": ("#f0a43a", "#f0b45f"),
    "waiting": ("#8a6fa8", "#b79bd4"),  # asleep or awake, if the record does not tell
    "above": ("#cfc3dc", "#6d5c82"),  # waiting beyond that of the least waiting rank, if it is not lost
    "rest": ("#dde3e8", "#3a444e"),
    "lost": ("#c8443f", "#f08a84"),
    "transfer": ("#b9c2c9", "#6d7780"),
    "power": ("#3b8f6a", "#6cbf98"),
    "part": ("#8cc3a9", "#4a8f72"),
    **{f"job{place}": (colour, colour) for place, colour in enumerate(JOBS)},
}
"""By meaning: the colour on light and on dark paper. They are told apart by the colour-blind, too."""

Legend = Sequence[tuple[str, str]]
"""The class of a colour, "" for none, and what it stands for."""


@dataclass(frozen=True)
class Shape:
    tag: str
    attributes: dict[str, str | float]
    words: str = ""


@dataclass(frozen=True)
class Group:
    """Shapes that belong together."""

    said: str  # shown on hover
    shapes: list[Shape]


@dataclass(frozen=True)
class Picture:
    """A picture, which a template prints."""

    title: str
    groups: Sequence[Group] = ()  # empty if there is nothing to draw
    height: float = 0
    legend: Legend = ()
    note: str = ""  # a remark, or the reason why there is nothing to draw
    width: int = field(default=WIDTH, init=False)


@dataclass(frozen=True)
class Part:
    """A piece of a bar."""

    value: float  # its length
    kind: str  # class of its colour


@dataclass(frozen=True)
class Bar:
    """A lying bar."""

    name: str  # stands before the bar
    parts: tuple[Part, ...]
    shown: str  # stands behind the bar
    said: str  # shown on hover


@dataclass(frozen=True)
class Column:
    """A standing column."""

    parts: tuple[Part, ...]  # from below, empty if the value is not known
    said: str  # shown on hover
    label: str = ""  # stands below the column, if there is room

    @property
    def value(self) -> float:
        return sum(part.value for part in self.parts)


@dataclass(frozen=True)
class Axis:
    """A standing axis, which begins at 0."""

    top: float  # value at the upper edge
    ticks: Sequence[tuple[float, str]]  # (value, label)


@dataclass(frozen=True)
class Span:
    """A value and its interval."""

    name: str
    value: float
    low: float | None  # None if there is no interval
    high: float | None  # None if there is no interval
    said: str  # shown on hover


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map."""

    part: float | None  # value over the largest value of the column, 0 to 1; None if not known
    shown: str  # stands beside the cell
    said: str  # shown on hover
    is_marked: bool = False


def rect(kind: str, x: float, y: float, width: float, height: float) -> Shape:
    size = {"width": max(0.0, round(width, 1)), "height": max(0.0, round(height, 1))}
    return Shape("rect", {"class": kind, "x": round(x, 1), "y": round(y, 1), **size})


def words(kind: str, x: float, y: float, text: str, anchor: str = "start") -> Shape:
    return Shape("text", {"class": kind, "x": round(x, 1), "y": round(y, 1), "text-anchor": anchor}, safe(text, 200))


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Shape:
    ends = {"x1": round(x1, 1), "y1": round(y1, 1), "x2": round(x2, 1), "y2": round(y2, 1)}
    return Shape("line", {"class": kind, **ends})


def _name(text: str, y: float) -> Shape:
    return words("name", 0, y, safe(text, int(NAME_WIDTH / LETTER)))


def round_steps(top: float) -> list[float]:
    """Returns the multiples of 1, 2 or 5 times a power of ten from 0 to top. At most TICKS of them are above 0."""
    if not top > 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(top / TICKS))
    step = next(size * power for size in (1, 2, 5, 10) if size * power * TICKS >= top * 0.999)
    return [place * step for place in range(math.floor(top / step * 1.001) + 1)]


def value_axis(top: float, shown: Callable[[float], str]) -> Axis:
    return Axis(top or 1.0, [(value, shown(value)) for value in round_steps(top)])


def time_axis(top: float) -> Axis:
    """Returns an axis of times. All ticks have one unit, in which they are round: "40 s", "2.5 h"."""
    factor, unit = next((pair for pair in TIME_UNITS if top >= pair[0] * 2), TIME_UNITS[-1])
    return Axis(top or 1.0, [(value * factor, f"{value:.4g} {unit}") for value in round_steps(top / factor)])


def share_axis() -> Axis:
    return Axis(100.0, [(0.0, "0 %"), (50.0, "50 %"), (100.0, "100 %")])


def bars(title: str, rows: Sequence[Bar], top: float, legend: Legend = (), note: str = "") -> Picture:
    """Draws lying bars, one a row. top, greater than 0, is the value that fills the whole room."""
    room = WIDTH - NAME_WIDTH - max(VALUE_WIDTH, LETTER * max((len(row.shown) for row in rows), default=0) + 6)
    groups = []
    for index, row in enumerate(rows):
        y, x = index * ROW, float(NAME_WIDTH)
        # A reader can hover over the whole row.
        shapes = [rect("row", 0, y, WIDTH, ROW), _name(row.name, y + BAR)]
        for part in row.parts:
            least = 1.0 if part.value > 0 else 0.0  # any value above zero shows
            width = max(least, min(room + NAME_WIDTH - x, room * part.value / top))
            shapes.append(rect(part.kind, x, y + 3, width, BAR))
            x += width
        groups.append(Group(row.said, [*shapes, words("value", WIDTH, y + BAR, row.shown, "end")]))
    return Picture(title, groups, len(rows) * ROW, legend, note)


def _frame(axis: Axis) -> list[Shape]:
    """Draws the ticks of a standing axis, and faint lines to read values from."""
    shapes = []
    for value, said in axis.ticks:
        y = ABOVE + PLOT_HEIGHT * (1 - value / axis.top)
        shapes += [line("grid", PLOT_LEFT, y, WIDTH - PLOT_RIGHT, y), words("value", PLOT_LEFT - 6, y + 4, said, "end")]
    return shapes


def _labels(labels: Sequence[tuple[float, str]]) -> list[Shape]:
    """Draws labels, given as (place from 0 to 1, words). Leaves some out at regular distances if they would touch."""
    room = WIDTH - PLOT_LEFT - PLOT_RIGHT
    widest = max((len(text) for _, text in labels), default=0) * LETTER_MOST
    every, sizes = 1, (digit * 10**power for power in range(9) for digit in (1, 2, 5))
    if len(labels) > 1:
        apart = abs(labels[1][0] - labels[0][0]) * room
        every = next(size for size in sizes if size * apart > widest + 4 or size >= len(labels))
    shown = []
    for place, text in labels[::every]:
        anchor = "start" if place <= 0 else "end" if place >= 1 else "middle"
        shown.append(words("value", PLOT_LEFT + place * room, ABOVE + PLOT_HEIGHT + 16, text, anchor))
    return shown


def _mean(axis: Axis, mean: float | None) -> list[Shape]:
    if mean is None:
        return []
    y = ABOVE + PLOT_HEIGHT * (1 - min(1.0, mean / axis.top))
    return [line("mean", PLOT_LEFT, y, WIDTH - PLOT_RIGHT, y)]


def columns(
    title: str, values: Sequence[Column], axis: Axis, labels: Sequence[tuple[float, str]] = (),
    mean: float | None = None, legend: Legend = (), note: str = "",
) -> Picture:
    """Draws standing columns. labels, if any, replace those of the columns."""
    width = (WIDTH - PLOT_LEFT - PLOT_RIGHT) / max(1, len(values))
    groups = [Group("", _frame(axis))]
    for index, value in enumerate(values):
        x, y = PLOT_LEFT + index * width, float(ABOVE + PLOT_HEIGHT)
        shapes = [rect("row", x, ABOVE, width, PLOT_HEIGHT)]
        for part in value.parts:
            height = max(0.0, min(y - ABOVE, PLOT_HEIGHT * part.value / axis.top))
            y -= height
            shapes.append(rect(part.kind, x, y, width - (1 if width > 4 else 0), height))
        groups.append(Group(value.said, shapes))
    below = labels or [((index + 0.5) / len(values), value.label) for index, value in enumerate(values)]
    groups.append(Group("", [*_mean(axis, mean), *_labels(below)]))
    return Picture(title, groups, ABOVE + PLOT_HEIGHT + 22, legend, note)


def curves(title: str, lines: Sequence[tuple[str, str, Sequence[float]]], axis: Axis,
           labels: Sequence[tuple[float, str]], note: str = "") -> Picture:
    """Draws curves. Each of lines is (class of its colour, meaning, values at equal distances, at least two)."""
    room = WIDTH - PLOT_LEFT - PLOT_RIGHT
    groups = [Group("", _frame(axis))]
    for kind, said, values in lines:
        points = [f"{PLOT_LEFT + room * place / (len(values) - 1):.1f},"
                  f"{ABOVE + PLOT_HEIGHT * (1 - value / axis.top):.1f}" for place, value in enumerate(values)]
        groups.append(Group(said, [Shape("polyline", {"class": kind, "points": " ".join(points)})]))
    groups.append(Group("", _labels(labels)))
    return Picture(title, groups, ABOVE + PLOT_HEIGHT + 22, [(kind, said) for kind, said, _ in lines], note)


def spans(title: str, rows: Sequence[Span], note: str = "") -> Picture:
    """Draws intervals. The line at 0 stands in the middle."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    reach = max(ends, default=0.0) * 1.1 or 1.0
    middle, half = NAME_WIDTH + (WIDTH - NAME_WIDTH) / 2, (WIDTH - NAME_WIDTH) / 2
    groups, height = [], 2 * ROW
    for index, row in enumerate(rows):
        y = index * height
        place = middle + half * row.value / reach
        shapes = [rect("row", 0, y, WIDTH, height), _name(row.name, y + 32)]
        if row.low is not None and row.high is not None:
            start, width = middle + half * row.low / reach, half * (row.high - row.low) / reach
            shapes.append(rect("waiting", start, y + 26, width, 4))
        dot = Shape("circle", {"class": "waiting", "cx": round(place, 1), "cy": y + 28, "r": 5})
        said = words("value", min(WIDTH - 70, max(NAME_WIDTH + 70, place)), y + 14, row.said, "middle")
        groups.append(Group(f"{row.name}: {row.said}", [*shapes, dot, said]))
    groups.append(Group("", [rect("axis", middle - 0.5, 0, 1, len(rows) * height)]))
    return Picture(title, groups, len(rows) * height, note=note)


def heat(title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], kind: str,
         note: str = "") -> Picture:
    """Draws rows of cells, a larger value in a stronger colour. names are those of the columns, at least one."""
    room = (WIDTH - NAME_WIDTH) / len(names)
    swatch = room * 0.4
    groups = [Group("", [words("value", NAME_WIDTH + place * room, BAR, name) for place, name in enumerate(names)])]
    for index, (row, cells) in enumerate(rows, 1):
        y = index * ROW
        groups.append(Group("", [_name(row, y + BAR + 1)]))
        for place, cell in enumerate(cells):
            x = NAME_WIDTH + place * room
            shapes = [rect("row", x, y, room, ROW), rect("rest", x, y + 2, swatch, ROW - 4)]
            if cell.part is not None:
                shaded = rect(kind, x, y + 2, swatch, ROW - 4)
                shapes.append(Shape("rect", {**shaded.attributes, "fill-opacity": round(cell.part, 2)}))
            shown = words("marked" if cell.is_marked else "value", x + swatch + 6, y + BAR + 1, cell.shown)
            groups.append(Group(cell.said, [*shapes, shown]))
    return Picture(title, groups, (len(rows) + 1) * ROW, note=note)
