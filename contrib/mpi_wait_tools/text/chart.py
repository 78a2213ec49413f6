"""A chart of columns out of block characters. Pure: rows of text, no colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RISING = " ▁▂▃▄▅▆▇█"
HEIGHT = 7


@dataclass(frozen=True)
class Column:
    """What one column stands for: a run of neighbouring values."""

    mean: float
    most: float


def gather(values: Sequence[float], room: int) -> list[Column]:
    """At most room columns, each of as many neighbours as the others; the last one may have fewer."""
    size = -(-len(values) // max(1, room))
    runs = [values[start : start + size] for start in range(0, len(values), size)]
    return [Column(sum(run) / len(run), max(run)) for run in runs]


def stretched(values: Sequence[float], room: int) -> list[float]:
    """Values over the whole room: repeated where there are few of them, so that the chart is not a thin comb."""
    times = max(1, room // len(values))
    return [value for value in values for _ in range(times)]


def _cell(value: float, most: float, top: float, row: int, height: int) -> str:
    """One character: filled up to value, shaded up to most."""
    eighths = round(value / top * height * 8) - row * 8
    if value > 0 and row == 0:
        eighths = max(1, eighths)
    if eighths > 0:
        return RISING[min(8, eighths)]
    return "░" if round(most / top * height * 2) - row * 2 > 0 else " "


def column_rows(columns: Sequence[Column], height: int = HEIGHT) -> list[str]:
    """The chart from its top row to its bottom row, scaled to the highest value. Anything that is not zero shows."""
    top = max(column.most for column in columns)
    if top <= 0:
        return []
    return [
        "".join(_cell(column.mean, column.most, top, row, height) for column in columns)
        for row in reversed(range(height))
    ]
