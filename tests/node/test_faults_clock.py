"""The wall clock jumps between any two looks at it: nothing is lost, nothing waits for the time to come again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.faults import walk
from tests.lib.faults.depot import VERBS, Depot

HOUR_S = 3600
JUMPS_S = (-10 * HOUR_S, 10 * HOUR_S, -400 * 24 * HOUR_S, 400 * 24 * HOUR_S)
LOOKS = 12 if walk.FULL else 4


@pytest.mark.parametrize("name", VERBS)
def test_the_clock_jumps(tmp_path: Path, name: str) -> None:
    depot = Depot(tmp_path, VERBS[name])
    wanted = depot.play_undisturbed()
    for jump_s in JUMPS_S:
        for look in range(1, LOOKS + 1):
            depot.prepare()
            environment = {"LD_PRELOAD": str(walk.MODULE), "MPIWAIT_CLOCK_JUMP": f"{jump_s}:{look}"}
            status = depot.run(depot.verb.words, environment)
            stored, waiting = depot.stored(), depot.waiting()
            for key, nodes in depot.verb.jobs.items():
                assert stored.get(key) == wanted[key] or waiting.get(key) == nodes, (jump_s, look, key, status)
            depot.recover(wanted)
    walk.count("faults", len(JUMPS_S) * LOOKS, f"mpi-wait-node {name}: the clock jumps")
