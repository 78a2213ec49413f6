"""Runs measurements in pairs: launches the variants in turn, round after round, never one after all launches of
another.

A cell is one launch of one variant. It returns samples: the point where it measured (such as a delay) and the figures
there. The same point of the same group in two variants is a pair.
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
    """A launch failed; the text says which and why."""


@dataclass(frozen=True)
class Cell:
    """One launch of one variant of a group, once in every round.

    `rounds`: its number of rounds; 0: the benchmark's. `seconds`: rough length of a launch.
    """

    group: str
    variant: str
    play: Callable[[], list[Sample]]
    rounds: int = 0
    seconds: float = 0


@dataclass
class Row:
    """The measurements at one point of one variant: for each figure, a value per round."""

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
    """All rows of a benchmark, what was unavailable, and what failed."""

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
        """Returns the matching rows in the order of measuring. An argument that is not given matches all."""
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
    """Returns a quantile, interpolated between the two nearest values."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def paired(row: Row, reference: Row, figure: str, how: Callable[[float, float], float]) -> list[float]:
    """Returns how(this, reference) for each round."""
    return [how(mine, other) for mine, other in zip(row.values[figure], reference.values[figure])]


def ratio(row: Row | None, reference: Row | None, figure: str) -> float | None:
    """Returns the median of the rounds' ratios; None if a row or its figure was not measured."""
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
    """Returns the probability of at most `most` heads when that many fair coins are thrown."""
    return sum(math.comb(trials, heads) for heads in range(most + 1)) / 2 ** trials


def interval(values: Sequence[float], wanted: float = CONFIDENCE) -> tuple[float, float, float]:
    """Returns two of the values, and the probability that the true median lies between them.

    The values are the order statistics of the sign test, which assumes nothing about their distribution. The interval
    is the narrowest with the wanted probability. With fewer than six values it covers all of them, with the probability
    of that.
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
    """Returns the rough length of all launches; 0 if the benchmark does not tell."""
    return sum(cell.seconds * rounds_of(cell, rounds) for cell in cells)


def rotated(cells: list[Cell], by: int) -> list[Cell]:
    return cells[by % len(cells):] + cells[:by % len(cells)]


def run(cells: list[Cell], rounds: int, measured: Measured, step: Callable[[str], None],
        group_done: Callable[[], None] = lambda: None) -> None:
    """Runs all cells. A cell that fails is noted, and not tried again.

    step is called with a cell's name before each launch. group_done is called when all rounds of a group have been
    measured.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    for members in groups.values():
        for number in range(max(rounds_of(cell, rounds) for cell in members)):
            for cell in rotated([cell for cell in members if number < rounds_of(cell, rounds)], number):
                step(f"{cell.group}, {cell.variant}")
                where = f"{cell.group}, {cell.variant}"
                if any(problem.startswith(f"{where}: ") for problem in measured.problems):
                    continue
                try:
                    measured.add(cell.group, cell.variant, cell.play())
                except Failure as failure:
                    measured.problems.append(f"{where}: {failure}")
        group_done()
