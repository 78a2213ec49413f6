"""Without memory, or with a disk that fails, at any call while policies are loaded: they are there, or it is said."""

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


def load(folder: Path, environment: dict[str, str]) -> tuple[int, set[str]]:
    """Its exit status, and by name what has come of the policies."""
    done = subprocess.run([DRIVER, folder], env=environment, capture_output=True, text=True, timeout=60, check=False)
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
