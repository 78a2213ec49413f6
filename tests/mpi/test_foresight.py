"""Forecasts with every MPI: a wait that repeats may be slept through, and is charged no more than the account allows.

Whether it is forecast depends on how steady the machine is: tests/soak/test_forecasts.py asks that on a quiet one, and
the unit tier under a virtual clock.
"""

from __future__ import annotations

import re

import pytest

from tests.lib.law import number
from tests.lib.libraries import Mpi
from tests.mpi.playing import NO_YIELD, built, launched, of
from tests.soak.mpi_matrix.plan import FLAT, policies

FIVE = ("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")
LATE_MS, FORECASTS, SECONDS = 3, 100, 5
SLOWDOWN = 500000  # millionths: on a busy machine too, the account is not spent for long
START_NS, KEPT_NS = int(number("ALLOWANCE_START_NS")), int(number("ACCOUNT_KEPT_NS"))
pytestmark = pytest.mark.skipif(not FLAT.exists(), reason=f"not built: {FLAT}")


def play(mpi: Mpi, seconds: float) -> dict:
    """The waiting rank's thread. What its clock charged is within what the account allows, but for what is kept and for
    the latest charge: a nap, however late the kernel ended it, in a call that lasted as long."""
    options = NO_YIELD if mpi.abi == "openmpi" else ()
    policy = re.sub("slowdown_ppm=[0-9]+", f"slowdown_ppm={SLOWDOWN}", policies()["nap"])
    done = launched(mpi, [built(mpi, "repeats"), LATE_MS, FORECASTS, seconds], policy, options=options)
    slot = next(slot for slot in done.segment["slots"] if slot["rank"] == 1)
    (thread,) = slot["lane"]
    run_ns = slot["end_ns"] - slot["start_ns"]
    allowed_ns = START_NS + run_ns * SLOWDOWN // 10**6 + KEPT_NS + thread["calls"]["Recv"]["longest_ns"]
    print(f"{mpi.name}: {thread['calls']['Recv']['waits']} waits, {thread['foreseen']} foreseen, {thread['forecasts']} "
          f"naps, {thread['early']} early, {thread['late']} late, {thread['late_ns']} of {allowed_ns} ns")
    assert slot["slowdown_ppm"] == SLOWDOWN
    assert thread["late_ns"] <= allowed_ns
    return thread


@of(*FIVE)
def test_what_a_wait_that_repeats_costs_is_paid_for(mpi: Mpi) -> None:
    """The law is the same for MPICH and Intel MPI, which do not say when they have made progress."""
    thread = play(mpi, SECONDS)
    assert thread["calls"]["Recv"]["waits"] > 0
