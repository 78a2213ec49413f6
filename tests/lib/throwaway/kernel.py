"""The few Linux calls that Python 3.11 lacks: namespaces, mounts, death signals, loopback.

Everything raises OSError with the path or the name concerned. Nothing here knows of clusters.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
SIOCSIFADDR = 0x8916
IFF_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, subject: str) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)


def unshare(flags: int) -> None:
    """Moves this process (for CLONE_NEWPID: its later children) into new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int) -> None:
    """Enters the namespace that the descriptor stands for."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(0)), "setns")


def mount(
    source: str, target: str | Path, filesystem: str = "", flags: int = 0, data: str = ""
) -> None:
    """mount(2); empty strings stand for NULL."""
    arguments = [text.encode() or None for text in (source, str(target), filesystem)]
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {source} {target}")


def bind(source: str | Path, target: str | Path) -> None:
    """Shows the file or tree `source`, with what is mounted below it, at `target` too."""
    mount(str(source), target, flags=MS_BIND | MS_REC)


def make_mounts_private() -> None:
    """Makes all mounts private: from here on, no mount of this namespace shows in another one, nor the reverse."""
    try:
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise OSError(error.errno, "the root directory is no mount point; in a chroot, bind it on itself "
                          "before entering it (mount --rbind DIR DIR)") from error
        raise


def tmpfs(target: str | Path, mode: int = 0o755) -> None:
    """Mounts an empty file system in memory over the target."""
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")


def overlay(target: str | Path, scratch: Path) -> None:
    """Makes a directory writable for this namespace only; changes go below `scratch`."""
    upper, work = scratch / "upper", scratch / "work"
    for folder in (upper, work):
        folder.mkdir(parents=True)
    upper.chmod(os.stat(target).st_mode & 0o7777)
    mount("overlay", target, "overlay", 0, f"lowerdir={target},upperdir={upper},workdir={work}")


def set_death_signal(number: int) -> None:
    """Makes the kernel send this process the signal when its parent ends. A change of user clears it."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """Sets the name that ps shows as the command (15 characters)."""
    _check(_libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl")


def raise_loopback(address: str) -> None:
    """Brings `lo` of this network namespace up with this address of 127.0.0.0/8 as its only one.

    All of 127.0.0.0/8 reaches it. The address is not 127.0.0.1, because glibc's getaddrinfo with AI_ADDRCONFIG, which
    slurmdbd calls, finds nothing on a host that has no other address. It is the only address, because Open MPI refuses
    a peer that connects from another one than it announced.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = bytearray(struct.pack("16sH22x", b"lo", 0))
        fcntl.ioctl(control, SIOCGIFFLAGS, request)
        struct.pack_into("H", request, 16, struct.unpack_from("H", request, 16)[0] | IFF_UP)
        fcntl.ioctl(control, SIOCSIFFLAGS, request)
        request = bytearray(struct.pack("16sHH4s16x", b"lo", socket.AF_INET, 0,
                                        socket.inet_aton(address)))
        fcntl.ioctl(control, SIOCSIFADDR, request)
