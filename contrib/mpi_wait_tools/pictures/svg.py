"""Pictures as SVG inside a page: bars and curves whose values show on hover. Pure: strings in, a string out.

All text enters through safe() and is escaped; colours are classes, which the page's style sheet fills in for light,
dark and print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..text.units import safe

WIDTH = 640
NAME_WIDTH, VALUE_WIDTH, ROW, BAR = 190, 100, 20, 13
CURVE_HEIGHT = 120
LETTER = 9.3  # pixels that a character takes on a narrow screen, where the page makes letters larger


@dataclass(frozen=True)
class Part:
    """A piece of a bar: its length, and the class of its colour."""

    value: float
    kind: str


@dataclass(frozen=True)
class Bar:
    """name: before it; shown: behind it; said: on hover."""

    name: str
    parts: tuple[Part, ...]
    shown: str
    said: str


def text_of(text: str, limit: int = 200) -> str:
    """Foreign text for a page: without control characters, and as text and attribute alike."""
    return escape(safe(text, limit), quote=True)


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text_of(text)}</text>'


def picture(title: str, height: float, content: str) -> str:
    return (
        f'<svg role="img" aria-label="{text_of(title)}" viewBox="0 0 {WIDTH} {height:.0f}">'
        f"{content}</svg>"
    )


def bars(title: str, rows: Sequence[Bar], top: float) -> str:
    """Lying bars, one a row; top: what the whole room stands for, greater than 0."""
    room = WIDTH - NAME_WIDTH - VALUE_WIDTH
    drawn = []
    for index, row in enumerate(rows):
        y, x = index * ROW, float(NAME_WIDTH)
        pieces = [_text(0, y + BAR, safe(row.name, int(NAME_WIDTH / LETTER)), "name")]
        for part in row.parts:
            width = min(room + NAME_WIDTH - x, room * part.value / top)
            pieces.append(_rect(x, y + 3, width, BAR, part.kind))
            x += max(0.0, width)
        pieces.append(_text(WIDTH, y + BAR, row.shown, "value", "end"))
        # What can be hovered over is the whole row.
        whole = _rect(0, y, WIDTH, ROW, "row")
        drawn.append(f"<g><title>{text_of(row.said)}</title>{whole}{''.join(pieces)}</g>")
    return picture(title, len(rows) * ROW, "".join(drawn))


@dataclass(frozen=True)
class Span:
    """A value and its interval, both as they lie on the axis; low and high are None where there is none."""

    name: str
    value: float
    low: float | None
    high: float | None
    said: str


def spans(title: str, rows: Sequence[Span]) -> str:
    """Intervals around a line at 0, which stands in the middle."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    reach = max(ends, default=0.0) * 1.1 or 1.0
    middle, half = NAME_WIDTH + (WIDTH - NAME_WIDTH) / 2, (WIDTH - NAME_WIDTH) / 2
    drawn, height = [], 2 * ROW
    for index, row in enumerate(rows):
        y = index * height
        place = middle + half * row.value / reach
        line = ""
        if row.low is not None and row.high is not None:
            start = middle + half * row.low / reach
            line = _rect(start, y + 26, half * (row.high - row.low) / reach, 4, "waiting")
        pieces = [_rect(0, y, WIDTH, height, "row"), _text(0, y + 32, safe(row.name, int(NAME_WIDTH / LETTER)), "name"),
                  line, f'<circle class="waiting" cx="{place:.1f}" cy="{y + 28}" r="5"/>',
                  _text(min(WIDTH - 70, max(NAME_WIDTH + 70, place)), y + 14, row.said, "value", "middle")]
        drawn.append(f"<g><title>{text_of(f'{row.name}: {row.said}')}</title>{''.join(pieces)}</g>")
    drawn.append(_rect(middle - 0.5, 0, 1, len(rows) * height, "axis"))
    return picture(title, len(rows) * height, "".join(drawn))


@dataclass(frozen=True)
class Cell:
    """part: of the most of its column, 0 to 1, or None where it is not known. shown: beside it; said: on hover."""

    part: float | None
    shown: str
    said: str
    is_marked: bool = False


def heat(title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], kind: str) -> str:
    """A row of cells by name, the stronger in colour the more; names: of the columns, at least one."""
    room = (WIDTH - NAME_WIDTH) / len(names)
    swatch = room * 0.4
    drawn = [_text(NAME_WIDTH + place * room, BAR, name, "value") for place, name in enumerate(names)]
    for index, (row, cells) in enumerate(rows, 1):
        y = index * ROW
        drawn.append(_text(0, y + BAR + 1, safe(row, int(NAME_WIDTH / LETTER)), "name"))
        for place, cell in enumerate(cells):
            x = NAME_WIDTH + place * room
            pieces = [_rect(x, y, room, ROW, "row"), _rect(x, y + 2, swatch, ROW - 4, "rest")]
            if cell.part is not None:
                shaded = _rect(x, y + 2, swatch, ROW - 4, kind)
                pieces.append(f'<g fill-opacity="{cell.part:.2f}">{shaded}</g>')
            shown = "marked" if cell.is_marked else "value"
            pieces.append(_text(x + swatch + 6, y + BAR + 1, cell.shown, shown))
            drawn.append(f"<g><title>{text_of(cell.said)}</title>{''.join(pieces)}</g>")
    return picture(title, (len(rows) + 1) * ROW, "".join(drawn))


def columns(title: str, values: Sequence[tuple[float | None, str]], kind: str, ends: tuple[str, str], most: str) -> str:
    """Standing columns beside one another from 0 up: (value, what is said of it on hover); None is a gap. ends: below
    the first and the last; most: what the tallest stands for."""
    top = max((value for value, _ in values if value is not None), default=0.0) or 1.0
    left, room = VALUE_WIDTH, WIDTH - VALUE_WIDTH
    width = room / max(1, len(values))
    drawn = [_text(left - 8, 15, most, "value", "end"), _text(left - 8, CURVE_HEIGHT, "0", "value", "end")]
    for index, (value, said) in enumerate(values):
        x, height = left + index * width, 0.0 if value is None else (CURVE_HEIGHT - 4) * value / top
        column = _rect(x, CURVE_HEIGHT - height, width - (1 if width > 4 else 0), height, kind)
        whole = _rect(x, 0, width, CURVE_HEIGHT, "row")
        drawn.append(f"<g><title>{text_of(said)}</title>{whole}{column}</g>")
    drawn.append(_text(left, CURVE_HEIGHT + 16, ends[0], "value"))
    drawn.append(_text(WIDTH, CURVE_HEIGHT + 16, ends[1], "value", "end"))
    return picture(title, CURVE_HEIGHT + 22, "".join(drawn))
