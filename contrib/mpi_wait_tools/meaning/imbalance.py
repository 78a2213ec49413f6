"""How unbalanced the ranks of a job are, as numbers. Pure.

A rank that waits least computes longest, and the others wait for it: what they wait more than it does is lost to the
imbalance. As a share of the ranks' time this is how much shorter the run could be with the same work spread evenly;
where the busiest rank does not wait at all, it is 1 minus the load balance, mean over largest compute time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..record.reader import NUMBER_MAX
from ..record.record import Record, Step
from ..record.wait import Wait
from .worlds import Group, are_apart, groups_in, steps_of_ranks

NOTABLE = 0.05  # share of the ranks' time from which on a loss is worth a sentence
MANY = 100  # ranks, from which on a single one may be an accident
BUSY = 0.1  # of the span from the least to the most waiting rank, within which ranks count as busiest


@dataclass(frozen=True)
class Imbalance:
    """
    ratio: the most waiting rank over the mean, 0 where nobody waits, None of several worlds. lost_s: what the ranks
    wait more than the one of their world that waits least, summed. share: of the ranks' time between Init and Finalize;
    core_share: of the job's core time, from its begin to its end. None where the record does not tell. lone: fewer than
    one rank in a hundred wait so little: that is an upper bound then, which holds only if all others wait for these.
    """

    ranks: int
    ratio: float | None
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


def _of_groups(record: Record, step: Step | None, wait: Wait, groups: Sequence[Group]) -> Imbalance | None:
    """Compares listed ranks within their groups. None if no two of them can be compared."""
    waits = [wait.per_rank[group.start : group.start + group.ranks] for group in groups if group.is_known]
    if len(groups) > 1 and wait.worlds and all(len(own) < 2 for own in waits) or not waits:
        return None
    lost = sum(sum(own) - len(own) * min(own) for own in waits)
    values = [value for own in waits for value in own]
    ranks, total = sum(group.ranks for group in groups), sum(values)
    is_one = len(groups) == 1
    ratio = min(float(ranks), max(values) * ranks / total) if total > 0 else 0.0
    return _imbalance(record, step, ranks, ratio if is_one or not wait.worlds else None, lost,
                      is_one and _is_lone(values, ranks))


def _imbalance(record: Record, step: Step | None, ranks: int, ratio: float | None, lost: float,
               lone: bool) -> Imbalance:
    wait, time = record.wait, ranks_time(record, step)
    seen = step.ranks if step is not None else wait.ranks if wait is not None else ranks
    own = time * min(1.0, ranks / seen) if time and seen else None  # of these ranks, if they are not all
    whole = record.elapsed * ranks if len(steps_of_ranks(record)) == 1 and ranks == seen and step is None else 0.0
    return Imbalance(
        ranks=ranks,
        ratio=ratio,
        lost_s=lost,
        share=min(1.0, lost / own) if own else None,
        core_share=min(1.0, lost / whole) if whole > 0 and ratio is not None else None,
        lone=lone,
    )


def imbalance_of(record: Record, step: Step | None = None, group: Group | None = None) -> Imbalance | None:
    """
    Of the job, of one of its steps, or of a group of these: ranks are held against those of their own world, and what
    worlds lose is added up. None where no rank was seen, where the step's ranks are not known, where no two ranks can
    be compared, and where nodes did not report: the busiest rank may be on one of these.
    """
    wait = record.wait
    if wait is None or not record.is_complete:
        return None
    if group is not None:
        return _of_groups(record, step, wait, [group])
    if wait.per_rank:
        groups = groups_in(record, step if len(steps_of_ranks(record)) > 1 or wait.worlds else None)
        return _of_groups(record, step, wait, groups)
    if are_apart(record) and wait.worlds or (step is not None and len(steps_of_ranks(record)) > 1):
        return None
    ranks, total = wait.ranks, wait.total
    ratio = min(float(ranks), wait.most.seconds * ranks / total) if total > 0 else 0.0
    lost = max(0.0, total - ranks * wait.least.seconds)
    return _imbalance(record, step, ranks, ratio, lost, _is_lone(wait.quantiles, ranks))


WHOLE_FROM = 0.2  # of the run: from there on a bar shows the whole of it, below only the waiting


@dataclass(frozen=True)
class Scale:
    """What the bars are drawn to: top seconds are the whole room, and run of them one rank's run, 0 if not shown."""

    top: float
    run: float = 0.0


def scale_of(record: Record, step: Step | None, number: int, most: float) -> Scale:
    """number: of ranks. The whole run where the waiting is a visible part of it."""
    time = ranks_time(record, step)
    run = time / number if time and number else 0.0
    return Scale(max(run, most), run) if run > 0 and most >= WHOLE_FROM * run else Scale(most)
