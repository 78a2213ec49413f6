"""Plays a part of a benchmark that takes hours in full: --pick KEY=VALUE,VALUE… of tests/bench/run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

HELP = ("only this of the benchmark scale: part=patterns or codes, pattern, code, ranks, step_ms, steps; values with "
        "commas; a code by its first word; ranks, step_ms and steps may be others than the usual ones")
WORDS = ("part", "pattern", "code")
NUMBERS = ("ranks", "step_ms", "steps")


class Wrong(Exception):
    """A --pick is wrong; the text says why."""


@dataclass
class Picked:
    """A selection. `words` select among what exists; `numbers` replace the usual ones."""

    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()

    def has(self, key: str, value: str) -> bool:
        """Returns true if no word of the key was given, or the value begins with one."""
        return any(value.startswith(word) for word in self.words.get(key, ("",)))

    def number(self, key: str, usual: Sequence[float]) -> tuple[float, ...]:
        return self.numbers.get(key, tuple(usual))


def positive(text: str, key: str, kind: Any) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise Wrong(f"--pick {key}={text}: a positive number is wanted")
    return value


def read(texts: Sequence[str]) -> Picked:
    """Reads the texts of --pick. Raises Wrong."""
    picked = Picked(texts=tuple(texts))
    for text in texts:
        key, _, values = text.partition("=")
        if not values or key not in WORDS + NUMBERS:
            raise Wrong(f"--pick {text}: KEY=VALUE is wanted, and a KEY of {', '.join(WORDS + NUMBERS)}")
        if key in WORDS:
            picked.words[key] = tuple(values.split(","))
        else:
            kind = float if key == "step_ms" else int
            picked.numbers[key] = tuple(positive(value, key, kind) for value in values.split(","))
    return picked
