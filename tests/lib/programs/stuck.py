"""Things that root must not wait for: a write that holds the lock of another process's file until the writer is killed,
and a file server that does not answer.

    stuck.py serve DIRECTORY           serves a file system with one file, "slow", of which no read ever ends
    stuck.py hang DIRECTORY            serves a file system that never answers an open
    stuck.py write DIRECTORY PID FD    writes a page of "slow" to the descriptor of that process, as user 65534
"""

from __future__ import annotations

import mmap
import os
import stat
import sys

USER, SIZE = 65534, 1 << 20


def serve(directory: str) -> None:
    import pyfuse3
    import trio

    class Slow(pyfuse3.Operations):
        async def getattr(self, inode, ctx=None):
            entry = pyfuse3.EntryAttributes()
            entry.st_ino, entry.st_size, entry.st_nlink = inode, SIZE, 1
            entry.st_mode = stat.S_IFDIR | 0o755 if inode == pyfuse3.ROOT_INODE else stat.S_IFREG | 0o666
            return entry

        async def lookup(self, parent_inode, name, ctx=None):
            return await self.getattr(2)

        async def open(self, inode, flags, ctx):
            return pyfuse3.FileInfo(fh=2)

        async def read(self, fh, off, size):
            await trio.sleep_forever()

    pyfuse3.init(Slow(), directory, {*pyfuse3.default_options, "fsname=slow", "allow_other"})
    print("serves", flush=True)
    trio.run(pyfuse3.main)


def hang(directory: str) -> None:
    import pyfuse3
    import trio

    class Hung(pyfuse3.Operations):
        async def getattr(self, inode, ctx=None):
            entry = pyfuse3.EntryAttributes()
            entry.st_ino, entry.st_nlink, entry.st_mode = inode, 2, stat.S_IFDIR | 0o700
            entry.attr_timeout = entry.entry_timeout = 300
            return entry

        async def lookup(self, parent_inode, name, ctx=None):
            await trio.sleep_forever()

        async def opendir(self, inode, ctx):
            await trio.sleep_forever()

    pyfuse3.init(Hung(), directory, {*pyfuse3.default_options, "fsname=hung", "allow_other"})
    print("hangs", flush=True)
    trio.run(pyfuse3.main)


def write(directory: str, pid: str, number: str) -> None:
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    slow = mmap.mmap(os.open(f"{directory}/slow", os.O_RDWR), SIZE)
    target = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
    print("writes", flush=True)
    os.pwrite(target, memoryview(slow)[:4096], 4096)
    print("written", flush=True)


if __name__ == "__main__":
    {"serve": serve, "hang": hang, "write": write}[sys.argv[1]](*sys.argv[2:])
