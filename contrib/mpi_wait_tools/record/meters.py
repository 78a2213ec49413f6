"""The job's graphics processors in a record, and sources of energy beside the one of its joules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .reader import Reader


@dataclass(frozen=True)
class Gpu:
    node: str
    number: int
    name: str
    joules: float


@dataclass(frozen=True)
class Gpus:
    given: int  # 0: Slurm's list of them is not one of numbers
    counted: int
    present: int  # on the nodes on which the job was given some
    source: str
    why: str  # why some were not counted
    devices: list[Gpu]  # those that count, as far as the record has them


def _gpu(value: Any, where: str) -> Gpu:
    reader = Reader(value, where)
    return Gpu(reader.text("node"), reader.integer("number"), reader.text("name"), reader.number("joules"))


@dataclass(frozen=True)
class Meter:
    source: str
    scope: str  # node: the whole board; cpu, memory, gpu: these of it
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
        source=reader.text("source", re.compile("nvml|rsmi|mixed|simulated")),
        why=reader.text("why"),
        devices=reader.items("devices", _gpu, required=False),
    )
