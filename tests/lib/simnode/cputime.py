"""Measures the CPU time that the processes of one mount namespace use, by the CPU on which they ran."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
SETTLED_S = 2.0
"""A process that enters a namespace does so early in its life."""
FORGET_S = 20.0
"""How long a process counts as one of another namespace. Most are, and reading them is what the simulation costs."""


@dataclass
class Account:
    """The ticks counted of one process so far."""

    parent: int
    start: int
    own: int
    children: int


class CpuTime:
    """Counts from its creation on. A process that ends between two measurements is counted by its parent: by the growth
    of the parent's children's time beyond what was counted of the process."""

    def __init__(self, exclude: set[int], proc: str = "/proc") -> None:
        """exclude: processes whose own time is not counted (the simulation itself)."""
        self._proc = proc
        self._namespace = os.readlink(f"{proc}/self/ns/mnt")
        self._exclude = exclude
        self._accounts: dict[int, Account] = {}
        self._unspent: dict[int, int] = {}
        self._others: set[int] = set()
        self._first_seen: dict[int, float] = {}
        self._now = self._forgot_at = time.monotonic()
        self._scan_all(first=True)

    def seconds(self) -> dict[int, float]:
        """Returns the seconds used on each CPU since the last call."""
        return {cpu: ticks * TICK_S for cpu, ticks in self._scan_all(first=False).items()}

    def _scan_all(self, first: bool) -> dict[int, int]:
        found: dict[int, tuple[Account, int]] = {}
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()} - self._exclude
        self._now = time.monotonic()
        if self._now - self._forgot_at > FORGET_S:
            self._others.clear()
            self._first_seen = {pid: seen for pid, seen in self._first_seen.items() if pid in pids}
            self._forgot_at = self._now
        for pid in pids - self._others:
            with suppress(OSError):
                if entry := self._look(pid):
                    found[pid] = entry
        known_of_ended, unspent = self._ended(found), self._unspent
        self._unspent = {}
        used: dict[int, int] = {}
        for pid, (now, cpu) in found.items():
            before = self._accounts.get(pid)
            if before is None or before.start != now.start:
                before = Account(0, 0, now.own, now.children) if first else Account(0, 0, 0, 0)
            reaped = now.children - before.children
            known = known_of_ended.get(pid, 0)
            unknown = reaped - known - unspent.get(pid, 0)
            self._unspent[pid] = min(known, max(0, -unknown))  # a child reaped after its parent was read
            ticks = now.own - before.own + max(0, unknown)
            used[cpu] = used.get(cpu, 0) + max(0, ticks)
        self._accounts = {pid: account for pid, (account, _) in found.items()}
        return used

    def _ended(self, found: dict[int, tuple[Account, int]]) -> dict[int, int]:
        """Returns, by parent, the ticks already counted of its children that are gone, and of their descendants that
        are gone."""
        gone = {pid: account for pid, account in self._accounts.items()
                if pid not in found or found[pid][0].start != account.start}
        known: dict[int, int] = {}
        for account in gone.values():
            parent = account.parent
            for _ in gone:  # an ended process that reaped others holds their ticks
                parent = gone[parent].parent if parent in gone else parent
            known[parent] = known.get(parent, 0) + account.own + account.children
        return known

    def _look(self, pid: int) -> tuple[Account, int] | None:
        """Returns the process's account and last CPU; None if it never was in this namespace."""
        before = self._accounts.get(pid)
        ours = self._is_ours(pid, known=before is not None)
        if not ours and before is None:
            if self._now - self._first_seen.setdefault(pid, self._now) > SETTLED_S:
                self._others.add(pid)
            return None
        with open(f"{self._proc}/{pid}/stat", encoding="latin-1") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        account = Account(parent=int(fields[1]), start=int(fields[19]),
                          own=int(fields[11]) + int(fields[12]),
                          children=int(fields[13]) + int(fields[14]))
        was = before is not None and before.start == account.start
        return (account, int(fields[36])) if ours or was else None

    def _is_ours(self, pid: int, known: bool) -> bool:
        """Returns true if the process is in this namespace. A zombie has no namespace: False if it is known,
        FileNotFoundError if not."""
        try:
            return os.readlink(f"{self._proc}/{pid}/ns/mnt") == self._namespace
        except FileNotFoundError:
            if not known:
                raise
            return False
