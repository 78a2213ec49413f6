"""Shows a tree of simulated attributes as a FUSE file system that behaves as sysfs does.

A read at offset 0 asks the attribute anew, since there is no page cache. Reads at later offsets continue that text, as
the kernel's seq_file does. Every write calls the attribute once, and returns the attribute's error. Truncation is
accepted and ignored. chown and chmod stick. Programs can neither create nor remove files. The kernel checks
permissions.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import traceback

import pyfuse3
import trio

from tests.lib.simnode.tree import Directory, File, Link

SYSFS_FILE_SIZE = 4096
KNOWN_S = 3600
"""How long the kernel may cache names and attributes. Names stay, except for zones; only the kernel itself changes
attributes."""
AnyNode = Directory | Link | File


class Attributes(pyfuse3.Operations):
    """The file system's calls. Inodes are assigned at the first lookup and never reused."""

    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(self, root: Directory) -> None:
        super().__init__()
        self._nodes: dict[int, AnyNode] = {pyfuse3.ROOT_INODE: root}
        self._inodes: dict[int, int] = {id(root): pyfuse3.ROOT_INODE}
        self._open_files: dict[int, File] = {}
        self._texts: dict[int, bytes] = {}
        self._last_handle = 0
        self._born_ns = time.time_ns()

    def _inode(self, node: AnyNode) -> int:
        if id(node) not in self._inodes:
            number = pyfuse3.ROOT_INODE + len(self._nodes)
            self._inodes[id(node)] = number
            self._nodes[number] = node
        return self._inodes[id(node)]

    def _attributes(self, node: AnyNode) -> pyfuse3.EntryAttributes:
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = self._inode(node)
        entry.entry_timeout, entry.attr_timeout = 0 if node.can_go else KNOWN_S, KNOWN_S
        entry.st_nlink = 1
        entry.st_atime_ns = entry.st_mtime_ns = entry.st_ctime_ns = self._born_ns
        if isinstance(node, Link):
            entry.st_mode = stat.S_IFLNK | 0o777
            entry.st_size = len(node.target)
            return entry
        kind = stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFREG
        entry.st_mode = kind | node.mode
        entry.st_uid, entry.st_gid = node.uid, node.gid
        entry.st_size = 0 if isinstance(node, Directory) else SYSFS_FILE_SIZE
        return entry

    async def lookup(self, parent_inode, name, ctx):
        parent = self._nodes[parent_inode]
        if not isinstance(parent, Directory):
            raise pyfuse3.FUSEError(errno.ENOTDIR)
        node = parent.entries.get(os.fsdecode(name))
        if node is None:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return self._attributes(node)

    async def getattr(self, inode, ctx):
        return self._attributes(self._nodes[inode])

    async def setattr(self, inode, attr, fields, fh, ctx):
        node = self._nodes[inode]
        if isinstance(node, Link):
            raise pyfuse3.FUSEError(errno.EPERM)
        if fields.update_mode:
            node.mode = stat.S_IMODE(attr.st_mode)
        if fields.update_uid:
            self._give(node)
            node.uid = attr.st_uid
        if fields.update_gid:
            node.gid = attr.st_gid
        return self._attributes(node)

    def _give(self, node):
        try:
            if getattr(node, "give", None):
                node.give()
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno) from error

    async def statfs(self, ctx):
        answer = pyfuse3.StatvfsData()
        answer.f_bsize = answer.f_frsize = SYSFS_FILE_SIZE
        answer.f_namemax = 255
        return answer

    async def readlink(self, inode, ctx):
        node = self._nodes[inode]
        if not isinstance(node, Link):
            raise pyfuse3.FUSEError(errno.EINVAL)
        return os.fsencode(node.target)

    async def opendir(self, inode, ctx):
        return inode

    async def readdir(self, fh, start_id, token):
        node = self._nodes[fh]
        assert isinstance(node, Directory)
        for number, (name, child) in enumerate(list(node.entries.items())[start_id:], start_id + 1):
            if not pyfuse3.readdir_reply(
                    token, os.fsencode(name), self._attributes(child), number):
                return

    async def open(self, inode, flags, ctx):
        node = self._nodes[inode]
        if not isinstance(node, File):
            raise pyfuse3.FUSEError(errno.EISDIR)
        if flags & os.O_ACCMODE != os.O_RDONLY and node.write is None:
            raise pyfuse3.FUSEError(errno.EACCES)
        self._last_handle += 1
        self._open_files[self._last_handle] = node
        return pyfuse3.FileInfo(fh=self._last_handle, direct_io=True)

    async def release(self, fh):
        del self._open_files[fh]
        self._texts.pop(fh, None)

    async def read(self, fh, off, size):
        if off == 0 or fh not in self._texts:
            self._texts[fh] = f"{self._guarded(self._open_files[fh].read)}\n".encode()
        return self._texts[fh][off:off + size]

    async def write(self, fh, off, buf):
        write = self._open_files[fh].write
        if write is None:
            raise pyfuse3.FUSEError(errno.EIO)
        while not self._written(write, bytes(buf).decode("ascii", "replace").strip()):
            await trio.sleep(0.01)
        return len(buf)

    def _written(self, write, text: str) -> bool:
        """Tries a write. Returns false if it must be tried again."""
        try:
            self._guarded(write, text)
        except pyfuse3.FUSEError as error:
            if error.errno != errno.EAGAIN:
                raise
            return False
        return True

    def _guarded(self, call, *arguments):
        """Calls an attribute's function. Turns its OSError into FUSE's; any other exception is a bug: it is logged and
        becomes EIO."""
        try:
            return call(*arguments)
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or errno.EIO) from error
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise pyfuse3.FUSEError(errno.EIO) from None
