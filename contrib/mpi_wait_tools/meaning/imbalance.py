"""How unbalanced the ranks of a job are, as numbers. Pure.

A rank that waits least computes longest, and the others wait for it: what they wait more than it does is lost to the
imbalance. As a share of the ranks' time this is how much shorter the run could be with the same work spread evenly;
where the busiest rank does not wait at all, it is 1 minus the load balance, mean over largest compute time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..record.reader import NUMBER_MAX
from ..record.record import Record, Step, Wait

NOTABLE = 0.05  # share of the ranks' time from which on a loss is worth a sentence
MANY = 100  # ranks, from which on a single one may be an accident
BUSY = 0.1  # of the span from the least to the most waiting rank, within which ranks count as busiest


@dataclass(frozen=True)
class Imbalance:
    """
    ratio: the most waiting rank over the mean, 0 where nobody waits. lost_s: what the ranks wait more than the one that
    waits least, summed. share: of the ranks' time between Init and Finalize; core_share: of the job's core time, from
    its begin to its end. None where the record does not tell. lone: fewer than one rank in a hundred wait so little:
    that is an upper bound then, which holds only if all others wait for these.
    """

    ranks: int
    ratio: float
    lost_s: float
    share: float | None
    core_share: float | None
    lone: bool = False


def ranks_time(record: Record, step: Step | None = None) -> float | None:
    """Seconds between Init and Finalize, summed over the ranks; of a step its elapsed time stands for it."""
    wait = record.wait
    if step is not None:
        return step.elapsed * step.ranks if step.elapsed and step.ranks else None
    if wait is None or not wait.share or wait.total <= 0:
        return None
    time = wait.total / wait.share
    return time if time <= NUMBER_MAX else None


def steps_of_ranks(record: Record) -> list[Step]:
    """Those in which MPI ranks were seen."""
    return [step for step in record.steps if step.ranks > 0]


def _groups(wait: Wait, steps: Sequence[Step]) -> list[list[float]]:
    """The ranks' waits by step; one group where they cannot be told apart."""
    groups, start = [], 0
    for step in steps:
        groups.append(wait.per_rank[start : start + step.ranks])
        start += step.ranks
    return [group for group in groups if group] if start == len(wait.per_rank) else [wait.per_rank]


def is_busy(seconds: float, least: float, most: float) -> bool:
    """Whether a rank that waits so long is among the busiest."""
    return seconds <= least + (most - least) * BUSY


def _is_lone(values: Sequence[float], ranks: int) -> bool:
    """values: of all ranks, or quantiles at equal distances from the least to the most."""
    if ranks <= MANY or len(values) < 2:
        return False
    least, most = min(values), max(values)
    busy = sum(is_busy(value, least, most) for value in values)
    return busy * MANY < ranks if len(values) == ranks else busy < 2


def imbalance_of(record: Record, step: Step | None = None) -> Imbalance | None:
    """
    Of the job, or of one of its steps. None where no rank was seen, where the step's ranks are not known, and where
    nodes did not report: the busiest rank may be on one of these.
    """
    wait = record.wait
    if wait is None or not record.is_complete:
        return None
    ran = steps_of_ranks(record)
    groups = _groups(wait, ran) if wait.per_rank else []
    if step is not None and len(ran) > 1:
        if len(groups) != len(ran) or step not in ran:
            return None
        groups = [groups[ran.index(step)]]
    if groups:
        values = [value for group in groups for value in group]
        lost = sum(sum(group) - len(group) * min(group) for group in groups)
        ranks, total, most = len(values), sum(values), max(values)
        lone = len(groups) == 1 and _is_lone(values, ranks)
    else:
        ranks, total, most = wait.ranks, wait.total, wait.most.seconds
        lost = max(0.0, total - ranks * wait.least.seconds)
        lone = _is_lone(wait.quantiles, ranks)
    time = ranks_time(record, step)
    whole = record.elapsed * ranks if len(ran) == 1 and step is None else 0.0
    return Imbalance(
        ranks=ranks,
        ratio=min(float(ranks), most * ranks / total) if total > 0 else 0.0,
        lost_s=lost,
        share=min(1.0, lost / time) if time else None,
        core_share=min(1.0, lost / whole) if whole > 0 else None,
        lone=lone,
    )
