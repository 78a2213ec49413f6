"""A record's phases: the waits by what the program says by MPI_Pcontrol. Checked like all of the record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .ends import RankWait, rank_wait
from .reader import Reader, damaged

PHASES_MAX = 18
NONE, OTHER = "none", "other"
_PHASE = re.compile(r"[1-9][0-9]{0,9}|none|other")


@dataclass(frozen=True)
class Phase:
    name: str  # its number; or what was in none, or in all others
    time: float  # summed over ranks, as are its waits
    waits: int
    seconds: float
    most: RankWait | None

    @property
    def is_named(self) -> bool:
        return self.name not in (NONE, OTHER)


def _phase(name: str, reader: Reader) -> Phase:
    figures, most = reader.figures("phase"), reader.maybe_object("max")
    return Phase(name, figures["time_s"], figures["waits"], figures["wait_s"], rank_wait(most) if most else None)


def phases_of(reader: Reader | None) -> list[Phase]:
    """Most waiting first; what is no phase of its own at the end."""
    if reader is None:
        return []
    if len(reader.value) > PHASES_MAX or not all(map(_PHASE.fullmatch, reader.value)):
        raise damaged(reader.where, "has names that are no phases")
    phases = [_phase(name, reader.object(name)) for name in reader.value]
    return sorted(phases, key=lambda phase: (not phase.is_named, -phase.seconds, phase.name))
