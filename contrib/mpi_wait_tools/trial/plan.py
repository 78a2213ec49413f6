"""What runs next, and when it is enough. Pure.

Every policy runs once in a round, in an order that is drawn anew for each: what drifts within a round falls on each of
them alike. The plan ends by the width of the intervals, never by what they say, which would find differences where
there are none.
"""

from __future__ import annotations

import random

from ..text.units import plural
from .experiment import BASELINE, Experiment
from .verdict import energy_of, measures_of

ROUNDS_MIN, ROUNDS_MAX = 6, 30  # where the number of rounds is not given
NARROW = 0.01  # half an interval, of time and of CPU time
BASELINE_FAILURES = 2


def order_of(experiment: Experiment, number: int) -> list[str]:
    """Of a round's runs, always the same of one experiment."""
    policies = [BASELINE, *(policy for policy in experiment.policies if not experiment.is_out(policy))]
    random.Random(f"{experiment.seed}/{number}").shuffle(policies)
    return policies


def next_round(experiment: Experiment) -> int:
    """A round that was interrupted is not gone on with: its runs would not be of one time."""
    return max((run.round for run in experiment.runs), default=0) + 1


def _is_narrow(experiment: Experiment) -> bool:
    for policy in experiment.policies:
        if experiment.is_out(policy):
            continue
        measures = measures_of(experiment, policy, energy_of(experiment))
        known = [measures[name] for name in ("time", "cpu") if name in measures]
        if not known or any(ratio.half > NARROW for ratio in known):
            return False
    return True


def enough(experiment: Experiment, rounds: int | None) -> str:
    """Why no further round is needed, in words; "" if one is. rounds: how many were asked for."""
    done = experiment.done()
    if len(experiment.failures(BASELINE)) >= BASELINE_FAILURES:
        return "the program ended badly without a policy too, more than once"
    if all(map(experiment.is_out, experiment.policies)):
        return "no policy is left"
    if done >= (ROUNDS_MAX if rounds is None else rounds):
        return plural(done, "round")
    if rounds is None and done >= ROUNDS_MIN and _is_narrow(experiment):
        return f"the intervals are narrow enough after {plural(done, 'round')}"
    return ""


def round_s(experiment: Experiment) -> float:
    """How long a round will take: as long as one run of each policy took so far."""
    spent = [run.wall_s for run in experiment.runs]
    return len(order_of(experiment, 1)) * sum(spent) / len(spent) if spent else 0.0
