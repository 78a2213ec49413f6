"""Sums up many jobs, says how far their figures spread, and finds the odd ones among jobs of one name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from ..text.units import clock, count, percent, plural, scaled
from .line import Line
from .nodes import distances_of, shares_of_median
from .reading import kinds_of
from .rows import Row

ALIKE_MIN = 4  # fewer jobs are compared at a glance
ENDED_WELL = ("COMPLETED", "")  # "" in a file, which has no state


@dataclass(frozen=True)
class Figure:
    """A figure of a job, in a column of the table."""

    name: str  # the column's title
    key: str  # its key in JSON
    measure: str  # its measure in CSV
    unit: str
    of: Callable[[Line], float | None]
    shown: Callable[[float], str]
    is_share: bool = False  # a share of 1; another figure is compared as a part of the jobs' median
    is_judged: bool = False  # a job may be odd by it
    least: float = 0.0  # least difference from the median that counts


def _cost(line: Line) -> float | None:
    return line.cost.percent if line.cost is not None else None


def _saved(line: Line) -> float | None:
    return line.saved.percent if line.saved is not None else None


def _percent(value: float) -> str:
    return f"{value:.1f} %".replace("-", "−")


def _share(name: str, is_judged: bool) -> Figure:
    return Figure(name, name, f"{name}_share", "", lambda line: getattr(line, name), percent, True, is_judged)


FIGURES = (
    Figure("elapsed", "elapsed_s", "elapsed", "s", lambda line: line.elapsed_s, clock, is_judged=True, least=2.0),
    Figure("ranks", "ranks", "ranks", "", lambda line: line.ranks, lambda value: count(round(value))),
    _share("wait", is_judged=True),
    _share("asleep", is_judged=False),
    _share("lost", is_judged=True),
    Figure("cost", "cost_percent", "cost_percent", "%", _cost, _percent),
    Figure("saved", "saved_percent", "saved", "%", _saved, _percent),
    Figure("energy", "joules", "energy", "J", lambda line: line.joules, lambda value: scaled(value, "J"),
           is_judged=True),
)
"""The least difference of elapsed is that of sacct's whole seconds."""


ENDS = ("least", "median", "most")


@dataclass(frozen=True)
class Spread:
    least: float
    median: float
    most: float


def energies_are_alike(lines: Sequence[Line]) -> bool:
    """Returns True if no two of the known energies are of different parts of a node."""
    return len(kinds_of(line.energy_of for line in lines)) < 2


def _values(figure: Figure, lines: Sequence[Line]) -> list[float | None]:
    if figure.name == "energy" and not energies_are_alike(lines):
        return [None] * len(lines)
    return [figure.of(line) for line in lines]


def spread_of(figure: Figure, lines: Sequence[Line]) -> Spread | None:
    """Returns the spread of the known values; None if fewer than two are known, or if they cannot be compared."""
    known = [value for value in _values(figure, lines) if value is not None]
    return Spread(min(known), median(known), max(known)) if len(known) > 1 else None


@dataclass(frozen=True)
class Sums:
    """Sums over jobs. A share is that of all jobs together, so that long jobs count more."""

    lines: Sequence[Line]
    row: Row  # sums over those that have a record

    @property
    def elapsed_s(self) -> float | None:
        known = [line.elapsed_s for line in self.lines if line.elapsed_s is not None]
        return sum(known) if known else None

    @property
    def ranks(self) -> int | None:
        return sum(line.ranks or 0 for line in self.lines) or None

    @property
    def joules(self) -> float | None:
        """The energy of those whose energy is known; None if it is known of none, or is not of the same parts."""
        return self.row.joules if self.row.unknown < self.row.jobs and energies_are_alike(self.lines) else None

    @property
    def saved_j(self) -> float | None:
        return self.row.saved_j if self.row.saved is not None and energies_are_alike(self.lines) else None

    @property
    def wait(self) -> float | None:
        return _part(self.row.wait_s, self.row.ranks_s)

    @property
    def asleep(self) -> float | None:
        return _part(self.row.asleep_s, self.row.wait_s)

    @property
    def lost(self) -> float | None:
        return _part(self.row.lost_s, self.row.lost_of_s)

    @property
    def lacking(self) -> str:
        """A sentence on what the sums lack, "" if they lack nothing."""
        yet = sum(line.use is None and line.may_come for line in self.lines)
        without, unknown = len(self.lines) - self.row.jobs - yet, self.row.unknown
        said = [f"{plural(without, 'job')} left no record"] * (without > 0)
        said += [f"{plural(yet, 'job')} {'has' if yet == 1 else 'have'} no record yet"] * (yet > 0)
        said += [f"the energy of {count(unknown)} is not known"] * (0 < unknown < self.row.jobs)
        said += [f"nodes of {count(self.row.incomplete)} did not report"] * (self.row.incomplete > 0)
        whole = "; ".join(said)
        return f"{whole[0].upper()}{whole[1:]}: the total is without." if said else ""


def _part(part: float, whole: float) -> float | None:
    return min(1.0, part / whole) if whole > 0 else None


def sums_of(lines: Sequence[Line]) -> Sums:
    row = Row("")
    for line in lines:
        if line.use is not None:
            row.add(line.use)
    return Sums(lines, row)


@dataclass(frozen=True)
class Odd:
    """A figure of a job that is far from the median of the jobs of its name."""

    line: Line
    figure: Figure
    value: float
    median: float
    distance: float  # above 1


def _odd_by(figure: Figure, alike: Sequence[Line]) -> list[Odd]:
    values = _values(figure, alike)
    known = [value for value in values if value is not None]
    if len(known) < ALIKE_MIN:
        return []
    middle = median(known)
    distances = distances_of(values if figure.is_share else shares_of_median(values))
    return [Odd(line, figure, value, middle, far) for line, value, far in zip(alike, values, distances)
            if value is not None and far > 1 and abs(value - middle) >= figure.least]


def odd_ones(lines: Sequence[Line]) -> list[list[Odd]]:
    """Returns the odd figures of each odd job, the oddest job first.

    A job is compared with those of its user, name and number of ranks. A job that did not run to its end, or from which
    nodes are missing, is compared with none.
    """
    groups: dict[tuple[str | int | None, ...], list[Line]] = {}
    for line in lines:
        if line.state in ENDED_WELL and line.use is not None and line.use.complete:
            groups.setdefault((line.user, line.name, line.ranks), []).append(line)
    by_line: dict[int, list[Odd]] = {}
    for alike in groups.values():
        for figure in FIGURES:
            for odd in _odd_by(figure, alike) if figure.is_judged else []:
                by_line.setdefault(id(odd.line), []).append(odd)
    return sorted(by_line.values(), key=lambda found: -max(odd.distance for odd in found))
