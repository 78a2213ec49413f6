"""Where the ranks of a list ran, out of the record's runs of neighbours. Pure."""

from __future__ import annotations

from typing import Any

from .reader import Reader, damaged

NODE_MAX = 64  # characters


def _run(value: Any, where: str) -> tuple[str, int, int, int]:
    """[node, first place, ranks] or [node, first place, ranks, distance]"""
    row = value if isinstance(value, list) and len(value) == 4 else [*value, 1] if isinstance(value, list) else []
    numbers = row[1:]
    if (
        len(row) != 4
        or not isinstance(row[0], str)
        or len(row[0]) > NODE_MAX
        or not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers)
    ):
        raise damaged(where, "is no node with its ranks")
    return row[0], row[1], row[2], row[3]


def nodes_of_places(reader: Reader, key: str, count: int) -> list[str]:
    """The node of each of count places, "" where none is said; empty where the record has no such runs."""
    runs = reader.items(key, _run, required=False)
    nodes = [""] * count if runs else []
    left = count
    for index, (node, first, ranks, distance) in enumerate(runs):
        left -= ranks
        if left < 0 or (ranks > 0 and first + (ranks - 1) * distance >= count):
            raise damaged(f"{reader.path(key)}[{index}]", "has more ranks than the list")
        for place in range(ranks):
            nodes[first + place * distance] = node
    return nodes
