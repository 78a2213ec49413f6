"""With a disk that fails, at any call of a domain's holder or of a restore: all can be put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lib.domains import DRIVER, KINDS, Node, Snapshot, helper, nodes, step_of_two
from tests.lib.faults import walk

PLANS = [plan for plan in walk.PLANS if plan.kind != "memory"]  # of which neither takes any


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, start: Callable[..., Node]) -> tuple[Node, Snapshot, str]:
    return step_of_two(start, request.param)


def restored(node: Node, before: Snapshot) -> None:
    done = node.restore()
    assert done.returncode == 0 and node.snapshot() == before, done.stderr
    assert node.held() == []


def hold(node: Node, text: str, environment: dict[str, str]) -> int:
    return node.run(DRIVER, "/run/mpi-wait", "hold", 7, 0, text=text, more=environment).returncode


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("ends", [True, False], ids=["ends", "dies"])
def test_a_call_of_a_holder_fails(
    case: tuple[Node, Snapshot, str], tmp_path: Path, plan: walk.Plan, ends: bool
) -> None:
    node, before, text = case

    def trial(environment: dict[str, str]) -> None:
        assert hold(node, text + "end\n" * ends, environment) >= 0
        restored(node, before)

    walk.walk("a domain's holder", plan, tmp_path, trial)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("verb", ["restore", "epilog"])
def test_a_call_of_a_restore_fails(
    case: tuple[Node, Snapshot, str], tmp_path: Path, plan: walk.Plan, verb: str
) -> None:
    """It says that something is left, or nothing is. A holder of which nothing can be learnt counts as alive."""
    node, before, text = case
    words = (helper(), "restore") if verb == "restore" else (DRIVER, "/run/mpi-wait", "epilog", 7)

    def trial(environment: dict[str, str]) -> None:
        assert hold(node, text, {}) == 0
        done = node.run(*words, more=environment)
        assert done.returncode in (0, 1), done
        in_use = verb == "restore" and "0 domains are in use" not in done.stderr
        assert done.returncode or in_use or (node.snapshot() == before and node.held() == []), "exit status 0"
        restored(node, before)

    walk.walk(f"a domain's {verb}", plan, tmp_path, trial)
