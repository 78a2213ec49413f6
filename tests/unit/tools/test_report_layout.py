"""How mpi-wait report looks in terminals of 80 and 200 columns, for few ranks and for thousands."""

from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import re
from typing import Any

import jsonschema
import pytest
from mpi_wait_tools.jobs.found import Found
from mpi_wait_tools.record.record import parse_record
from mpi_wait_tools.report.csv_rows import csv_text

from tests.lib.doubles.record_doubles import ends_of, many_steps, one_slow_node, profiled, sampled, spinning, thousands
from tests.lib.doubles.report_double import SCHEMA, Report, make_record, make_row, refused, shown

DOUBLES = {
    "four ranks": make_record,
    "a slow node": one_slow_node,
    "thousands": thousands,
    "profiled": profiled,
    "spinning": spinning,
    "steps": many_steps,
    "power": sampled,
}


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def ask(report: Report, record: dict[str, Any], *argv: str) -> str:
    return shown(report("123", *argv, rows=[make_row(json.dumps(record))]))


@pytest.mark.parametrize("name", DOUBLES)
def test_the_doubles_are_of_the_schema(name: str) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(DOUBLES[name]())


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", DOUBLES)
def test_everything_fits(report: Report, name: str, width: int) -> None:
    text = ask(report, DOUBLES[name](), "--width", str(width))
    assert max(len(line) for line in text.splitlines()) <= width
    assert "Advice" in text and "\x1b" not in text


def test_wide_terminals_have_two_columns(report: Report) -> None:
    wide, narrow = (ask(report, make_record(), "--width", width).splitlines() for width in ("200", "80"))
    headings = [line for line in wide if line.count("──") and re.match(r"\S.* ─+ +\S.* ─", line)]
    assert headings and len(wide) < len(narrow) * 0.65
    starts = {line.index(word) for line in wide for word in ("Waiting in MPI", "Calls ─") if word in line}
    assert len(starts) == 1 and starts.pop() > 95
    assert sorted(re.findall(r"\w+", " ".join(wide))) == sorted(re.findall(r"\w+", " ".join(narrow)))


def bars(text: str) -> dict[str, tuple[int, int]]:
    """By rank: how many columns of waiting, and of the rest of the run."""
    found = re.findall(r"rank +(\d+).*?s  ([█▏▎▍▌▋▊▉░]*)(─*)", text)
    return {rank: (len(waiting), len(rest)) for rank, waiting, rest in found}


def test_a_bar_is_a_rank_and_its_run(report: Report) -> None:
    drawn = bars(ask(report, make_record()))
    assert len({waiting + rest for waiting, rest in drawn.values()}) <= 2
    assert drawn["3"][0] <= 2 < drawn["1"][0] < drawn["1"][1]
    little = make_record()
    little["mpi_wait"]["wait"]["share"] = 0.01
    drawn = bars(ask(report, little))
    assert drawn["1"][0] > 50 and not any(rest for _, rest in drawn.values())


def test_many_ranks_are_a_chart(report: Report) -> None:
    text = ask(report, one_slow_node())
    rows = re.findall(r"^ +[\d.]* ?s? │(.*)$", text, re.M)
    assert len(rows) >= 6 and "Waiting by rank, 8 ranks in a column" in text
    gap = [len(row.rstrip()) - len(row.rstrip().replace(" ", "")) for row in rows[1:4]]
    assert all(3 <= holes <= 6 for holes in gap), "the slow node's ranks stand out as a hole"
    assert "31 % of the ranks' time" in text


def test_thousands_of_ranks_are_a_curve(report: Report) -> None:
    text = ask(report, thousands())
    assert "All 16384 ranks in the order of their waiting:" in text and "who waits most" in text
    rows = re.findall(r"│(.*)$", text, re.M)
    filled = [sum(cell in "█▇▆▅▄▃▂▁" for cell in row) for row in rows]
    assert filled == sorted(filled) and filled[0] < filled[-1] / 2
    assert "16382 ranks between, of whom the record has quantiles" in text


def test_the_ends_of_thousands_name_their_nodes(report: Report) -> None:
    record = thousands()
    waits = [40.0 + rank % 13 for rank in range(16384)]
    for rank in range(384, 512):
        waits[rank] = 1.0 + rank / 1000
    record["mpi_wait"]["wait"].update(
        ends_of(waits, 128), min={"rank": 384, "s": 1.384, "node": "c004"}, max={"rank": 12, "s": 52.0, "node": "c001"}
    )
    if "most" in SCHEMA["properties"]["mpi_wait"]["properties"]["wait"]["oneOf"][1]["properties"]:
        jsonschema.Draft7Validator(SCHEMA).validate(record)
    text = ask(report, record)
    assert re.search(r"rank +384 c004 +1\.38 s", text) and len(re.findall(r"^  rank +\d+ c\d+", text, re.M)) == 8
    assert "Slow     c004 (16 ranks seen): all wait least, the others wait for them" in text
    assert "Look at node c004 first" in text
    rows = list(csv.reader(io.StringIO(ask(report, record, "--csv"))))
    assert ["123", "least", "384", "node", "c004", ""] in rows


def test_files_of_csv_that_are_missing_are_said(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["csv"] = {"written": 3}
    assert "csv=" not in ask(report, record)
    record["mpi_wait"]["csv"]["failed"] = {"no such directory": 4, "killed": 1}
    said = " ".join(ask(report, record).split())
    assert "csv= left no files on 5 of 8 nodes (each step counts): no such directory; killed." in said


def test_a_throttled_node_is_named(report: Report) -> None:
    record = make_record()
    events = dict.fromkeys(("core_throttle", "package_throttle", "core_power_limit", "package_power_limit"), 2)
    record["mpi_wait"]["throttle"] = {**events, "most": "n2"}
    assert "Look at node n2 first: it was slowed down most" in " ".join(ask(report, record).split())


FORECAST = {"naps": 90, "early": 50, "early_s": 0.005, "foreseen": 76, "unforeseen": 0, "allowed_s": 1.0}
ADVICE = [
    (lambda wait, body: None, "nap fits: 90 % of the waiting was slept through."),
    (lambda wait, body: wait.update(share=0.015), "There is little to save: the ranks wait 1.5 % of their time."),
    (lambda wait, body: body["policy"].update(used="profile"), "nap (or auto) fits"),
    (lambda wait, body: wait.update(asleep_s=1, flags={"locked": 4}), "call it from one thread only"),
    (lambda wait, body: wait.update(asleep_s=1, flags={"shared_cores": 4}), "Ranks share cores with others"),
    (lambda wait, body: wait.update(asleep_s=1, spun={"MPI_Barrier": {"s": 2, "cpu_s": 2}}), "collectives=ibarrier"),
    (lambda wait, body: wait.update(asleep_s=1), "a larger slowdown="),
    (lambda wait, body: (wait.update(asleep_s=1, total_s=1.5), body["policy"].update(asked="nap", why="")),
     "short for a nap: umwait and mwaitx"),
    (lambda wait, body: wait.update(late_s=5.0), "Naps end late here"),
    (lambda wait, body: wait.update(asleep_s=1, naps=100, forecast=FORECAST | {"unforeseen": 124}),
     "62 % of the waits came at no foreseeable time: event"),
]


@pytest.mark.parametrize("change,words", ADVICE, ids=[words for _, words in ADVICE])
def test_the_advice_follows_from_the_figures(report: Report, change: Any, words: str) -> None:
    record = make_record()
    del record["mpi_wait"]["steps"][0]["policy"]  # the job's is meant
    change(record["mpi_wait"]["wait"], record["mpi_wait"])
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    assert words in ask(report, record, "--width", "149")


def test_who_has_too_little_or_too_much_to_do(report: Report) -> None:
    assert "Take work from rank 3 (on n2): spread evenly" in ask(report, make_record(), "--width", "149")
    text = ask(report, make_record([0.1, 0.1, 0.1, 20.0]), "--width", "149")
    assert "Rank 3 alone waits: if it hands out work, let it compute too; otherwise give it more to do." in text
    text = ask(report, make_record([0.1, 0.1, 0.1, 20.0, 19.0]), "--width", "149")
    assert "Give ranks 3, 4 more to do, or ask for fewer ranks" in text
    even = ask(report, make_record([9.0, 9.1, 9.0, 8.9]), "--width", "149")
    assert "All ranks wait alike" in even and "Take work" not in even


def test_loss_and_cost_are_figures(report: Report) -> None:
    text = ask(report, make_record())
    assert "27.0 s to the imbalance: 27 % of the ranks' time, 27 % of core time" in text
    assert "50.0 µs on average: 2.00 ms in all" in " ".join(text.split())
    answer = json.loads(ask(report, make_record(), "--json"))
    assert answer["imbalance"]["lost_s"] == pytest.approx(27.0) and answer["advice"]
    assert answer["imbalance"]["max_over_mean"] == pytest.approx(10 / 7.25)


def test_loss_is_counted_by_step(report: Report) -> None:
    answer = json.loads(ask(report, many_steps(), "--json"))
    assert answer["imbalance"]["lost_s"] == pytest.approx((2 - 1) + (3 - 0.1))


def test_waiting_against_transfer(report: Report) -> None:
    text = ask(report, profiled(), "--width", "120")
    assert "45.0 s: 67 % waiting, the rest transfer and the MPI's own work" in text
    waits = re.search(r"MPI_Waitall +14\.0 s  (█+)(░+)", text)
    assert waits and len(waits[1]) < len(waits[2]) / 2 and "░ transfer" in text


def test_power_is_a_curve(report: Report) -> None:
    text = ask(report, sampled())
    curve = re.search(r"^  Power    ([▁▂▃▄▅▆▇█·]{64})\n +(.*)\n", text, re.M)
    assert curve and curve[1].count("·") == 2 and curve[1].index("·") == 20 and curve[1][4] == "█"
    assert curve[2] == "100 W to 260 W, 391 ms a character (· not known), simulated"
    assert re.search(r"^  Power    [▁▂▃▄▅▆▇█·]{22}$", ask(report, sampled(), "--width", "40"), re.M)
    assert "Power  " not in ask(report, make_record())
    assert "Power  " not in shown(report("123.0", rows=[make_row(json.dumps(sampled()))]))
    rows = list(csv.DictReader(io.StringIO(ask(report, sampled(), "--csv"))))
    power = {row["name"]: float(row["value"]) for row in rows if row["kind"] == "power"}
    assert len(power) == 62 and power["0.000"] == 180


@pytest.mark.parametrize("power", [7, {}, [1] * 65, [-1, 1], ["1"], [True], [1e19], [[1]]], ids=str)
def test_power_that_cannot_be_is_refused(report: Report, power: Any) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["power_w"] = power
    assert "power_w" in refused(report("123", rows=[make_row(json.dumps(record))]))


def test_what_cannot_be_is_said(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["doubtful"] = 2
    record["mpi_wait"].update(steps_left_out=7, steps_summed=3, steps_rest={"steps": 5, "ranks": 20, "wait_s": 3.0})
    text = " ".join(ask(report, record).split())
    assert "2 ranks claimed impossible figures; these were cut." in text
    assert "7 steps had no room in the record; 5 of them waited 3.00 s together." in text
    assert "Of 3 steps there are only sums: they lack ranks and profile." in text


def test_figures_that_lie_break_nothing(report: Report) -> None:
    record = thousands()
    record["mpi_wait"]["wait"].update(total_s=1e-300, share=1e-300, mean_s=1e12, ranks=2**32)
    record["mpi_wait"]["wait"]["max"]["s"] = 1e12
    text = ask(report, record)
    assert "4.29 G" in text
    answer = json.loads(ask(report, record, "--json"))
    assert math.isfinite(answer["imbalance"]["max_over_mean"])


def test_csv_is_every_figure(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(ask(report, profiled(), "--csv"))))
    values = {(row["kind"], row["name"], row["measure"]): row["value"] for row in rows}
    assert list(rows[0]) == ["job", "kind", "name", "measure", "value", "unit"]
    assert float(values["job", "", "wait"]) == 29.0 and float(values["rank", "3", "wait"]) == 0.5
    assert float(values["profile", "MPI_Waitall", "time"]) == 14.0
    assert {row["kind"] for row in rows} == {"job", "call", "profile", "step", "rank"}
    rows = list(csv.DictReader(io.StringIO(ask(report, thousands(), "--csv"))))
    quantiles = [row for row in rows if row["kind"] == "quantile"]
    assert len(quantiles) == 101 and quantiles[-1]["name"] == "1"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum"])
def test_csv_has_no_formula(name: str) -> None:
    """A node's or a file's name that a spreadsheet would run is quoted as one quotes it there."""
    record = parse_record(make_record()["mpi_wait"])
    rows = list(csv.reader(io.StringIO(csv_text([Found(None, "", record, source=name)]))))
    assert {row[0] for row in rows[1:]} == {f"'{name}"}
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for row in rows for cell in row)
