"""What bars of seconds are drawn to, in text and in pictures alike."""

from __future__ import annotations

from dataclasses import dataclass

from ..record.record import Record, Step
from .imbalance import ranks_time

WHOLE_FROM = 0.2  # of the run: from there on a bar shows the whole of it, below only the waiting


@dataclass(frozen=True)
class Scale:
    """What the bars are drawn to: top seconds are the whole room, and run of them one rank's run, 0 if not shown."""

    top: float
    run: float = 0.0


def scale_of(record: Record, step: Step | None, number: int, most: float) -> Scale:
    """number: of ranks. The whole run where the waiting is a visible part of it."""
    time = ranks_time(record, step)
    run = time / number if time and number else 0.0
    return Scale(max(run, most), run) if run > 0 and most >= WHOLE_FROM * run else Scale(most)
