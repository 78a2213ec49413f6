"""How two ways to run a program differ, as a ratio with its 95 % interval. Pure.

The runs are paired by round, which takes out what drifts from round to round. A ratio is the geometric mean of the
pairs' ratios; its interval is Student's t interval of the mean of their logarithms. With the five to thirty rounds that
people can afford it holds the truth as often as it says, which percentiles of a bootstrap do not below some twenty
(tests/unit/tools/test_try_interval.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BOOTSTRAP_ROUNDS_MIN = 10
BOOTSTRAP_SAMPLES = 4000
# Student's t, two-sided 95 %, by degrees of freedom from 1 to 30: any book of tables.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
_NORMAL = 1.959964


@dataclass(frozen=True)
class Ratio:
    """ratio: with the policy over without it. low, high: of its 95 % interval. noise: by how much the pairs differ by
    themselves, the standard deviation of their ratios as a part of 1. All three are None below two rounds."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int
    noise: float | None
    bootstrap: tuple[float, float] | None = None

    @property
    def half(self) -> float:
        """Half the interval's width, in logarithms; infinite where there is none."""
        return math.log(self.high / self.low) / 2 if self.low and self.high else math.inf

    def inverse(self) -> Ratio:
        """Of a figure of which more is better: how much slower."""
        other = None if self.bootstrap is None else (1 / self.bootstrap[1], 1 / self.bootstrap[0])
        low, high = (1 / self.high, 1 / self.low) if self.low and self.high else (None, None)
        return Ratio(1 / self.ratio, low, high, self.rounds, self.noise, other)


@functools.lru_cache
def scipy_stats() -> Any:
    """The module, None where it is missing."""
    try:
        from scipy import stats  # type: ignore
    except ImportError:
        return None
    return stats


def t_quantile(freedom: int) -> float:
    """Two-sided 95 %; freedom is 1 at least. By scipy where it is there, which differs in the fourth digit only."""
    if (stats := scipy_stats()) is not None:
        return float(stats.t.ppf(0.975, freedom))
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish and Fisher's expansion about the normal quantile, to four digits from 30 on.
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _bootstrap(logs: Sequence[float]) -> tuple[float, float] | None:
    """Efron's bias-corrected and accelerated interval, by scipy. None where that is missing, or for few rounds."""
    if len(logs) < BOOTSTRAP_ROUNDS_MIN or max(logs) == min(logs):
        return None
    if (stats := scipy_stats()) is None:
        return None

    def mean(sample: Sequence[float]) -> float:
        return math.fsum(sample) / len(sample)

    found = stats.bootstrap(
        (list(logs),), mean, n_resamples=BOOTSTRAP_SAMPLES, vectorized=False, random_state=0
    ).confidence_interval
    return math.exp(float(found.low)), math.exp(float(found.high))


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """pairs: (without, with) of each round. None: no pair in which both are greater than 0."""
    logs = [math.log(after / before) for before, after in pairs if before > 0 and after > 0]
    if not logs:
        return None
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, 1, None)
    spread = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs), math.expm1(spread),
                 _bootstrap(logs))


def mean_of(values: Sequence[float]) -> float | None:
    """The geometric mean, which belongs to ratios."""
    positive = [value for value in values if value > 0]
    return math.exp(math.fsum(map(math.log, positive)) / len(positive)) if positive else None
