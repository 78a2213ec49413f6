"""The nodes of a job as a heat map: in the text of the report, and in its page."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from mpi_wait_tools.meaning.nodes import distances_of, node_map
from mpi_wait_tools.record.record import parse_record

from tests.lib.doubles.report_double import Report, make_record, make_row, shown
from tests.lib.pages import checked
from tests.lib.recorded_jobs import JOBS, rows_of

HOSTILE = "<i>\"'&\x1b[31m"
RANKS = 2  # on each node
TITLE = "Waiting by node"


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def body_of(waits: dict[str, list[float]], **changes: Any) -> dict[str, Any]:
    """waits: by node, of each of its ranks."""
    per_rank = [seconds for node in waits.values() for seconds in node]
    body = make_record(per_rank)["mpi_wait"]
    body["nodes"] = {"reported": len(waits), "of": len(waits)}
    body["wait"]["share"] = sum(per_rank) / len(per_rank) / 20  # the run of each rank is 20 s
    places = [sum(map(len, list(waits.values())[:index])) for index in range(len(waits))]
    body["wait"]["per_rank_nodes"] = [[name, places[index], len(waits[name])] for index, name in enumerate(waits)]
    return {**body, **changes}


def even(nodes: int, **others: list[float]) -> dict[str, list[float]]:
    """Nodes whose ranks wait 8 s, a hundredth more or less."""
    alike = {f"n{index:04d}": [8.0 + 0.08 * (index % 3 - 1)] * RANKS for index in range(nodes - len(others))}
    return {**alike, **others}


def section(text: str) -> list[str]:
    """The lines below the heading, as far as the next one."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(TITLE))
    return lines[start + 1 : lines.index("", start)]


def text_of(report: Report, body: dict[str, Any], *words: str) -> str:
    return shown(report("123", *words, rows=[make_row(json.dumps({"mpi_wait": body}))]))


def page_of(report: Report, body: dict[str, Any]) -> str:
    path = report.folder / "page.html"
    assert text_of(report, body, "--html", str(path)) == ""
    text = path.read_text()
    checked(text)
    return text


def test_what_stands_out() -> None:
    """A few that differ do not move what is usual; what differs little never stands out."""
    assert [far > 1 for far in distances_of([0.3, 0.31, 0.3, 0.02])] == [False, False, False, True]
    assert max(distances_of([0.3, 0.3, 0.3, 0.34])) < 1 < max(distances_of([0.3, 0.3, 0.3, 0.36]))
    assert max(distances_of([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])) < 1
    assert max(distances_of([0.1, 0.1, 0.6, 0.6])) < 1
    assert distances_of([None, None]) == [0.0, 0.0] and distances_of([0.5, None, 0.5, 0.5])[1] == 0.0


def test_a_row_is_a_node_with_its_figures(report: Report) -> None:
    lines = section(text_of(report, body_of(even(4, slow=[0.4, 1.2]))))
    assert re.split(r"\s{2,}", lines[0].strip()) == ["node", "ranks", "waiting", "least", "most", "asleep"]
    row = next(line for line in lines if line.strip().startswith("slow"))
    assert re.findall(r"[0-9.]+ %!?", row) == ["4.0 %!", "2.0 %!", "6.0 %!", "90 %"]
    assert row.rstrip().endswith("slow"), "the one that slow_nodes() finds"
    assert "░░░" in row and "███" in row, "little waiting, as much asleep of it as elsewhere"
    assert not [line for line in lines if line.strip().startswith("n0") and "!" in line]
    assert any("! stands out from the nodes' median" in line for line in lines)
    ends = {line.index("%") for line in lines[1:5]}
    assert len(ends) == 1, "the figures stand below one another"


def test_fewer_than_four_nodes_and_unknown_ones_are_not_drawn(report: Report) -> None:
    assert TITLE not in text_of(report, body_of(even(3)))
    unknown = body_of(even(4))
    del unknown["wait"]["per_rank_nodes"]
    assert TITLE not in text_of(report, unknown) and TITLE not in page_of(report, unknown)
    for name in JOBS:
        text = shown(report(rows_of(name)[-1]["JobID"], rows=[make_row(**rows_of(name)[-1])]))
        assert (TITLE in text) == (name == "slow-node"), name


def test_thousands_of_nodes_are_the_most_unusual_ones_and_a_line(report: Report) -> None:
    body = body_of(even(3000, quick=[19.0] * RANKS))
    lines = section(text_of(report, body))
    assert lines[1].strip().startswith("quick") and len(lines) < 24
    assert "… 2984 nodes more: waiting 40 % to 40 %, median 40 %" in " ".join(" ".join(lines).split())
    assert len(section(text_of(report, body, "--all-ranks"))) > 3000
    page = page_of(report, body)
    assert len(re.findall(r"<title>n[0-9]{4}, 2 ranks: waiting ", page)) == 63 and "2936 nodes more" in page
    assert len(page) < 200_000


@pytest.mark.parametrize("missing", ["a node", "one program"])
def test_nodes_that_cannot_be_compared_are_shown_without_a_verdict(report: Report, missing: str) -> None:
    body = body_of(even(5, slow=[0.4, 1.2]))
    if missing == "a node":
        body["nodes"] = {"reported": 5, "of": 6, "why": "nodes missing"}
    else:
        body["steps"] = [{**body["steps"][0], "id": str(step), "ranks": 5} for step in range(2)]
    body["throttle"] = {"core_throttle": 1, "package_throttle": 0, "core_power_limit": 0, "package_power_limit": 0,
                        "most": "n0000"}
    lines = section(text_of(report, body))
    assert any(line.split()[:2] == ["slow", "2"] for line in lines)
    assert "!" not in "".join(lines) and "throttled" not in "".join(lines) and "stands out" not in page_of(report, body)


def test_the_node_that_was_slowed_down_most_is_named(report: Report) -> None:
    body = body_of(even(40))
    body["throttle"] = {"core_throttle": 9, "package_throttle": 0, "core_power_limit": 0, "package_power_limit": 0,
                        "most": "n0031"}
    first = section(text_of(report, body))[1]
    assert first.strip().startswith("n0031") and first.endswith("throttled most")
    page = page_of(report, body)
    assert "n0031 (throttled most), 2 ranks: waiting" in page and "n0031: throttled most. The stronger" in page


def test_what_root_read_on_each_node_stands_beside_it(report: Report) -> None:
    """Watts of the job, how often a node was slowed down; what is far from the median is marked there too."""
    body = body_of(even(6))
    joules = [4000.0, 4010.0, 3990.0, 4000.0, 2000.0, None]
    body["by_node"] = [[f"n{index:04d}", value, 70 * (index == 2)] for index, value in enumerate(joules)]
    text = text_of(report, body, "--width", "120")
    lines = section(text)
    assert re.split(r"\s{2,}", lines[0].strip())[-2:] == ["power", "slowed"]
    cells = {line.split()[0]: re.findall(r"([0-9.]+) W(!?)", line) for line in lines[1:7]}
    assert cells["n0000"] == [("160", "")] and cells["n0004"] == [("80.0", "!")] and cells["n0005"] == []
    assert re.search(r" 70!", lines[3]) and "slowed: how often by heat or a limit" in " ".join(" ".join(lines).split())
    page = page_of(report, body)
    assert "n0004, 2 ranks: power 80.0 W on average, stands out" in page and "n0002, 2 ranks: slowed 70 times" in page
    rows = report("123", "--csv", rows=[make_row(json.dumps({"mpi_wait": body}))]).stdout
    assert "123,node,n0000,energy,4000.0,J" in rows and "123,node,n0002,slowed,70," in rows
    body["by_node"] = [[name, joules, 0] for name, joules, _ in body["by_node"]]
    assert "slowed" not in section(text_of(report, body, "--width", "120"))[0], "nothing was"


@pytest.mark.parametrize("spoilt", [["n0"], ["n0", -1, 0], ["n0", 1, "0"], [1, 1, 1], {"n0": 1}])
def test_spoilt_figures_of_a_node_are_refused(report: Report, spoilt: object) -> None:
    body = body_of(even(4))
    body["by_node"] = [spoilt]
    assert "damaged" in report("123", rows=[make_row(json.dumps({"mpi_wait": body}))]).stderr


def test_without_what_each_slept_the_column_is_not_there(report: Report) -> None:
    body = body_of(even(4))
    body["wait"]["per_rank_asleep_s"] = []
    assert "asleep" not in section(text_of(report, body))[0] and ": asleep " not in page_of(report, body)


def test_one_step_of_several() -> None:
    waits = {f"n{index}": [4.0, 8.0] for index in range(4)}
    body = body_of(waits)
    body["wait"]["per_rank_nodes"] = [[f"n{index % 4}", index, 1] for index in range(8)]
    body["steps"] = [{**body["steps"][0], "id": str(step), "ranks": 4, "elapsed_s": 16.0} for step in range(2)]
    record = parse_record(body)
    nodes = node_map(record, record.steps[1])
    assert nodes is not None and nodes.is_judged
    assert [(row.name, row.ranks, row.values[0]) for row in nodes.rows] == [
        ("n0", 1, 0.25), ("n1", 1, 0.5), ("n2", 1, 0.25), ("n3", 1, 0.5)]


def test_values_show_on_hover_and_names_are_text(report: Report) -> None:
    page = page_of(report, body_of(even(4, **{HOSTILE: [0.4, 1.2]})))
    titles = re.findall(r"<g><title>([^<]*)</title>", page)
    assert "n0001, 2 ranks: waiting 40 % of the run" in titles
    assert any("(slow), 2 ranks: least 2.0 % of the run, its least waiting rank, stands out" in one for one in titles)
    assert "<i>" not in page and "&lt;i&gt;" in page and "\x1b" not in page


@pytest.mark.parametrize("width", [40, 80, 150, 200])
def test_it_fits_the_terminal(report: Report, width: int) -> None:
    body = body_of(even(20, **{"node-with-a-long-name.example.org": [0.4, 1.2]}))
    text = text_of(report, body, "--width", str(width))
    assert TITLE in text and max(map(len, text.splitlines())) <= width
    assert not re.search(r"[0-9]…", text), "a figure is cut"


def test_shades_have_a_character_where_the_output_is_ascii(report: Report) -> None:
    rows = [make_row(json.dumps({"mpi_wait": body_of(even(4, slow=[0.4, 1.2]))}))]
    text = shown(report("123", rows=rows, settings={"LC_ALL": "C"}))
    assert text.isascii() and "?" not in "".join(section(text)) and "###" in text
