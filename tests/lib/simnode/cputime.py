"""The real CPU time that the processes of one mount namespace use, by the CPU they ran on."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
SETTLED_S = 2.0
"""Whatever comes into a namespace does so early in its life."""
FORGET_S = 20.0
"""How long a process is known to be none of ours: most are not, and looks at them are what the simulation costs."""


@dataclass
class Account:
    """What has been counted of one process so far, in clock ticks."""

    parent: int
    start: int
    own: int
    children: int


class CpuTime:
    """Counts from its making on. A process that ends between two looks is counted by what its
    parent's children's time grew beyond what was known of it."""

    def __init__(self, exclude: set[int]) -> None:
        """exclude: processes whose own time does not count (the simulation itself)."""
        self._namespace = os.readlink("/proc/self/ns/mnt")
        self._exclude = exclude
        self._accounts: dict[int, Account] = {}
        self._others: set[int] = set()
        self._first_seen: dict[int, float] = {}
        self._now = self._forgot_at = time.monotonic()
        self._scan_all(first=True)

    def seconds(self) -> dict[int, float]:
        """CPU to seconds used on it since the last call."""
        return {cpu: ticks * TICK_S for cpu, ticks in self._scan_all(first=False).items()}

    def _scan_all(self, first: bool) -> dict[int, int]:
        found: dict[int, tuple[Account, int]] = {}
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - self._exclude
        self._now = time.monotonic()
        if self._now - self._forgot_at > FORGET_S:
            self._others.clear()
            self._first_seen = {pid: seen for pid, seen in self._first_seen.items() if pid in pids}
            self._forgot_at = self._now
        for pid in pids - self._others:
            with suppress(OSError):
                if entry := self._look(pid):
                    found[pid] = entry
        known_of_ended = self._ended(found)
        used: dict[int, int] = {}
        for pid, (now, cpu) in found.items():
            before = self._accounts.get(pid)
            if before is None or before.start != now.start:
                before = Account(0, 0, now.own, now.children) if first else Account(0, 0, 0, 0)
            reaped = now.children - before.children
            ticks = now.own - before.own + max(0, reaped - known_of_ended.get(pid, 0))
            used[cpu] = used.get(cpu, 0) + max(0, ticks)
        self._accounts = {pid: account for pid, (account, _) in found.items()}
        return used

    def _ended(self, found: dict[int, tuple[Account, int]]) -> dict[int, int]:
        """Parent to the ticks already counted of those of its children that are gone."""
        known: dict[int, int] = {}
        for pid, account in self._accounts.items():
            if pid not in found or found[pid][0].start != account.start:
                counted = account.own + account.children
                known[account.parent] = known.get(account.parent, 0) + counted
        return known

    def _look(self, pid: int) -> tuple[Account, int] | None:
        """The process's account and last CPU, if it is, or was, one of ours."""
        before = self._accounts.get(pid)
        ours = os.readlink(f"/proc/{pid}/ns/mnt") == self._namespace
        if not ours and before is None:
            if self._now - self._first_seen.setdefault(pid, self._now) > SETTLED_S:
                self._others.add(pid)
            return None
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        account = Account(parent=int(fields[1]), start=int(fields[19]),
                          own=int(fields[11]) + int(fields[12]),
                          children=int(fields[13]) + int(fields[14]))
        was = before is not None and before.start == account.start
        return (account, int(fields[36])) if ours or was else None
