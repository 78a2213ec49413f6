"""Attacks of a job's user on its stats segment and its node. Standard library only; prints one JSON line.

    hostile_job.py segment|replace|forks|links SECONDS [DIRECTORY]
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import resource
import signal
import sys
import time

F_ADD_SEALS, SEAL_WRITE = 1033, 8
FORKS = 400


def segment() -> int:
    found = re.search(r"segment=(\d+):", os.environ["MPI_WAIT_CONFIG"])
    assert found, "no segment"
    return int(found.group(1))


def attempt(what: str, tried: dict[str, str], action: object) -> None:
    try:
        action()  # type: ignore[operator]
        tried[what] = "done"
    except OSError as error:
        tried[what] = type(error).__name__


def rewrite(seconds: float) -> dict[str, str]:
    """Rewrites the segment again and again while root reads it, after trying to change its size and its seals."""
    end, size, tried = segment(), os.fstat(segment()).st_size, {}
    attempt("truncate", tried, lambda: os.ftruncate(end, 0))
    attempt("extend", tried, lambda: os.ftruncate(end, size + (1 << 30)))
    attempt("seal", tried, lambda: fcntl.fcntl(end, F_ADD_SEALS, SEAL_WRITE))
    until, chance = time.monotonic() + seconds, random.Random(1)
    while time.monotonic() < until:
        block = chance.choice([b"\xff" * 65536, chance.randbytes(65536), bytes(65536)])
        os.pwrite(end, block, 4096 + 65536 * chance.randrange((size - 69632) // 65536))
        # root must take the slots for living ranks, with every number at its greatest
        os.pwrite(end, b"\xff" * (size - 4096), 4096)
        for index in range(64):
            at = 4096 + 8 * 16384 + index * (384 + 8 * (768 + 64 * 256) + 3840)
            os.pwrite(end, (2).to_bytes(4, "little"), at + 4)
    return tried


def replace(seconds: float) -> dict[str, str]:
    """Puts another file in place of the segment's descriptor, and opens the old one through /proc for writing."""
    end, tried = segment(), {}
    attempt("reopen", tried, lambda: os.close(os.open(f"/proc/self/fd/{end}", os.O_RDWR)))
    other = os.memfd_create("other")
    attempt("replace", tried, lambda: os.dup2(other, end))
    attempt("stepd", tried, lambda: os.listdir(f"/proc/{os.getppid()}/fd"))
    time.sleep(seconds)
    return tried


def forks(seconds: float) -> dict[str, str]:
    """Starts very many processes that inherit everything; some of them outlive the task."""
    started = 0
    for _ in range(FORKS):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            if started % 2:
                with contextlib.suppress(OSError):
                    os.setsid()
            time.sleep(seconds + 60)
            os._exit(0)
        started += 1
    time.sleep(seconds)
    return {"started": str(started)}


def links(seconds: float) -> dict[str, str]:
    """In a directory of its own, replaces the names that root's part will use with links to files of root's, and
    back."""
    place = sys.argv[3]
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for name in (*os.listdir(place), "csv"):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                os.rename(path, path + ".old") if not os.path.islink(path) else os.unlink(path)
                os.symlink("/run/precious", path)
        count += 1
    return {"turns": str(count)}


COMMANDS = {"segment": rewrite, "replace": replace, "forks": forks, "links": links}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(90)
    print(json.dumps(COMMANDS[sys.argv[1]](float(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
