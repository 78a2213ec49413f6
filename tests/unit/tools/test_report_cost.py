"""What sleeping cost, as mpi-wait shows it: a figure with its interval, or that too little was seen to tell."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
from typing import Any

import jsonschema
import pytest
from mpi_wait_tools.meaning.cost import cost_line, cost_together, cost_words
from mpi_wait_tools.record.wait import Cost

from tests.lib.doubles.report_double import SCHEMA, Report, make_record, make_row, refused, shown
from tests.lib.record_tools import node_record
from tests.lib.records import merge
from tests.lib.segments import read_slots, segment, slot

COST = {"percent": 0.31, "error": 0.12, "windows": 843, "seconds": 432, "slowdown": 1}
SAID = "periods slept in took 0.3 % ± 0.1 longer than those in looks (843 looks)"
TOO_LITTLE = "too little was seen to tell"


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def with_cost(**changes: Any) -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"]["wait"]["cost"] = {**COST, **changes}
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    return record


def row(record: dict[str, Any], job: str = "123", **changes: str) -> dict[str, str]:
    return make_row(json.dumps(record), JobID=job, JobIDRaw=job, **changes)


def text_of(report: Report, record: dict[str, Any], *argv: str) -> str:
    return " ".join(shown(report("123", *argv, rows=[row(record)])).split())


def page_of(report: Report, record: dict[str, Any]) -> str:
    page = report.folder / "page.html"
    shown(report("123", "--html", str(page), rows=[row(record)]))
    return page.read_text()


def csv_of(report: Report, record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    table = csv.DictReader(io.StringIO(shown(report("123", "--csv", rows=[row(record)]))))
    return {line["measure"]: (line["value"], line["unit"]) for line in table if line["measure"].startswith("cost")}


def top_of(report: Report, *argv: str, rows: list[dict[str, str]]) -> str:
    report.command = "top"
    return shown(report(*argv, rows=rows, latest=len(rows)))


def test_from_the_segment_to_the_report(report: Report, tmp_path: pathlib.Path) -> None:
    """Two nodes of two ranks, whose lanes say what their threads measured."""
    records = []
    for node in (1, 2):
        ranks = [slot(2 * node - 2 + local, 4, 10**6, start=1, end=10**9, slowdown_ppm=10_000,
                      cost=(4 * 10**9, 25 * 10**6, 4 * 10**6, 60 + node)) for local in (0, 1)]
        records.append(node_record(f"c{node}", "c[1-2]"))
        records[-1]["steps"][0]["wait"] = read_slots(tmp_path, segment(*ranks))
    record = {"mpi_wait": merge(tmp_path, records)}
    said = "Cost periods slept in took 0.6 % ± 0.1 longer than those in looks (62 looks)"
    assert said in text_of(report, record) and "allowed" not in text_of(report, record)


@pytest.mark.parametrize(("cost", "line"), [
    (Cost(0.31, 0.12, 843, 1), SAID),
    (Cost(0.31, 0.02, 843, 1), "periods slept in took 0.31 % ± 0.02 longer than those in looks (843 looks)"),
    (Cost(0.0, 0.0, 8, 1), "periods slept in took 0.00 % ± 0.01 longer than those in looks (8 looks)"),
    (Cost(-0.26, 0.2, 9, 1), "periods slept in took 0.3 % ± 0.2 less time than those in looks (9 looks)"),
    (Cost(-0.04, 0.2, 9, 1), "periods slept in took 0.0 % ± 0.2 longer than those in looks (9 looks)"),
    (Cost(12.34, 10.0, 9, 1), "periods slept in took 12.3 % ± 10.0 longer than those in looks (9 looks)"),
    (Cost(0.31, 0.12, 7, 1), f"{TOO_LITTLE} what sleeping cost (7 looks; 8 are needed)"),
    (Cost(0.31, 10.1, 843, 1), f"{TOO_LITTLE} what sleeping cost (843 looks, but the periods vary too much)"),
    (Cost(0.0, 0.0, 0, 0), f"{TOO_LITTLE} what sleeping cost (0 looks; 8 are needed)"),
], ids=str)
def test_the_line_has_as_many_digits_as_are_known(cost: Cost, line: str) -> None:
    assert cost_line(cost) == line


def test_a_negative_cost_has_a_sign_where_it_is_a_column() -> None:
    assert cost_words(Cost(-0.26, 0.2, 9, 1)) == "−0.3 % ± 0.2" and cost_words(Cost(-0.04, 0.2, 9, 1)) == "0.0 % ± 0.2"


@pytest.mark.parametrize(("cost", "is_too_much"), [
    (Cost(1.2, 0.1, 8, 1, 1.0), True),
    (Cost(1.2, 0.1, 8, 1, 1.1), False),
    (Cost(1.2, 0.2, 8, 1, 1.0), False),
    (Cost(90.0, 0.1, 7, 1, 1.0), False),
    (Cost(90.0, 11.0, 8, 1, 1.0), False),
    (Cost(90.0, 0.1, 8, 1, None), False),
], ids=str)
def test_it_is_too_much_by_the_lower_end_of_its_interval(cost: Cost, is_too_much: bool) -> None:
    assert cost.is_too_much == is_too_much


def test_the_report_says_it_in_place_of_what_naps_were_late(report: Report) -> None:
    text = text_of(report, with_cost())
    assert f"Cost {SAID}" in text and "more than" not in text
    assert "Late 40 naps ended after what was waited for, by 2.00 ms in all" in text and "past the budget" not in text
    assert "Cost" not in text_of(report, make_record())
    assert "Cost" not in shown(report("123.0", rows=[row(with_cost())])), "it is the whole job's"


def test_beside_forecasts_late_is_a_detail(report: Report) -> None:
    record = with_cost()
    record["mpi_wait"]["wait"] |= {"naps": 1000, "forecast": {
        "naps": 900, "early": 50, "early_s": 0.005, "foreseen": 70, "unforeseen": 5, "allowed_s": 1.0}}
    text = text_of(report, record)
    assert SAID in text and "900 naps by forecast" in text and "was allowed" not in text
    assert "Late 40 naps ended after what was waited for" in text


def test_more_than_what_is_allowed_is_said_with_its_reasons(report: Report) -> None:
    record = with_cost(percent=2.4, error=0.5)
    text = text_of(report, record, "--width", "120")
    assert "more than the 1 % allowed: while the account is spent the ranks do not sleep." in text
    assert "Usual causes are other work on the nodes and a very short run" in text
    assert "nap costs this job more than slowdown= allows" in text and "nap fits" not in text
    assert "allowed" not in text_of(report, with_cost(percent=2.4, error=0.5, slowdown=3))
    record = with_cost(percent=2.4, error=0.5)
    del record["mpi_wait"]["wait"]["cost"]["slowdown"]
    assert "allowed" not in text_of(report, record) and "nap fits" in text_of(report, record)


def test_late_naps_are_no_reason_where_the_cost_is_known(report: Report) -> None:
    """They cost the job nothing, or what is said already."""
    record = with_cost()
    record["mpi_wait"]["wait"]["late_s"] = 5.0
    assert "Naps end late" not in text_of(report, record)
    record["mpi_wait"]["wait"]["cost"]["windows"] = 3
    assert "Naps end late" in text_of(report, record)


def test_too_little_is_no_figure_anywhere(report: Report) -> None:
    record = with_cost(windows=7)
    text = text_of(report, record)
    assert f"Cost {TOO_LITTLE} what sleeping cost (7 looks; 8 are needed)" in text and "0.3 %" not in text
    assert csv_of(report, record) == {"cost_windows": ("7", "")}
    page = page_of(report, record)
    assert f"{TOO_LITTLE} what sleeping cost" in page and "sleeping costs" not in page and "0.3 %" not in page
    line = json.loads(shown(report("--brief", "123", "--json", rows=[row(record)])))[0]
    assert line["cost_percent"] is line["cost_error"] is line["cost_windows"] is None
    assert "cost" not in shown(report("--brief", "123", rows=[row(record)]))
    assert "cost" not in top_of(report, "--width", "120", rows=[row(record)])


def test_as_csv(report: Report) -> None:
    assert csv_of(report, with_cost(percent=-0.31)) == {
        "cost_percent": ("-0.31", "%"), "cost_error": ("0.12", "%"), "cost_windows": ("843", "")}
    assert csv_of(report, make_record()) == {}


def test_in_brief(report: Report) -> None:
    rows = [row(with_cost()), row(make_record(), "124"), row(with_cost(windows=1), "125")]
    text = shown(report("--brief", "123,124,125", "--width", "120", rows=rows, latest=3))
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    place = lines[0].index("cost")
    assert [line[place] for line in lines[1:4]] == ["0.3 % ± 0.1", "–", "–"]
    narrow = shown(report("--brief", "123,124,125", "--width", "60", rows=rows, latest=3))
    assert max(map(len, narrow.splitlines())) <= 60 and "cost" not in narrow
    answer = shown(report("--brief", "123,124,125", "--json", rows=rows, latest=3))
    found = {line["job"]: line for line in json.loads(answer)}
    assert (found["123"]["cost_percent"], found["123"]["cost_error"], found["123"]["cost_windows"]) == (0.31, 0.12, 843)
    assert found["124"]["cost_percent"] is None


def test_on_the_page(report: Report) -> None:
    page = page_of(report, with_cost())
    assert f"<dt>Cost</dt><dd>{SAID}</dd>" in page
    assert re.search(r'<li class="good">.{,60}sleeping costs<b>0\.3 % ± 0\.1</b>', page)
    assert "good up to the 1 % of slowdown=, bad from 3 %" in page and "late<b>" not in page
    page = page_of(report, with_cost(percent=2.4, error=0.5))
    assert "(843 looks); more than the 1 % allowed" in page
    assert re.search(r'<li class="look">.{,60}sleeping costs<b>2\.4 % ± 0\.5</b>', page)
    assert '<li class="bad">' in page_of(report, with_cost(percent=4.4, error=0.5))
    assert re.search(r'<li class="good">.{,60}sleeping costs<b>1\.5 % ± 0\.5</b>', page_of(
        report, with_cost(percent=1.5, error=0.5))), "the lower end is no more than what is allowed"


def test_jobs_are_compared_by_points(report: Report) -> None:
    rows = [row(with_cost()), row(with_cost(percent=-0.5), "124"), row(with_cost(windows=1), "125")]
    text = shown(report("123", "124", "125", "--width", "120", rows=rows, latest=3))
    line = next(line for line in text.splitlines() if "sleeping costs" in line)
    assert re.search(r"sleeping costs +0\.3 % +−0\.5 % +−0\.8 pt +–", line)


def test_top_has_a_column_where_a_job_has_it(report: Report) -> None:
    rows = [row(with_cost(), "101", User="ada"), row(with_cost(percent=0.91, seconds=144), "102", User="ada"),
            row(make_record(), "103", User="bob")]
    text = top_of(report, "--width", "120", rows=rows)
    assert re.search(r"^  101 .* 0\.3 % ± 0\.1 ", text, re.M) and re.search(r"^  103 .* – ", text, re.M)
    assert re.search(r"^  ada .* 0\.5 % ± 0\.1 ", top_of(report, "--by", "user", "--width", "120", rows=rows), re.M)
    found = {line["name"]: line for line in json.loads(top_of(report, "--by", "user", "--json", rows=rows))["rows"]}
    assert (found["ada"]["cost_percent"], found["ada"]["cost_windows"]) == (0.46, 1686)
    assert found["ada"]["cost_error"] == pytest.approx(0.12 * (0.75**2 + 0.25**2) ** 0.5)
    assert found["bob"]["cost_percent"] is None
    assert "cost" not in top_of(report, "--width", "120", rows=[rows[2]])


def test_the_costs_of_jobs_are_weighted_by_their_periods() -> None:
    """Little that was seen of each may be enough of all; what has no length says nothing."""
    few = Cost(2.0, 12.0, 7, 100.0, 1.0)
    assert not few.is_known
    together = cost_together([few, few, few, few, Cost(99.0, 200.0, 10**6, 0.0, 50.0)])
    assert together == Cost(2.0, 6.0, 28, 400.0, 1.0) and together.is_known
    assert cost_together([]) is None and cost_together([Cost(1.0, 1.0, 9, 0.0)]) is None
    assert cost_together([Cost(1.0, 1.0, 9, 1e12)] * 1000) == Cost(
        pytest.approx(1.0), pytest.approx(1 / 1000**0.5), 9000, 1e15)


SPOILT: list[dict[str, Any]] = [
    {"percent": 101}, {"percent": -100.5}, {"percent": None}, {"percent": "1"}, {"percent": True}, {"error": -0.1},
    {"error": 201}, {"windows": -1}, {"windows": 1.5}, {"seconds": -1}, {"seconds": 1e13}, {"slowdown": -1},
    {"slowdown": 101}, {"slowdown": []},
]


@pytest.mark.parametrize("spoilt", SPOILT, ids=str)
def test_spoilt_figures_are_not_of_the_schema(spoilt: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        with_cost(**spoilt)


@pytest.mark.parametrize("spoilt", [*SPOILT, {"windows": 10**19}], ids=str)
def test_spoilt_figures_are_refused(report: Report, spoilt: dict[str, Any]) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["cost"] = {**COST, **spoilt}
    assert "damaged" in refused(report("123", rows=[row(record)]))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "[]", "null", '"x"'])
def test_what_is_no_figure_is_refused(report: Report, text: str) -> None:
    record = json.dumps(make_record()).replace('"late": 40', f'"cost": {{"percent": {text}, "error": 1, "windows": 9, '
                                               f'"seconds": 1}}, "late": 40')
    assert "damaged" in refused(report("123", rows=[make_row(record)]))


def test_a_cost_that_is_no_object_is_refused(report: Report) -> None:
    record = make_record()
    for spoilt in ([], 1, "x", {}):
        record["mpi_wait"]["wait"]["cost"] = spoilt
        assert "damaged" in refused(report("123", rows=[row(record)]))
