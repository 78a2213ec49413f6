"""Bars, charts of columns and curves, in block characters. Pure: knows neither colours nor terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .units import duration, scaled

BLOCKS = " ▏▎▍▌▋▊▉█"
SHADES = " ░▒▓█"
BINS = 8

# The substitutes for output that is not UTF-8: one character each, so that columns stay aligned.
ASCII = str.maketrans(
    {
        "µ": "u",
        "·": ",",
        "─": "-",
        "░": ".",
        "▒": ":",
        "▓": "+",
        "×": "x",
        "–": "-",
        "…": ".",
        "→": ">",
        "−": "-",
        "±": "~",
        "│": "|",
        **dict.fromkeys("▏▎▍▁▂▃", " "),
        **dict.fromkeys("▌▋▊▉█▄▅▆▇", "#"),
    }
)


@dataclass(frozen=True)
class Bin:
    low: float
    high: float
    ranks: int


def bar(value: float, most: float, width: int) -> str:
    """Returns a bar of up to width characters, in steps of an eighth. Any value above zero shows."""
    if most <= 0 or value <= 0 or width < 1:
        return ""
    eighths = max(1, min(width * 8, round(value / most * width * 8)))
    return "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def shade(value: float, most: float) -> str:
    """Returns one character, darker for larger values. Any value above zero shows."""
    if most <= 0 or value <= 0:
        return SHADES[0]
    return SHADES[max(1, min(len(SHADES) - 1, round(value / most * (len(SHADES) - 1))))]


def split_bar(value: float, part: float, most: float, width: int) -> tuple[str, str]:
    """Returns the bar of value in two pieces: part, then the rest, shaded."""
    total = bar(value, most, width)
    columns = min(len(total), round(part / most * width)) if most > 0 and part > 0 else 0
    if part >= value * 0.995:
        return total, ""
    return "█" * columns, "░" * (len(total) - columns)


def histogram(values: Sequence[float], bins: int = BINS) -> list[Bin]:
    """Counts values in bins of equal width, from the least to the most. One bin if all are alike."""
    low, high = min(values), max(values)
    if high <= low:
        return [Bin(low, high, len(values))]
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    edges = [low + (high - low) * i / bins for i in range(bins + 1)]
    return [Bin(edges[i], edges[i + 1], counts[i]) for i in range(bins)]


def quantile(values: Sequence[float], fraction: float) -> float:
    """Returns a quantile of values in ascending order, interpolated."""
    place = fraction * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


RISING = " ▁▂▃▄▅▆▇█"
HEIGHT = 7


@dataclass(frozen=True)
class Column:
    """One column of a chart, which stands for several neighbouring values."""

    mean: float
    most: float


def gather(values: Sequence[float], room: int) -> list[Column]:
    """Gathers values into at most room columns of equally many neighbours. The last one may have fewer."""
    size = -(-len(values) // max(1, room))
    runs = [values[start : start + size] for start in range(0, len(values), size)]
    return [Column(sum(run) / len(run), max(run)) for run in runs]


def stretched(values: Sequence[float], room: int) -> list[float]:
    """Repeats each value if they are few, so that the chart fills the room."""
    times = max(1, room // len(values))
    return [value for value in values for _ in range(times)]


def _column_cell(value: float, most: float, top: float, row: int, height: int) -> str:
    """Returns one character of a column: filled up to value, shaded up to most."""
    eighths = round(value / top * height * 8) - row * 8
    if value > 0 and row == 0:
        eighths = max(1, eighths)
    if eighths > 0:
        return RISING[min(8, eighths)]
    return "░" if round(most / top * height * 2) - row * 2 > 0 else " "


def column_rows(columns: Sequence[Column], height: int = HEIGHT) -> list[str]:
    """Returns the rows of the chart, the top row first, scaled to the highest value. Any value above zero shows."""
    top = max(column.most for column in columns)
    if top <= 0:
        return []
    return [
        "".join(_column_cell(column.mean, column.most, top, row, height) for column in columns)
        for row in reversed(range(height))
    ]


UNKNOWN = "·"


def _gathered(watts: Sequence[float | None], room: int) -> list[float | None]:
    """Gathers watts into at most room means of equally many neighbours; None if one of the neighbours is None."""
    size = -(-len(watts) // max(1, room))
    runs = [watts[start : start + size] for start in range(0, len(watts), size)]
    return [_mean([value for value in run if value is not None], len(run)) for run in runs]


def _mean(known: Sequence[float], size: int) -> float | None:
    return sum(known) / size if len(known) == size else None


def _power_cell(value: float | None, most: float) -> str:
    if value is None:
        return UNKNOWN
    eighths = round(value / most * 8) if most > 0 else 0
    return RISING[max(1 if value > 0 else 0, min(8, eighths))]


def power_line(watts: Sequence[float | None], elapsed: float, room: int) -> tuple[str, str]:
    """Returns a curve in one line of block characters, from 0 up, and its range in words. Both "" if nothing is
    known."""
    known = [value for value in watts if value is not None]
    if not known:
        return "", ""
    shown = _gathered(watts, room)
    most = max(value or 0.0 for value in shown)
    words = f"{scaled(min(known), 'W')} to {scaled(max(known), 'W')}, {duration(elapsed / len(shown))} a character"
    words += f" ({UNKNOWN} not known)" if None in shown else ""
    return "".join(_power_cell(value, most) for value in shown), words
