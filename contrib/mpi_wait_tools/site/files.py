"""Checks who could change the files on which root and jobs depend, and lists the outbox and the spool.

No file in the outbox or the spool is opened, because users may have made it: only names and times are read.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ..text.units import safe
from .host import Host

LINKS_MAX = 40  # as in the kernel


@dataclass(frozen=True)
class Step:
    """A folder or link on the way to a file, or the file itself."""

    path: str
    status: os.stat_result
    last: bool  # True for the file itself

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def mode(self) -> str:
        return f"'{safe(self.path, 400)}' has mode {stat.S_IMODE(self.status.st_mode):04o}"


def _steps(host: Host, path: str) -> Iterator[Step]:
    """Yields the steps of a path in the order in which the kernel walks them, links included. Ends early if one is
    missing."""
    ahead, at, links = [name for name in reversed(path.split("/")) if name not in ("", ".")], "", 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        step = f"{at}/{name}"
        status = host.status(step)
        if status is None:
            return
        found = Step(step, status, not ahead)
        yield found
        if not found.is_link:
            at = step
            continue
        links += 1
        target = os.readlink(host.at(step))
        if links > LINKS_MAX:
            return
        at = "" if target.startswith("/") else at
        ahead += [part for part in reversed(target.split("/")) if part not in ("", ".")]


def writable_by_others(host: Host, path: str, owner: int = 0, itself: bool = True) -> str:
    """Returns, in words, why somebody other than root and owner could change or replace path; "" if nobody can.

    A sticky bit protects the entries of a folder on the way. On path itself it does not count, since users could still
    add files there. Without itself, only the folders above path are judged: nobody else may replace it.
    """
    for step in _steps(host, path):
        status = step.status
        if step.last and not itself:
            return ""
        if status.st_uid not in (0, owner):
            return f"'{safe(step.path, 400)}' belongs to uid {status.st_uid}"
        loose = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != 0 else 0)
        kept = step.is_link or (status.st_mode & stat.S_ISVTX and not step.last)
        if status.st_mode & loose and not kept:
            return f"{step.mode}, of group {status.st_gid}"
    return ""


def hidden_from_users(host: Host, path: str) -> str:
    """Returns, in words, the reason why users cannot read the file at path; "" if they can."""
    for step in _steps(host, path):
        needed = stat.S_IROTH if step.last else stat.S_IXOTH
        if not step.is_link and not step.status.st_mode & needed:
            return step.mode
    return ""


SHARED = re.compile(
    "nfs4?|lustre|gpfs|mmfs|beegfs|ceph|cifs|smb3|glusterfs|9p|virtiofs|afs|orangefs|panfs|wekafs|gfs2|ocfs2"
    "|fuse([.].*)?"
)
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]{1,10}-[0-9]{1,10}")


@dataclass(frozen=True)
class Waiting:
    """Records that have not been stored yet."""

    count: int = 0
    oldest: str = ""  # file name of the oldest one
    age_s: float = 0.0  # age of the oldest one


def waiting(host: Host, directory: str, now: float, suffix: str) -> Waiting:
    """Counts the records in the outbox or the spool, without opening them.

    suffix ends the names that count: "json" in the outbox (files are named *.NODE.json), "" in the spool.
    """
    found = []
    for name in host.names(directory) or []:
        key = KEY.match(name)
        if key is None or not name.endswith(suffix):
            continue
        status = host.status(f"{directory}/{name}")
        if status is not None:
            found.append((status.st_mtime, name))
    if not found:
        return Waiting()
    moment, name = min(found)
    return Waiting(len(found), name, max(0.0, now - moment))


def file_system(host: Host, path: str) -> str:
    """Returns the type of the file system at path, from the innermost mount above it; "" if it cannot be told."""
    best, kind = "", ""
    for line in (host.text("/proc/self/mountinfo") or "").split("\n"):
        words = line.split(" ")
        if len(words) < 10 or "-" not in words[6:]:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), words[4])
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, words[words.index("-", 6) + 1]
    return kind


def is_shared(kind: str) -> bool:
    return bool(SHARED.fullmatch(kind))


def owner_of(user: str) -> int:
    """Returns the uid of spool_user, 0 if user is "". Raises KeyError if this host has no such user."""
    return pwd.getpwnam(user).pw_uid if user else 0


def wrong_with(status: os.stat_result, user: str) -> str:
    """Returns why a directory is not trusted with records, by the rules of spank/store/spool.c; "" if it is trusted."""
    if stat.S_ISLNK(status.st_mode):
        return "is a link: it must be the directory itself"
    if not stat.S_ISDIR(status.st_mode):
        return "is no directory"
    try:
        owner = owner_of(user)
    except KeyError:
        return f"shall belong to spool_user={user}, who is no user of this host"
    if status.st_uid not in (0, owner):
        return f"belongs to uid {status.st_uid}, not to {user or 'root'}"
    if status.st_mode & 0o022:
        return f"has mode {stat.S_IMODE(status.st_mode):04o}, writable by others than {user or 'root'}"
    return ""
