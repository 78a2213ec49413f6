"""Whether a job's figures are good, worth a look, or bad, each with its thresholds. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..record.cost import Cost
from ..record.record import Record, Step
from ..text.units import percent
from .cost import cost_words
from .imbalance import imbalance_of, ranks_time
from .reading import incomplete_line

GOOD, LOOK, BAD = "good", "look", "bad"
ORDER = (BAD, LOOK, GOOD)
# From where on a share is worth a look, and from where on it is bad. Conventions, as those of seff's colours are.
AWAKE, LOST, LATE = (0.05, 0.25), (0.05, 0.20), (0.01, 0.03)
BAD_COST = 3  # times what slowdown= allows


@dataclass(frozen=True)
class Judgement:
    """what: what is judged; value: as it is shown; rule: the thresholds, in words."""

    level: str
    what: str
    value: str
    rule: str


def level_of(share: float, thresholds: tuple[float, float]) -> str:
    look, bad = thresholds
    return GOOD if share < look else LOOK if share < bad else BAD


def _of_share(what: str, share: float, thresholds: tuple[float, float]) -> Judgement:
    rule = f"good below {percent(thresholds[0])}, bad from {percent(thresholds[1])} of the ranks' time"
    return Judgement(level_of(share, thresholds), what, percent(share), rule)


def _of_cost(cost: Cost, allowed: float) -> Judgement:
    """By the lower end of its interval: what is above that for certain."""
    level = level_of(cost.percent - cost.error, (math.nextafter(allowed, math.inf), BAD_COST * allowed))
    rule = f"good up to the {allowed:g} % of slowdown=, bad from {BAD_COST * allowed:g} %, by the interval's lower end"
    return Judgement(level, "sleeping costs", cost_words(cost), rule)


def judged(record: Record, step: Step | None, state: str, is_broken: bool) -> list[Judgement]:
    """The worst first. state: sacct's, "" if it is not known. Of one step there is less to judge."""
    found = []
    if is_broken:
        found.append(Judgement(BAD, "end", state, "good if the job ran to its end"))
    if not record.is_complete:
        found.append(Judgement(BAD, "record", incomplete_line(record), "good if every node reported"))
    wait, time = record.wait, ranks_time(record)
    if wait is not None and step is None and time:
        awake = max(0.0, wait.total - (wait.asleep or 0.0))
        found.append(_of_share("waiting awake", min(1.0, awake / time), AWAKE))
        if wait.cost is not None and wait.cost.is_known and wait.cost.slowdown is not None:
            found.append(_of_cost(wait.cost, wait.cost.slowdown))
        elif wait.late_seconds is not None and wait.cost is None:
            found.append(_of_share("late", min(1.0, wait.late_seconds / time), LATE))
    imbalance = imbalance_of(record, step) if not is_broken else None
    if imbalance is not None and imbalance.share is not None and not imbalance.lone:
        found.append(_of_share("lost to the imbalance", imbalance.share, LOST))
    if record.throttled_most and step is None:
        rule = "good if no processor was slowed down"
        found.append(Judgement(LOOK, "slowed down", record.throttled_most, rule))
    return sorted(found, key=lambda one: ORDER.index(one.level))
