"""The energy in a record: of processors and memory, of GPUs, by other counters, and the saving of sleeping. The saving
compares the power in looks with the power beside them, and allows for the cost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .reader import NUMBER_MAX, Reader, damaged, number_of


@dataclass(frozen=True)
class Gpu:
    node: str
    number: int
    name: str
    joules: float


@dataclass(frozen=True)
class Gpus:
    given: int  # number of GPUs that Slurm gave the job, 0 if its list does not have numbers
    counted: int
    present: int  # number of GPUs in the nodes on which the job was given some
    source: str
    why: str  # why some were not counted
    devices: list[Gpu]  # the GPUs that count, as far as the record has them


def _gpu(value: Any, where: str) -> Gpu:
    reader = Reader(value, where)
    return Gpu(reader.text("node"), reader.integer("number"), reader.text("name"), reader.number("joules"))


@dataclass(frozen=True)
class Meter:
    source: str
    scope: str  # "node" for the whole board, or a part of it: "cpu", "memory", "gpu"
    joules: float
    nodes: int


def meter_of(value: Any, where: str) -> Meter:
    reader = Reader(value, where)
    return Meter(reader.text("source"), reader.text("scope"), reader.number("joules"), reader.integer("nodes"))


def gpus_of(reader: Reader | None) -> Gpus | None:
    if reader is None:
        return None
    return Gpus(
        given=reader.integer("given"),
        counted=reader.integer("counted"),
        present=reader.integer("present"),
        source=reader.text("source", re.compile("nvml|rsmi|intel|mixed|simulated")),
        why=reader.text("why"),
        devices=reader.items("devices", _gpu, required=False),
    )


@dataclass(frozen=True)
class Saved:
    """The measured saving of sleeping. record_fields.def says how it is computed."""

    percent: float  # saving in percent of the energy of a period in which no rank sleeps
    error: float  # half of the width of the 95 % interval of percent
    looks: int
    look_w: float = 0.0  # mean power in looks, summed over nodes
    beside_w: float = 0.0  # mean power just before and after looks, summed over nodes
    at_least: bool = False  # more was saved than percent says
    nodes: int | None = None  # number of nodes whose saving is known, None for all that reported

    @property
    def is_seen(self) -> bool:
        """Returns True if the interval does not hold 0."""
        return abs(self.percent) > self.error


def saved_of(reader: Reader | None) -> Saved | None:
    if reader is None:
        return None
    figures = reader.figures("saved")
    return Saved(figures["percent"], figures["error"], figures["looks"], figures["look_w"], figures["beside_w"],
                 reader.value.get("at_least") is True, figures.get("nodes"))


POWER_MAX = 64


@dataclass(frozen=True)
class Energy:
    joules: float
    scope: str
    source: str
    zones: dict[str, float]
    node_joules: float | None
    nodes: int | None
    gaps: int
    lacks_gpus: bool  # the energy of some or all of the nodes' GPUs was not read
    mirrored: int  # number of zones that show the counter of another die; they are in no sum
    dropped: list[str]
    power: list[float | None]  # mean watts in equal parts of the job's time, None if not known; empty if not sampled
    gpu_joules: float | None  # energy of the job's GPUs that were counted; not in joules, unless scope is "gpus"
    gpus: Gpus | None  # None if Slurm gave the job no GPU
    meters: list[Meter]  # energy of whole nodes by other sources
    saved: Saved | None = None  # measured saving of sleeping, None if not known
    saved_why: str = ""  # why the saving is not known

    @property
    def has_gpus(self) -> bool:
        """Returns True if the job's nodes have GPUs, so that joules is not all that whole nodes used."""
        return self.lacks_gpus or self.gpus is not None


def _dropped(value: Any, where: str) -> str:
    zone = Reader(value, where)
    return f"{zone.text('zone')} of {zone.text('node')} {zone.text('why')}"


def _watts(value: Any, where: str) -> float | None:
    return None if value is None else number_of(value, where, NUMBER_MAX)


def _part(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise damaged(where, "is not a text")
    return value


def read_energy(reader: Reader) -> Energy:
    power = reader.items("power_w", _watts, required=False)
    if len(power) > POWER_MAX:
        raise damaged(reader.path("power_w"), "is not a list of possible length")
    zones = reader.object("zones_j")
    return Energy(
        joules=reader.number("joules"),
        scope=reader.text("scope", re.compile("node|share|gpus")),
        source=reader.text("source", re.compile("rapl|hwmon|cray|mixed|simulated|nvml|rsmi|intel")),
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
