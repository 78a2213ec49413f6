"""What the MPI ranks of one mount namespace did, as they say themselves in the stats segment.

The other way to a model's watts: not by CPU time, which on a machine that others load has little to do with what a rank
does, but by the rank's state.
"""

from __future__ import annotations

import os
import time
from array import array
from contextlib import suppress

from tests.lib.doubles.segment_tool import (
    CALL,
    CALLS,
    HEADER,
    LANE,
    LANE_SIZE,
    RUNG_NAMES,
    SEGMENT,
    SLOT,
    SLOT_SIZE,
    SLOTS_OFFSET,
)

LOOK_S = 0.3
ASLEEP = [24 + RUNG_NAMES.index(name) for name in ("umwait", "mwaitx", "nap", "event")]
WAIT = 2
"""wait_ns, of the fields of a call."""


class Ranks:
    """Seconds that ranks were asleep in MPI, spinning there, and computing; one thread each, from Init to Finalize."""

    def __init__(self) -> None:
        self._namespace = os.readlink("/proc/self/ns/mnt")
        self._segments: dict[int, int] = {}
        self._looked_at = 0.0
        self._before: dict[tuple[int, int], tuple[float, float, float]] = {}

    def seconds(self) -> list[float]:
        """Since the last call."""
        self._look()
        sums = [0.0, 0.0, 0.0]
        for inode, segment in self._segments.items():
            for index in range(min(HEADER.unpack(os.pread(segment, HEADER.size, 0))[5], 64)):
                waited, slept, lived = self._read(segment, index)
                before = self._before.get((inode, index), (0.0, 0.0, 0.0))
                self._before[inode, index] = (waited, slept, lived)
                wait, sleep, life = (now - then for now, then in zip((waited, slept, lived), before))
                for state, advance in enumerate((sleep, wait - sleep, life - wait)):
                    sums[state] += max(0.0, advance)
        return sums

    def _read(self, segment: int, index: int) -> tuple[float, float, float]:
        data = os.pread(segment, SLOT.size + LANE_SIZE, SLOTS_OFFSET + index * SLOT_SIZE)
        slot, lane = SLOT.unpack_from(data), LANE.unpack_from(data, SLOT.size)
        calls = array("Q", data[SLOT.size + LANE.size : SLOT.size + LANE.size + CALLS * CALL.size])
        waited = sum(calls[WAIT :: CALL.size // 8]) + (lane[3] - lane[2] if lane[1] else 0)
        start, end = slot[8], slot[9]
        lived = (end or time.monotonic_ns()) - start if start else 0
        slept = sum(lane[field] for field in ASLEEP)
        return waited / 1e9, min(slept, waited) / 1e9, lived / 1e9

    def _look(self) -> None:
        """For segments that are new; one that nobody has open any more says nothing new either."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/mnt") != self._namespace or int(name) == os.getpid():
                    continue
                for number in os.listdir(f"/proc/{name}/fd"):
                    self._open(f"/proc/{name}/fd/{number}")

    def _open(self, path: str) -> None:
        """A new segment; one that is being made has no size yet."""
        if os.readlink(path) != SEGMENT:
            return
        status = os.stat(path)
        if status.st_size > SLOTS_OFFSET and status.st_ino not in self._segments:
            self._segments[status.st_ino] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
