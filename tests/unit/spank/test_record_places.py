"""Where the ranks of exact lists ran: in the record by runs, and in what the report makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lib.doubles.record_doubles import one_slow_node
from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown
from tests.lib.record_tools import node_record
from tests.lib.records import merge


def spread(places: Sequence[int], nodes: int) -> list[dict[str, Any]]:
    """Rank i ran on node places[i]."""
    records = []
    for node in range(nodes):
        ranks = [[rank, 10**9 + rank * 1000, 10**8 + rank * 1000] for rank, place in enumerate(places) if place == node]
        records.append(node_record(f"c{node + 1}", f"c[1-{nodes}]", ranks))
        records[-1]["steps"][0]["wait"]["size"] = len(places)
    return records


def places_of(runs: list[list[Any]], count: int) -> list[int]:
    places = [-1] * count
    for node, first, ranks, *distance in runs:
        for index in range(ranks):
            place = first + index * (distance or [1])[0]
            assert places[place] == -1
            places[place] = int(node[1:]) - 1
    return places


LAYOUTS = {
    "block": ([rank // 8 for rank in range(32)], 4),
    "cyclic": ([rank % 4 for rank in range(32)], 4),
    "plane": ([rank // 2 % 4 for rank in range(32)], 16),
    "one each": ([0, 1, 2], 3),
    "odd": ([0, 1, 1, 0, 0, 2, 0, 1, 2, 2, 0, 0, 1], None),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_rank_has_its_node(tmp_path: Path, layout: str) -> None:
    places, rows = LAYOUTS[layout]
    runs = merge(tmp_path, spread(places, max(places) + 1))["wait"]["per_rank_nodes"]
    assert places_of(runs, len(places)) == places
    assert rows is None or len(runs) == rows


def test_one_node_is_no_question(tmp_path: Path) -> None:
    assert "per_rank_nodes" not in merge(tmp_path, [node_record()])["wait"]


def test_names_that_do_not_fit_cost_no_other_detail(tmp_path: Path) -> None:
    """Two thousand nodes of a rank each; then so many ranks that sleep goes first."""
    many = spread(list(range(2100)), 2100)
    for record in many:
        record["node"] = f"{record['node']:x>60}"
    wait = merge(tmp_path, many)["wait"]
    assert "per_rank_nodes" not in wait and len(wait["per_rank_s"]) == len(wait["per_rank_asleep_s"]) == 2100
    many = spread([rank // 1000 for rank in range(5000)], 5)
    wait = merge(tmp_path, many)["wait"]
    assert len(wait["per_rank_s"]) == 5000 and len(wait["per_rank_nodes"]) == 5 and wait["per_rank_asleep_s"] == []


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


def ask(report: Report, runs: Any, record: dict[str, Any], *argv: str) -> str:
    record["mpi_wait"]["wait"]["per_rank_nodes"] = runs
    return shown(report("123", *argv, rows=[make_row(json.dumps(record))]))


def test_ranks_are_shown_with_their_nodes(report: Report) -> None:
    text = ask(report, [["n1", 0, 3], ["n2", 3, 1]], make_record())
    assert re.search(r"rank 0 n1 +9\.50 s", text) and re.search(r"rank 3 n2 +500 ms", text)
    rows = ask(report, [["n1", 0, 2, 2], ["n2", 1, 2, 2]], make_record(), "--csv")
    assert "123,rank,0,node,n1," in rows and "123,rank,1,node,n2," in rows and "123,rank,2,node,n1," in rows


def test_slow_nodes_are_found_in_the_list_of_all_ranks(report: Report) -> None:
    """One node of sixteen; without the runs the two extremes say nothing of it."""
    runs = [[f"c{node + 1:03d}", node * 32, 32] for node in range(16)]
    assert "Slow     c006 (32 ranks seen)" in ask(report, runs, one_slow_node())
    assert "Slow " not in ask(report, [[f"c{node + 1:03d}", node, 32, 16] for node in range(16)], one_slow_node())


@pytest.mark.parametrize(
    "runs",
    [7, [7], [[]], [["n1", 0]], [["n1", 0, 5]], [["n1", 3, 2]], [["n1", 0, 2, 4]], [["n1", -1, 2]], [[1, 0, 2]],
     [["n1", 0, 3]] * 2, [["n1", 0, 1.5]], [["n1", 0, True]], [["n1", 10**18, 1]], [["n" * 65, 0, 1]]],
    ids=str,
)  # fmt: skip
def test_runs_that_cannot_be_are_refused(report: Report, runs: Any) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["per_rank_nodes"] = runs
    assert "per_rank_nodes" in refused(report("123", rows=[make_row(json.dumps(record))]))
