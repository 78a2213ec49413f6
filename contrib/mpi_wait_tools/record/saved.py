"""What sleeping in waits saved a job, as measured within it: power in looks against power beside them."""

from __future__ import annotations

from dataclasses import dataclass

from .reader import Reader


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
