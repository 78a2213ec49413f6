"""One rank and its wait, where a record names single ones. Checked like all of the record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .reader import SECONDS_MAX, Reader

STEP = re.compile(r"batch|extern|interactive|[0-9]{1,10}")


@dataclass(frozen=True)
class RankWait:
    rank: int
    seconds: float
    node: str
    step: str = ""  # where several steps ran MPI


def rank_wait(reader: Reader) -> RankWait:
    step = reader.text("step", STEP) if "step" in reader.value else ""
    return RankWait(reader.integer("rank", -1), reader.number("s", SECONDS_MAX), reader.text("node"), step)


def listed(value: Any, where: str) -> RankWait:
    return rank_wait(Reader(value, where))
