"""The waiting in a record: ranks, calls, phases, call sites, worlds, and the cost of sleeping. The cost compares
periods (turns of the program's loop) that ranks slept in with periods in which no rank sleeps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .reader import SECONDS_MAX, Reader, damaged

STEP = re.compile(r"batch|extern|interactive|[0-9]{1,10}")


@dataclass(frozen=True)
class RankWait:
    rank: int
    seconds: float
    node: str
    step: str = ""  # the rank's step, if several ran MPI
    world: int = 0  # number of the rank's world in the record, from 1; 0 if the record does not tell worlds apart
    task: int = -1  # number of its Slurm task, if the rank goes by that


def rank_wait(reader: Reader) -> RankWait:
    step = reader.text("step", STEP) if "step" in reader.value else ""
    figures = reader.figures("rank_wait")
    return RankWait(reader.integer("rank", -1), figures["s"], reader.text("node"), step, figures.get("world", 0),
                    figures.get("task", -1))


def listed(value: Any, where: str) -> RankWait:
    return rank_wait(Reader(value, where))


NODE_MAX = 64  # characters


def _node_run(value: Any, where: str) -> tuple[str, int, int, int]:
    """Reads [node, first index, ranks] or [node, first index, ranks, distance]. The distance is 1 if it is absent."""
    row = value if isinstance(value, list) and len(value) == 4 else [*value, 1] if isinstance(value, list) else []
    numbers = row[1:]
    if (
        len(row) != 4
        or not isinstance(row[0], str)
        or len(row[0]) > NODE_MAX
        or not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers)
    ):
        raise damaged(where, "is no node with its ranks")
    return row[0], row[1], row[2], row[3]


def nodes_of_places(reader: Reader, key: str, count: int) -> list[str]:
    """Returns the node of each of count ranks, "" if the record does not name one; empty if it names none at all."""
    runs = reader.items(key, _node_run, required=False)
    nodes = [""] * count if runs else []
    left = count
    for index, (node, first, ranks, distance) in enumerate(runs):
        left -= ranks
        if left < 0 or (ranks > 0 and first + (ranks - 1) * distance >= count):
            raise damaged(f"{reader.path(key)}[{index}]", "has more ranks than the list")
        for place in range(ranks):
            nodes[first + place * distance] = node
    return nodes


CALL = re.compile(r"MPI_[A-Za-z_]{1,60}|other")
PROFILE_MAX = 1e26
_SIZE = re.compile(r"0|[1-9][0-9]{0,11}")


@dataclass(frozen=True)
class ProfiledCall:
    name: str
    calls: int
    time: float
    wait: float
    bytes: float
    sizes: dict[int, float]  # number of calls by size; the key is the least number of bytes of a class of sizes


@dataclass(frozen=True)
class PointToPoint:
    """Bytes of point-to-point messages."""

    within: float  # both ends on one node
    between: float  # the two ends on different nodes


def _sizes(reader: Reader | None) -> dict[int, float]:
    sizes: dict[int, float] = {}
    if reader is None:
        return sizes
    for key in reader.value:
        if not _SIZE.fullmatch(key):
            raise damaged(reader.where, "has a size that is no number of bytes")
        sizes[int(key)] = reader.number(key, PROFILE_MAX)
    return dict(sorted(sizes.items()))


def profiled_calls(reader: Reader | None) -> list[ProfiledCall]:
    calls: list[ProfiledCall] = []
    if reader is None:
        return calls
    for name in reader.value:
        if not CALL.fullmatch(name):
            raise damaged(reader.where, "names something that is no MPI function")
        call = reader.object(name)
        calls.append(
            ProfiledCall(
                name=name,
                calls=round(call.number("calls", PROFILE_MAX)),
                time=call.number("time_s", SECONDS_MAX),
                wait=call.number("wait_s", SECONDS_MAX),
                bytes=call.number("bytes", PROFILE_MAX),
                sizes=_sizes(call.maybe_object("sizes")),
            )
        )
    return sorted(calls, key=lambda call: (call.name == "other", -call.time, -call.bytes, call.name))


def point_to_point(reader: Reader | None) -> PointToPoint | None:
    if reader is None:
        return None
    within, between = (
        reader.number(key, PROFILE_MAX) for key in ("within_nodes_bytes", "between_nodes_bytes")
    )
    return PointToPoint(within, between) if within + between > 0 else None


PHASES_MAX = 18
NONE, OTHER = "none", "other"
_PHASE = re.compile(r"[1-9][0-9]{0,9}|none|other")


@dataclass(frozen=True)
class Phase:
    name: str  # its number; NONE for time outside of phases, OTHER for the sum of all further phases
    time: float  # seconds, summed over ranks
    waits: int
    seconds: float  # time waited, summed over ranks
    most: RankWait | None

    @property
    def is_named(self) -> bool:
        return self.name not in (NONE, OTHER)


def _phase(name: str, reader: Reader) -> Phase:
    figures, most = reader.figures("phase"), reader.maybe_object("max")
    return Phase(name, figures["time_s"], figures["waits"], figures["wait_s"], rank_wait(most) if most else None)


def phases_of(reader: Reader | None) -> list[Phase]:
    """Reads the phases, those with the most waiting first. NONE and OTHER come last."""
    if reader is None:
        return []
    if len(reader.value) > PHASES_MAX or not all(map(_PHASE.fullmatch, reader.value)):
        raise damaged(reader.where, "has names that are no phases")
    phases = [_phase(name, reader.object(name)) for name in reader.value]
    return sorted(phases, key=lambda phase: (not phase.is_named, -phase.seconds, phase.name))


MODULE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,46}")
_BUILD_ID = re.compile(r"([0-9a-f]{2}){1,20}")
_OFFSET = re.compile(r"0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Site:
    """A place in the program that calls MPI."""

    module: str  # file name of the program or library; "" for the sum of all further sites
    build_id: str  # build-id of that file, "" if it has none
    offset: int  # offset in the file of the instruction after the call
    call: str
    waits: int
    seconds: float  # time waited, summed over ranks
    most: RankWait | None

    @property
    def place(self) -> str:
        return f"{self.module}+{self.offset:#x}" if self.module else "other"


def site_of(value: Any, where: str) -> Site:
    reader = Reader(value, where)
    figures, most = reader.figures("site"), reader.maybe_object("max")
    is_named = "module" in reader.value
    return Site(
        module=reader.text("module", MODULE) if is_named else "",
        build_id=reader.text("build_id", _BUILD_ID) if "build_id" in reader.value else "",
        offset=int(reader.text("offset", _OFFSET), 16) if is_named else 0,
        call=reader.text("call", CALL),
        waits=figures["waits"],
        seconds=figures["wait_s"],
        most=rank_wait(most) if most else None,
    )


LAUNCHED, SINGLETONS, UNKNOWN = "launched", "singletons", "unknown"
ROWS_MAX = 65
APART_MAX = 64  # most worlds of one row that are told apart if the record has no list of ranks
_KIND = re.compile(f"{LAUNCHED}|{SINGLETONS}|{UNKNOWN}")


@dataclass(frozen=True)
class World:
    """An MPI_COMM_WORLD; or, if kind is UNKNOWN, ranks of which it is not known if they share one."""

    kind: str
    ranks: int  # number of ranks that were seen
    size: int  # size of MPI_COMM_WORLD, 0 if not known
    step: str  # "" if the job has only one step, or if the ranks came by several
    numbers: tuple[int, ...]  # the ranks' numbers in their order, empty if not known


def _run(value: Any, where: str) -> tuple[int, int, int]:
    """Reads [first, ranks] or [first, ranks, distance]. The distance is 1 if it is absent."""
    row = [*value, 1] if isinstance(value, list) and len(value) == 2 else value
    if not isinstance(row, list) or len(row) != 3 or not all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 24 for number in row
    ):
        raise damaged(where, "is no run of numbers")
    return row[0], row[1], row[2]


def _numbers(reader: Reader, ranks: int, kind: str) -> tuple[int, ...]:
    runs = reader.items("numbers", _run, required=False)
    if not runs:
        return tuple(range(ranks)) if kind == LAUNCHED else ()
    if sum(count for _, count, _ in runs) != ranks:
        raise damaged(reader.path("numbers"), "has another number of ranks")
    return tuple(first + place * distance for first, count, distance in runs for place in range(count))


def _row(value: Any, where: str, listed: int) -> list[World]:
    reader = Reader(value, where)
    figures, kind = reader.figures("world"), reader.text("kind", _KIND)
    ranks, alike = figures["ranks"], figures.get("worlds", 1)
    if alike < 1 or ranks % alike or (listed and ranks > listed):
        raise damaged(where, "has no possible number of ranks")
    step = reader.text("step", STEP) if "step" in reader.value else ""
    each, told = ranks // alike, alike if listed else min(alike, APART_MAX)
    world = World(kind, each, figures.get("size", 0), step, _numbers(reader, each, kind) if listed else ())
    rest = [World(UNKNOWN, ranks - told * each, world.size, step, ())] if told < alike else []
    return [world] * told + rest


def worlds_of(reader: Reader, listed: int) -> list[World]:
    """Reads the worlds, in the order of the record's list of ranks. Empty if each step has one world.

    listed is the length of that list, 0 if the record has none.
    """
    rows = reader.items("worlds", lambda value, where: (value, where), required=False)
    if len(rows) > ROWS_MAX:
        raise damaged(reader.path("worlds"), "has too many rows")
    worlds = [world for value, where in rows for world in _row(value, where, listed)]
    if worlds and listed and sum(world.ranks for world in worlds) != listed:
        raise damaged(reader.path("worlds"), "has other ranks than the list")
    return worlds


WINDOWS_LEAST = 8
ERROR_MOST = 10.0


@dataclass(frozen=True)
class Cost:
    """The measured cost of sleeping: periods that ranks slept in, compared with periods in which no rank sleeps."""

    percent: float  # by how much longer the periods slept in were, in percent of them; negative if shorter
    error: float  # half of the width of the 95 % interval of percent
    windows: int  # number of looks that the periods were compared with
    seconds: float  # sum of the periods slept in; the weight of this cost in a sum over jobs
    slowdown: float | None = None  # allowed cost in percent, None if the record does not tell

    @property
    def is_known(self) -> bool:
        """Returns True if enough was seen to tell the cost."""
        return self.windows >= WINDOWS_LEAST and self.error <= ERROR_MOST

    @property
    def is_too_much(self) -> bool:
        """Returns True if the cost is above the allowed one even by the lower end of its interval."""
        return self.is_known and self.slowdown is not None and self.percent - self.error > self.slowdown


def cost_of(reader: Reader | None) -> Cost | None:
    if reader is None:
        return None
    figures = reader.figures("cost")
    return Cost(figures["percent"], figures["error"], figures["windows"], figures["seconds"], figures.get("slowdown"))


COUNTS_MAX = 32
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


@dataclass(frozen=True)
class Call:
    name: str
    calls: int
    waits: int
    seconds: float
    longest: float | None


@dataclass(frozen=True)
class Spun:
    name: str
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Forecast:
    """Waits by forecast: the rank sleeps until shortly before the message is due."""

    naps: int
    early: int
    early_seconds: float
    foreseen: int
    unforeseen: int
    allowed: float


@dataclass(frozen=True)
class Wait:
    ranks: int
    total: float
    mean: float
    least: RankWait
    most: RankWait
    calls: list[Call]
    profile: list[ProfiledCall]
    phases: list[Phase]  # only under the policy profile, if the program names phases
    sites: list[Site]  # only with the key sites, most waiting first
    point_to_point: PointToPoint | None  # only under the policy profile, for steps on several nodes
    per_rank: list[float]
    per_rank_asleep: list[float]
    per_rank_nodes: list[str]  # empty if the record does not tell
    worlds: list[World]  # in the order of the lists per rank; empty if each step has one world
    quantiles: list[float]
    least_ranks: list[RankWait]  # the ranks that wait least, the least one first, if there is no list of all ranks
    most_ranks: list[RankWait]  # the ranks that wait most, the most waiting one first, likewise
    share: float | None
    asleep: float | None
    cpu_share: float | None
    threads: float  # CPU time of the ranks' other threads in long waits
    late: int | None
    late_seconds: float | None
    naps: int
    forecast: Forecast | None
    cost: Cost | None  # measured cost of sleeping, None if nothing was compared
    transitions: int
    low: float
    unseen: int
    doubtful: int
    hooks: dict[str, int]
    flags: dict[str, int]
    spun: list[Spun]
    figures: dict[str, Any]  # all plain figures, by their names in the record


def _calls(reader: Reader) -> list[Call]:
    calls = []
    for name in reader.value:
        if not CALL.fullmatch(name):
            raise damaged(reader.where, "names something that is no MPI function")
        call = reader.object(name)
        waited, longest = (
            call.number("wait_s", SECONDS_MAX),
            call.maybe_number("longest_s", SECONDS_MAX),
        )
        calls.append(Call(name, call.integer("calls"), call.integer("waits"), waited, longest))
    return sorted(calls, key=lambda call: (call.name == "other", -call.seconds, call.name))


def _counts(reader: Reader | None) -> dict[str, int]:
    if reader is None:
        return {}
    if len(reader.value) > COUNTS_MAX or not all(map(NAME.fullmatch, reader.value)):
        raise damaged(reader.where, "has names that are not possible")
    return {name: reader.integer(name) for name in reader.value}


def _forecast(reader: Reader | None) -> Forecast | None:
    if reader is None:
        return None
    figures = reader.figures("forecast")
    return Forecast(naps=figures["naps"], early=figures["early"], early_seconds=figures["early_s"],
                    foreseen=figures["foreseen"], unforeseen=figures["unforeseen"], allowed=figures["allowed_s"])


def _spun(reader: Reader | None) -> list[Spun]:
    if reader is None:
        return []
    if not all(map(CALL.fullmatch, reader.value)):
        raise damaged(reader.where, "names something that is no MPI function")
    calls = [(name, reader.object(name)) for name in reader.value]
    spun = [Spun(name, c.number("s", SECONDS_MAX), c.number("cpu_s", SECONDS_MAX)) for name, c in calls]
    return sorted(spun, key=lambda call: (-call.seconds, call.name))


def read_wait(reader: Reader) -> Wait:
    per_rank, asleep = reader.numbers("per_rank_s"), reader.numbers("per_rank_asleep_s")
    if asleep and len(asleep) != len(per_rank):
        raise damaged(reader.path("per_rank_asleep_s"), "and per_rank_s differ in length")
    quantiles = reader.numbers("quantiles_s", required=False)
    if quantiles and (len(quantiles) < 2 or quantiles != sorted(quantiles)):
        raise damaged(reader.path("quantiles_s"), "is not in ascending order")
    figures = reader.figures("wait")
    return Wait(
        ranks=figures["ranks"],
        total=figures["total_s"],
        mean=figures["mean_s"],
        least=rank_wait(reader.object("min")),
        most=rank_wait(reader.object("max")),
        calls=_calls(reader.object("by_call")),
        profile=profiled_calls(reader.maybe_object("profile")),
        phases=phases_of(reader.maybe_object("phases")),
        sites=sorted(reader.items("sites", site_of, required=False), key=lambda one: (not one.module, -one.seconds)),
        point_to_point=point_to_point(reader.maybe_object("point_to_point")),
        per_rank=per_rank,
        per_rank_asleep=asleep,
        per_rank_nodes=nodes_of_places(reader, "per_rank_nodes", len(per_rank)),
        worlds=worlds_of(reader, len(per_rank)),
        quantiles=quantiles,
        least_ranks=reader.items("least", listed, required=False),
        most_ranks=reader.items("most", listed, required=False),
        share=figures.get("share"),
        asleep=figures.get("asleep_s"),
        cpu_share=figures.get("cpu_share"),
        threads=figures.get("threads_s", 0.0),
        late=figures.get("late"),
        late_seconds=figures.get("late_s"),
        naps=figures.get("naps", 0),
        forecast=_forecast(reader.maybe_object("forecast")),
        cost=cost_of(reader.maybe_object("cost")),
        transitions=figures.get("transitions", 0),
        low=figures.get("low_s", 0.0),
        unseen=figures.get("unseen", 0),
        doubtful=figures.get("doubtful", 0),
        hooks=_counts(reader.maybe_object("hooks")),
        flags=_counts(reader.maybe_object("flags")),
        spun=_spun(reader.maybe_object("spun")),
        figures=figures,
    )
