"""Reads the numbers of the law that bounds what sleeping costs, from where the sources define them."""

from __future__ import annotations

import json
import re
from functools import cache
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRACTIONS = {2: "half", 4: "quarter", 8: "eighth", 16: "sixteenth", 32: "thirty-second", 64: "sixty-fourth"}
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
          "thirteen", "fourteen", "fifteen", "sixteen")


@cache
def _sources() -> str:
    rooms = ("preload", "spank/policy", "spank/energy")
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("*.[ch]"))]
    return re.sub(r"\\\n", " ", "\n".join(path.read_text() for path in files))


def number(name: str) -> float:
    """Returns the value of a #define, which has one definition: a number, the name of another #define, or shifted
    ones."""
    (text,) = re.findall(rf"^#define\s+{name}\s+(.*?)\s*(?:/\*.*)?$", _sources(), re.M)
    first, *shifts = (_word(word) for word in re.sub(r"\(uint64_t\)|U?INT64_C|[()]", "", text).split("<<"))
    return first * 2 ** sum(shifts)


def _word(text: str) -> float:
    text = text.strip()
    return number(text) if text[0].isalpha() else float(text.rstrip("u"))


def matched(pattern: str) -> float:
    """Returns the product of the numbers in the one text of the sources that the pattern matches."""
    (found,) = re.findall(pattern, _sources())
    return prod(float(word) for word in ([found] if isinstance(found, str) else found))


def policy(name: str) -> dict[str, float]:
    """Returns the budget and the other numbers of a shipped policy."""
    text = json.loads((ROOT / f"policies/{name}.json").read_text())
    return {**text["budget"], **{key: value for key, value in text.items() if isinstance(value, int | float)}}


def fraction(whole: float) -> str:
    return FRACTIONS[round(whole)]


def count(value: float) -> str:
    return COUNTS[round(value)]


def plain(value: float) -> str:
    return f"{value:g}"


def ms(value_ns: float) -> str:
    """Returns the time in ms: rounded to a whole number from 1 ms on, to one digit below."""
    value = value_ns / 1e6
    return f"{round(value)}" if value >= 1 else f"{value:.1g}"
