"""Without memory, or with a disk that fails, at any call of mpi-wait-node: no record is lost, and it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.faults import walk
from tests.lib.faults.depot import VERBS, Depot


@pytest.mark.parametrize("plan", walk.PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("name", VERBS)
def test_a_call_fails(tmp_path: Path, name: str, plan: walk.Plan) -> None:
    depot = Depot(tmp_path, VERBS[name])
    wanted = depot.play_undisturbed()

    def trial(environment: dict[str, str]) -> None:
        depot.prepare()
        depot.judge(depot.run(depot.verb.words, environment), wanted)
        depot.recover(wanted)

    walk.walk(f"mpi-wait-node {name}", plan, tmp_path, trial)
