"""Finds a cluster's processes, their activities, and its listening ports from outside, through /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TCP_LISTEN = "0A"
MOST_STACKS = 8
DEBUGGER_S = 20


def in_namespace(kind: str, of: int) -> Iterator[int]:
    """Yields the processes (pids as this process sees them) that share a namespace with `of`."""
    namespace = os.readlink(f"/proc/{of}/ns/{kind}")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.readlink(entry / "ns" / kind) == namespace:
                    yield int(entry.name)


def host_pids(init: int) -> dict[int, int]:
    """Returns the cluster's processes: pid inside to pid outside."""
    found = {}
    for pid in in_namespace("pid", init):
        with suppress(OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_text()
            row = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            found[int(row.split()[-1])] = pid
    return found


def name(pid: int) -> str:
    """Returns a process's name, at most 15 characters; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def is_listening(pid: int, port: int) -> bool:
    """Returns true if a process in the network namespace of `pid` accepts TCP connections at the port."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == TCP_LISTEN and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


def has_ended(stat: Path) -> bool:
    """Returns true if the process of that /proc/PID/stat is gone or a zombie."""
    try:
        text = stat.read_text()
    except OSError:
        return True
    return text.rsplit(")", 1)[1].split()[0] == "Z"


def doings(init: int) -> str:
    """Describes the cluster's processes: state, CPU time, and kernel function of each thread. Adds the stacks of the
    first few that are not root's, if there is a debugger."""
    lines: list[str] = []
    stacks: list[str] = []
    try:
        pids = host_pids(init)
    except OSError:
        return "(the cluster is gone)"
    for inside, pid in sorted(pids.items()):
        with suppress(OSError):
            for thread in sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
                name, rest = (thread / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                fields = rest.split()
                ticks = int(fields[11]) + int(fields[12])
                where = (thread / "wchan").read_text()
                lines.append(f"{inside:6} {thread.name:>8} {fields[0]} {ticks / os.sysconf('SC_CLK_TCK'):8.2f} s  "
                             f"{name:16} {where}")
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid != 0 and len(stacks) < MOST_STACKS and shutil.which("gdb"):
                stacks.append(f"stack of {inside}:\n{stack(pid)}")
    return "\n".join([*lines, *stacks])


def stack(pid: int) -> str:
    """Returns the stacks of all threads as gdb prints them, frames only."""
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=DEBUGGER_S,
                               check=False)
    except subprocess.TimeoutExpired:
        return "(the debugger took too long)"
    return "\n".join(line for line in shown.stdout.splitlines() if line.startswith(("#", "Thread")))
