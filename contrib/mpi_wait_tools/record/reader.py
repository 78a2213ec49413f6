"""Reads one JSON object of a record: every value is checked for its type and range.

The package jsonschema is not used: it takes 140 ms to load, a third of what a report takes in all.
"""

from __future__ import annotations

import math
import re
from typing import Any, Callable, TypeVar

from ..text.output import Refusal
from ..text.units import safe
from .fields import figures_of

SECONDS_MAX = 1e12
NUMBER_MAX = 1e18
ITEMS_MAX = 100_000
WHERE_MAX = 200  # characters that are shown of a path in the record, whose keys are foreign text

T = TypeVar("T")


def damaged(where: str, what: str) -> Refusal:
    return Refusal(f"the record is damaged: {safe(where, WHERE_MAX)} {what}")


class Reader:
    """One JSON object and its path in the record, which a Refusal names if the object is damaged."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise damaged(where, "is not an object")
        self.value, self.where = value, where

    def _get(self, key: str, required: bool) -> Any:
        if key not in self.value and required:
            raise damaged(self.path(key), "is missing")
        return self.value.get(key)

    def path(self, key: str) -> str:
        return f"{self.where}.{key}"

    def number(self, key: str, most: float = NUMBER_MAX, least: float = 0) -> float:
        return number_of(self._get(key, True), self.path(key), most, least)

    def maybe_number(self, key: str, most: float = NUMBER_MAX) -> float | None:
        return self.number(key, most) if key in self.value else None

    def integer(self, key: str, least: int = 0) -> int:
        value = self._get(key, True)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not least <= value <= NUMBER_MAX
        ):
            raise damaged(self.path(key), "is not a whole number in range")
        return value

    def maybe_integer(self, key: str) -> int | None:
        return self.integer(key) if key in self.value else None

    def figures(self, name: str) -> dict[str, Any]:
        """Reads the plain figures of this object. `name` is its name in fields.FIGURES; optional figures may be
        absent."""
        found: dict[str, Any] = {}
        for figure in figures_of(name):
            if figure.required or figure.name in self.value:
                key = figure.name
                found[key] = self.integer(key, figure.least) if figure.whole else self.number(
                    key, figure.most, figure.least)
        return found

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self._get(key, pattern is not None)
        if value is None and key not in self.value:
            return ""
        if not isinstance(value, str):
            raise damaged(self.path(key), "is not a string")
        if pattern is not None and not pattern.fullmatch(value):
            raise damaged(self.path(key), "is not one of the possible values")
        return value

    def numbers(self, key: str, required: bool = True) -> list[float]:
        return self.items(key, lambda value, where: number_of(value, where, SECONDS_MAX), required)

    def items(self, key: str, read: Callable[[Any, str], T], required: bool = True) -> list[T]:
        value = self._get(key, required)
        if value is None and not required:
            return []
        if not isinstance(value, list) or len(value) > ITEMS_MAX:
            raise damaged(self.path(key), "is not a list of possible length")
        return [read(item, f"{self.path(key)}[{index}]") for index, item in enumerate(value)]

    def object(self, key: str) -> Reader:
        return Reader(self._get(key, True), self.path(key))

    def maybe_object(self, key: str) -> Reader | None:
        return None if self.value.get(key) is None else self.object(key)


def number_of(value: Any, where: str, most: float, least: float = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise damaged(where, "is not a number")
    if not (math.isfinite(value) if isinstance(value, float) else True) or not least <= value <= most:
        raise damaged(where, "is out of range")
    return float(value)
