"""A record's worlds: which ranks belong together, where steps have not one MPI_COMM_WORLD each. Checked like all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .ends import STEP
from .reader import Reader, damaged

LAUNCHED, SINGLETONS, UNKNOWN = "launched", "singletons", "unknown"
ROWS_MAX = 65
APART_MAX = 64  # alike ones that are told apart where the record has no list of ranks
_KIND = re.compile(f"{LAUNCHED}|{SINGLETONS}|{UNKNOWN}")


@dataclass(frozen=True)
class World:
    """One of them, or ranks of which it is not known whether they are. numbers: those of the ranks in their order."""

    kind: str
    ranks: int
    size: int  # 0: not known
    step: str  # "" where the job has one, or where the ranks came by several
    numbers: tuple[int, ...]  # empty: not known


def _run(value: Any, where: str) -> tuple[int, int, int]:
    """[first, ranks] or [first, ranks, distance]"""
    row = [*value, 1] if isinstance(value, list) and len(value) == 2 else value
    if not isinstance(row, list) or len(row) != 3 or not all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 24 for number in row
    ):
        raise damaged(where, "is no run of numbers")
    return row[0], row[1], row[2]


def _numbers(reader: Reader, ranks: int, kind: str) -> tuple[int, ...]:
    runs = reader.items("numbers", _run, required=False)
    if not runs:
        return tuple(range(ranks)) if kind == LAUNCHED else ()
    if sum(count for _, count, _ in runs) != ranks:
        raise damaged(reader.path("numbers"), "has another number of ranks")
    return tuple(first + place * distance for first, count, distance in runs for place in range(count))


def _row(value: Any, where: str, listed: int) -> list[World]:
    reader = Reader(value, where)
    figures, kind = reader.figures("world"), reader.text("kind", _KIND)
    ranks, alike = figures["ranks"], figures.get("worlds", 1)
    if alike < 1 or ranks % alike or (listed and ranks > listed):
        raise damaged(where, "has no possible number of ranks")
    step = reader.text("step", STEP) if "step" in reader.value else ""
    each, told = ranks // alike, alike if listed else min(alike, APART_MAX)
    world = World(kind, each, figures.get("size", 0), step, _numbers(reader, each, kind) if listed else ())
    rest = [World(UNKNOWN, ranks - told * each, world.size, step, ())] if told < alike else []
    return [world] * told + rest


def worlds_of(reader: Reader, listed: int) -> list[World]:
    """
    listed: of how many ranks the record has the waits, 0 where it has no list of them. The worlds are in the order of
    that list. Empty: each step has one world.
    """
    rows = reader.items("worlds", lambda value, where: (value, where), required=False)
    if len(rows) > ROWS_MAX:
        raise damaged(reader.path("worlds"), "has too many rows")
    worlds = [world for value, where in rows for world in _row(value, where, listed)]
    if worlds and listed and sum(world.ranks for world in worlds) != listed:
        raise damaged(reader.path("worlds"), "has other ranks than the list")
    return worlds
