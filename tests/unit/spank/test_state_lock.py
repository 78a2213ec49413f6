"""A job's state on a node is one step's at a time, and no step waits for another one without end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tests.lib.record_tools import NO_POWERCAP, driver

NOW_S = 1_700_000_000.0


def begin(root: Path) -> int:
    """While pauses take no time."""
    done = driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=NOW_S)
    assert (done["code"] == 0) == (done["error"] == "")
    return int(done["code"])


def test_a_state_that_another_holds_is_given_up(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert begin(tmp_path) == 0
    directory = os.open(tmp_path / "c1/7", os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        assert begin(tmp_path) == -16
    finally:
        os.close(directory)
    assert begin(tmp_path) == 0
