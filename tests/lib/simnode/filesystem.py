"""A tree of simulated attributes as a FUSE file system, with sysfs's manners.

A read at offset 0 asks the attribute anew (no page cache; later offsets continue that text, as in
the kernel's seq_file), every write is one call to it and its error is
the attribute's, truncation is accepted and ignored, chown and chmod stick, nothing can be made or
removed from outside. Permissions are checked by the kernel.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.lib.simnode import fuse
from tests.lib.simnode.tree import Directory, File, Link

SYSFS_FILE_SIZE = 4096
KNOWN_S = 3600
"""How long the kernel need not ask again: names stay but for zones, and attributes change by the kernel's own hand."""
AnyNode = Directory | Link | File


class Attributes:
    """Nodes get their numbers at the first lookup, and never another one's."""

    def __init__(self, root: Directory) -> None:
        self._nodes: dict[int, AnyNode] = {fuse.ROOT_NODE: root}
        self._numbers: dict[int, int] = {id(root): fuse.ROOT_NODE}
        self._open_files: dict[int, File] = {}
        self._texts: dict[int, bytes] = {}
        self._last_handle = 0
        self._born_s = int(time.time())
        self.calls: dict[int, fuse.Call] = {
            fuse.LOOKUP: self._lookup, fuse.GETATTR: self._show, fuse.SETATTR: self._set,
            fuse.READLINK: self._read_link, fuse.OPEN: self._open, fuse.READ: self._read, fuse.WRITE: self._write,
            fuse.RELEASE: self._release, fuse.OPENDIR: lambda node, body: fuse.OPENED.pack(0, 0, 0),
            fuse.READDIR: self._read_directory, fuse.RELEASEDIR: lambda node, body: b""}

    def _number(self, node: AnyNode) -> int:
        if id(node) not in self._numbers:
            number = fuse.ROOT_NODE + len(self._nodes)
            self._numbers[id(node)] = number
            self._nodes[number] = node
        return self._numbers[id(node)]

    def _attributes(self, node: AnyNode) -> bytes:
        mode, size, uid, gid = stat.S_IFLNK | 0o777, 0, 0, 0
        if isinstance(node, Link):
            size = len(node.target)
        else:
            mode = (stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFREG) | node.mode
            size = 0 if isinstance(node, Directory) else SYSFS_FILE_SIZE
            uid, gid = node.uid, node.gid
        born = self._born_s
        return fuse.ATTRIBUTES.pack(self._number(node), size, 0, born, born, born, 0, 0, 0, mode, 1, uid, gid, 0,
                                    SYSFS_FILE_SIZE, 0)

    def _lookup(self, parent: int, body: memoryview) -> bytes:
        folder = self._nodes[parent]
        if not isinstance(folder, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory")
        node = folder.entries.get(os.fsdecode(bytes(body).rstrip(b"\0")))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "not there")
        known_s = 0 if node.can_go else KNOWN_S
        return fuse.ENTRY.pack(self._number(node), 0, known_s, KNOWN_S, 0, 0) + self._attributes(node)

    def _show(self, number: int, _body: memoryview) -> bytes:
        return fuse.SHOWN.pack(KNOWN_S, 0, 0) + self._attributes(self._nodes[number])

    def _set(self, number: int, body: memoryview) -> bytes:
        node = self._nodes[number]
        if isinstance(node, Link):
            raise PermissionError(errno.EPERM, "a link")
        fields, *_, mode, _, uid, gid, _ = fuse.SET.unpack_from(body)
        if fields & fuse.SET_MODE:
            node.mode = stat.S_IMODE(mode)
        if fields & fuse.SET_UID:
            node.uid = uid
        if fields & fuse.SET_GID:
            node.gid = gid
        return self._show(number, body)

    def _read_link(self, number: int, _body: memoryview) -> bytes:
        node = self._nodes[number]
        if not isinstance(node, Link):
            raise OSError(errno.EINVAL, "no link")
        return os.fsencode(node.target)

    def _read_directory(self, number: int, body: memoryview) -> bytes:
        node = self._nodes[number]
        assert isinstance(node, Directory)
        _, start, size = fuse.RANGE.unpack_from(body)
        names = b""
        for place, (name, child) in enumerate(list(node.entries.items())[start:], start + 1):
            mode = stat.S_IFLNK if isinstance(child, Link) else (
                stat.S_IFDIR if isinstance(child, Directory) else stat.S_IFREG)
            entry = fuse.name_pack(place, self._number(child), os.fsencode(name), mode)
            if len(names) + len(entry) > size:
                break
            names += entry
        return names

    def _open(self, number: int, body: memoryview) -> bytes:
        node = self._nodes[number]
        if not isinstance(node, File):
            raise IsADirectoryError(errno.EISDIR, "a directory")
        flags = int.from_bytes(body[:4], sys.byteorder)
        if flags & os.O_ACCMODE != os.O_RDONLY and node.write is None:
            raise PermissionError(errno.EACCES, "read-only")
        self._last_handle += 1
        self._open_files[self._last_handle] = node
        return fuse.OPENED.pack(self._last_handle, fuse.DIRECT_IO, 0)

    def _release(self, _number: int, body: memoryview) -> bytes:
        handle, = fuse.OPENED.unpack_from(body)[:1]
        del self._open_files[handle]
        self._texts.pop(handle, None)
        return b""

    def _read(self, _number: int, body: memoryview) -> bytes:
        handle, start, size = fuse.RANGE.unpack_from(body)
        if start == 0 or handle not in self._texts:
            self._texts[handle] = f"{_guarded(self._open_files[handle].read)}\n".encode()
        return self._texts[handle][start:start + size]

    def _write(self, _number: int, body: memoryview) -> bytes:
        handle, _, size = fuse.RANGE.unpack_from(body)
        write = self._open_files[handle].write
        if write is None:
            raise OSError(errno.EIO, "read-only")
        _guarded(write, bytes(body[fuse.WRITE_HEAD:][:size]).decode("ascii", "replace").strip())
        return size.to_bytes(4, sys.byteorder) + bytes(4)


def _guarded(call: Callable[..., Any], *arguments: str) -> Any:
    """The attribute's own error; EIO and a trace in the log for a bug of ours."""
    try:
        return call(*arguments)
    except OSError:
        raise
    except Exception:
        traceback.print_exc(file=sys.stderr)
        raise OSError(errno.EIO, "a bug") from None
