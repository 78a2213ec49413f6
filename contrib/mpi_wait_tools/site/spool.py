"""Where records lie until they are stored: the outbox and the spool, seen from outside.

Names and times only: every file there may be anybody's work, so none of them is opened.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from dataclasses import dataclass

from .host import Host

SHARED = re.compile(
    "nfs4?|lustre|gpfs|mmfs|beegfs|ceph|cifs|smb3|glusterfs|9p|virtiofs|afs|orangefs|panfs|wekafs|gfs2|ocfs2"
    "|fuse([.].*)?"
)
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]{1,10}-[0-9]{1,10}")


@dataclass(frozen=True)
class Waiting:
    """Records that have not been stored: how many, and the oldest one's name and age."""

    count: int = 0
    oldest: str = ""
    age_s: float = 0.0


def waiting(host: Host, directory: str, now: float, suffix: str) -> Waiting:
    """Of the outbox (suffix ".NODE.json" in general, so "json") or the spool (""): what lies there. None is opened."""
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
    """The type of the file system at path: of the innermost mount above it; "" if it cannot be told."""
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
    """The number of spool_user; KeyError where there is none of that name."""
    return pwd.getpwnam(user).pw_uid if user else 0


def wrong_with(status: os.stat_result, user: str) -> str:
    """Why a directory is not trusted with records, by the rules of spank/store/spool.c; "" if it is."""
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
