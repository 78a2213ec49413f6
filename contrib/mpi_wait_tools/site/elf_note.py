"""Reads our ELF note out of a shared object without loading it: "release=0.1.0", "slurm=0x160508", ...

The file may be anything, so every offset and length is checked before it is used.
"""

from __future__ import annotations

import os
import struct

OWNER = b"mpiwait\0"
TYPE = 1
PT_NOTE = 4
FILE_MAX = 64 << 20
PROGRAM_HEADERS_MAX = 64
NOTES_MAX = 4096


def _notes(data: bytes) -> str | None:
    """The text of our note among those of one segment (all of them 4-byte aligned; others are none of ours)."""
    at = 0
    while at + 12 <= len(data):
        owner_size, text_size, kind = struct.unpack_from("<III", data, at)
        owner_at = at + 12
        text_at = owner_at + (owner_size + 3) // 4 * 4
        end = text_at + text_size
        if end > len(data):
            return None
        if data[owner_at : owner_at + owner_size] == OWNER and kind == TYPE:
            return data[text_at:end].rstrip(b"\0").decode("utf-8", "replace")
        at = text_at + (text_size + 3) // 4 * 4
    return None


def parse_note(data: bytes) -> dict[str, str] | None:
    """Our note's keys and values in the bytes of a 64-bit little-endian ELF file; None: there is none."""
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        return None
    table, size, count = (
        struct.unpack_from("<Q", data, 32)[0],
        *struct.unpack_from("<HH", data, 54),
    )
    for index in range(min(count, PROGRAM_HEADERS_MAX)):
        at = table + index * size
        if size < 56 or at + 56 > len(data):
            return None
        kind, offset, length = (
            struct.unpack_from("<I", data, at)[0],
            struct.unpack_from("<Q", data, at + 8)[0],
            struct.unpack_from("<Q", data, at + 32)[0],
        )
        text = _notes(data[offset : offset + min(length, NOTES_MAX)]) if kind == PT_NOTE else None
        if text is not None:
            return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return None


def read_note(path: str) -> dict[str, str] | None:
    """The same of a file. OSError goes to the caller."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return parse_note(file.read(FILE_MAX))
