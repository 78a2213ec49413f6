"""
What sleeping in waits cost and saved a job, as measured within it. The cost: steps slept in against steps in which
nobody sleeps. The saving: power in looks against power beside them, and the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from .reader import Reader

WINDOWS_LEAST = 8
ERROR_MOST = 10.0


@dataclass(frozen=True)
class Cost:
    """percent: by how much longer the periods slept in were, of those; error: half of its 95 % interval. seconds: these
    periods, the weight of both. slowdown: what was allowed, in percent; None: it is not said."""

    percent: float
    error: float
    windows: int
    seconds: float
    slowdown: float | None = None

    @property
    def is_known(self) -> bool:
        """Returns False if too little was seen to tell."""
        return self.windows >= WINDOWS_LEAST and self.error <= ERROR_MOST

    @property
    def is_too_much(self) -> bool:
        """Returns True if it is more than what was allowed, also by the lower end of the interval."""
        return self.is_known and self.slowdown is not None and self.percent - self.error > self.slowdown


def cost_of(reader: Reader | None) -> Cost | None:
    if reader is None:
        return None
    figures = reader.figures("cost")
    return Cost(figures["percent"], figures["error"], figures["windows"], figures["seconds"], figures.get("slowdown"))


@dataclass(frozen=True)
class Saved:
    """percent: of the energy of a step in which nobody sleeps; error: half of its 95 % interval. look_w, beside_w: the
    power of the nodes in looks and beside them. at_least: more was saved than is seen. nodes: of so many; None: of all
    that reported."""

    percent: float
    error: float
    looks: int
    look_w: float = 0.0
    beside_w: float = 0.0
    at_least: bool = False
    nodes: int | None = None

    @property
    def is_seen(self) -> bool:
        """Returns True if the interval does not hold 0."""
        return abs(self.percent) > self.error


def saved_of(reader: Reader | None) -> Saved | None:
    if reader is None:
        return None
    figures = reader.figures("saved")
    return Saved(figures["percent"], figures["error"], figures["looks"], figures["look_w"], figures["beside_w"],
                 reader.value.get("at_least") is True, figures.get("nodes"))
