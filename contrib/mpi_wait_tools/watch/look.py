"""A look: the state of the job on one node at one moment, and the line of JSON that carries it.

A line is so short that srun passes it on in one piece. The reader trusts nothing: it drops a line that this module
would not write, and checks every number against bounds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LINE_MAX = 1000  # slurmstepd cuts lines from 1024 bytes on
SHOWN = 8  # most waiting ranks in a look
VERSION = 3
HERE = 1
PROBLEM_MAX = 200
RANKS_MAX, WORLD_MAX, SECONDS_MAX, WATTS_MAX = 1 << 24, 1 << 48, 1e9, 1e6


@dataclass(frozen=True)
class Waiting:
    """A rank that waits."""

    rank: int  # number in its world, -1 if it goes by its Slurm task
    step: str
    call: str  # the MPI call in which it waits
    seconds: float  # time that it has waited in that call
    waited: float  # waiting as a share of the time since MPI_Init
    asleep: float  # sleep as a share of the time since MPI_Init
    world: int = 0  # as in Look
    task: int = -1  # number of its Slurm task, -1 if not known


@dataclass(frozen=True)
class Look:
    """The state of the job on one node.

    world is equal on all nodes whose ranks share an MPI_COMM_WORLD. 0: the ranks are of several, or that is not known.
    HERE: they form a whole one, on this node alone.
    """

    node: str
    segments: int = 0  # number of steps with statistics
    ranks: int = 0
    waiting: int = 0  # number of ranks that wait now
    waited: float = 0.0  # share of the ranks' time since MPI_Init
    asleep: float = 0.0  # share of the ranks' time since MPI_Init
    waited_now: float | None = None  # share of the time since the last look, None in the first
    asleep_now: float | None = None  # share of the time since the last look, None in the first
    least: tuple[int, float] | None = None  # the rank that waits least, and its share; None without ranks
    world: int = 0
    watts: float | None = None  # the node's power, None in the first look, or if a counter cannot be read
    simulated: bool = False
    problem: str = ""
    longest: Sequence[Waiting] = field(default_factory=tuple)


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def line_of(look: Look) -> str:
    """Returns the line of a look, with as many of the waiting ranks as there is room for."""
    values: dict[str, Any] = {"v": VERSION, **vars(look)}
    for name in ("waited", "asleep", "waited_now", "asleep_now", "watts"):
        values[name] = _short(values[name])
    values["least"] = [look.least[0], _short(look.least[1])] if look.least else None
    for room in range(min(SHOWN, len(look.longest)), -1, -1):
        values["longest"] = [
            [one.rank, one.step, one.call, _short(one.seconds), _short(one.waited), _short(one.asleep), one.world,
             one.task]
            for one in look.longest[:room]
        ]
        line = json.dumps(values, separators=(",", ":"))
        if len(line) <= LINE_MAX:
            break
    return line


def _number(value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(value)
    return float(value)


def _whole(value: Any, most: int, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(value)
    return value


def _maybe(value: Any, most: float) -> float | None:
    return None if value is None else _number(value, most)


def _word(value: Any, most: int, least: int = 1) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise ValueError(value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _waiting(row: Any) -> Waiting:
    rank, step, call, seconds, waited, asleep, world, task = row
    return Waiting(
        _whole(rank, RANKS_MAX, -1),
        _word(step, 16),
        _word(call, 40),
        _number(seconds, SECONDS_MAX),
        _number(waited, 1),
        _number(asleep, 1),
        _whole(world, WORLD_MAX),
        _whole(task, RANKS_MAX, -1),
    )


def _look(values: dict[str, Any]) -> Look:
    if values["v"] != VERSION:
        raise ValueError("another release's")
    least = values["least"]
    if not isinstance(values["longest"], list) or len(values["longest"]) > SHOWN:
        raise ValueError("longest")
    return Look(
        node=_word(values["node"], 255),
        segments=_whole(values["segments"], RANKS_MAX),
        ranks=_whole(values["ranks"], RANKS_MAX),
        waiting=_whole(values["waiting"], RANKS_MAX),
        waited=_number(values["waited"], 1),
        asleep=_number(values["asleep"], 1),
        waited_now=_maybe(values["waited_now"], 1),
        asleep_now=_maybe(values["asleep_now"], 1),
        world=_whole(values["world"], WORLD_MAX),
        least=None if least is None else (_whole(least[0], RANKS_MAX, -1), _number(least[1], 1)),
        watts=_maybe(values["watts"], WATTS_MAX),
        simulated=_flag(values["simulated"]),
        problem=_word(values["problem"], PROBLEM_MAX, 0),
        longest=tuple(map(_waiting, values["longest"])),
    )


def look_of(line: str) -> Look | None:
    """Returns the look in a line; None if it is none of ours: a prolog may print too."""
    if len(line) > LINE_MAX or not line.startswith("{"):
        return None
    try:
        return _look(json.loads(line))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
