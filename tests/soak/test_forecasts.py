"""Forecasts with every MPI, on a quiet machine: a wait that repeats is slept through."""

from __future__ import annotations

import pytest

from tests.lib.libraries import Mpi
from tests.mpi.playing import of
from tests.mpi.test_foresight import FIVE, FORECASTS, play
from tests.soak.mpi_matrix.plan import FLAT

pytestmark = pytest.mark.skipif(not FLAT.exists(), reason=f"not built: {FLAT}")


@of(*FIVE)
def test_a_wait_that_repeats_is_slept_through(mpi: Mpi) -> None:
    thread = play(mpi, 60)
    assert thread["forecasts"] >= FORECASTS
    assert thread["early"] > 0, "the rank is awake when some of them end"
