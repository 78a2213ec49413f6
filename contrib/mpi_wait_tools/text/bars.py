"""Bars and distributions as numbers and strings. Pure: knows neither colours nor terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BLOCKS = " ▏▎▍▌▋▊▉█"
SHADES = " ░▒▓█"
BINS = 8

# What stands for a character where the output is not UTF-8: one column each, so all stays aligned.
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
    """A bar in eighths of a column. Anything that is not zero shows."""
    if most <= 0 or value <= 0 or width < 1:
        return ""
    eighths = max(1, min(width * 8, round(value / most * width * 8)))
    return "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def shade(value: float, most: float) -> str:
    """One character, the darker the more. Anything that is not zero shows."""
    if most <= 0 or value <= 0:
        return SHADES[0]
    return SHADES[max(1, min(len(SHADES) - 1, round(value / most * (len(SHADES) - 1))))]


def split_bar(value: float, part: float, most: float, width: int) -> tuple[str, str]:
    """The same bar in two pieces: part, then the rest of value, shaded."""
    total = bar(value, most, width)
    columns = min(len(total), round(part / most * width)) if most > 0 and part > 0 else 0
    if part >= value * 0.995:
        return total, ""
    return "█" * columns, "░" * (len(total) - columns)


def histogram(values: Sequence[float], bins: int = BINS) -> list[Bin]:
    """Equal steps from the least to the most; one bin where all are alike."""
    low, high = min(values), max(values)
    if high <= low:
        return [Bin(low, high, len(values))]
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    edges = [low + (high - low) * i / bins for i in range(bins + 1)]
    return [Bin(edges[i], edges[i + 1], counts[i]) for i in range(bins)]


def quantile(values: Sequence[float], fraction: float) -> float:
    """Of values in ascending order, interpolated."""
    place = fraction * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)
