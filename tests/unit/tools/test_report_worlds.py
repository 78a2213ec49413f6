"""Ranks of several worlds, of none, and programs of one rank each: what is said of them in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown

LAUNCHED = [{"kind": "launched", "ranks": 4, "worlds": 2, "size": 2}]
SINGLETONS = [{"kind": "singletons", "ranks": 4, "size": 1, "numbers": [[0, 4]]}]
UNKNOWN = [{"kind": "unknown", "ranks": 4, "size": 2}]
WAITS = [1.0, 9.0, 3.0, 9.5]
"""Two worlds of two ranks: each loses what its first rank waits less than the second."""


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


def record_of(worlds: list[dict[str, Any]], waits: list[float] | None = None) -> dict[str, Any]:
    record = make_record(waits or WAITS)
    body = record["mpi_wait"]
    body["wait"]["worlds"] = worlds
    body["wait"]["min"] |= {"rank": 0, "world": 1}
    body["wait"]["max"] |= {"rank": 1, "world": 2}
    for place in (body["policy"], body["steps"][0]["policy"]):
        place.update(asked="nap", used="nap")
        place.pop("why", None)
    return record


def ask(report: Report, record: dict[str, Any], *argv: str) -> str:
    return " ".join(shown(report("123", *argv, rows=[make_row(json.dumps(record))])).split())


def test_ranks_of_two_worlds_are_compared_within_each(report: Report) -> None:
    record = record_of(LAUNCHED)
    text = ask(report, record)
    assert "4 MPI ranks in 2 worlds" in text and "max/mean" not in text
    assert "ranks of one world are compared, those of several are not" in text
    assert [f"rank {label} " in text for label in ("w1:0", "w1:1", "w2:0", "w2:1")] == [True] * 4
    assert "World 1: take work from rank 0" in text and "World 2: take work from rank 0" in text
    answer = json.loads(ask(report, record, "--json"))
    assert answer["imbalance"]["max_over_mean"] is None and answer["imbalance"]["lost_s"] == 14.5
    one_world = make_record(WAITS)
    assert json.loads(ask(report, one_world, "--json"))["imbalance"]["lost_s"] == 18.5


def test_programs_of_one_rank_each_are_told_what_is_wrong(report: Report) -> None:
    record = record_of(SINGLETONS)
    text = ask(report, record, "--all-ranks")
    assert "MPI was not started by srun: 4 programs of one rank each; try --mpi=pmix" in text
    assert "4 programs of one MPI rank each" in text and "task 0 " in text and "task 3 " in text
    assert "computes longest" not in text and "imbalance" not in text and "Take work" not in text
    answer = json.loads(ask(report, record, "--json"))
    assert "imbalance" not in answer and not any("rank" in line.split(":")[0] for line in answer["advice"])
    line = ask(report, record, "--brief").splitlines()[-1]
    assert "lost" in line and "–" in line


def test_programs_that_no_srun_started_are_no_mistake_of_srun(report: Report) -> None:
    """A batch script runs them itself, or one task runs several, one after another."""
    record = record_of([SINGLETONS[0] | {"numbers": [[0, 4, 0]]}])
    text = ask(report, record)
    assert "was not started by srun" not in text and "programs of one MPI rank each" in text
    record = record_of(SINGLETONS)
    record["mpi_wait"]["steps"][0]["id"] = "batch"
    assert "was not started by srun" not in ask(report, record)


def test_ranks_of_unknown_worlds_are_neither_numbered_nor_compared(report: Report) -> None:
    text = ask(report, record_of(UNKNOWN))
    assert "it is not known in which worlds" in text and "rank ? " in text
    assert "computes longest" not in text and "Lost" not in text and "rank 0" not in text
    tasks = ask(report, record_of([UNKNOWN[0] | {"numbers": [[0, 4]]}]))
    assert "task 3 " in tasks and "computes longest" not in tasks


def test_what_waits_for_whom_beside_a_program_that_is_alone(report: Report) -> None:
    """A program of one rank, and three that it spawned."""
    worlds = [{"kind": "launched", "ranks": 1, "size": 1}, {"kind": "launched", "ranks": 3, "size": 3}]
    text = ask(report, record_of(worlds, [1.0, 0.5, 9.0, 9.0]))
    assert "4 MPI ranks in 2 worlds" in text and "rank w2:2 " in text and "rank 3" not in text
    assert "World 2: take work from rank 0" in text


def test_numbers_are_those_of_the_world_where_ranks_are_missing(report: Report) -> None:
    record = record_of([{"kind": "launched", "ranks": 4, "size": 8, "numbers": [[2, 3, 2], [7, 1]]}])
    text = ask(report, record)
    assert [f"rank {number} " in text for number in (2, 4, 6, 7)] == [True] * 4 and "rank 0 " not in text
    assert "rank 2 waits least" in text or "rank 2 and" in text


def test_ranks_are_not_held_for_the_busiest_where_others_of_their_world_are_missing(report: Report) -> None:
    """A component of a heterogeneous job: all its ranks may wait for one of another component."""
    record = record_of([{"kind": "launched", "ranks": 4, "size": 6}], [5.0, 9.0, 9.1, 9.2])
    record["mpi_wait"]["nodes"] = {"reported": 2, "of": 2}
    record["mpi_wait"]["wait"]["per_rank_nodes"] = [["n1", 0, 1], ["n2", 1, 3]]
    text = ask(report, record)
    assert "rank 0 waits least of those seen; the record lacks 2 ranks of the same MPI_COMM_WORLD" in text
    said = ("computes longest", "Lost", "Slow", "Take work", "Look at node", "max/mean")
    assert not [words for words in said if words in text]
    assert "imbalance" not in json.loads(ask(report, record, "--json"))
    assert json.loads(ask(report, record, "--json", "--brief"))[0]["lost"] is None
    assert "lost_to_imbalance" not in ask(report, record, "--csv")
    record["mpi_wait"]["wait"] |= {"per_rank_s": [], "per_rank_asleep_s": [], "per_rank_nodes": [],
                                   "quantiles_s": [5 + i / 25 for i in range(101)]}
    text = ask(report, record)
    assert "the record lacks 2 ranks" in text and "computes longest" not in text and "Lost" not in text
    broken = " ".join(shown(report("123", rows=[make_row(json.dumps(record), State="TIMEOUT")])).split())
    assert "Balance not known: the record lacks 2 ranks" in broken and "Look at what" not in broken


def test_steps_with_several_worlds(report: Report) -> None:
    record = record_of([
        {"kind": "launched", "ranks": 2, "worlds": 2, "size": 1, "step": "batch"},
        {"kind": "launched", "ranks": 2, "size": 2, "step": "0"},
    ])
    body = record["mpi_wait"]
    first = body["steps"][0] | {"ranks": 2, "wait_s": 12.5}
    body["steps"] = [first | {"id": "batch", "wait_s": 10.0}, first]
    text = ask(report, record)
    assert [f"rank {label} " in text for label in ("batch.w1:0", "batch.w2:0", "0.0", "0.1")] == [True] * 4
    assert "Step 0: take work from rank 0" in text
    step = " ".join(shown(report("123.0", rows=[make_row(json.dumps(record))])).split())
    assert "rank 0 waits least" in step and "rank 1 " in step


def test_a_world_that_came_by_several_steps_is_compared(report: Report) -> None:
    record = record_of([{"kind": "launched", "ranks": 4, "size": 4}])
    body = record["mpi_wait"]
    first = body["steps"][0] | {"ranks": 2}
    body["steps"] = [first | {"id": "batch"}, first]
    text = ask(report, record)
    assert "rank 0 " in text and "computes longest" in text and "Take work from rank 0" in text


def test_csv_has_the_worlds(report: Report) -> None:
    def rows(worlds: list[dict[str, Any]]) -> list[list[str]]:
        text = shown(report("123", "--csv", rows=[make_row(json.dumps(record_of(worlds)))]))
        return [row[1:5] for row in csv.reader(io.StringIO(text))]

    told = rows(LAUNCHED)
    assert ["rank", "w2:0", "wait", "3.0"] in told and ["world", "2", "kind", "launched"] in told
    assert ["world", "2", "size", "2"] in told and not any(row[2] == "max_over_mean" for row in told)
    assert ["rank", "task 3", "wait", "9.5"] in rows(SINGLETONS)


def test_the_page_and_the_line_of_many_say_the_same(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ask(report, record_of(SINGLETONS), "--html", str(page))
    text = page.read_text()
    assert "task 3" in text and "was not started by srun" in text and "Lost to the imbalance" not in text
    assert "programs of one MPI rank each" in text


def test_ranks_that_are_not_listed_are_named_by_their_world(report: Report) -> None:
    record = record_of(LAUNCHED)
    wait = record["mpi_wait"]["wait"]
    wait |= {"per_rank_s": [], "per_rank_asleep_s": [], "quantiles_s": [index / 10 for index in range(101)],
             "least": [{"rank": 0, "s": 0.0, "node": "n1", "world": 2}],
             "most": [{"rank": 1, "s": 10.0, "node": "n2", "world": 1}]}
    text = ask(report, record)
    assert "rank w2:0 n1" in text and "rank w1:1 n2" in text and "max/mean" not in text and "Lost" not in text


def test_a_row_stands_for_no_more_worlds_than_can_be_held(report: Report) -> None:
    """Where no rank is listed nothing else bounds it."""
    record = record_of([{"kind": "launched", "ranks": 10**15, "worlds": 10**15, "size": 1}])
    wait = record["mpi_wait"]["wait"]
    wait |= {"per_rank_s": [], "per_rank_asleep_s": [], "quantiles_s": [index / 10 for index in range(101)]}
    assert "max/mean" not in ask(report, record)


@pytest.mark.parametrize("worlds", [
    {}, [1], 7, [{"kind": "launched", "ranks": 4}] * 66,
    [{"kind": "own", "ranks": 4}], [{"kind": "launched", "ranks": 3}], [{"kind": "launched", "ranks": 5}],
    [{"kind": "launched", "ranks": 4, "worlds": 3}], [{"kind": "launched", "ranks": 4, "worlds": 0}],
    [{"kind": "launched", "ranks": 4, "numbers": [[0, 3]]}],
    [{"kind": "launched", "ranks": 4, "numbers": [[0, 4, 2, 1]]}],
    [{"kind": "launched", "ranks": 4, "numbers": [[-1, 4]]}], [{"kind": "launched", "ranks": 4, "numbers": [["a", 4]]}],
    [{"kind": "launched", "ranks": 4, "numbers": [[0, 10**12]]}], [{"kind": "launched", "ranks": 4, "step": "x"}],
    [{"kind": "launched", "ranks": 10**9, "worlds": 10**9}],
], ids=str)
def test_a_damaged_table_is_refused(report: Report, worlds: Any) -> None:
    record = make_record(WAITS)
    record["mpi_wait"]["wait"]["worlds"] = worlds
    assert "damaged" in refused(report("123", rows=[make_row(json.dumps(record))]))
