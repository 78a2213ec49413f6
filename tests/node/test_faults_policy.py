"""Without memory, or with a disk that fails, at any call while policies and those by program are loaded: they are
there, or it is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.lib.faults import walk
from tests.lib.record_tools import BUILD

DRIVER = BUILD / "tests/lib/doubles/policy_flat"
POLICY = """{"version": 1, "name": "%s", "summary": "s", "rungs": ["pause", "nap"], "needs": ["nap"], "budget":
{"spin_us": 20%s, "relative": 0.0625, "absolute_us": 1.5, "max_us": 100, "rma_us": 10}, "fallback": "profile"}"""
LONG = "." + 200 * "0"
"""The lexer of jansson keeps a number's digits in a text that has to grow."""


def write(folder: Path) -> None:
    for name, digits in {"long": LONG, "short": ""}.items():
        text = POLICY % (name, digits)
        assert json.loads(text)["name"] == name
        (folder / f"{name}.json").write_text(text)


def load(folder: Path, environment: dict[str, str], *file: Path) -> tuple[int, set[str]]:
    """Its exit status, and by name what has come of the policies, or of those of the programs in a file."""
    command = [DRIVER, folder, *file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done
    return done.returncode, {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("plan", walk.PLANS, ids=lambda plan: plan.name)
def test_a_call_fails(tmp_path: Path, plan: walk.Plan) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    write(policies)
    wanted = {"long", "short"}
    assert load(policies, {}) == (0, wanted)

    def trial(environment: dict[str, str]) -> None:
        status, found = load(policies, environment)
        assert found <= wanted and (status or found == wanted), f"exit status {status}, {found}"

    walk.walk("policies that are loaded", plan, tmp_path, trial, step=1)


@pytest.mark.parametrize("plan", walk.PLANS, ids=lambda plan: plan.name)
def test_a_call_fails_while_programs_are_read(tmp_path: Path, plan: walk.Plan) -> None:
    file, wanted = tmp_path / "programs.json", {"wrf.exe", "vasp_*", "lmp*"}
    rows = [{"names": ["wrf.exe", "vasp_*"], "policy": "nap,slowdown=2", "note": 300 * "x"},
            {"names": ["lmp*"], "policy": "off"}]
    file.write_text(json.dumps({"v": 1, "programs": rows, "wrappers": ["my_wrapper"]}))
    assert load(tmp_path, {}, file) == (0, wanted)

    def trial(environment: dict[str, str]) -> None:
        status, found = load(tmp_path, environment, file)
        assert (status, found) in ((0, wanted), (1, set()))

    walk.walk("policies by program", plan, tmp_path, trial, step=1)
