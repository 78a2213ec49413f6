"""FUSE's wire format, as far as a small tree of attributes needs it (linux/fuse.h; version 7.31).

No library for it: a node starts in half the time, and an answer takes a quarter of it.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from tests.lib import kernel

ROOT_NODE = 1
(LOOKUP, FORGET, GETATTR, SETATTR, READLINK, OPEN, READ, WRITE, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR,
 INTERRUPT, BATCH_FORGET) = 1, 2, 3, 4, 5, 14, 15, 16, 17, 18, 26, 27, 28, 29, 36, 42
UNANSWERED = (FORGET, BATCH_FORGET, INTERRUPT)
SET_MODE, SET_UID, SET_GID = 1, 2, 4
DIRECT_IO = 1
ATOMIC_O_TRUNC = 1 << 3
VERSION = 7, 31
MOST_WRITTEN = 4096
BUFFER = 16384
MS_NOSUID, MS_NODEV = 2, 4

REQUEST = struct.Struct("=IIQQIIII")
ANSWER = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=6Q10I")
ENTRY = struct.Struct("=4Q2I")
SHOWN = struct.Struct("=QII")
SET = struct.Struct("=II6Q8I")
OPENED = struct.Struct("=QII")
RANGE = struct.Struct("=QQI")
WRITE_HEAD = 40
INITIAL = struct.Struct("=IIIIHHIIHHI28x")
STATISTICS = struct.Struct("=5Q4I24x")
NAME = struct.Struct("=QQII")

Call = Callable[[int, memoryview], bytes]


def mount(target: str) -> int:
    """Mounts a file system there; returns the descriptor at which the kernel asks for it. The kernel checks
    permissions."""
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    kernel.mount("simnode", target, "fuse.simnode", MS_NOSUID | MS_NODEV, options)
    return connection


def initialise(_node: int, _body: memoryview) -> bytes:
    return INITIAL.pack(*VERSION, 0, ATOMIC_O_TRUNC, 0, 0, MOST_WRITTEN, 1, 0, 0, 0)


def statistics(_node: int, _body: memoryview) -> bytes:
    return STATISTICS.pack(0, 0, 0, 0, 0, MOST_WRITTEN, 255, MOST_WRITTEN, 0)


def name_pack(number: int, node: int, name: bytes, mode: int) -> bytes:
    """An entry of a directory; the next one has that number."""
    return NAME.pack(node, number, len(name), mode >> 12) + name + bytes(-len(name) % 8)


def serve(connection: int, calls: dict[int, Call], tick: Callable[[], None], tick_s: float, again_s: float) -> None:
    """Answers, and ticks, until the file system is gone. A call that raises BlockingIOError is made again later."""
    calls = {INIT: initialise, STATFS: statistics, **calls}
    waiting: list[bytes] = []
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    ticks_at = time.monotonic()
    while True:
        if (now := time.monotonic()) >= ticks_at:
            tick()
            ticks_at = now + tick_s
        if poll.poll(1000 * (again_s if waiting else ticks_at - now)):
            try:
                waiting.append(os.read(connection, BUFFER))
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno not in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # the caller has been killed
                    raise
        waiting = [request for request in waiting if not answer(connection, calls, request)]


def answer(connection: int, calls: dict[int, Call], request: bytes) -> bool:
    """False: not yet."""
    _, code, unique, node, *_ = REQUEST.unpack_from(request)
    if code in UNANSWERED:
        return True
    error, body = 0, b""
    try:
        if code not in calls:
            raise OSError(errno.ENOSYS, "not served")
        body = calls[code](node, memoryview(request)[REQUEST.size:])
    except BlockingIOError:
        return False
    except OSError as refused:
        error = refused.errno or errno.EIO
    with suppress(FileNotFoundError):  # nobody waits for it any more
        os.write(connection, ANSWER.pack(ANSWER.size + len(body), -error, unique) + body)
    return True
