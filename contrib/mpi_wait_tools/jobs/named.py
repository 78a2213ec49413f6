"""Reads the numbers of jobs where users have them."""

from __future__ import annotations

import re

JOBS_MAX = 1000
_ONE = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")
_TASKS = re.compile(r"([1-9][0-9]{0,9})_\[([0-9,-]{1,200})\]")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LISTED = re.compile(r",(?![^\[]*\])")


def jobs_named(text: str) -> list[str] | None:
    """Parses "123", "123_4", "123_[1-4,7]", "123+1", and lists of these with commas. None if text is none of these, or
    names too many jobs."""
    found: list[str] = []
    for word in _LISTED.split(text):
        tasks = _TASKS.fullmatch(word)
        if tasks is None:
            if not _ONE.fullmatch(word):
                return None
            found.append(word)
            continue
        for part in tasks.group(2).split(","):
            ends = _RANGE.fullmatch(part)
            if ends is None:
                return None
            first, last = int(ends.group(1)), int(ends.group(2) or ends.group(1))
            if last < first or last - first >= JOBS_MAX:
                return None
            found += [f"{tasks.group(1)}_{task}" for task in range(first, last + 1)]
    return found if len(found) <= JOBS_MAX else None
