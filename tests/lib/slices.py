"""One part of a long list, by `--slice I/N`: each entry is in exactly one of the N parts, always the same."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

Entry = TypeVar("Entry")
Slice = tuple[int, int]
WHOLE: Slice = (1, 1)


def slice_read(text: str) -> Slice:
    """Parses I/N, for argparse's type=. Raises ArgumentTypeError."""
    part, _, parts = text.partition("/")
    if not part.isdigit() or not parts.isdigit() or not 1 <= int(part) <= int(parts):
        raise argparse.ArgumentTypeError(f"'{text}' is no slice: I/N, with I from 1 to N")
    return int(part), int(parts)


def slice_of(entries: Sequence[Entry], part: Slice) -> list[Entry]:
    """Returns every N-th entry from the I-th on, so that each part has some entries of every kind if kinds are
    adjacent."""
    return list(entries[part[0] - 1::part[1]])


def slice_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slice", type=slice_read, default=WHOLE, metavar="I/N", help="one of N parts of all that")
