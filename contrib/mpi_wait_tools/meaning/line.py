"""Holds the figures of one job in a line, for lists of jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..record.energy import Saved
from ..record.record import Record
from ..record.wait import Cost
from .advice import Ending
from .cost import saving_of
from .imbalance import imbalance_of
from .reading import energy_of, gpus_tail, kinds_of
from .rows import JobUse, Run, use_of


@dataclass(frozen=True)
class Line:
    """The figures of one job; None if not known or not worth a word."""

    job: str
    name: str
    user: str
    state: str
    elapsed_s: float | None
    policy: str = ""
    wait: float | None = None  # waiting as a share of the ranks' time
    asleep: float | None = None  # time asleep as a share of the waiting
    lost: float | None = None  # loss to the imbalance as a share of the ranks' time
    cost: Cost | None = None  # measured cost of sleeping, None also if too little was seen to tell
    saved: Saved | None = None  # measured saving of sleeping
    joules: float | None = None
    energy_of: str = ""  # the parts of the node that joules counts
    simulated: bool = False
    why: str = ""  # a remark on the record, or the reason why there is none; "" for neither
    submit: str = ""  # sacct's Submit, which identifies the job: another job may have the same number
    may_come: bool = False  # the job has no record yet, but one may still come
    raw: str = ""  # sacct's JobIDRaw, by which a task of an array may be asked for
    ranks: int | None = None
    use: JobUse | None = None  # the record's figures for sums, None without a record


def of_record(record: Record, ending: Ending) -> dict[str, Any]:
    """Returns the fields of Line that come from a record. `lost` is None if the job did not run to its end, or if nodes
    are missing."""
    wait, energy = record.wait, record.energy
    imbalance = imbalance_of(record) if not ending.is_broken else None
    simulated = energy is not None and energy.source == "simulated"
    missing = gpus_tail(energy) if energy is not None else ""
    why = [] if record.is_complete else [f"{record.nodes_reported} of {record.nodes_of} nodes"]
    return {
        "policy": record.policy.used,
        "ranks": wait.ranks if wait else None,
        "use": use_of(record, {}, Run(state=ending.state)),
        "wait": wait.share if wait else None,
        "asleep": min(1.0, wait.asleep / wait.total) if wait and wait.asleep is not None and wait.total > 0 else None,
        "cost": wait.cost if wait is not None and wait.cost is not None and wait.cost.is_known else None,
        "saved": saving_of(record),
        "lost": imbalance.share if imbalance is not None and not imbalance.lone else None,
        "joules": energy.joules if energy else None,
        "energy_of": energy_of(record),
        "simulated": simulated,
        "why": ", ".join(why + [missing] * bool(missing) + [SIMULATED] * simulated),
    }


SIMULATED = "simulated"


def without_simulated(lines: Sequence[Line]) -> list[Line]:
    """Returns lines that do not say of themselves that their energy is simulated."""
    return [replace(line, why=", ".join(part for part in line.why.split(", ") if part != SIMULATED)) for line in lines]


def with_parts(lines: list[Line]) -> list[Line]:
    """Returns lines. If their energies are not all of the same parts, each line names the parts of its own."""
    if len(kinds_of(line.energy_of for line in lines)) < 2:
        return lines
    named = [(line, f"energy of {line.energy_of}") for line in lines]
    return [replace(line, why=", ".join(filter(None, (line.why, words)))) if line.energy_of else line
            for line, words in named]
