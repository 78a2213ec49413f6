"""The counters that a build for coverage writes when a process ends: one file for each object, wherever it runs.

Ranks and their launchers run as users who may create nothing in a build directory: the files are there beforehand,
empty and writable by everybody. What ends by _exit, exec or SIGKILL leaves no counters.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.lib.throwaway.sandbox import NODE_TMPFS


def open_to_all(build: Path) -> None:
    """Empty files of counters for everybody; what was counted before is gone."""
    build.chmod(0o755)
    for notes in build.rglob("*.gcno"):
        counters = notes.with_suffix(".gcda")
        counters.unlink(missing_ok=True)
        counters.touch()
        counters.chmod(0o666)


def close(build: Path) -> int:
    """Removes those that nobody wrote, which gcov takes for damaged. Returns how many were written."""
    written = 0
    for counters in build.rglob("*.gcda"):
        if counters.stat().st_size:
            written += 1
        else:
            counters.unlink()
    return written


def hidden(build: Path) -> str:
    """The directory above it of which each node of the throw-away cluster has its own, "" for none."""
    return next((str(folder) for folder in build.parents if str(folder) in NODE_TMPFS), "")


def unreachable(build: Path, uid: int = 65534) -> str:
    """The directory on the way that other users may not enter, "" where they can come and write."""
    for folder in (build, *build.parents):
        if not os.stat(folder).st_mode & 0o001:
            return str(folder)
    return ""
