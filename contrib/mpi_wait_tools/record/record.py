"""Reads the accounting record (spank/record/record.schema.json) out of text that anybody may have written.

The numbers under "wait" are the ranks' own claim and the text may be cut, merged or forged, so
nothing is believed: every value is checked for its type and range here, and the rest of the program
meets only the classes below. Keys that are not known are passed over: within one version they may
be added.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ..text.errors import Refusal
from .cost import Cost, Saved, cost_of, saved_of
from .csv_files import CsvFiles, csv_files
from .ends import STEP, RankWait, listed, rank_wait
from .meters import Gpus, Meter, gpus_of, meter_of
from .missed import Missed, missed_of
from .phases import Phase, phases_of
from .places import nodes_of_places
from .profiled import CALL, PointToPoint, ProfiledCall, point_to_point, profiled_calls
from .reader import NUMBER_MAX, SECONDS_MAX, Reader, damaged, number_of
from .sites import Site, site_of
from .worlds import World, worlds_of

VERSION = 1
COUNTS_MAX = 32
POWER_MAX = 64
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


@dataclass(frozen=True)
class Policy:
    asked: str
    used: str
    why: str
    by: str


@dataclass(frozen=True)
class Energy:
    joules: float
    scope: str
    source: str
    zones: dict[str, float]
    node_joules: float | None
    nodes: int | None
    gaps: int
    lacks_gpus: bool  # the job's nodes have some, and the energy of some or all of these was not read
    mirrored: int  # zones that show the counter of another die, and are in no sum
    dropped: list[str]
    power: list[float | None]  # watts in equal parts of the job's time, None: not known; empty: not sampled
    gpu_joules: float | None  # of the job's GPUs that were counted; not in joules, unless scope is gpus
    gpus: Gpus | None  # None: Slurm gave the job none
    meters: list[Meter]  # other sources, of whole nodes
    saved: Saved | None = None  # by sleeping, as measured; None: not known
    saved_why: str = ""  # why that is not known

    @property
    def has_gpus(self) -> bool:
        """Whether the job's nodes have some, so that joules is not all that whole nodes used."""
        return self.lacks_gpus or self.gpus is not None


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
    """Waits that were slept through until shortly before the message came, and how late the ranks might have been."""

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
    phases: list[Phase]  # under profile, where the program names them
    sites: list[Site]  # under sites, most waiting first
    point_to_point: PointToPoint | None  # under profile, of steps of several nodes
    per_rank: list[float]
    per_rank_asleep: list[float]
    per_rank_nodes: list[str]  # empty where it is not said
    worlds: list[World]  # in the order of these lists; empty where each step has one
    quantiles: list[float]
    least_ranks: list[RankWait]  # the ends of the order, where there is no list of all ranks; least and most first
    most_ranks: list[RankWait]
    share: float | None
    asleep: float | None
    cpu_share: float | None
    threads: float  # CPU time of the ranks' other threads in long waits
    late: int | None
    late_seconds: float | None
    naps: int
    forecast: Forecast | None
    cost: Cost | None  # of sleeping; None: nothing was compared
    transitions: int
    low: float
    unseen: int
    doubtful: int
    hooks: dict[str, int]
    flags: dict[str, int]
    spun: list[Spun]
    figures: dict[str, Any]  # all that are plain, by their names in the record


@dataclass(frozen=True)
class NodeUse:
    """What root read on one node; None: it could not."""

    name: str
    joules: float | None
    slowed: int | None  # how often its processors had to slow down


@dataclass(frozen=True)
class Grant:
    """Whose frequency the tasks had a say in, counted by root."""

    mode: str
    cores: int
    refused: dict[str, int]


@dataclass(frozen=True)
class Step:
    id: str
    ranks: int
    wait: float
    policy: Policy | None
    nodes: int | None
    elapsed: float | None
    joules: float | None


@dataclass(frozen=True)
class StepsRest:
    """The sum of steps that are in the record's figures, but had no room as steps."""

    steps: int
    ranks: int
    wait: float


@dataclass(frozen=True)
class Record:
    policy: Policy
    nodes_reported: int
    nodes_of: int
    nodes_why: str
    elapsed: float
    energy: Energy | None
    energy_why: str
    grant: Grant | None
    csv: CsvFiles | None
    missed: Missed
    by_node: list[NodeUse]  # of jobs on some, but not many nodes
    throttled_most: str  # the node that was slowed down most, "" if none was
    wait: Wait | None
    steps: list[Step]
    steps_left_out: int
    steps_summed: int
    steps_rest: StepsRest | None
    raw: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every node reported. Who is the busiest rank, or what the job used, is not known otherwise."""
        return self.nodes_reported >= self.nodes_of


def _policy(reader: Reader) -> Policy:
    by = reader.text("by")
    if by not in ("", "job", "step", "site"):
        raise damaged(reader.path("by"), "is not one of the possible values")
    return Policy(reader.text("asked", _NAME), reader.text("used", _NAME), reader.text("why"), by)


def _dropped(value: Any, where: str) -> str:
    zone = Reader(value, where)
    return f"{zone.text('zone')} of {zone.text('node')} {zone.text('why')}"


def _watts(value: Any, where: str) -> float | None:
    return None if value is None else number_of(value, where, NUMBER_MAX)


def _part(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise damaged(where, "is not a text")
    return value


def _energy(reader: Reader) -> Energy:
    power = reader.items("power_w", _watts, required=False)
    if len(power) > POWER_MAX:
        raise damaged(reader.path("power_w"), "is not a list of possible length")
    zones = reader.object("zones_j")
    return Energy(
        joules=reader.number("joules"),
        scope=reader.text("scope", re.compile("node|share|gpus")),
        source=reader.text("source", re.compile("rapl|hwmon|cray|mixed|simulated|nvml|rsmi")),
        zones={
            name: zones.number(name)
            for name in ("package", "core", "uncore", "dram", "psys")
            if name in zones.value
        },
        node_joules=reader.maybe_number("node_joules"),
        nodes=reader.maybe_integer("nodes"),
        gaps=reader.maybe_integer("gaps") or 0,
        lacks_gpus="gpus" in reader.items("not_counted", _part, required=False),
        mirrored=reader.maybe_integer("mirrored") or 0,
        dropped=reader.items("dropped", _dropped, required=False),
        power=power,
        gpu_joules=reader.maybe_number("gpu_joules"),
        gpus=gpus_of(reader.maybe_object("gpus")),
        meters=reader.items("meters", meter_of, required=False),
        saved=saved_of(reader.maybe_object("saved")),
        saved_why=reader.text("saved_why") if "saved_why" in reader.value else "",
    )


def _node_use(value: Any, where: str) -> NodeUse:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[0], str):
        raise damaged(where, "is not a node with two figures")
    joules, slowed = (None if figure is None else number_of(figure, where, NUMBER_MAX) for figure in value[1:])
    return NodeUse(value[0], joules, None if slowed is None else int(slowed))


def _grant(reader: Reader) -> Grant:
    refused = reader.maybe_object("refused")
    return Grant(
        mode=reader.text("mode", re.compile("lease|file")),
        cores=reader.integer("cores"),
        refused={why: refused.integer(why) for why in refused.value} if refused else {},
    )


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
    if len(reader.value) > COUNTS_MAX or not all(map(_NAME.fullmatch, reader.value)):
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


def _wait(reader: Reader) -> Wait:
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


def _step(value: Any, where: str) -> Step:
    reader = Reader(value, where)
    policy = reader.maybe_object("policy")
    return Step(
        id=reader.text("id", STEP),
        ranks=reader.integer("ranks"),
        wait=reader.number("wait_s", SECONDS_MAX),
        policy=_policy(policy) if policy else None,
        nodes=reader.maybe_integer("nodes"),
        elapsed=reader.maybe_number("elapsed_s", SECONDS_MAX),
        joules=reader.maybe_number("joules"),
    )


def _steps_rest(reader: Reader) -> StepsRest:
    return StepsRest(reader.integer("steps", 1), reader.integer("ranks"), reader.number("wait_s", SECONDS_MAX))


def parse_record(body: Any) -> Record:
    """Reads the value of "mpi_wait". Raises Refusal where this release does not understand it."""
    reader = Reader(body, "mpi_wait")
    version = reader.integer("v")
    if version != VERSION:
        raise Refusal(
            f"the record has version {version}, this mpi-wait reads version {VERSION}: "
            "use the mpi-wait of the release that the cluster runs"
        )
    throttle, rest = reader.maybe_object("throttle"), reader.maybe_object("steps_rest")
    nodes, energy, grant, wait = (
        reader.object("nodes"),
        reader.maybe_object("energy"),
        reader.maybe_object("grant"),
        reader.maybe_object("wait"),
    )
    return Record(
        policy=_policy(reader.object("policy")),
        nodes_reported=nodes.integer("reported", 1),
        nodes_of=nodes.integer("of", 1),
        nodes_why=nodes.text("why"),
        elapsed=reader.number("elapsed_s", SECONDS_MAX),
        energy=_energy(energy) if energy else None,
        energy_why=reader.text("energy_why"),
        grant=_grant(grant) if grant else None,
        csv=csv_files(reader.maybe_object("csv")),
        missed=missed_of(reader.maybe_object("missed")),
        by_node=reader.items("by_node", _node_use, required=False),
        throttled_most=throttle.text("most") if throttle else "",
        wait=_wait(wait) if wait else None,
        steps=reader.items("steps", _step),
        steps_left_out=reader.maybe_integer("steps_left_out") or 0,
        steps_summed=reader.maybe_integer("steps_summed") or 0,
        steps_rest=_steps_rest(rest) if rest else None,
        raw=body,
    )


def no_record(elapsed: float, nodes: int) -> Record:
    """Stands for the record of a job that left none."""
    return Record(
        policy=Policy("none", "none", "", ""),
        nodes_reported=nodes,
        nodes_of=nodes,
        nodes_why="",
        elapsed=elapsed,
        energy=None,
        energy_why="",
        grant=None,
        by_node=[],
        throttled_most="",
        wait=None,
        steps=[],
        steps_left_out=0,
        steps_summed=0,
        steps_rest=None,
        csv=None,
        missed=Missed({}),
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def find_body(text: str) -> Any:
    """
    The value of "mpi_wait" in text: an object of ours, one that other tools' keys were merged into,
    or one in the middle of other text. None where the text does not mention us. Raises Refusal
    where what stands there is broken.
    """
    if '"mpi_wait"' not in text:
        return None
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    starts = [0] + [match.start() for match in re.finditer(r'\{\s*"mpi_wait"', text)][:8]
    why = "it is no JSON object"
    for start in starts:
        try:
            value, _ = decoder.raw_decode(text[start:].lstrip())
        except (ValueError, RecursionError) as error:
            why = (
                "it is nested too deeply"
                if isinstance(error, RecursionError)
                else str(error).split(":")[0]
            )
            continue
        if isinstance(value, dict) and "mpi_wait" in value:
            return value["mpi_wait"]
    size = len(text.encode("utf-8", "replace"))
    cut = ", cut where the field ends" if size >= 65_535 else ""
    raise Refusal(f"the record is damaged ({why} in {size} bytes{cut})")
