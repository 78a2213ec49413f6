"""Which core each rank is bound to."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.bench import binding, variants

built = pytest.mark.skipif(not (variants.BUILT / "bound").exists(), reason="not built")


def test_ranks_have_cores_of_their_own_while_there_are_enough() -> None:
    assert binding.shared([0, 2, 4, 6], 3) == [0, 2, 4]


def test_ranks_that_share_a_core_are_neighbours() -> None:
    assert binding.shared([0, 1], 4) == [0, 0, 1, 1]
    assert binding.shared([0, 1, 2], 4) == [0, 0, 1, 2]


@built
@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_a_rank_runs_on_the_core_at_its_place(name: str) -> None:
    cpu = max(os.sched_getaffinity(0))
    command = [*binding.prefix([cpu, cpu]), "/usr/bin/python3", "-c", "import os; print(os.sched_getaffinity(0))"]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", name: "1"}, capture_output=True, text=True,
                          check=True, timeout=60)
    assert done.stdout.strip() == str({cpu})


@built
def test_a_rank_without_a_core_fails() -> None:
    done = subprocess.run([*binding.prefix([0]), "true"], env={"PMI_RANK": "1"}, capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2 and "rank 1 has no core" in done.stderr
