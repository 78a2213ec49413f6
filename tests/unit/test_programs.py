"""The unit tests that are programs: those of tests/unit/*/meson.build, and the fuzzers over their corpora."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
LIST = BUILD / "meson-info/intro-tests.json"
LEFT_OUT = 77  # a program's word for what it cannot do here: one needs a mount namespace, and so root
HANGS_S = 900  # none takes so long, whatever runs beside it
# The tests of the engine with one line of it changed must notice. That is no matter of sanitizers.
CHANGED = ("law-", "landing-", "forecast-", "joblaw-", "saving-")
SANITIZED = "MPI_WAIT_BUILD" in os.environ
PROGRAMS = sorted((program for program in (json.loads(LIST.read_text()) if LIST.exists() else [])
                   if not (SANITIZED and program["name"].startswith(CHANGED))),
                  key=lambda program: (-program["timeout"], program["name"]))  # those that take longest begin


def test_there_are_some() -> None:
    assert len(PROGRAMS) > 20, f"{BUILD} is not built"


def run(command: list[str], program: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=os.environ | program["env"], cwd=program["workdir"] or BUILD,
                          capture_output=True, text=True, errors="replace", timeout=HANGS_S)


@pytest.mark.timeout(HANGS_S * 2)
@pytest.mark.parametrize("program", PROGRAMS, ids=[program["name"] for program in PROGRAMS])
def test_program(program: dict[str, Any]) -> None:
    done = run(program["cmd"], program)
    if done.returncode == LEFT_OUT and os.geteuid() != 0:
        done = run(["unshare", "--map-root-user", *program["cmd"]], program)
    if done.returncode == LEFT_OUT or "unshare failed" in done.stderr:
        pytest.skip(done.stderr.strip().removeprefix("skipped: "))
    said = f"exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    assert done.returncode == (1 if program["name"].startswith(CHANGED) else 0), said
