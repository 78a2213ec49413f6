"""What the ranks of a step write of themselves: the stats segment as preload/contract/stats.h lays it out, read only.

It is the user's own, and yet every number is a claim: a segment of another layout is none, and no figure leaves here
that is not bounded. Read with pread, so that a file that shrinks is an end and no signal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .calls import call_name

MAGIC, VERSION = 0x315441545357504D, 7
WORDS_OFFSET, WORDS = 4096, 16384
SLOTS_OFFSET = WORDS_OFFSET + 8 * WORDS
SLOTS_MAX, LANES, CALLS = 1024, 8, 256
HEADER = struct.Struct("=Q6I32x")
HEAD = struct.Struct("=IIiiIIIIQQQ232xQI84x")  # of a slot
LANE = struct.Struct("=II2Q168x8Q512x")  # of a lane, as far as it is read here: what waits now, and the rungs' sleeps
CALL = struct.Struct("=8Q")
LANE_SIZE = LANE.size + CALLS * CALL.size
SITES_SIZE = 3840
SLOT_SIZE = HEAD.size + LANES * LANE_SIZE + SITES_SIZE
SIZES_SIZE = CALLS * 64 * 8
WAIT_WORD, CALL_WORDS = 2, 8  # wait_ns among the eight words of a call
RESTING = (2, 3, 4, 5)  # umwait, mwaitx, nap, event; a rank at low frequency still polls
RUNNING = 2
RANKS_MAX = 1 << 24
LAUNCH_MAX = (1 << 48) - 1


@dataclass(frozen=True)
class Rank:
    """
    One running rank: where it waits now ("" if it does not) and for how long, and what it waited and slept since
    MPI_Init, in nanoseconds. rank is -1 where it is not known, task that of Slurm. launch and size are the same for
    ranks of one world; launch is 0 where it is not known.
    """

    slot: int
    rank: int
    call: str
    open_ns: int
    ran_ns: int
    waited_ns: int
    asleep_ns: int
    size: int = 0
    launch: int = 0
    task: int = -1


def _is_one(descriptor: int) -> int:
    """How many slots it has room for; 0: it is no segment of this release."""
    try:
        data = os.pread(descriptor, HEADER.size, 0)
        size = os.fstat(descriptor).st_size
    except OSError:
        return 0
    if len(data) < HEADER.size:
        return 0
    magic, version, header_size, slot_size, slots, _, sizes_size = HEADER.unpack(data)
    layout = (magic, version, header_size, slot_size, sizes_size)
    if layout != (MAGIC, VERSION, HEADER.size, SLOT_SIZE, SIZES_SIZE):
        return 0
    return int(max(0, min(SLOTS_MAX, slots, (size - SLOTS_OFFSET) // SLOT_SIZE)))


def _open_wait(lane: tuple[int, ...], most_ns: int) -> tuple[int, str]:
    """How long the lane's thread has waited so far, and in which call."""
    _, call, since_ns, last_ns = lane[:4]
    if not 0 < call <= CALLS:
        return 0, ""
    return min(most_ns, max(0, last_ns - since_ns)), call_name(call - 1)


def _rank(index: int, data: bytes, now_ns: int) -> Rank | None:
    _, state, rank, size, _, _, _, lanes, start_ns, _, _, launch, task = HEAD.unpack_from(data)
    if state != RUNNING:
        return None
    ran_ns = now_ns - start_ns if 0 < start_ns <= now_ns else now_ns
    waited = asleep = longest = 0
    where = ""
    words = memoryview(data).cast("Q")
    for lane in range(min(lanes, LANES)):
        offset = HEAD.size + lane * LANE_SIZE
        values = LANE.unpack_from(data, offset)
        open_ns, call = _open_wait(values, ran_ns)
        if call and open_ns >= longest:
            longest, where = open_ns, call
        first = (offset + LANE.size) // 8
        waits = words[first + WAIT_WORD : first + CALLS * CALL_WORDS : CALL_WORDS]
        waited += open_ns + sum(min(wait_ns, ran_ns) for wait_ns in waits if wait_ns)
        asleep += sum(min(values[4 + rung], ran_ns) for rung in RESTING)
    waited = min(waited, ran_ns)
    size = size if 0 <= size < RANKS_MAX else 0
    known = rank if 0 <= rank < (size or RANKS_MAX) else -1
    return Rank(index, known, where, longest, ran_ns, waited, min(asleep, waited), size, launch & LAUNCH_MAX,
                task - 1 if task <= RANKS_MAX else -1)


def read_ranks(descriptor: int, now_ns: int) -> Iterator[Rank]:
    """The ranks between MPI_Init and MPI_Finalize. now_ns: CLOCK_MONOTONIC, which bounds all times."""
    for index in range(_is_one(descriptor)):
        try:
            offset = SLOTS_OFFSET + index * SLOT_SIZE
            head = os.pread(descriptor, HEAD.size, offset)
            if len(head) < HEAD.size or not any(head[:8]):
                return  # slots are handed out in their order
            lanes = min(HEAD.unpack(head)[7], LANES)
            data = os.pread(descriptor, HEAD.size + lanes * LANE_SIZE, offset)
        except OSError:
            return
        if len(data) == HEAD.size + lanes * LANE_SIZE and (rank := _rank(index, data, now_ns)) is not None:
            yield rank
