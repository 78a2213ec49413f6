"""Power over the time of a job: a list of watts in equal parts, None where it is not known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .chart import RISING
from .units import duration, scaled

UNKNOWN = "·"


def _gathered(watts: Sequence[float | None], room: int) -> list[float | None]:
    """At most room values, each the mean of as many neighbours; not known where one of them is not."""
    size = -(-len(watts) // max(1, room))
    runs = [watts[start : start + size] for start in range(0, len(watts), size)]
    return [_mean([value for value in run if value is not None], len(run)) for run in runs]


def _mean(known: Sequence[float], size: int) -> float | None:
    return sum(known) / size if len(known) == size else None


def _cell(value: float | None, most: float) -> str:
    if value is None:
        return UNKNOWN
    eighths = round(value / most * 8) if most > 0 else 0
    return RISING[max(1 if value > 0 else 0, min(8, eighths))]


def power_line(watts: Sequence[float | None], elapsed: float, room: int) -> tuple[str, str]:
    """A curve in one line of block characters from 0 up, and what it says in words; "" where nothing is known."""
    known = [value for value in watts if value is not None]
    if not known:
        return "", ""
    shown = _gathered(watts, room)
    most = max(value or 0.0 for value in shown)
    words = f"{scaled(min(known), 'W')} to {scaled(max(known), 'W')}, {duration(elapsed / len(shown))} a character"
    words += f" ({UNKNOWN} not known)" if None in shown else ""
    return "".join(_cell(value, most) for value in shown), words
