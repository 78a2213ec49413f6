"""What a job's owner may do about its waiting: which policy fits, or where the imbalance is. Pure.

Every sentence follows from figures of the record; what a change would save is never promised.
"""

from __future__ import annotations

from collections.abc import Iterator

from .imbalance import NOTABLE, Imbalance, ranks_time
from .nodes import slow_nodes
from .reading import EVEN, Rank
from .record import Record, Wait
from .units import duration, percent, plural, safe

LITTLE = 0.02  # share of the ranks' time below which waiting is not worth a policy
SLEPT_WELL = 0.7  # share of the waiting
SHORT_WAIT_S = 200e-6  # nap cannot use much of a wait shorter than this
LATE_SHARE = 0.01  # of the ranks' time
UNFORESEEN = 0.5  # share of the waits
FIRST_NAMED = 3
MEASURE_ONLY = ("off", "profile", "yield")
COLLECTIVES = ("MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter_block")


def _names(ranks: list[Rank]) -> str:
    shown = ", ".join(rank.label for rank in ranks[:FIRST_NAMED])
    more = f" and {plural(len(ranks) - FIRST_NAMED, 'other')}" if len(ranks) > FIRST_NAMED else ""
    return ("rank " if len(ranks) == 1 else "ranks ") + shown + more


def _busiest(record: Record, ranks: list[Rank]) -> str:
    """Who computes longest, by name: the ranks within a tenth of the span from the least waiting one."""
    wait = record.wait
    if wait is None:
        return ""
    place = f" (on {safe(wait.least.node)})" if wait.least.node and record.nodes_of > 1 else ""
    if not ranks:
        return f"rank {wait.least.rank}{place}" if wait.least.rank >= 0 else "the rank that waits least"
    least, most = min(rank.seconds for rank in ranks), max(rank.seconds for rank in ranks)
    busiest = [rank for rank in ranks if rank.seconds <= least + (most - least) / 10]
    return _names(busiest) + (place if len(busiest) == 1 else "")


def _of_the_balance(record: Record, ranks: list[Rank], imbalance: Imbalance | None) -> Iterator[str]:
    wait = record.wait
    if wait is None or imbalance is None or imbalance.share is None or imbalance.ranks < 2:
        return
    least, most = wait.least.seconds, wait.most.seconds
    if imbalance.share < NOTABLE or (most > 0 and least / most >= EVEN):
        if wait.share is not None and wait.share >= NOTABLE and most > 0 and least / most >= EVEN:
            looked = "" if wait.profile else "; the policy key 'profile' tells waiting from transfer, and message sizes"
            yield f"All ranks wait alike: it is the messages that they wait for, not each other{looked}."
        return
    slow = slow_nodes(record)
    if slow:
        names = ", ".join(safe(name) for name in slow[:FIRST_NAMED])
        noun = "node" if len(slow) == 1 else "nodes"
        yield f"Look at {noun} {names} first: all ranks seen there are among those that wait least."
    elif record.throttled_most and record.throttled_most == wait.least.node:
        name = safe(wait.least.node)
        yield f"Look at node {name} first: it was slowed down most, and holds the rank that waits least."
    below = sum(rank.seconds < wait.mean / 2 for rank in ranks)
    if ranks and below > len(ranks) // 2:
        idle = [rank for rank in ranks if rank.seconds > wait.mean]
        yield f"Give {_names(idle)} more to do, or ask for fewer ranks: the others hardly wait."
    else:
        yield (
            f"Take work from {_busiest(record, ranks)}: spread evenly, the same work could take up to "
            f"{percent(imbalance.share)} less time."
        )


def _of_short_naps(wait: Wait) -> str:
    """Why a policy that naps slept little."""
    waits = sum(call.waits for call in wait.calls)
    mean = wait.total / waits if waits else 0.0
    spun = [call.name for call in wait.spun if call.name in COLLECTIVES]
    if wait.flags.get("shared_cores"):
        return "Ranks share cores with others: a core for each (pin=cores) is worth more than a policy."
    if wait.flags.get("locked"):
        return "This MPI holds a lock while several threads call it, so nothing naps: call it from one thread only."
    if spun:
        return (
            f"{spun[0]} burns CPU without an idle call: collectives=ibarrier naps before it, "
            "provided that every rank has the library."
        )
    if 0 < mean < SHORT_WAIT_S:
        return (
            f"A wait lasts {duration(mean)} on average, short for a nap: umwait and mwaitx rest in such waits, "
            "where the processor has them."
        )
    return "Much of the waiting was polled: a larger slowdown= lets ranks rest earlier, and wake later."


def _unforeseen_share(wait: Wait) -> float:
    if wait.forecast is None:
        return 0.0
    waits = wait.forecast.foreseen + wait.forecast.unforeseen
    return wait.forecast.unforeseen / waits if waits else 0.0


def _of_the_policy(record: Record, wait: Wait, share: float) -> Iterator[str]:
    used, waited = record.policy.used, percent(share)
    slept = min(1.0, wait.asleep / wait.total) if wait.asleep is not None and wait.total > 0 else 0.0
    low = min(1.0, wait.low / wait.total) if wait.total > 0 else 0.0
    if share < LITTLE:
        yield f"There is little to save: the ranks wait {waited} of their time."
    elif used in MEASURE_ONLY:
        yield f"nap (or auto) fits: it rests cores in waits, and the ranks wait {waited} of their time."
    elif wait.transitions and low > 0.5:
        yield f"{used} fits: the cores ran at low frequency for {percent(low)} of the waiting."
    elif slept >= SLEPT_WELL:
        yield f"{used} fits: {percent(slept)} of the waiting was slept through."
    else:
        yield _of_short_naps(wait)
    unforeseen = _unforeseen_share(wait)
    if slept < SLEPT_WELL and unforeseen > UNFORESEEN:
        yield (
            f"{percent(unforeseen)} of the waits came at no foreseeable time: event, where Open MPI runs over UCX, "
            "sleeps until the message comes, and a larger slowdown= lets naps guess more."
        )
    time = ranks_time(record)
    late = wait.late_seconds if wait.forecast is None and not wait.flags.get("shared_cores") else None
    if late and time and late / time > LATE_SHARE:
        yield "Naps end late here: 'mpi-wait check' on a node looks at its timers; a smaller slowdown= naps less."


def advice(record: Record, ranks: list[Rank], imbalance: Imbalance | None) -> list[str]:
    """One sentence each, the most promising first; none where no rank was seen."""
    wait = record.wait
    if wait is None or wait.share is None:
        return []
    found = list(_of_the_balance(record, ranks, imbalance)) if wait.share >= LITTLE else []
    return [*found, *_of_the_policy(record, wait, wait.share)]
