"""The timer slack of a rank stays the program's own, whatever runs within a wait and however a wait is left."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.support import NAP, run
from tests.lib.libraries import BUILD, MPIS, ROOT, Mpi, Unavailable

FIRST_NS, SECOND_NS = 70000, 120000


@functools.cache
def built(mpi: Mpi) -> Path:
    folder = BUILD / "tests/slack" / mpi.name
    folder.mkdir(parents=True, exist_ok=True)
    compiler = mpi.tool("mpicc", mpi.compiler_wheel or mpi.wheel)
    source = ROOT / "tests/lib/programs/slack.c"
    subprocess.run([compiler, "-O1", "-Wall", "-pthread", "-o", folder / "slack", source], check=True, timeout=60)
    return folder / "slack"


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_the_slack_is_the_programs_own(mpi: Mpi) -> None:
    try:
        command = [*mpi.launcher(), "-n", "2", built(mpi)]
    except Unavailable as reason:
        pytest.skip(str(reason))
    done, segment = run(command, NAP, **mpi.environment("C"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines() if len(line.split()) == 2}
    assert found == {
        "operator": FIRST_NS, "thread": FIRST_NS, "child": FIRST_NS, "scanned": SECOND_NS, "handler": FIRST_NS,
        "jumped": FIRST_NS, "thread_after": FIRST_NS, "child_after": FIRST_NS, "waited_again": SECOND_NS}
    naps = [sum(lane["naps"].values()) for slot in segment["slots"] for lane in slot["lane"]]
    assert max(naps) > 0, "no rank napped: nothing was shown"
