"""Targets: what the project wants of a figure, and whether it was met here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """A target. `met` is None if nothing was measured; `why` gives the reason, or where it was measured."""

    text: str
    value: float | None
    limit: float
    unit: str
    sense: str  # "at most" or "at least"
    why: str = ""

    @property
    def met(self) -> bool | None:
        if self.value is None or self.value != self.value:
            return None
        return self.value <= self.limit if self.sense == "at most" else self.value >= self.limit

    def as_dict(self) -> dict[str, Any]:
        value = None if self.met is None else self.value
        return {"text": self.text, "value": value, "limit": self.limit, "unit": self.unit, "sense": self.sense,
                "met": self.met, "why": self.why}


def at_most(text: str, value: float | None, limit: float, unit: str, why: str = "") -> Target:
    return Target(text, value, limit, unit, "at most", why)


def at_least(text: str, value: float | None, limit: float, unit: str, why: str = "") -> Target:
    return Target(text, value, limit, unit, "at least", why)


def verdict(target: dict[str, Any]) -> str:
    return {True: "met", False: "not met", None: "not measured"}[target["met"]]


def number(value: float) -> str:
    """Returns the number with three significant figures."""
    if value != 0 and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.3g}"


def worst(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def least(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None
