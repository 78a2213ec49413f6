"""The looks at one node, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ..site.host import Host
from .counters import Counters
from .found import Segment, find_segments
from .look import HERE, SHOWN, Look, Waiting
from .segment import Rank, read_ranks

SEARCH_EVERY = 5  # looks: the processes of a large node are many
Place = tuple[tuple[int, int], int]  # a rank's segment and slot


def _share(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0


def _grown(now: dict[Place, Rank], before: dict[Place, Rank]) -> tuple[float, float] | None:
    """Of the ranks that were there at the look before: the shares of the time since in which they waited and slept."""
    pairs = [(rank, before[place]) for place, rank in now.items() if place in before]
    ran = sum(max(0, rank.ran_ns - old.ran_ns) for rank, old in pairs)
    if ran == 0:
        return None
    waited = sum(max(0, rank.waited_ns - old.waited_ns) for rank, old in pairs)
    asleep = sum(max(0, rank.asleep_ns - old.asleep_ns) for rank, old in pairs)
    return _share(waited, ran), _share(min(asleep, waited), ran)


def _waiting(ranks: Sequence[tuple[str, Rank]]) -> list[Waiting]:
    longest = sorted((one for one in ranks if one[1].call), key=lambda one: -one[1].open_ns)
    return [
        Waiting(-1 if _is_alone(rank) else rank.rank, step, rank.call, rank.open_ns / 1e9,
                _share(rank.waited_ns, rank.ran_ns), _share(rank.asleep_ns, rank.ran_ns), rank.launch, rank.task)
        for step, rank in longest[:SHOWN]
    ]


def _is_alone(rank: Rank) -> bool:
    """Returns true if only its Slurm task tells this rank from others."""
    return rank.launch == 0 and rank.size == 1 and rank.task >= 0


def _world(ranks: Sequence[tuple[str, Rank]]) -> int:
    """Returns the world of all these ranks, as a Look has it."""
    worlds = {(rank.launch, rank.size) for _, rank in ranks}
    launch, size = next(iter(worlds)) if len(worlds) == 1 else (0, 0)
    numbers = {rank.rank for _, rank in ranks}
    if len(numbers) < len(ranks) or -1 in numbers:
        return 0
    return launch or (HERE if size == len(ranks) else 0)


class Node:
    """Keeps the segments open between looks, and no longer than a process of their steps may be there."""

    def __init__(self, job: int, step: str, name: str, host: Host) -> None:
        self.job, self.step, self.name = job, step, name
        self.counters = Counters(host)
        self.segments: list[Segment] = []
        self.before: dict[Place, Rank] = {}
        self.looks = 0

    def close(self) -> None:
        for segment in self.segments:
            os.close(segment.descriptor)
        self.segments = []

    def _search(self) -> None:
        if self.looks % SEARCH_EVERY == 0 or not self.segments:
            self.close()
            self.segments = find_segments(self.job, self.step, self.name)
        self.looks += 1

    def look(self) -> Look:
        self._search()
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        steps = {segment.inode: segment.step for segment in self.segments}
        now = {
            (segment.inode, rank.slot): rank
            for segment in self.segments
            for rank in read_ranks(segment.descriptor, now_ns)
        }
        grown, self.before = _grown(now, self.before), now
        ranks = [(steps[inode], rank) for (inode, _), rank in now.items()]
        ran = sum(rank.ran_ns for _, rank in ranks)
        least = min((rank for _, rank in ranks), key=lambda rank: _share(rank.waited_ns, rank.ran_ns), default=None)
        return Look(
            node=self.name,
            segments=len(self.segments),
            ranks=len(ranks),
            waiting=sum(bool(rank.call) for _, rank in ranks),
            waited=_share(sum(rank.waited_ns for _, rank in ranks), ran),
            asleep=_share(sum(rank.asleep_ns for _, rank in ranks), ran),
            waited_now=grown[0] if grown else None,
            asleep_now=grown[1] if grown else None,
            world=_world(ranks),
            least=(least.rank, _share(least.waited_ns, least.ran_ns)) if least else None,
            watts=self.counters.watts(now_ns),
            simulated=self.counters.simulated,
            longest=_waiting(ranks),
        )
