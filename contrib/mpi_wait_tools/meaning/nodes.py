"""Which nodes hold the others up, from the ranks that the record names together with their nodes. Pure."""

from __future__ import annotations

from collections import Counter

from ..record.ends import RankWait
from ..record.record import Record, Wait
from ..text.units import plural, safe
from .worlds import are_apart

FEW = 4  # more nodes than this are no hint at any of them


def _least(wait: Wait) -> list[RankWait]:
    if wait.per_rank_nodes:
        return [RankWait(-1, *one) for one in zip(wait.per_rank, wait.per_rank_nodes) if one[1]]
    return [one for one in wait.least_ranks or [wait.least] if one.node]


def slow_nodes(record: Record) -> list[str]:
    """
    Nodes of which every rank that is known waits least: of all ranks that it lists, or of those that wait least and
    most, the record says where they ran. Of jobs of one program only. Empty where too few are known, where the least
    waiting ones are spread over many nodes, or where another rank of the same node waits like the others.
    """
    wait = record.wait
    if wait is None or record.nodes_of < 2 or wait.least.seconds > wait.most.seconds / 2:
        return []
    if not record.is_complete or are_apart(record):
        return []  # ranks of another node, or of the other program, may wait less
    threshold = (wait.least.seconds + wait.mean) / 2
    known = _least(wait)
    least = Counter(one.node for one in known if one.seconds <= threshold)
    names = list(least)
    waiting = {one.node for one in wait.most_ranks or [wait.most]}
    waiting |= {one.node for one in known if one.seconds > threshold}
    if wait.per_rank_nodes:  # nothing is a sample: a node with one quick rank takes nothing from the others
        names = [name for name in names if name not in waiting]
    alone = wait.ranks > record.nodes_of and any(least[name] < 2 for name in names)
    return [] if alone or len(names) > FEW or waiting.intersection(names) else names


def slow_nodes_line(record: Record) -> str:
    """ "c2 (4 ranks seen)", "" where no node stands out."""
    wait = record.wait
    names = slow_nodes(record)
    if wait is None or not names:
        return ""
    counts = {name: sum(one.node == name for one in _least(wait)) for name in names}
    parts = [f"{safe(name)} ({plural(number, 'rank')} seen)" for name, number in counts.items()]
    return ", ".join(parts) + ": all wait least, the others wait for them"
