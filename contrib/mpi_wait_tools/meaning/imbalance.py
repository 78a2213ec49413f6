"""Computes how unbalanced the ranks of a job are. Pure.

The rank that waits least computes longest, and the others wait for it: their waiting beyond that rank's is lost to the
imbalance. As a share of the ranks' time, the loss is the part by which the run would be shorter if the same work were
spread evenly. If the busiest rank does not wait at all, the share is 1 minus the load balance (mean over largest
compute time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..record.reader import NUMBER_MAX
from ..record.record import Record, Step
from ..record.wait import Wait
from .worlds import Group, are_apart, groups_in, steps_of_ranks, unseen_peers

NOTABLE = 0.05  # least share of the ranks' time for which a loss is worth a sentence
MANY = 100  # ranks: among more, a single busy one may be an accident
BUSY = 0.1  # part of the span from the least to the most waiting rank within which ranks count as busiest


@dataclass(frozen=True)
class Imbalance:
    """The imbalance of a job, a step or a group of ranks. None if the record does not tell.

    If lone, fewer than one rank in a hundred waits as little as the least. The loss is an upper bound then: it holds
    only if all others wait for these few.
    """

    ranks: int
    ratio: float | None  # the most waiting rank over the mean, 0 if no rank waits; also None for several worlds
    lost_s: float  # waiting beyond that of the least waiting rank of the same world, summed over ranks
    share: float | None  # lost_s over the ranks' time between MPI_Init and MPI_Finalize
    core_share: float | None  # lost_s over the job's core time, from its begin to its end
    lone: bool = False


def ranks_time(record: Record, step: Step | None = None) -> float | None:
    """Returns the seconds between MPI_Init and MPI_Finalize, summed over the ranks. For a step, its elapsed time stands
    in for them."""
    wait = record.wait
    if step is not None:
        return step.elapsed * step.ranks if step.elapsed and step.ranks else None
    if wait is None or not wait.share or wait.total <= 0:
        return None
    time = wait.total / wait.share
    return time if time <= NUMBER_MAX else None


ROUNDED_FROM = 0.01  # share below which its three decimals leave the time wrong by more than 5 percent


def ranks_time_in_sums(record: Record) -> float:
    """Returns the seconds of ranks_time(), for sums over jobs; 0 if no rank was seen, or if the record does not tell.

    The record's share of waiting is rounded, to 0 for ranks that hardly wait: the time of the steps stands in for these
    ranks, since a sum without them would be one of the jobs that wait.
    """
    wait, time = record.wait, ranks_time(record) or 0.0
    if wait is None or wait.share is None or wait.share >= ROUNDED_FROM:
        return time
    steps = steps_of_ranks(record)
    seen, known = sum(step.ranks for step in steps), [ranks_time(record, step) for step in steps]
    stood_in = sum(one for one in known if one is not None) if seen and None not in known else 0.0
    return max(wait.total, stood_in * max(1.0, wait.ranks / seen)) if stood_in else time


def is_busy(seconds: float, least: float, most: float) -> bool:
    """Returns True if a rank that waits that many seconds is among the busiest."""
    return seconds <= least + (most - least) * BUSY


def _is_lone(values: Sequence[float], ranks: int) -> bool:
    """Returns True if fewer than one rank in MANY is busy. values are the waits of all ranks, or their quantiles at
    equal distances from the least to the most."""
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
    own = time * min(1.0, ranks / seen) if time and seen else None  # the time of these ranks, who may be only some
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
    """Returns the imbalance of the job, of a step, or of a group of ranks.

    Ranks are compared within their own world, and the losses of the worlds are summed. None if no rank was seen, if the
    step's ranks are not known, if no two ranks can be compared, or if a node, or a rank of the same world, is missing:
    the busiest rank may be there.
    """
    wait = record.wait
    if wait is None or not record.is_complete or (group.unseen if group is not None else unseen_peers(record, step)):
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


WHOLE_FROM = 0.2  # waiting as a part of the run: from here on bars show the whole run, below only the waiting


@dataclass(frozen=True)
class Scale:
    """The scale of a chart of waiting."""

    top: float  # seconds that fill the whole room
    run: float = 0.0  # seconds that one rank ran, 0 if the run is not shown


def scale_of(record: Record, step: Step | None, number: int, most: float) -> Scale:
    """Returns the scale for a number of ranks of which the longest waits `most` seconds: the whole run, if the waiting
    is a visible part of it, else the waiting."""
    time = ranks_time(record, step)
    run = time / number if time and number else 0.0
    return Scale(max(run, most), run) if run > 0 and most >= WHOLE_FROM * run else Scale(most)
