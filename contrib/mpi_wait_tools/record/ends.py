"""One rank and its wait, where a record names single ones. Checked like all of the record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .reader import Reader

STEP = re.compile(r"batch|extern|interactive|[0-9]{1,10}")


@dataclass(frozen=True)
class RankWait:
    rank: int
    seconds: float
    node: str
    step: str = ""  # where several steps ran MPI
    world: int = 0  # which of the record's worlds, from 1; 0: it does not tell them
    task: int = -1  # Slurm's, where it goes by that


def rank_wait(reader: Reader) -> RankWait:
    step = reader.text("step", STEP) if "step" in reader.value else ""
    figures = reader.figures("rank_wait")
    return RankWait(reader.integer("rank", -1), figures["s"], reader.text("node"), step, figures.get("world", 0),
                    figures.get("task", -1))


def listed(value: Any, where: str) -> RankWait:
    return rank_wait(Reader(value, where))
