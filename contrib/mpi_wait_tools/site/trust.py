"""Whether a file that root and everybody's jobs load can be changed, or hidden from them, by somebody else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ..text.units import safe
from .host import Host

LINKS_MAX = 40  # as in the kernel


@dataclass(frozen=True)
class Step:
    """A folder or link on the way to a file, or the file itself, which is the last."""

    path: str
    status: os.stat_result
    last: bool

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def mode(self) -> str:
        return f"'{safe(self.path, 400)}' has mode {stat.S_IMODE(self.status.st_mode):04o}"


def _steps(host: Host, path: str) -> Iterator[Step]:
    """As the kernel walks: every link is followed where it stands. Ends early where something is missing."""
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
    """
    Who else than root, and owner, could change what stands at path, in words; "" for nobody. A sticky bit protects what
    is in a folder on the way; of path itself it protects nothing, as files can be added there. Without itself, only the
    way is judged: who could put another thing there.
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
    """What keeps users from reading the file at path, in words; "" for nothing."""
    for step in _steps(host, path):
        needed = stat.S_IROTH if step.last else stat.S_IXOTH
        if not step.is_link and not step.status.st_mode & needed:
            return step.mode
    return ""
