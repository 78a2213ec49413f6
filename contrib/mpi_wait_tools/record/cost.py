"""What sleeping in waits cost a job, as its ranks measured it: steps slept in against steps in which nobody sleeps."""

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
