"""Launchers of real MPIs: ranks of one world say that they belong together, and no others."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from tests.lib.doubles import segment_tool
from tests.lib.launches import configured, environment_of, napping, segment
from tests.lib.libraries import BY_NAME, LIBRARY, Mpi, execute
from tests.mpi.playing import available, built, of

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def slots_of(mpi: Mpi, *launches: Sequence[object], together: bool = False, **variables: str) -> list[dict[str, Any]]:
    """Runs all these commands, one after another or together. Returns what their ranks wrote into one segment."""
    script = (" & " if together else "; ").join(shlex.join(map(str, words)) for words in launches)
    with available(), segment() as made:
        environment = {**environment_of(mpi), **configured(napping(), made), **variables}
        done = execute(["sh", "-c", f"{script}{' & wait' * together}"], environment, 100)
        assert done[0] == 0, done
        return list(segment_tool.segment_read(made)["slots"])


def worlds_of(slots: list[dict[str, Any]]) -> list[list[tuple[int, int]]]:
    """(rank, size) of those that have a launch in common, the smallest world first."""
    launches: dict[int, list[tuple[int, int]]] = {}
    for slot in slots:
        launches.setdefault(slot["launch"], []).append((slot["rank"], slot["size"]))
    assert 0 not in launches
    return sorted((sorted(ranks) for ranks in launches.values()), key=lambda ranks: (len(ranks), ranks))


@of("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")
def test_two_launches_at_the_same_time_are_two_worlds(mpi: Mpi) -> None:
    run = [*mpi.launcher(), "-n", 2, built(mpi, "worlds")]
    assert worlds_of(slots_of(mpi, run, run, together=True)) == [[(0, 2), (1, 2)]] * 2


@of("openmpi", "openmpi-5")
def test_what_a_program_spawns_is_another_world(mpi: Mpi) -> None:
    slots = slots_of(mpi, [*mpi.launcher(), "-n", 1, built(mpi, "worlds"), "spawn"])
    assert worlds_of(slots) == [[(0, 1)], [(0, 2), (1, 2)]]


@of("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")
def test_a_program_without_a_launcher_is_of_no_launch(mpi: Mpi) -> None:
    slots = slots_of(mpi, *[[built(mpi, "worlds")]] * 2, SLURM_PROCID="3")
    assert [(slot["rank"], slot["size"], slot["launch"], slot["task"]) for slot in slots] == [(0, 1, 0, 4)] * 2


def test_ranks_with_a_session_have_the_launchers_numbers() -> None:
    mpi = BY_NAME["mpich-5"]
    slots = slots_of(mpi, [*mpi.launcher(), "-n", 2, built(mpi, "worlds"), "session"])
    assert worlds_of(slots) == [[(0, 2), (1, 2)]]
    alone = slots_of(mpi, [built(mpi, "worlds"), "session"], SLURM_PROCID="3")
    assert [(slot["rank"], slot["launch"], slot["task"]) for slot in alone] == [(-1, 0, 4)]
