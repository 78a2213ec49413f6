"""How two ways to run a program differ, as a ratio with its 95 % interval. Pure.

The runs are paired by round, which takes out what drifts from round to round. A ratio is the geometric mean of the
pairs' ratios; its interval is Student's t interval of the mean of their logarithms. With the five to thirty rounds that
people can afford it holds the truth as often as it says (tests/unit/tools/test_try_verdict.py).
"""

from __future__ import annotations

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


def t_quantile(freedom: int) -> float:
    """Two-sided 95 %; freedom is 1 at least."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish and Fisher's expansion about the normal quantile, to four digits from 30 on.
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _logs(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [math.log(after / before) for before, after in pairs if before > 0 and after > 0]


def bootstrap_of(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """A second opinion, which knows of no normal distribution: Efron's bias-corrected and accelerated interval, by
    scipy. None where that is missing, or for few rounds."""
    logs = _logs(pairs)
    if len(logs) < BOOTSTRAP_ROUNDS_MIN or max(logs) == min(logs):
        return None
    try:
        from scipy import stats  # type: ignore
    except ImportError:
        return None

    def mean(sample: Any, axis: int = -1) -> Any:
        return sample.mean(axis=axis)

    found = stats.bootstrap((logs,), mean, n_resamples=BOOTSTRAP_SAMPLES, random_state=0).confidence_interval
    return math.exp(float(found.low)), math.exp(float(found.high))


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """pairs: (without, with) of each round. None: no pair in which both are greater than 0."""
    logs = _logs(pairs)
    if not logs:
        return None
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, 1, None)
    spread = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs), math.expm1(spread))


def mean_of(values: Sequence[float]) -> float | None:
    """The geometric mean, which belongs to ratios."""
    positive = [value for value in values if value > 0]
    return math.exp(math.fsum(map(math.log, positive)) / len(positive)) if positive else None
