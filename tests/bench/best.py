"""The best that a rank can do that knows how its waits are spread, on a machine whose sleeps cost and end as measured.

Pure. All times are microseconds. It sleeps once in a wait, for what surely remains less what 99 of 100 sleeps end late
by, and polls from the wake-up on: nothing that sleeps, and is late in one wait of a hundred at most, takes less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sleep:
    """What a sleep of that length ends late by, in the median and in 99 of 100, and its own CPU time."""

    length_us: float
    late_us: float
    late_99_us: float
    cpu_us: float


def nearest(sleeps: Iterable[Sleep], length_us: float) -> Sleep:
    """The one measured that is nearest in length, as a ratio. At least one is wanted."""
    return min(sleeps, key=lambda sleep: max(sleep.length_us / length_us, length_us / sleep.length_us))


def wait_cpu_us(wait_us: float, sleep: Sleep, jitter: float = 0) -> float:
    """CPU time of a wait of that mean, give or take jitter of it: all of it where a sleep is not worth it."""
    polled_us = jitter * wait_us + sleep.late_99_us - sleep.late_us
    if wait_us * (1 - jitter) <= sleep.late_99_us:
        return wait_us
    return min(wait_us, sleep.cpu_us + polled_us)


def wait_cpu_share(wait_us: float, sleep: Sleep, jitter: float = 0) -> float:
    return wait_cpu_us(wait_us, sleep, jitter) / wait_us


def step_cpu_over_work(step_us: float, imbalance: float, sleep: Sleep) -> float:
    """On two ranks: what the waiting one takes, of the work of both."""
    waited_us = step_us * imbalance
    return wait_cpu_us(waited_us, sleep) / (2 * step_us - waited_us) if waited_us > 0 else 0


def coin_cpu_share(short_us: float, long_us: float, sleep: Sleep) -> float:
    """Of two lengths, each as likely: a long wait is told from a short one by polling for as long as that."""
    long_cpu_us = short_us + wait_cpu_us(long_us - short_us, sleep)
    return (short_us + long_cpu_us) / (short_us + long_us)


def change_cpu_share(lengths_us: tuple[float, ...], sleep: Sleep) -> float:
    """Of lengths that each last for many waits."""
    return sum(wait_cpu_us(length, sleep) for length in lengths_us) / sum(lengths_us)
