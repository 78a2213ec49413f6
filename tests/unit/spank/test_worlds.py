"""Worlds of ranks: from slots into a node's record, from nodes' records into the job's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import node_record
from tests.lib.records import left_out, merge
from tests.lib.segments import read_slots, segment, slot

A, B, C = 11, 22, 33
"""Launches."""


def told(tmp_path: Path, *slots: bytes) -> tuple[Any, Any]:
    wait = read_slots(tmp_path, segment(*slots))
    return wait["worlds"], wait["ranks"]


def one(rank: int, size: int, launch: int = 0, task: int = -1) -> bytes:
    return slot(rank, size, 10**6, start=1, end=10**9, launch=launch, task=task)


def node(name: str, nodes: str, worlds: list[list[int]], ranks: list[list[int]]) -> dict[str, Any]:
    """ranks: [rank, wait in seconds(, world, task)]"""
    listed = [[rank[0], rank[1] * 10**6, 0, *rank[2:]] for rank in ranks]
    record = node_record(name, nodes, listed)
    record["steps"][0]["wait"] |= {"worlds": worlds, "size": max(world[1] for world in worlds)}
    return record


def test_a_node_tells_ranks_of_one_launch_from_those_of_another(tmp_path: Path) -> None:
    worlds, ranks = told(tmp_path, one(0, 2, A, 0), one(1, 2, A, 0), one(0, 2, B, 0), one(1, 2, B, 0))
    assert worlds == [[A, 2, 2], [B, 2, 2]]
    assert ranks == [[0, 1000, 0], [1, 1000, 0], [0, 1000, 0, 1, -1], [1, 1000, 0, 1, -1]]


def test_a_rank_that_is_alone_or_has_no_number_has_its_task(tmp_path: Path) -> None:
    assert told(tmp_path, one(0, 1, 0, 0), one(0, 1, 0, 3)) == (
        [[0, 1, 2]], [[0, 1000, 0, 0, 0], [0, 1000, 0, 0, 3]])
    assert told(tmp_path, one(-1, 0, 0, 5)) == ([[0, 0, 1]], [[-1, 1000, 0, 0, 5]])
    assert told(tmp_path, one(0, 2, A, 0)) == ([[A, 2, 1]], [[0, 1000, 0]])


def test_what_a_rank_claims_of_its_world_is_bounded(tmp_path: Path) -> None:
    worlds, ranks = told(tmp_path, one(-1, 2**31 - 1, 2**64 - 1, 2**32 - 2), one(-1, 0, 0, 2**24 - 1))
    assert worlds == [[2**48 - 1, 0, 1], [0, 0, 1]]
    assert ranks == [[-1, 1000, 0], [-1, 1000, 0, 1, 2**24 - 1]]
    many, _ = told(tmp_path, *(one(0, 1, launch, 0) for launch in range(1, 65)))
    assert len(many) == 64


def test_one_world_is_told_as_if_there_were_no_worlds(tmp_path: Path) -> None:
    """Over two nodes, with and without a launch that is known."""
    first, second = [[0, 1], [2, 3]], [[1, 2], [3, 4]]
    for launch in (A, 0):
        nodes = [node("c1", "c[1-2]", [[launch, 4, 2]], first), node("c2", "c[1-2]", [[launch, 4, 2]], second)]
        wait = merge(tmp_path, nodes)["wait"]
        for record in nodes:
            del record["steps"][0]["wait"]["worlds"]
        assert wait == merge(tmp_path, nodes)["wait"] and "worlds" not in wait
        assert wait["per_rank_s"] == [1, 2, 3, 4]
    alone = merge(tmp_path, [node("c1", "c1", [[0, 1, 1]], [[0, 1, 0, 0]])])["wait"]
    assert "worlds" not in alone and alone["min"] == {"rank": 0, "s": 1, "node": "c1"}


def test_a_world_whose_last_ranks_are_missing_is_told(tmp_path: Path) -> None:
    """The first component of a heterogeneous job, for example: its ranks are 0 and 1 of four."""
    for launch in (A, 0):
        wait = merge(tmp_path, [node("c1", "c1", [[launch, 4, 2]], [[0, 1], [1, 2]])])["wait"]
        assert wait["worlds"] == [{"kind": "launched", "ranks": 2, "size": 4}]
        assert wait["per_rank_s"] == [1, 2]


def test_two_launches_in_one_step_are_two_worlds_on_all_nodes(tmp_path: Path) -> None:
    nodes = [
        node("c1", "c[1-2]", [[A, 4, 2], [B, 4, 2]], [[0, 1], [1, 2], [0, 5, 1, -1], [1, 6, 1, -1]]),
        node("c2", "c[1-2]", [[B, 4, 2], [A, 4, 2]], [[2, 7], [3, 8], [2, 3, 1, -1], [3, 4, 1, -1]]),
    ]
    wait = merge(tmp_path, nodes)["wait"]
    assert wait["worlds"] == [{"kind": "launched", "ranks": 8, "worlds": 2, "size": 4}]
    assert wait["per_rank_s"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert wait["min"] == {"rank": 0, "s": 1, "node": "c1", "world": 1}
    assert wait["max"] == {"rank": 3, "s": 8, "node": "c2", "world": 2}


def test_a_program_and_what_it_spawns(tmp_path: Path) -> None:
    ranks = [[0, 3, 0, 0], [0, 1, 1, -1], [1, 2, 1, -1]]
    wait = merge(tmp_path, [node("c1", "c1", [[A, 1, 1], [B, 2, 2]], ranks)])["wait"]
    assert wait["worlds"] == [{"kind": "launched", "ranks": 1, "size": 1}, {"kind": "launched", "ranks": 2, "size": 2}]
    assert wait["per_rank_s"] == [3, 1, 2] and wait["min"] == {"rank": 0, "s": 1, "node": "c1", "world": 2}


@pytest.mark.parametrize("launch", [0, A])
def test_programs_of_one_rank_go_by_their_tasks(tmp_path: Path, launch: int) -> None:
    """A launch that is told to all of them does not make one world of them: each says that it is alone."""
    nodes = [
        node("c1", "c[1-2]", [[launch, 1, 2]], [[0, 3, 0, 2], [0, 1, 0, 0]]),
        node("c2", "c[1-2]", [[launch, 1, 2]], [[0, 4, 0, 3], [0, 2, 0, 1]]),
    ]
    wait = merge(tmp_path, nodes)["wait"]
    assert wait["worlds"] == [{"kind": "singletons", "ranks": 4, "size": 1, "numbers": [[0, 4]]}]
    assert wait["per_rank_s"] == [1, 2, 3, 4]
    assert wait["min"] == {"rank": 0, "s": 1, "node": "c1", "world": 1, "task": 0}


def test_numbers_that_occur_twice_are_of_no_world_that_is_known(tmp_path: Path) -> None:
    wait = merge(tmp_path, [node("c1", "c1", [[0, 2, 4]], [[0, 1], [1, 2], [0, 3], [1, 4]])])["wait"]
    assert wait["worlds"] == [{"kind": "unknown", "ranks": 4, "size": 2}]
    assert wait["min"] == {"rank": -1, "s": 1, "node": "c1", "world": 1}
    twice = merge(tmp_path, [node("c1", "c1", [[A, 4, 3]], [[0, 1], [1, 2], [1, 3]])])["wait"]
    assert twice["worlds"] == [{"kind": "unknown", "ranks": 3, "size": 4}]


def test_ranks_without_a_number_go_by_their_tasks(tmp_path: Path) -> None:
    wait = merge(tmp_path, [node("c1", "c1", [[0, 0, 2]], [[-1, 2, 0, 7], [-1, 1, 0, 5]])])["wait"]
    assert wait["worlds"] == [{"kind": "unknown", "ranks": 2, "numbers": [[5, 2, 2]]}]
    assert wait["per_rank_s"] == [1, 2] and wait["max"] == {"rank": -1, "s": 2, "node": "c1", "world": 1, "task": 7}
    nameless = merge(tmp_path, [node("c1", "c1", [[0, 0, 2]], [[-1, 2], [-1, 1]])])["wait"]
    assert nameless["worlds"] == [{"kind": "unknown", "ranks": 2}]


def test_ranks_that_are_not_all_there_keep_their_numbers(tmp_path: Path) -> None:
    """The node of ranks 0 and 1 is missing; then it has no room for one of them."""
    rest = node("c2", "c[1-2]", [[A, 4, 2]], [[2, 1], [3, 2]])
    wait = merge(tmp_path, [rest], 2)["wait"]
    assert wait["worlds"] == [{"kind": "launched", "ranks": 2, "size": 4, "numbers": [[2, 2]]}]
    gap = node("c1", "c[1-2]", [[A, 4, 1]], [[0, 5]])
    gap["steps"][0]["wait"]["unseen"] = 1
    wait = merge(tmp_path, [gap, rest])["wait"]
    assert wait["worlds"] == [{"kind": "launched", "ranks": 3, "size": 4, "numbers": [[0, 2, 2], [3, 1]]}]
    assert wait["min"] == {"rank": 2, "s": 1, "node": "c2", "world": 1}


def test_a_world_of_several_steps_is_one(tmp_path: Path) -> None:
    """mpirun on two nodes: its first node's ranks are the batch step's, the others those of a step that it starts."""
    nodes = [
        node("c1", "c[1-2]", [[A, 4, 2]], [[0, 1], [2, 3]]),
        node("c2", "c[1-2]", [[A, 4, 2]], [[1, 2], [3, 4]]),
    ]
    nodes[0]["steps"][0]["id"] = "batch"
    wait = merge(tmp_path, nodes)["wait"]
    assert wait["worlds"] == [{"kind": "launched", "ranks": 4, "size": 4}] and wait["per_rank_s"] == [1, 2, 3, 4]


def test_steps_that_have_a_world_each_are_told_by_step(tmp_path: Path) -> None:
    record = node("c1", "c1", [[A, 2, 2]], [[0, 1], [1, 2]])
    later = node("c1", "c1", [[B, 2, 2]], [[1, 4], [0, 3]])["steps"][0]
    later |= {"id": "1", "start_s": later["start_s"] + 5}
    record["steps"].append(later)
    wait = merge(tmp_path, [record])["wait"]
    assert "worlds" not in wait and wait["per_rank_s"] == [1, 2, 3, 4]
    later["wait"]["worlds"] = [[B, 1, 2]]
    later["wait"]["ranks"] = [[0, 4 * 10**6, 0, 0, 1], [0, 3 * 10**6, 0, 0, 0]]
    worlds = merge(tmp_path, [record])["wait"]["worlds"]
    assert [(world["kind"], world["step"]) for world in worlds] == [("launched", "0"), ("singletons", "1")]


def test_a_node_of_an_older_release_makes_no_worlds(tmp_path: Path) -> None:
    new = node("c1", "c[1-2]", [[A, 2, 1], [B, 2, 1]], [[0, 1], [1, 2, 1, -1]])
    assert "worlds" not in merge(tmp_path, [new, node_record("c2", "c[1-2]")])["wait"]


def test_more_worlds_than_there_are_rows_for_end_in_one(tmp_path: Path) -> None:
    worlds = [[launch, 2 + launch % 2, 2] for launch in range(1, 101)]
    ranks = [[rank, 1, world, -1] for world in range(100) for rank in (0, 1)]
    told_worlds = merge(tmp_path, [node("c1", "c1", worlds, ranks)])["wait"]["worlds"]
    assert len(told_worlds) == 65 and told_worlds[-1] == {"kind": "unknown", "ranks": 72}
    scattered = [[rank * rank, 1] for rank in range(200)]
    row, = merge(tmp_path, [node("c1", "c1", [[A, 10**6, 200]], scattered)])["wait"]["worlds"]
    assert row == {"kind": "unknown", "ranks": 200, "size": 10**6}


def test_where_a_phase_waits_most_no_rank_is_named_of_several_worlds(tmp_path: Path) -> None:
    record = node("c1", "c1", [[A, 2, 1], [B, 2, 1]], [[0, 1], [0, 2, 1, -1]])
    record["steps"][0]["wait"]["phases"] = [[3, 10**6, 5, 10**6, 10**6, 1]]
    phase = merge(tmp_path, [record])["wait"]["phases"]["3"]
    assert phase["max"]["rank"] == -1
    record = node("c1", "c1", [[A, 3, 2]], [[0, 1], [2, 2]])
    record["steps"][0]["wait"]["phases"] = [[3, 10**6, 5, 10**6, 10**6, 1]]
    assert merge(tmp_path, [record])["wait"]["phases"]["3"]["max"]["rank"] == 1


@pytest.mark.parametrize("damage", [
    {"worlds": {}}, {"worlds": [[A, 2]]}, {"worlds": [[A, 2, 1]]}, {"worlds": [[-1, 2, 2]]},
    {"worlds": [[2**48, 2, 2]]},
    {"worlds": [[A, 2**24, 2]]}, {"worlds": [[A, 2, 1025]]}, {"worlds": []}, {"worlds": [[A, 2, 0]] * 1025},
    {"worlds": [[A, 2, 2]], "ranks": [[0, 1, 0, 1, -1], [1, 1, 0]]},
    {"worlds": [[A, 2, 2]], "ranks": [[0, 1, 0, 0], [1, 1, 0]]},
    {"worlds": [[A, 2, 2]], "ranks": [[0, 1, 0, 0, -2], [1, 1, 0]]},
    {"worlds": [[A, 2, 2]], "ranks": [[0, 1, 0, -1, 0], [1, 1, 0]]},
], ids=str)
def test_a_step_of_damaged_worlds_is_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    record = node_record()
    record["steps"][0]["wait"] |= damage
    assert left_out(tmp_path, record) == '"steps"[0]: wait'
