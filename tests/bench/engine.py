"""Runs measurements in pairs: what is compared is launched in turn, round after round, and never one after all others.

A cell is one launch of one variant. It returns samples: where it was measured (a point, such as a delay) and the
figures there. What is the same point of the same group in two variants is a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

CONFIDENCE = 0.95
Point = dict[str, Any]
Sample = tuple[Point, dict[str, float]]
Key = tuple[str, str, tuple[tuple[str, Any], ...]]


class Failure(Exception):
    """A launch did not do what it should; the text says which and why."""


@dataclass(frozen=True)
class Cell:
    """One launch of one variant of a group, once in every round.

    `rounds`: how many rounds its group has; 0: as many as the benchmark. `seconds`: how long a launch takes, about.
    """

    group: str
    variant: str
    play: Callable[[], list[Sample]]
    rounds: int = 0
    seconds: float = 0


@dataclass
class Row:
    """What was measured at one point of one variant: for each figure, a value per round."""

    group: str
    variant: str
    point: Point
    values: dict[str, list[float]] = field(default_factory=dict)

    def median(self, figure: str) -> float:
        return quantile(self.values[figure], 0.5)

    def spread(self, figure: str) -> tuple[float, float]:
        return quantile(self.values[figure], 0.25), quantile(self.values[figure], 0.75)


@dataclass
class Measured:
    """All rows of a benchmark, and what could not be had or went wrong."""

    rows: list[Row] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _by_key: dict[Key, Row] = field(default_factory=dict, repr=False)

    def add(self, group: str, variant: str, samples: list[Sample]) -> None:
        for point, figures in samples:
            key = (group, variant, tuple(point.items()))
            if key not in self._by_key:
                self._by_key[key] = Row(group, variant, point)
                self.rows.append(self._by_key[key])
            for figure, value in figures.items():
                self._by_key[key].values.setdefault(figure, []).append(value)

    def select(self, group: str = "", variant: str = "", **point: Any) -> list[Row]:
        """In the order of measuring; what is not given is any."""
        return [row for row in self.rows
                if (not group or row.group == group) and (not variant or row.variant == variant)
                and all(row.point.get(key) == value for key, value in point.items())]

    def find(self, group: str, variant: str, **point: Any) -> Row | None:
        return next(iter(self.select(group, variant, **point)), None)

    def groups(self) -> list[str]:
        return list(dict.fromkeys(row.group for row in self.rows))

    def variants(self, group: str = "") -> list[str]:
        return list(dict.fromkeys(row.variant for row in self.rows if not group or row.group == group))


def quantile(values: Sequence[float], part: float) -> float:
    """Between the two that are nearest."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def paired(row: Row, reference: Row, figure: str, how: Callable[[float, float], float]) -> list[float]:
    """how(this, reference) per round."""
    return [how(mine, other) for mine, other in zip(row.values[figure], reference.values[figure])]


def ratio(row: Row | None, reference: Row | None, figure: str) -> float | None:
    """Median of the rounds' ratios; None where one of them was not measured."""
    if not row or not reference or figure not in row.values or figure not in reference.values:
        return None
    ratios = paired(row, reference, figure, lambda mine, other: mine / other if other else float("nan"))
    return quantile(ratios, 0.5) if ratios else None


def difference(row: Row | None, reference: Row | None, figure: str) -> float | None:
    if not row or not reference or figure not in row.values or figure not in reference.values:
        return None
    differences = paired(row, reference, figure, lambda mine, other: mine - other)
    return quantile(differences, 0.5) if differences else None


def binomial_below(trials: int, most: int) -> float:
    """Returns the probability of at most that many heads when so many fair coins are thrown."""
    return sum(math.comb(trials, heads) for heads in range(most + 1)) / 2 ** trials


def interval(values: Sequence[float], wanted: float = CONFIDENCE) -> tuple[float, float, float]:
    """Returns two of the values, and the probability that the true median lies between them.

    The order statistics of the sign test: they assume nothing of how the values are distributed. The interval is the
    narrowest with the wanted probability; with fewer than six values it is all of them, with the probability of that.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside = max((out for out in range(count // 2) if 1 - 2 * binomial_below(count, out) >= wanted), default=0)
    return ordered[outside], ordered[count - 1 - outside], 1 - 2 * binomial_below(count, outside)


def rounds_of(cell: Cell, rounds: int) -> int:
    return cell.rounds or rounds


def launches(cells: list[Cell], rounds: int) -> int:
    return sum(rounds_of(cell, rounds) for cell in cells)


def expected_s(cells: list[Cell], rounds: int) -> float:
    """Returns how long all launches take, about; 0 where the benchmark does not say."""
    return sum(cell.seconds * rounds_of(cell, rounds) for cell in cells)


def rotated(cells: list[Cell], by: int) -> list[Cell]:
    return cells[by % len(cells):] + cells[:by % len(cells)]


def run(cells: list[Cell], rounds: int, measured: Measured, step: Callable[[str], None],
        group_done: Callable[[], None] = lambda: None) -> None:
    """step is told before each launch what it is. A cell that fails is noted, and not tried again.

    group_done is called when all rounds of a group have been measured.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    for members in groups.values():
        for number in range(rounds_of(members[0], rounds)):
            for cell in rotated(members, number):
                step(f"{cell.group}, {cell.variant}")
                where = f"{cell.group}, {cell.variant}"
                if any(problem.startswith(f"{where}: ") for problem in measured.problems):
                    continue
                try:
                    measured.add(cell.group, cell.variant, cell.play())
                except Failure as failure:
                    measured.problems.append(f"{where}: {failure}")
        group_done()
