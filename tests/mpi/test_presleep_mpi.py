"""Sleeps before collectives of a real MPI in which no hook is found: the results are the same, and the record says so.

How many of them are slept before depends on how steady the machine is: here it is enough that there are some.
"""

from __future__ import annotations

import re

import pytest

from tests.lib.libraries import LIBRARY
from tests.mpi.playing import NO_YIELD, OPENMPI, built, flags_of, launched
from tests.soak.mpi_matrix.plan import FLAT, policies

LATE_MS, FORECASTS, SECONDS = 3, 3, 60
NO_HOOK, PRESLEEPS = 2, 256
pytestmark = pytest.mark.skipif(not FLAT.exists(), reason=f"not built: {FLAT}")


def test_without_a_hook_a_rank_sleeps_before_its_collectives() -> None:
    preload = f"{LIBRARY}:{built(OPENMPI, 'unhooked', '-shared', '-fPIC')}"
    policy = re.sub("slowdown_ppm=[0-9]+", "slowdown_ppm=500000", policies()["nap"])
    words = [built(OPENMPI, "meetings"), LATE_MS, FORECASTS, SECONDS]
    done = launched(OPENMPI, words, policy, options=NO_YIELD, preload=preload)
    meetings, wrong = map(int, re.search(r"meetings=(\d+) wrong=(\d+)", done.output).groups())
    assert wrong == 0 and all(flag & NO_HOOK for flag in flags_of(done))
    slot = next(slot for slot in done.segment["slots"] if slot["rank"] == 1)
    (lane,) = slot["lane"]
    call = lane["calls"]["Allreduce"]
    assert slot["hooks"] == 0 and slot["flags"] & PRESLEEPS
    assert call["calls"] == meetings and FORECASTS <= lane["forecasts"] == lane["naps"]["nap"]
    assert 0 < call["waits"] <= lane["forecasts"] and call["wait_ns"] >= lane["asleep_ns"]["nap"] > 0
