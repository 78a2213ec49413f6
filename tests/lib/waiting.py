"""Waiting for a condition, with an end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.2
"""Most conditions are checked by commands, and cores are few: the longer the wait, the longer the pause."""
PATIENCE_S = float(os.environ.get("MPI_WAIT_PATIENCE_S", "inf"))
"""A test that fails by waiting for what never comes, as with mutants, need not wait as long as a busy machine may
take."""


def wait_for(
    question: Callable[[], Answer], what: str | Callable[[], str] = "", timeout_s: float = 60, pause_s: float = PAUSE_S
) -> Answer:
    """Returns the first true answer. Raises AssertionError saying that `what` did not come if there is none in time.

    The limit is for an answer that never comes; a slow machine does not reach it.
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
