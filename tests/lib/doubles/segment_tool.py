#!/usr/bin/python3
"""Plays slurmstepd's part: makes a stats segment, runs a command with it, and prints what the ranks wrote as JSON.

    segment_tool.py --preload libmpiwait.so --config "rungs=pause+nap;spin_ns=20000;..." -- COMMAND...

The layout repeats preload/contract/stats.h on purpose: a change there that nobody announced makes the tests fail.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

MAGIC = 0x315441545357504D
WORDS_OFFSET, WORDS = 4096, 16384
SLOTS_OFFSET = WORDS_OFFSET + 8 * WORDS
LANES, RUNGS, CALLS = 8, 8, 256
HEADER = struct.Struct("=Q6I16xQ8x")
SIZES = struct.Struct("=64Q")
SLOT = struct.Struct("=IIiiIIIIQQQ232xQII80x")
PHASES = struct.Struct("=QI16i4x18Q")
PHASES_OFFSET = 56  # in a slot
LANE = struct.Struct("=II7Q8Q8Q8Q2Q8x5QQQqQQ24x36Q96x")
CALL = struct.Struct("=8Q")
LANE_SIZE = LANE.size + CALLS * CALL.size
MODULES, SITES = 16, 64
MODULE = struct.Struct("=48s20sI")
SITE = struct.Struct("=QQHHIQQ")
SITES_OFFSET = SLOT.size + LANES * LANE_SIZE  # in a slot
SLOT_SIZE = SITES_OFFSET + 3840
RUNG_NAMES = ["pause", "yield", "umwait", "mwaitx", "nap", "event", "pstate"]
HOOK_NAMES = ["opal", "yield", "ucp", "loop", "ofi"]
FAMILIES = ["unknown", "openmpi", "mpich", "abi"]
CALL_FIELDS = (
    "calls", "waits", "wait_ns", "longest_ns", "time_ns", "burned_ns", "burned_cpu_ns", "bytes"
)
FORESIGHT_FIELDS = ("forecasts", "early", "early_ns", "foreseen", "unforeseen")
COST_FIELDS = ("cost_slept_ns", "cost_more_ns", "cost_variance_us", "cost_windows")
LAST_FIELDS = (*FORESIGHT_FIELDS, *COST_FIELDS)
PHASE_PLACES = 18
FD = 210
SEGMENT = "/memfd:mpi-wait (deleted)"  # the link of a segment's descriptor below /proc
ROOT = Path(__file__).resolve().parents[3]

NAP = "rungs=pause+nap;spin_ns=20000;relative_ppm=62500;absolute_ns=0;max_ns=100000;rma_ns=10000"


def sizes_offset(slots: int, index: int) -> int:
    return (SLOTS_OFFSET + slots * SLOT_SIZE + 4095) // 4096 * 4096 + index * CALLS * SIZES.size


def row_names() -> list[str]:
    table = (ROOT / "preload/contract/mpi_calls.def").read_text()
    return re.findall(r"^CALL\((\w+),", table, re.M)


def segment_make(slots: int = 64, **overrides: int) -> int:
    """Makes a sealed memfd with a good header, or with the fields that the overrides spoil. Returns its descriptor."""
    fields = {
        "magic": MAGIC,
        "version": 8,
        "header_size": HEADER.size,
        "slot_size": SLOT_SIZE,
        "slot_count": slots,
        "claimed": 0,
        "sizes_size": CALLS * SIZES.size,
        "overslept_ns": 0,
        "size": sizes_offset(slots, slots),
    }
    fields.update(overrides)
    made = os.memfd_create("mpi-wait", os.MFD_ALLOW_SEALING)
    os.ftruncate(made, fields.pop("size"))
    os.pwrite(made, HEADER.pack(*fields.values()), 0)
    fcntl.fcntl(
        made, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    os.dup2(made, FD, inheritable=True)
    os.close(made)
    return FD


def segment_field(fd: int, task: int | None = None, number: int | None = None) -> str:
    status = os.fstat(fd)
    shown = fd if number is None else number
    return f"segment={shown}:{status.st_dev}:{status.st_ino};task={task or os.getpid()}"


def lane_read(data: bytes, names: list[str]) -> dict:
    values = LANE.unpack_from(data)
    lane = dict(
        zip(
            (
                "tid",
                "open_call",
                "open_since_ns",
                "open_last_ns",
                "idle_polls",
                "late",
                "late_ns",
                "sampled_ns",
                "sampled_cpu_ns",
            ),
            values,
        )
    )
    lane["open_call"] = names[lane["open_call"] - 1] if lane["open_call"] else None
    lane["hook_polls"] = {n: v for n, v in zip(HOOK_NAMES, values[9:14]) if v}
    lane["transitions"], lane["event_wakes"], lane["event_lost"] = values[14:17]
    lane["naps"] = {n: v for n, v in zip(RUNG_NAMES, values[17:25]) if v}
    lane["asleep_ns"] = {n: v for n, v in zip(RUNG_NAMES, values[25:33]) if v}
    lane["far_bytes"], lane["near_bytes"] = values[33:35]
    lane["threads_cpu_ns"] = values[40]
    lane |= dict(zip(LAST_FIELDS, (*values[35:40], *values[41:45])))
    lane["phases"] = [values[45 + 2 * place : 47 + 2 * place] for place in range(PHASE_PLACES)]
    lane["calls"] = {}
    for row, name in enumerate(names):
        call = CALL.unpack_from(data, LANE.size + row * CALL.size)
        if any(call):
            lane["calls"][name] = dict(
                zip(CALL_FIELDS, call)
            )
    return lane


def sizes_read(data: bytes, names: list[str]) -> dict[str, dict[int, int]]:
    """Returns, for each call, the number of messages from each power of two of bytes on (0: no bytes)."""
    sizes = {}
    for row, name in enumerate(names if len(data) == CALLS * SIZES.size else []):
        counts = SIZES.unpack_from(data, row * SIZES.size)
        if any(counts):
            sizes[name] = {1 << i >> 1: number for i, number in enumerate(counts) if number}
    return sizes


def sites_read(data: bytes) -> list[dict]:
    """Returns the waits of each callsite; the last element sums up all other callsites."""
    names, sites = row_names(), []
    modules = [MODULE.unpack_from(data, 8 + i * MODULE.size) for i in range(MODULES)]
    for index in range(SITES + 1):
        key, offset, module, layer, row, waits, wait_ns = SITE.unpack_from(
            data, 8 + MODULES * MODULE.size + index * SITE.size
        )
        if not key and not waits:
            continue
        name, build_id, size = modules[module - 1] if module else (b"", b"", 0)
        sites.append({
            "module": name.rstrip(b"\0").decode(), "build_id": build_id[:size].hex(), "offset": offset,
            "layer": layer, "call": names[row] if key else "", "waits": waits, "wait_ns": wait_ns,
        })
    return sites


def segment_read(fd: int) -> dict:
    """Reads the header and all claimed slots, ordered by rank."""
    header = HEADER.unpack(os.pread(fd, HEADER.size, 0))
    names = row_names()
    slots = []
    for index in range(min(header[4], 1024)):
        data = os.pread(fd, SLOT_SIZE, SLOTS_OFFSET + index * SLOT_SIZE)
        if len(data) < SLOT_SIZE:
            break
        values = SLOT.unpack_from(data)
        if not values[0]:
            continue
        slot = dict(
            zip(
                (
                    "pid",
                    "state",
                    "rank",
                    "size",
                    "family",
                    "hooks",
                    "flags",
                    "lanes",
                    "start_ns",
                    "end_ns",
                    "slowdown_ppm",
                    "launch",
                    "task",
                    "program",
                ),
                values,
            )
        )
        since_ns, place, *phases = PHASES.unpack_from(data, PHASES_OFFSET)
        slot["phases"] = {"since_ns": since_ns, "place": place, "level": phases[:16], "time_ns": phases[16:]}
        slot["family"] = FAMILIES[slot["family"]]
        slot["lane"] = [
            lane_read(data[SLOT.size + i * LANE_SIZE : SLOT.size + (i + 1) * LANE_SIZE], names)
            for i in range(min(slot["lanes"], LANES))
        ]
        slot["sites"] = sites_read(data[SITES_OFFSET:])
        slot["sizes"] = sizes_read(os.pread(fd, CALLS * SIZES.size, sizes_offset(header[4], index)), names)
        slots.append(slot)
    return {"claimed": header[5], "overslept_ns": header[7], "slots": sorted(slots, key=lambda slot: slot["rank"])}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", required=True)
    parser.add_argument("--config", default=NAP)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    fd = segment_make()
    environment = dict(
        os.environ,
        LD_PRELOAD=str(Path(options.preload).resolve()),
        MPI_WAIT_CONFIG=f"v=1;{options.config};{segment_field(fd)}",
    )
    code = subprocess.run(
        options.command, env=environment, pass_fds=[fd], stdout=sys.stderr
    ).returncode
    json.dump(dict(segment_read(fd), exit=code), sys.stdout, indent=1)
    print()
    return code


if __name__ == "__main__":
    sys.exit(main())
