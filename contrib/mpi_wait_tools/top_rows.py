"""What jobs waited, summed up: by job, account, user, partition or policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .imbalance import imbalance_of, ranks_time
from .power import saving_of
from .record import Record

GROUPS = ("job", "account", "user", "partition", "policy")


@dataclass(frozen=True)
class JobUse:
    """
    What one job used, and what of it went into waiting. waiting_j: by the record's model if it has one; else estimated,
    by the share of their time that the ranks waited, as if one that waits drew as much as one that computes. None: not
    known.
    """

    names: dict[str, str]  # by group
    joules: float | None
    waiting_j: float | None
    estimated: bool
    wait_s: float
    ranks_s: float  # the ranks' time
    lost_s: float
    simulated: bool


@dataclass
class Row:
    name: str
    jobs: int = 0
    joules: float = 0.0
    waiting_j: float = 0.0
    wait_s: float = 0.0
    ranks_s: float = 0.0
    lost_s: float = 0.0
    estimated: bool = False
    simulated: bool = False
    unknown: int = 0  # jobs without a figure of energy
    labels: dict[str, str] = field(default_factory=dict)

    def add(self, use: JobUse) -> None:
        self.jobs += 1
        self.joules += use.joules or 0.0
        self.waiting_j += use.waiting_j or 0.0
        self.wait_s += use.wait_s
        self.ranks_s += use.ranks_s
        self.lost_s += use.lost_s
        self.estimated |= use.estimated
        self.simulated |= use.simulated
        self.unknown += use.joules is None


def use_of(record: Record, names: dict[str, str]) -> JobUse:
    wait, energy, saving = record.wait, record.energy, saving_of(record)
    joules = energy.joules if energy else None
    waiting, estimated = None, False
    if saving is not None and saving.waiting is not None:
        waiting = max(0.0, saving.waiting.value)
    elif joules is not None and wait is not None and wait.share is not None:
        waiting, estimated = joules * wait.share, True
    imbalance = imbalance_of(record)
    return JobUse(
        names={**names, "policy": record.policy.used},
        joules=joules,
        waiting_j=waiting,
        estimated=estimated,
        wait_s=wait.total if wait else 0.0,
        ranks_s=ranks_time(record) or 0.0,
        lost_s=imbalance.lost_s if imbalance else 0.0,
        simulated=energy is not None and energy.source == "simulated",
    )


def rows_of(uses: Iterable[JobUse], group: str) -> list[Row]:
    """The most joules spent waiting first; without energy, the longest waiting first."""
    rows: dict[str, Row] = {}
    for use in uses:
        name = use.names[group]
        row = rows.setdefault(name, Row(name, labels=use.names))
        row.add(use)
    return sorted(rows.values(), key=lambda row: (-row.waiting_j, -row.wait_s, row.name))
