"""MPI_Pcontrol on real MPIs: by their own wrapper of it, from C and from Fortran."""

from __future__ import annotations

import pytest

from tests.lib.launches import NAP
from tests.lib.libraries import LIBRARY, Mpi
from tests.mpi.playing import built, launched, of

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


@of("openmpi", "mpich", "openmpi-5", "mpich-5-abi", "intel")
def test_the_phases_are_those_that_the_program_names(mpi: Mpi) -> None:
    done = launched(mpi, [built(mpi, "phases")], NAP + ";profile=1", ranks=2)
    slots = done.segment["slots"]
    assert [slot["rank"] for slot in slots] == [0, 1]
    for slot in slots:
        lane = slot["lane"][0]
        assert slot["phases"]["level"][:3] == [3, 4, 0] and slot["phases"]["place"] == 0
        assert lane["calls"]["Pcontrol"]["calls"] == 3 and lane["calls"]["Barrier"]["calls"] == 17
        assert sum(waits for waits, _ in lane["phases"]) == sum(call["waits"] for call in lane["calls"].values())
        assert slot["phases"]["time_ns"][1] >= 9 * 20e6 and slot["phases"]["time_ns"][2] >= 4 * 20e6
