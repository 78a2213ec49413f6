"""Which clusters this process runs, and which did not come up: for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lib.throwaway.cluster import Cluster

RUNNING: list[Cluster] = []
FAILED: list[Cluster] = []
"""Since `forget_failures`."""
LATE: list[tuple[str, str]] = []
"""What the processes of a cluster did when a command had to be ended; since then."""


def sizes() -> dict[int, dict[str, int]]:
    """How long each log is now, by cluster."""
    return {id(cluster): cluster.log_sizes() for cluster in RUNNING}


def news(before: dict[int, dict[str, int]]) -> list[tuple[str, str]]:
    """What the logs have got since then: all of a cluster that was started later, or did not come up."""
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
    """Nothing of a test that failed stands in the way of the next one."""
    for cluster in RUNNING:
        cluster.end_jobs()


def forget_failures() -> None:
    FAILED.clear()
    LATE.clear()
