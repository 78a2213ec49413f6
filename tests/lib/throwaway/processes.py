"""Finding a cluster's processes and listening ports from outside, through /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TCP_LISTEN = "0A"


def in_namespace(kind: str, of: int) -> Iterator[int]:
    """The processes (pids as this process sees them) that share a namespace with `of`."""
    namespace = os.readlink(f"/proc/{of}/ns/{kind}")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.readlink(entry / "ns" / kind) == namespace:
                    yield int(entry.name)


def host_pids(init: int) -> dict[int, int]:
    """The cluster's processes: pid inside to pid outside."""
    found = {}
    for pid in in_namespace("pid", init):
        with suppress(OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_text()
            row = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            found[int(row.split()[-1])] = pid
    return found


def is_listening(pid: int, port: int) -> bool:
    """Whether something in the network namespace of `pid` accepts TCP connections at the port."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == TCP_LISTEN and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False
