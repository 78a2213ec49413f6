"""Writes stats segments byte for byte, and returns what mpi-wait-node reads in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lib.record_tools import driver

HEADER, SLOTS, CALLS, CALL, SIZES = 64, 4096 + 8 * 16384, 256, 64, 8 * 64 * 256
HEAD, LANE_HEAD = 384, 768
LANE = LANE_HEAD + CALL * CALLS
SITES_AT = HEAD + 8 * LANE
SLOT = SITES_AT + 3840
MAGIC = 0x315441545357504D


@dataclass
class Phases:
    """A slot's fields of the program's phases, and its lane: [waits, wait_ns] by phase index."""

    since_ns: int = 0
    place: int = 0
    level: Sequence[int] = ()
    time_ns: Sequence[int] = ()
    waits: Sequence[tuple[int, int]] = ()

    def head(self) -> bytes:
        level = struct.pack(f"<{len(self.level)}i", *self.level).ljust(68, b"\0")
        times = struct.pack(f"<{len(self.time_ns)}Q", *self.time_ns)
        return struct.pack("<QI", self.since_ns, self.place) + level + times

    def lane(self) -> bytes:
        return b"".join(struct.pack("<QQ", *pair) for pair in self.waits)


@dataclass
class Sites:
    """A slot's fields of callsites: (name, build id, its size) of modules; (offset, module, row, waits, wait_ns) of
    callsites."""

    modules: Sequence[tuple[bytes, bytes, int]] = ()
    sites: Sequence[tuple[int, int, int, int, int]] = ()
    others: tuple[int, int] = (0, 0)

    def packed(self) -> bytes:
        modules = b"".join(struct.pack("<48s20sI", *module) for module in self.modules).ljust(16 * 72, b"\0")
        sites = b"".join(
            struct.pack("<QQHHIQQ", index + 1, offset, module, 0, row, waits, wait_ns)
            for index, (offset, module, row, waits, wait_ns) in enumerate(self.sites)
        ).ljust(64 * 40, b"\0")
        return struct.pack("<II", len(self.modules), 0) + modules + sites + struct.pack("<QQQQQ", 0, 0, 0, *self.others)


def segment(
    *ranks: bytes, claimed: int | None = None, slots: int = 64, sizes: bytes = b"", **header: int
) -> bytes:
    fields = {
        "magic": MAGIC,
        "version": 8,
        "header_size": HEADER,
        "slot_size": SLOT,
        "slot_count": slots,
        "sizes_size": SIZES,
        "alive": 0,
        "left": 0,
        "csv": 0,
    } | header
    head = struct.pack(
        "<QIIIIIIIII",
        fields["magic"],
        fields["version"],
        fields["header_size"],
        fields["slot_size"],
        fields["slot_count"],
        len(ranks) if claimed is None else claimed,
        fields["sizes_size"],
        fields["alive"],
        fields["left"],
        fields["csv"],
    )
    slots_end = (SLOTS + slots * SLOT + 4095) // 4096 * 4096
    content = (head.ljust(SLOTS, b"\0") + b"".join(ranks)).ljust(slots_end, b"\0") + sizes
    return content.ljust(slots_end + slots * SIZES, b"\0")


def slot(
    rank: int,
    size: int,
    wait_ns: int,
    *,
    state: int = 3,
    start: int = 0,
    end: int = 0,
    asleep_ns: int = 0,
    open_call: int = 0,
    open_ns: int = 0,
    lanes: int = 1,
    row: int = 9,
    time_ns: int = 0,
    handed: int = 0,
    flags: int = 0,
    loop_polls: int = 0,
    ofi_polls: int = 0,
    burned_ns: int = 0,
    burned_cpu_ns: int = 0,
    far: int = 0,
    near: int = 0,
    slowdown_ppm: int = 0,
    forecast: tuple[int, ...] = (),
    cost: tuple[int, int, int, int] = (0, 0, 0, 0),
    look: int = 0,
    sampled_ns: int = 400,
    threads_ns: int = 0,
    phases: Phases | None = None,
    sites: Sites | None = None,
    launch: int = 0,
    task: int = -1,
    program: int = 0,
) -> bytes:
    head = struct.pack("<IIiiIIIIQQQ", 4711, state, rank, size, 1, 1, flags, lanes, start, end, slowdown_ppm)
    phases = phases or Phases()
    head = (head + phases.head()).ljust(HEAD - 13 * 8, b"\0") + struct.pack("<Q", sites is not None)
    head = (head + struct.pack("<QII", launch, task + 1, program)).ljust(HEAD, b"\0")
    lane = struct.pack("<IIQQQQQQQ", 1, open_call, 1000, 1000 + open_ns, 0, 2, 300, sampled_ns, 40)
    lane = (lane + struct.pack("<8Q", 0, 0, 0, loop_polls, ofi_polls, 0, 0, 0)).ljust(192, b"\0")
    lane += struct.pack("<8Q", 0, 0, 0, 0, asleep_ns, 0, 0, 0)
    lane += struct.pack(f"<3Q{len(forecast)}Q", far, near, 0, *forecast).ljust(64, b"\0")
    lane += struct.pack("<QQqQQQ", threads_ns, *cost, look).ljust(64, b"\0")
    lane += phases.lane().ljust(384, b"\0")
    calls = bytearray(CALL * CALLS)
    call = (10, 3, wait_ns, wait_ns // 2, time_ns, burned_ns, burned_cpu_ns, handed)
    struct.pack_into("<8Q", calls, CALL * row, *call)
    slot = (head + lane + bytes(calls)).ljust(SITES_AT, b"\0")
    return (slot + (sites.packed() if sites else b"")).ljust(SLOT, b"\0")


def read_slots(tmp_path: Path, content: bytes, begun: int = 0, now: int = 10**10) -> dict:
    path = tmp_path / "segment"
    path.write_bytes(content)
    return driver("slots", path, begun, now)
