"""Requests that move only while the rank tests or waits for them: those of ROMIO's collective writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.launches import NAP
from tests.lib.libraries import LIBRARY, Mpi
from tests.mpi.playing import built, launched, of

ROUNDS, PART, PARTS = 6, 64, 16
CALLS = {"Init", "Finalize", "Wait", "Waitall", "Waitany", "Waitsome", "File_open", "File_set_view", "File_close",
         "File_iwrite_all", "File_iwrite_shared"}
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


@of("mpich", "mpich-4.3", "mpich-5", "intel")
def test_a_wait_for_a_collective_write_ends(mpi: Mpi, tmp_path: Path) -> None:
    """The waits burn, so loops take the place of Wait, Waitall, Waitany and Waitsome. What ROMIO calls does not
    count."""
    file = tmp_path / "file"
    done = launched(mpi, [built(mpi, "writes"), file], NAP)
    assert sorted(done.output.split("\n")) == ["", "0 ok", "1 ok"]
    counted = {name for slot in done.segment["slots"] for lane in slot["lane"] for name in lane["calls"]}
    assert counted == CALLS, "ROMIO's own calls count"
    assert file.read_bytes() == (b"a" * PART + b"b" * PART) * PARTS * ROUNDS * 4
