"""Whether the library was at work: what the ranks of a launch wrote into its stats segment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.lib.doubles import segment_tool

RESTS = {"profile": (), "yield": ("yield",), "nap": ("nap",), "event": ("event", "nap"), "umwait": ("umwait",),
         "mwaitx": ("mwaitx",)}  # the rungs of which a policy must have taken one

LONG_S = 0.005  # of a wait: every policy rests in it


@dataclass
class Work:
    """Summed over the ranks that had the library."""

    ranks: int = 0
    waits: int = 0
    waited_s: float = 0
    longest_s: float = 0
    rests: dict[str, int] = field(default_factory=dict)
    shared: bool = False  # more ranks than cores: what holds a core gives way to yields

    def rested(self, policy: str) -> int:
        rungs = ("yield",) if self.shared and policy in ("umwait", "mwaitx") else RESTS.get(policy, ("nap",))
        return sum(self.rests.get(rung, 0) for rung in rungs)

    def problem(self, policy: str, ranks: int) -> str:
        """Why this launch proves nothing of the policy; "" if it does."""
        if self.ranks < ranks:
            return f"{self.ranks} of {ranks} ranks had the library"
        if not self.waits:
            return "no rank waited"
        if RESTS.get(policy, ("nap",)) and not self.rested(policy) and self.longest_s > LONG_S:
            return f"{self.waits} waits of {self.waited_s:.3f} s in all, and none rested"
        return ""


def work_of(segment: dict[str, Any]) -> Work:
    work = Work(ranks=len(segment["slots"]))
    for lane in (lane for slot in segment["slots"] for lane in slot["lane"]):
        work.waits += sum(call["waits"] for call in lane["calls"].values())
        work.waited_s += sum(call["wait_ns"] for call in lane["calls"].values()) / 1e9
        work.longest_s = max(work.longest_s, *(call["longest_ns"] / 1e9 for call in lane["calls"].values()), 0)
        for rung, number in lane["naps"].items():
            work.rests[rung] = work.rests.get(rung, 0) + number
    return work


@contextmanager
def segment() -> Iterator[int]:
    """A descriptor that the ranks reach by /proc, as those of a launcher do that closes what it inherits."""
    made = segment_tool.segment_make()
    try:
        yield made
    finally:
        os.close(made)


def configured(variables: dict[str, str], made: int, shared: bool) -> dict[str, str]:
    """What a rank needs for the policy, as slurmstepd would say it where the segment is that one."""
    if "MPI_WAIT_CONFIG" not in variables:
        return variables
    flat = variables["MPI_WAIT_CONFIG"].replace("shared=0", f"shared={int(shared)}")
    return {**variables, "MPI_WAIT_CONFIG": f"{flat};{segment_tool.segment_field(made)}"}
