"""What of a program's output must be the same with and without the library: lines, without what tells of times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

Lines = dict[str, list[str]]  # by output: "stdout", or a file's name
Place = tuple[str, int]  # output and line; -1: all of that output
WHOLE = -1
SHOWN = 160


def stable(text: str, keep: Iterable[str], cut: Iterable[str]) -> list[str]:
    """The lines that match one of keep (none: all), without what matches one of cut. Empty ones are no lines."""
    wanted = [re.compile(pattern) for pattern in keep]
    lines = [line for line in text.splitlines() if not wanted or any(pattern.search(line) for pattern in wanted)]
    for pattern in cut:
        lines = [re.sub(pattern, "", line) for line in lines]
    return [" ".join(line.split()) for line in lines if line.strip()]


def differing(one: Lines, other: Lines) -> set[Place]:
    """Where they differ; an output of which one has more lines than the other differs as a whole."""
    places = set()
    for name in {*one, *other}:
        mine, theirs = one.get(name, []), other.get(name, [])
        if len(mine) != len(theirs):
            places.add((name, WHOLE))
        else:
            places |= {(name, number) for number, line in enumerate(mine) if line != theirs[number]}
    return places


@dataclass
class Reference:
    """What a program prints without the library, and which lines of it are not the same each time."""

    lines: Lines
    left_out: set[Place] = field(default_factory=set)
    seconds: float = 0

    def learn(self, lines: Lines) -> None:
        """From one more run without the library."""
        self.left_out |= differing(self.lines, lines)

    def compared(self) -> int:
        """How many lines are."""
        return sum((name, WHOLE) not in self.left_out and (name, number) not in self.left_out
                   for name, lines in self.lines.items() for number in range(len(lines)))

    def differences(self, lines: Lines) -> list[str]:
        """What is not as it was without the library, in words."""
        places = sorted(place for place in differing(self.lines, lines) - self.left_out
                        if (place[0], WHOLE) not in self.left_out)
        return [self.told(place, lines) for place in places]

    def told(self, place: Place, lines: Lines) -> str:
        name, number = place
        mine, theirs = self.lines.get(name, []), lines.get(name, [])
        if number == WHOLE:
            return f"{name} has {len(theirs)} lines instead of {len(mine)}"
        return f"{name}, line {number + 1}: '{theirs[number][:SHOWN]}' instead of '{mine[number][:SHOWN]}'"
