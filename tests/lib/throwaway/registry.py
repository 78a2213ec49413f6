"""The clusters that this process runs, and those that did not come up: for the report of a failed test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lib.throwaway.cluster import Cluster

RUNNING: list[Cluster] = []
FAILED: list[Cluster] = []
"""Clusters that did not come up since `forget_failures`."""
LATE: list[tuple[str, str]] = []
"""Activities of a cluster's processes when a command timed out, since `forget_failures`."""


def sizes() -> dict[int, dict[str, int]]:
    """Returns the length of each log now, by cluster."""
    return {id(cluster): cluster.log_sizes() for cluster in RUNNING}


def news(before: dict[int, dict[str, int]]) -> list[tuple[str, str]]:
    """Returns the text added to the logs since then: all of it for a cluster that was started later, or did not come
    up."""
    found = []
    for cluster in [*RUNNING, *FAILED]:
        known = before.get(id(cluster), {})
        for name, text in cluster.all_logs().items():
            if added := text[known.get(name, 0):]:
                found.append((name, added))
    return found


def note_late(argv: Sequence[str], doings: str) -> None:
    LATE.append((f"processes when '{' '.join(map(str, argv))[:60]}' had to be ended", doings))


def end_jobs() -> None:
    """Ends all jobs, so that those of a failed test do not delay the next one."""
    for cluster in RUNNING:
        cluster.end_jobs()


def forget_failures() -> None:
    FAILED.clear()
    LATE.clear()
