"""What sleeping cost, from the ranks' claims in the stats segment through the nodes' records to the job's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import node_record
from tests.lib.records import left_out, merge
from tests.lib.segments import read_slots, segment, slot

COST = {"slept_us": 6_000_000, "more_us": 30_000, "deviation_us": 3000, "windows": 100, "slowdown_ppm": 10_000}
MOST = 2**64 - 1


def claim(*cost: int, rank: int = 0, slowdown_ppm: int = 10_000, lanes: int = 1) -> bytes:
    """A rank that says so; the step has lasted ten seconds."""
    return slot(rank, 2, 10**6, start=1, end=10**9, slowdown_ppm=slowdown_ppm, lanes=lanes, cost=cost)


def noted(wait: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The record of a node of that waiting."""
    record = node_record(**changes)
    record["steps"][0]["wait"] = wait
    return record


def of_cost(cost: Any, node: str = "c1", nodes: str = "c1") -> dict[str, Any]:
    record = node_record(node, nodes)
    record["steps"][0]["wait"]["cost"] = cost
    return record


def test_what_the_ranks_measured_is_summed(tmp_path: Path) -> None:
    """Errors add up, since ranks see the same periods; of the windows and of what is allowed the most counts."""
    ranks = [
        claim(4 * 10**9, 12 * 10**6, 4 * 10**6, 100),
        claim(2 * 10**9, -2 * 10**6, 10**6, 90, rank=1, slowdown_ppm=5000),
    ]
    wait = read_slots(tmp_path, segment(*ranks))
    assert wait["doubtful"] == 0
    assert wait["cost"] == {"slept_us": 6_000_000, "more_us": 10_000, "deviation_us": 3000, "windows": 100,
                            "slowdown_ppm": 10_000}
    cost = merge(tmp_path, [noted(wait)])["wait"]["cost"]
    assert cost == {"percent": 0.167, "error": 0.1, "windows": 100, "seconds": 6, "slowdown": 1}


def test_where_nothing_was_compared_there_is_none(tmp_path: Path) -> None:
    wait = read_slots(tmp_path, segment(claim(0, 0, 0, 12)))
    assert "cost" not in wait and wait["doubtful"] == 0
    assert "cost" not in merge(tmp_path, [node_record()])["wait"]
    assert "cost" not in merge(tmp_path, [of_cost(dict.fromkeys(COST, 0))])["wait"]


def test_periods_of_several_calls_may_be_longer_than_the_step(tmp_path: Path) -> None:
    wait = read_slots(tmp_path, segment(claim(60 * 10**9, 10**8, 0, 9)))
    assert wait["doubtful"] == 0 and wait["cost"]["slept_us"] == 60 * 10**6


@pytest.mark.parametrize(("lie", "told"), [
    ((MOST, 0, 0, 9), {"slept_us": 256 * 10**7}),
    ((10**9, 2**62, 0, 9), {"more_us": 10**6}),
    ((10**9, -(2**63), 0, 9), {"more_us": -(10**6)}),
    ((0, -1, 0, 9), None),
    ((10**9, 0, 0, MOST), {"windows": 10**7}),
], ids=str)
def test_lies_are_cut_and_marked(tmp_path: Path, lie: tuple[int, ...], told: dict[str, int] | None) -> None:
    wait = read_slots(tmp_path, segment(claim(*lie)))
    assert wait["doubtful"] == 1 and ("cost" in wait) == (told is not None)
    assert not told or wait["cost"].items() >= told.items()
    assert left_out(tmp_path, noted(wait)) == ""


def test_an_error_of_any_size_is_no_lie(tmp_path: Path) -> None:
    """It says that nothing is known."""
    wait = read_slots(tmp_path, segment(claim(10**9, 10**6, MOST, 9)))
    assert wait["doubtful"] == 0 and wait["cost"]["deviation_us"] == 10**6
    assert merge(tmp_path, [noted(wait)])["wait"]["cost"]["error"] == 200


@pytest.mark.parametrize("lie", [(MOST, -(2**63), MOST, MOST), (MOST, 2**63 - 1, MOST, MOST), (1999, 1999, 5, 1)])
def test_all_ranks_lie(tmp_path: Path, lie: tuple[int, ...]) -> None:
    """No sum goes beyond what its reader takes, on a node that has been up for a year."""
    ranks = [claim(*lie, rank=rank, slowdown_ppm=2**64 - 1, lanes=8) for rank in range(64)]
    wait = read_slots(tmp_path, segment(*ranks), now=365 * 86400 * 10**9)
    records = [noted(wait, node=f"c{node}", nodes="c[1-3]") for node in (1, 2, 3)]
    assert left_out(tmp_path, records[0]) == ""
    cost = merge(tmp_path, records)["wait"]["cost"]
    assert abs(cost["percent"]) == 100 and cost["error"] <= 200 and cost["slowdown"] == 100


def test_nodes_are_put_together_by_their_periods(tmp_path: Path) -> None:
    other = {"slept_us": 2_000_000, "more_us": -6000, "deviation_us": 1000, "windows": 120, "slowdown_ppm": 20_000}
    records = [of_cost(COST, "c1", "c[1-2]"), of_cost(other, "c2", "c[1-2]")]
    cost = merge(tmp_path, records)["wait"]["cost"]
    assert cost == {"percent": 0.3, "error": 0.1, "windows": 120, "seconds": 8, "slowdown": 2}
    of_older = merge(tmp_path, [records[0], node_record("c2", "c[1-2]")])["wait"]["cost"]
    assert of_older == {"percent": 0.5, "error": 0.1, "windows": 100, "seconds": 6, "slowdown": 1}


def test_steps_are_put_together_by_their_periods(tmp_path: Path) -> None:
    record = of_cost(COST)
    second = {**record["steps"][0], "id": "1"}
    second["wait"] = {**second["wait"], "cost": {**COST, "more_us": -18_000, "slowdown_ppm": 0}}
    record["steps"].append(second)
    cost = merge(tmp_path, [record])["wait"]["cost"]
    assert cost == {"percent": 0.1, "error": 0.1, "windows": 100, "seconds": 12, "slowdown": 1}


def test_without_an_account_nothing_is_allowed(tmp_path: Path) -> None:
    assert "slowdown" not in merge(tmp_path, [of_cost({**COST, "slowdown_ppm": 0})])["wait"]["cost"]


@pytest.mark.parametrize("damage", [
    [], 1, "1", {}, {**COST, "slept_us": -1}, {**COST, "slept_us": 10**18 + 1}, {**COST, "slept_us": 0.5},
    {**COST, "more_us": 6_000_001}, {**COST, "more_us": -6_000_001}, {**COST, "more_us": 0.5},
    {**COST, "more_us": -(2**63)}, {**COST, "more_us": None}, {**COST, "deviation_us": 6_000_001},
    {**COST, "deviation_us": -1}, {**COST, "windows": -1}, {**COST, "windows": 10**15 + 1},
    {**COST, "slowdown_ppm": 1_000_001}, {key: COST[key] for key in list(COST)[1:]},
], ids=str)
def test_what_no_node_writes_is_left_out(tmp_path: Path, damage: Any) -> None:
    assert left_out(tmp_path, of_cost(damage)) == '"steps"[0]: wait'


def test_it_stays_where_a_record_is_shortened(tmp_path: Path) -> None:
    """A job of so many ranks that their list does not fit."""
    records = []
    for node in range(12):
        ranks = [[1000 * node + rank, 10**6 + 1000 * rank, 0] for rank in range(1000)]
        records.append(node_record(f"c{node:02}", "c[00-11]", ranks))
        records[-1]["steps"][0]["wait"] |= {"cost": COST, "size": 12_000}
    wait = merge(tmp_path, records)["wait"]
    assert wait["per_rank_s"] == [] and (wait["cost"]["percent"], wait["cost"]["seconds"]) == (0.5, 72)
