"""Computes the least CPU time of a rank that knows how its waits are distributed, on a machine with measured sleeps.

Pure. All times are microseconds. The rank sleeps once in a wait, for the time that surely remains less the 99th
percentile of the sleeps' lateness, and polls from the wake-up on. No way to sleep that is late in one wait of a hundred
at most takes less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sleep:
    """A sleep of that length: how late it ends, as median and 99th percentile, and its own CPU time."""

    length_us: float
    late_us: float
    late_99_us: float
    cpu_us: float


def nearest(sleeps: Iterable[Sleep], length_us: float) -> Sleep:
    """Returns the measured sleep whose length is nearest, as a ratio. At least one must be given."""
    return min(sleeps, key=lambda sleep: max(sleep.length_us / length_us, length_us / sleep.length_us))


def wait_cpu_us(wait_us: float, sleep: Sleep, jitter: float = 0) -> float:
    """Returns the CPU time of a wait of that mean, varying by `jitter` of it: all of it if a sleep is not worth it."""
    polled_us = jitter * wait_us + sleep.late_99_us - sleep.late_us
    if wait_us * (1 - jitter) <= sleep.late_99_us:
        return wait_us
    return min(wait_us, sleep.cpu_us + polled_us)


def wait_cpu_share(wait_us: float, sleep: Sleep, jitter: float = 0) -> float:
    return wait_cpu_us(wait_us, sleep, jitter) / wait_us


def step_cpu_over_work(step_us: float, imbalance: float, sleep: Sleep) -> float:
    """Returns the CPU time of the waiting rank of two, as a part of the work of both."""
    waited_us = step_us * imbalance
    return wait_cpu_us(waited_us, sleep) / (2 * step_us - waited_us) if waited_us > 0 else 0


def coin_cpu_share(short_us: float, long_us: float, sleep: Sleep) -> float:
    """Returns the CPU share of waits of two equally likely lengths. Only polling for the short length tells them
    apart."""
    long_cpu_us = short_us + wait_cpu_us(long_us - short_us, sleep)
    return (short_us + long_cpu_us) / (short_us + long_us)


def change_cpu_share(lengths_us: tuple[float, ...], sleep: Sleep) -> float:
    """Returns the CPU share of waits whose length changes only after many waits."""
    return sum(wait_cpu_us(length, sleep) for length in lengths_us) / sum(lengths_us)
