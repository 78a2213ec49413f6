"""Compares the nodes of a job: finds those that hold the others up, and those that stand out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ..record.record import NodeUse, Record, Step
from ..record.wait import RankWait, Wait
from ..text.units import count, percent, plural, safe, scaled
from .imbalance import NOTABLE, ranks_time
from .reading import Rank, ranks_of
from .worlds import are_apart, unseen_peers

FEW = 4  # if more nodes than this look slow, none of them is named


def _least(wait: Wait) -> list[RankWait]:
    if wait.per_rank_nodes:
        return [RankWait(-1, *one) for one in zip(wait.per_rank, wait.per_rank_nodes) if one[1]]
    return [one for one in wait.least_ranks or [wait.least] if one.node]


def slow_nodes(record: Record) -> list[str]:
    """Returns the nodes all of whose known ranks wait least.

    The record names the node of every rank that it lists, or only of those that wait least and most. Returns [] for
    jobs of several programs, if too few ranks are known, if the least waiting ranks are spread over many nodes, or if
    another rank of the same node waits like the rest.
    """
    wait = record.wait
    if wait is None or record.nodes_of < 2 or wait.least.seconds > wait.most.seconds / 2:
        return []
    if not record.is_complete or are_apart(record) or unseen_peers(record):
        return []  # ranks of another node, of the other program, or that were not seen may wait less
    threshold = (wait.least.seconds + wait.mean) / 2
    known = _least(wait)
    least = Counter(one.node for one in known if one.seconds <= threshold)
    names = list(least)
    waiting = {one.node for one in wait.most_ranks or [wait.most]}
    waiting |= {one.node for one in known if one.seconds > threshold}
    if wait.per_rank_nodes:  # all ranks are known: a node with both kinds of ranks does not clear the other nodes
        names = [name for name in names if name not in waiting]
    alone = wait.ranks > record.nodes_of and any(least[name] < 2 for name in names)
    return [] if alone or len(names) > FEW or waiting.intersection(names) else names


def slow_nodes_line(record: Record) -> str:
    """Returns a line on the slow nodes: "c2 (4 ranks seen): ..."; "" if there are none."""
    wait = record.wait
    names = slow_nodes(record)
    if wait is None or not names:
        return ""
    counts = {name: sum(one.node == name for one in _least(wait)) for name in names}
    parts = [f"{safe(name)} ({plural(number, 'rank')} seen)" for name, number in counts.items()]
    return ", ".join(parts) + ": all wait least, the others wait for them"


NODES_MIN = 4  # a reader compares fewer nodes at a glance
SPREADS = 5.0  # standard deviations from the median at which a value stands out
DEVIATION = 1.4826  # median absolute deviations per standard deviation, for normally distributed values
FIGURES_MEAN = (
    "waiting, least, most: of the run, the mean of the node's ranks, its least and its most waiting one; "
    "asleep: of the waiting."
)
POWER_MEANS = "power: the job's, on average."
SLOWED_MEANS = "slowed: how often by heat or a limit."
MARK_MEANS = (
    f"stands out from the nodes' median, by {SPREADS:.0f} times their usual spread and {NOTABLE * 100:.0f} points, "
    "or percent of it, at the least."
)


@dataclass(frozen=True)
class NodeSeen:
    """A node of the job, as its figures are computed from it."""

    ranks: Sequence[Rank]
    run: float  # seconds that one rank ran
    use: NodeUse | None  # root's figures of the node for the whole job
    elapsed: float  # seconds that the job ran


@dataclass(frozen=True)
class NodeFigure:
    """A figure that every node has."""

    name: str
    said: str
    of: Callable[[NodeSeen], float | None]  # returns None if the record does not tell
    is_share: bool = True  # a share of 1; another figure is compared as a part of the nodes' median
    shown: Callable[[float], str] = percent
    means: str = ""  # explanation below the table, if the figure is shown


def _asleep(node: NodeSeen) -> float | None:
    known = [rank.asleep for rank in node.ranks if rank.asleep is not None]
    waited = sum(rank.seconds for rank in node.ranks)
    return sum(known) / waited if waited > 0 and len(known) == len(node.ranks) else None


def _power(node: NodeSeen) -> float | None:
    joules = node.use.joules if node.use is not None else None
    return joules / node.elapsed if joules is not None and node.elapsed > 0 else None


def _slowed(node: NodeSeen) -> float | None:
    return node.use.slowed if node.use is not None else None


FIGURES = (
    NodeFigure("waiting", "of the run", lambda n: sum(rank.seconds for rank in n.ranks) / len(n.ranks) / n.run),
    NodeFigure("least", "of the run, its least waiting rank", lambda n: min(r.seconds for r in n.ranks) / n.run),
    NodeFigure("most", "of the run, its most waiting rank", lambda n: max(r.seconds for r in n.ranks) / n.run),
    NodeFigure("asleep", "of the waiting", _asleep),
    NodeFigure("power", "on average", _power, False, lambda watts: scaled(watts, "W"), POWER_MEANS),
    NodeFigure("slowed", "times", _slowed, False, lambda times: count(round(times)), SLOWED_MEANS),
)


@dataclass(frozen=True)
class NodeRow:
    """One node in the table."""

    name: str
    ranks: int
    values: tuple[float | None, ...]  # in the order of FIGURES
    distances: tuple[float, ...]  # from each value to the nodes' median; above 1 the value stands out
    remark: str = ""  # a remark on the node, "" for none

    @property
    def distance(self) -> float:
        return max(self.distances)


@dataclass(frozen=True)
class NodeMap:
    """The nodes of a job or step."""

    rows: list[NodeRow]  # in the order of the record
    is_judged: bool  # the nodes can be compared with one another

    def stands_out(self, row: NodeRow, place: int) -> bool:
        return self.is_judged and row.distances[place] > 1

    @cached_property
    def _mosts(self) -> list[float]:
        return [max((row.values[place] or 0.0 for row in self.rows), default=0.0) for place in range(len(FIGURES))]

    def most(self, place: int) -> float:
        """Returns the largest value of a figure, 0 if no node has it."""
        return self._mosts[place]

    def is_known(self, place: int) -> bool:
        """Returns True if a figure is worth a column. A figure that is no share, and 0 on all nodes, is not."""
        return any(row.values[place] is not None for row in self.rows) and (
            FIGURES[place].is_share or self.most(place) > 0)

    def means(self) -> str:
        """Returns the explanations of the figures that are shown."""
        return " ".join([FIGURES_MEAN, *(figure.means for place, figure in enumerate(FIGURES)
                                         if figure.means and self.is_known(place))])

    def unusual(self, room: int) -> tuple[list[NodeRow], list[NodeRow]]:
        """Returns at most room nodes to show, and the others. If there is room for all, they keep their order; else
        those that differ most come first."""
        if len(self.rows) <= room:
            return self.rows, []
        ordered = sorted(self.rows, key=lambda row: (not row.remark, -row.distance))
        return ordered[:room], ordered[room:]


def distances_of(values: Sequence[float | None]) -> list[float]:
    """Returns each value's distance from the median; above 1 the value stands out. 0 if a value is not known.

    The unit is SPREADS standard deviations, but at least NOTABLE. The standard deviation is estimated by the median
    absolute deviation, which a few outliers do not move.
    """
    known = [value for value in values if value is not None]
    if not known:
        return [0.0] * len(values)
    middle = median(known)
    spread = DEVIATION * median(abs(value - middle) for value in known)
    limit = max(NOTABLE, SPREADS * spread)
    return [0.0 if value is None else abs(value - middle) / limit for value in values]


def _remark(name: str, record: Record, slow: Sequence[str]) -> str:
    remarks = ["slow"] * (name in slow) + ["throttled most"] * (name == record.throttled_most)
    return ", ".join(remarks)


def _ranks_by_node(record: Record, step: Step | None) -> dict[str, list[Rank]]:
    groups: dict[str, list[Rank]] = {}
    for rank in ranks_of(record, step):
        if rank.node:
            groups.setdefault(rank.node, []).append(rank)
    return groups


def _run_s(record: Record, step: Step | None) -> float:
    """Returns the seconds that one rank ran, the mean over the ranks. If the record does not tell, the elapsed time."""
    ranks, time = len(ranks_of(record, step)), ranks_time(record, step)
    return time / ranks if time and ranks else (step.elapsed or 0.0) if step is not None else record.elapsed


def _column(figure: NodeFigure, values: Sequence[float | None]) -> list[float | None]:
    return [min(1.0, value) if value is not None and figure.is_share else value for value in values]


def shares_of_median(values: Sequence[float | None]) -> list[float | None]:
    """Returns the values divided by their median, or by 1 if that is 0: any value is then far from it."""
    known = [value for value in values if value is not None]
    middle = (median(known) if known else 0.0) or 1.0
    return [None if value is None else value / middle for value in values]


def node_map(record: Record, step: Step | None) -> NodeMap | None:
    """Returns the nodes of the job or of a step; None if fewer than NODES_MIN nodes are known.

    The nodes are not judged if some are missing, or if several programs ran: each may have had nodes of its own.
    """
    groups, run = _ranks_by_node(record, step), _run_s(record, step)
    if len(groups) < NODES_MIN or run <= 0:
        return None
    uses = {use.name: use for use in record.by_node} if step is None else {}
    seen = [NodeSeen(ranks, run, uses.get(name), record.elapsed) for name, ranks in groups.items()]
    columns = [_column(figure, [figure.of(node) for node in seen]) for figure in FIGURES]
    distances = [distances_of(column if figure.is_share else shares_of_median(column))
                 for figure, column in zip(FIGURES, columns)]
    is_judged = record.is_complete and not are_apart(record, step)
    slow = slow_nodes(record)
    rows = [
        NodeRow(name, len(ranks), values, far, _remark(name, record, slow) if is_judged and step is None else "")
        for (name, ranks), values, far in zip(groups.items(), zip(*columns), zip(*distances))
    ]
    return NodeMap(rows, is_judged)


def rest_line(rest: Sequence[NodeRow]) -> str:
    """Returns a line on the nodes that are not shown; "" if there are none."""
    waits = [row.values[0] for row in rest if row.values[0] is not None]
    if not waits:
        return ""
    spread = f"{percent(min(waits))} to {percent(max(waits))}, median {percent(median(waits))}"
    return f"{plural(len(rest), 'node')} more: waiting {spread}"
