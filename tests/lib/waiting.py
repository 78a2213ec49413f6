"""Waiting for a condition, with an end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.2
"""Most questions are commands, and cores are few: the longer it takes, the less often it is asked."""
PATIENCE_S = float(os.environ.get("MPI_WAIT_PATIENCE_S", "inf"))
"""What fails by waiting for what never comes, as mutants do, need not wait for as long as a busy machine may take."""


def wait_for(
    question: Callable[[], Answer], what: str | Callable[[], str] = "", timeout_s: float = 60, pause_s: float = PAUSE_S
) -> Answer:
    """The first answer that is true; an AssertionError that says `what` did not come if there is none in time.

    The time limit is for what never comes: it decides nothing on a slow machine.
    """
    timeout_s = min(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + timeout_s
    while not (answer := question()):
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise AssertionError(f"{text or 'what was waited for'} did not come in {timeout_s:.0f} s")
        time.sleep(pause_s)
        pause_s = max(pause_s, min(1.2 * pause_s, LONGEST_PAUSE_S))
    return answer
