"""Plays slurmstepd's part: makes and reads a step's page of notes (preload/contract/notes.h), by calls of libc."""

from __future__ import annotations

import ctypes
import struct

IPC_CREAT, IPC_RMID = 0o1000, 0
MAGIC, KEY = 0x3145544F4E57504D, 4711
PAGE = struct.Struct("=QQ6I16I")
POLICIES = 16
NAMES = ("lost", "unreached", "replaced", "static", "setuid", "unfit")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class NotesPage:
    """A page of notes. `field` is the page's key of MPI_WAIT_CONFIG."""

    def __init__(self, key: int = KEY) -> None:
        self._id = _libc.shmget(0, PAGE.size, IPC_CREAT | 0o600)
        assert self._id >= 0, ctypes.get_errno()
        self._at = ctypes.c_void_p(_libc.shmat(self._id, None, 0))
        _libc.shmctl(self._id, IPC_RMID, None)
        ctypes.memmove(self._at, PAGE.pack(MAGIC, key, *[0] * (len(NAMES) + POLICIES)), PAGE.size)
        self.field = f"notes={self._id}:{KEY}"

    def counts(self) -> dict[str, int]:
        """Returns the counts that are not 0, by name."""
        _, _, *counts = PAGE.unpack(ctypes.string_at(self._at, PAGE.size))
        return {name: count for name, count in zip(NAMES, counts[:len(NAMES)], strict=True) if count}

    def off(self) -> list[int]:
        """Returns the counts of ranks whose program has "off", by the policy's number less 1."""
        _, _, *counts = PAGE.unpack(ctypes.string_at(self._at, PAGE.size))
        return counts[len(NAMES):]

    def __enter__(self) -> NotesPage:
        return self

    def __exit__(self, *_: object) -> None:
        _libc.shmdt(self._at)
