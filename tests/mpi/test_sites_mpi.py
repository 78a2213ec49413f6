"""Call sites on real MPIs: from C, and from Fortran through the layer that each MPI has for it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lib.launches import NAP, Launched
from tests.lib.libraries import LIBRARY, Mpi, fortran_program
from tests.mpi.playing import available, built, launched, of

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")
SITES = NAP + ";sites=1"


def functions(program: Path, slot: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """By the program's function: what it called, and how many waits that were."""
    own = [site for site in slot["sites"] if site["module"] == program.name[:47]]
    command = ["addr2line", "-f", "-e", str(program), *(hex(site["offset"] - 1) for site in own)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[::2]
    return {name.split(".")[0]: (site["call"], site["waits"]) for name, site in zip(told, own)}


def waits_of(slot: dict[str, Any], call: str) -> int:
    """A busy machine decides who comes late, and so how many there are; where they are counted is ours."""
    return sum(lane["calls"][call]["waits"] for lane in slot["lane"] if call in lane["calls"])


def every_wait_is_in_a_site(done: Launched) -> bool:
    return all(
        sum(site["wait_ns"] for site in slot["sites"])
        == sum(call["wait_ns"] for lane in slot["lane"] for call in lane["calls"].values())
        for slot in done.segment["slots"])


@of("openmpi", "mpich", "openmpi-5", "mpich-5-abi", "intel")
def test_the_call_sites_of_c_are_those_of_the_program(mpi: Mpi) -> None:
    program = built(mpi, "phases", "-fno-inline")
    done = launched(mpi, [program], SITES, ranks=2)
    assert every_wait_is_in_a_site(done)
    slot = done.segment["slots"][1]
    found = functions(program, slot)
    call, waits = found["steps"]
    assert call == "Barrier" and 0 < waits <= 15  # at most ten for rank 0, and in its own five it waits a little too
    in_main = sum(site["waits"] for site in slot["sites"] if site["call"] == "Barrier") - waits
    assert waits + in_main == waits_of(slot, "Barrier") and 0 <= in_main <= 2


@of("openmpi", "mpich", "intel")
def test_the_call_sites_of_fortran_are_those_of_the_program(mpi: Mpi) -> None:
    """Not of libmpi_mpifh, libmpichfort or libmpifort, which call C for it."""
    with available():
        program = fortran_program(mpi, "sites", "-fno-inline")
    done = launched(mpi, [program], SITES, ranks=2)
    assert every_wait_is_in_a_site(done)
    slot = done.segment["slots"][1]
    found = functions(program, slot)
    assert found["first_place"] == ("Barrier", waits_of(slot, "Barrier")) and 0 < found["first_place"][1] <= 3
    assert found["second_place"] == ("Bcast", waits_of(slot, "Bcast")) and 0 < found["second_place"][1] <= 3
    assert not any(site["waits"] for site in slot["sites"] if site["layer"])
