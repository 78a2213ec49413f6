"""Reads our ELF note out of a shared object without loading it: "release=1.2.3", "slurm=0x160508", ...

The file may be anything, so every offset and length is checked before it is used.
"""

from __future__ import annotations

import os
import struct

OWNER = b"mpiwait\0"
TYPE = 1
PT_NOTE = 4
FILE_MAX = 64 << 20
START_MAX = 1 << 20  # linkers put the notes before everything else
PROGRAM_HEADERS_MAX = 64
NOTES_MAX = 4096


GNU, BUILD_ID = b"GNU\0", 3


def _notes(data: bytes, owner: bytes, wanted: int) -> bytes | None:
    """Returns the text of the wanted note in one segment of notes; None if it is not there, or not 4-byte aligned."""
    at = 0
    while at + 12 <= len(data):
        owner_size, text_size, kind = struct.unpack_from("<III", data, at)
        owner_at = at + 12
        text_at = owner_at + (owner_size + 3) // 4 * 4
        end = text_at + text_size
        if end > len(data):
            return None
        if data[owner_at : owner_at + owner_size] == owner and kind == wanted:
            return data[text_at:end]
        at = text_at + (text_size + 3) // 4 * 4
    return None


def _find(data: bytes, owner: bytes, wanted: int) -> bytes | None:
    """Returns the text of the wanted note in the bytes of a 64-bit little-endian ELF file; None if it is not there."""
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
        text = _notes(data[offset : offset + min(length, NOTES_MAX)], owner, wanted) if kind == PT_NOTE else None
        if text is not None:
            return text
    return None


def parse_note(data: bytes) -> dict[str, str] | None:
    """Returns the keys and values of our note in the bytes of an ELF file; None if it is not there."""
    text = _find(data, OWNER, TYPE)
    if text is None:
        return None
    lines = text.rstrip(b"\0").decode("utf-8", "replace").split("\n")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _content(path: str, most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def read_note(path: str) -> dict[str, str] | None:
    """Returns the keys and values of our note in the file at path; None if it is not there. Raises OSError."""
    return parse_note(_content(path, FILE_MAX))


def read_build_id(path: str) -> str | None:
    """Returns a file's build-id in hexadecimal, "" if it has none; None if it is no ELF file. Raises OSError."""
    data = _content(path, START_MAX)
    if data[:4] != b"\x7fELF":
        return None
    return (_find(data, GNU, BUILD_ID) or b"").hex()
