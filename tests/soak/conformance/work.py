"""Whether the library was at work: what the ranks of a launch wrote into its stats segment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.lib import launches, libraries

SLEEPS = {"profile": (), "yield": ("yield",), "nap": ("nap",), "event": ("event", "nap"), "umwait": ("umwait",),
         "mwaitx": ("mwaitx",)}  # the rungs of which a policy must have taken one

HELD_S = 30  # rank 0 is held until another sleeps; that none has by now is a failure


def rungs_of(policy: str, shared: bool) -> tuple[str, ...]:
    """Those by which it sleeps. What holds a core gives way to yields where cores are shared."""
    return ("yield",) if shared and policy in ("umwait", "mwaitx") else SLEEPS.get(policy, ("nap",))


@dataclass
class Work:
    """Summed over the ranks that had the library."""

    ranks: int = 0
    waits: int = 0
    waited_s: float = 0
    sleeps: dict[str, int] = field(default_factory=dict)
    shared: bool = False  # more ranks than cores

    def slept(self, policy: str) -> int:
        return sum(self.sleeps.get(rung, 0) for rung in rungs_of(policy, self.shared))

    def problem(self, policy: str, ranks: int) -> str:
        """Why this launch proves nothing of the policy; "" if it does."""
        if self.ranks < ranks:
            return f"{self.ranks} of {ranks} ranks had the library"
        if not self.waits:
            return "no rank waited"
        if SLEEPS.get(policy, ("nap",)) and not self.slept(policy):
            return f"{self.waits} waits of {self.waited_s:.3f} s in all, and none slept"
        return ""


def work_of(segment: dict[str, Any]) -> Work:
    work = Work(ranks=len(segment["slots"]))
    for lane in (lane for slot in segment["slots"] for lane in slot["lane"]):
        work.waits += sum(call["waits"] for call in lane["calls"].values())
        work.waited_s += sum(call["wait_ns"] for call in lane["calls"].values()) / 1e9
        for rung, number in lane["naps"].items():
            work.sleeps[rung] = work.sleeps.get(rung, 0) + number
    return work


def configured(variables: dict[str, str], made: int, policy: str, shared: bool) -> dict[str, str]:
    """What a rank needs for the policy, as slurmstepd would say it where the segment is that one; and what holds rank 0
    at its start until another sleeps."""
    if "MPI_WAIT_CONFIG" not in variables:
        return variables
    flat = variables["MPI_WAIT_CONFIG"].replace("shared=0", f"shared={int(shared)}")
    held = {"LD_PRELOAD": f"{variables['LD_PRELOAD']}:{libraries.hold()}", "HOLD_S": str(HELD_S),
            "LATE_RUNGS": launches.rungs_mask(rungs_of(policy, shared))}
    return launches.configured({**variables, "MPI_WAIT_CONFIG": flat, **held}, made)
