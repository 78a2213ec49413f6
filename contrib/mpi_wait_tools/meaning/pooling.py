"""Pools measurements with 95 % intervals: over the jobs of a user, and then over users. Pure.

A measurement is a claim of a user's own programs. So every user has one vote, however many jobs there are, and votes
far from their median do not count: a user who forges is outvoted by three others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom, from standard tables.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
NORMAL = 1.959964
# Factors that make the median absolute deviation of 2 to 9 values unbiased: Croux and Rousseeuw, COMPSTAT 1992.
_SMALL = (1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
MAD_TO_SIGMA = 1.4826  # if the values are normally distributed
FAR = 3.0  # standard deviations from the median from which a value is left out
KEPT_FROM = 4  # none of fewer values is left out
ERROR_LEAST = 0.05  # no job's standard error counts as less, in percent points
WEIGHT_MOST = 3.0  # no job's weight is more than this multiple of the jobs' median weight


def t_quantile(freedom: int) -> float:
    """Returns Student's t, two-sided 95 %, for freedom >= 1."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish and Fisher's expansion about the normal quantile: right to four digits above 30.
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True)
class Vote:
    """The value of one user, pooled over the user's jobs."""

    value: float
    error: float  # standard error of value
    jobs: int


@dataclass(frozen=True)
class Pooled:
    """The value of all users. half is half of the width of its 95 % interval. votes are those that count."""

    value: float
    half: float
    votes: tuple[Vote, ...]

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


def _near(values: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Returns the places of the values that are not far from their median, by their spread or by their usual error,
    whichever is larger."""
    number = len(values)
    if number < KEPT_FROM:
        return list(range(number))
    middle = median(values)
    factor = _SMALL[number - 2] if number - 2 < len(_SMALL) else number / (number - 0.8)
    spread = factor * MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    most = FAR * max(spread, median(errors))
    return [place for place, value in enumerate(values) if abs(value - middle) <= most]


def _between(values: Sequence[float], errors: Sequence[float]) -> float:
    """Returns the variance between jobs: the estimate of DerSimonian and Laird, Controlled Clinical Trials 7 (1986)."""
    weights = [1 / error**2 for error in errors]
    total = sum(weights)
    mean = sum(weight * value for weight, value in zip(weights, values)) / total
    spread = sum(weight * (value - mean) ** 2 for weight, value in zip(weights, values))
    return max(0.0, (spread - (len(values) - 1)) / (total - sum(weight**2 for weight in weights) / total))


def over_jobs(measurements: Sequence[tuple[float, float]]) -> Vote:
    """Pools the measurements of one user's jobs, each (value, half of its 95 % interval), with random effects and
    bounded weights.

    The error is the larger one of the model's and of what the values' own spread says, by Hartung and Knapp.
    """
    halves = [max(ERROR_LEAST, half / NORMAL) for _, half in measurements]
    near = _near([value for value, _ in measurements], halves)
    values, errors = [measurements[place][0] for place in near], [halves[place] for place in near]
    if len(values) < 2:
        return Vote(values[0], errors[0], 1)
    between = _between(values, errors)
    variances = [error**2 + between for error in errors]
    bound = WEIGHT_MOST * median(1 / variance for variance in variances)
    weights = [min(bound, 1 / variance) for variance in variances]
    total = sum(weights)
    mean = sum(weight * value for weight, value in zip(weights, values)) / total
    model = sum(weight**2 * variance for weight, variance in zip(weights, variances)) / total**2
    seen = sum(weight * (value - mean) ** 2 for weight, value in zip(weights, values)) / total / (len(values) - 1)
    return Vote(mean, math.sqrt(max(model, seen)), len(values))


def over_users(all_votes: Sequence[Vote]) -> Pooled | None:
    """Returns the mean of the votes near their median, with equal weights; None if there are none. A single vote keeps
    its own interval."""
    near = _near([vote.value for vote in all_votes], [vote.error for vote in all_votes])
    votes = tuple(all_votes[place] for place in near)
    if not votes:
        return None
    number, mean = len(votes), fmean(vote.value for vote in votes)
    if number == 1:
        jobs = votes[0].jobs
        return Pooled(mean, (t_quantile(jobs - 1) if jobs > 1 else NORMAL) * votes[0].error, votes)
    # The votes' spread has their errors in it. It is too small by chance if they are few: not less than these errors.
    spread = max(stdev(vote.value for vote in votes), median(vote.error for vote in votes))
    return Pooled(mean, t_quantile(number - 1) * spread / math.sqrt(number), votes)
