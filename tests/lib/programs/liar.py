"""Writes into the stats segment what no rank would: liar.py KIND. Standard library only; no MPI."""

from __future__ import annotations

import os
import random
import re
import struct
import sys
import time

SLOTS_OFFSET, STATE_OFFSET = 4096 + 8 * 16384, 4
STATE_RUNNING = 2
NAN = struct.pack("<d", float("nan"))


def fill(kind: str, size: int) -> bytes:
    """Returns one slot's bytes."""
    if kind == "noise":
        return random.Random(7).randbytes(size)
    word = {"ones": b"\xff" * 8, "nan": NAN, "negative": struct.pack("<q", -(2**62)), "claims": b"\0" * 8}[kind]
    return word * (size // 8)


def main() -> None:
    found = re.search(r"segment=(\d+):", os.environ["MPI_WAIT_CONFIG"])
    assert found, "no segment"
    segment, kind = int(found.group(1)), sys.argv[1]
    slot_size, slot_count = struct.unpack("<2I", os.pread(segment, 8, 16))
    for index in range(slot_count):
        slot = bytearray(fill(kind, slot_size))
        if kind != "claims":
            struct.pack_into("<I", slot, STATE_OFFSET, STATE_RUNNING)
        os.pwrite(segment, slot, SLOTS_OFFSET + index * slot_size)
    os.pwrite(segment, b"\xff" * 4, 24)  # claimed
    time.sleep(0.3)
    print("lied")


if __name__ == "__main__":
    main()
