"""mpi-wait report of an array, of a directory of Slurm's output files and of numbers on standard input: one table."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
import subprocess
from typing import Any

import pytest
from mpi_wait_tools.jobs import named, sacct
from mpi_wait_tools.meaning.advice import Ending
from mpi_wait_tools.meaning.line import Line, of_record
from mpi_wait_tools.meaning.spread import FIGURES, odd_ones, spread_of, sums_of
from mpi_wait_tools.record.record import parse_record
from mpi_wait_tools.report import lines as report_lines
from mpi_wait_tools.text.output import Refusal

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown

TASKS = 8
ODD, FAILED = 5, 3


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def record_of(elapsed: float = 25.0, share: float = 0.29, joules: float = 4500.0) -> dict[str, Any]:
    record = make_record()
    body = record["mpi_wait"]
    body["elapsed_s"] = elapsed
    body["wait"]["share"] = share
    body["energy"].update(joules=joules, source="rapl")
    return record


def task(number: int, record: Any = None, base: int = 4711, **changes: str) -> dict[str, str]:
    """Returns the row of a task. As in Slurm, one of the tasks has the array's own number."""
    facts = {"JobID": f"{base}_{number}", "JobIDRaw": str(base + (number or TASKS)), "ElapsedRaw": "25"}
    return make_row(json.dumps(record) if record else "", **{**facts, **changes})


def array() -> list[dict[str, str]]:
    """Eight tasks in sacct's order: one took longer, waited more and used more, and one failed without a record."""
    rows = [task(number, record_of(joules=4500.0 + number)) for number in range(TASKS)]
    rows[ODD] = task(ODD, record_of(200.0, 0.8, 36_000.0), ElapsedRaw="200")
    rows[FAILED] = task(FAILED, State="FAILED", ElapsedRaw="3")
    return [*rows[4:], *rows[:4]]


def cells(text: str) -> dict[str, list[str]]:
    """Returns the table's lines by their first word; columns stand two spaces apart at least."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.split("──")[0].splitlines() if line.strip()]
    return {words[0]: words[1:] for words in lines}


def ask(report: Report, *argv: str, rows: Any = None, **options: Any) -> str:
    return shown(report(*argv, rows=array() if rows is None else rows, **options))


def test_an_array_is_one_table(report: Report) -> None:
    text = ask(report, "4711", "--width", "120")
    lines = cells(text)
    assert text.startswith("Array 4711  solver, 8 tasks ") and text.splitlines()[0].endswith("7 COMPLETED, 1 FAILED")
    assert lines["job"] == ["state", "elapsed", "policy", "ranks", "wait", "asleep", "lost", "energy"]
    assert lines["4711_0"] == ["COMPLETED", "0:25", "nap", "4", "29 %", "90 %", "27 %", "4.50 kJ"]
    assert lines["4711_3"] == ["FAILED", "0:03", "–", "–", "–", "–", "–", "–", "no record"]
    assert [name for name in lines if name.startswith("4711_")] == [f"4711_{number}" for number in range(TASKS)]
    assert lines["least"] == ["0:03", "4", "29 %", "90 %", "27 %", "4.50 kJ"]
    assert lines["median"] == ["0:25", "4", "29 %", "90 %", "27 %", "4.50 kJ"]
    assert lines["most"] == ["3:20", "4", "80 %", "90 %", "74 %", "36.0 kJ"]
    assert lines["total"] == ["8 jobs", "5:53", "28", "32 %", "90 %", "30 %", "63.0 kJ"]
    said = " ".join(text.split())
    assert ("! 4711_5: elapsed 3:20, the median is 0:25; waiting 80 %, the median is 29 %; lost to the imbalance 74 %, "
            "the median is 27 %; energy 36.0 kJ, the median is 4.50 kJ.") in said
    assert said.count("the median is") == 4 and "1 job left no record: the total is without." in said


def test_an_array_that_has_just_begun_has_no_spread(report: Report) -> None:
    rows = [task(0, State="RUNNING", ElapsedRaw="3"), task(1, State="PENDING", ElapsedRaw="0")]
    lines = cells(ask(report, "4711", rows=rows))
    assert set(lines) >= {"4711_0", "4711_1", "total"} and not {"least", "median", "most"} & set(lines)
    assert "no record yet" in ask(report, "4711", rows=rows)
    assert {"least", "median", "most"} <= set(cells(ask(report, "4711")))


def test_one_task_has_its_report(report: Report) -> None:
    assert ask(report, "4711_2", rows=array()).startswith("Job 4711_2  solver")


@pytest.mark.parametrize("words", [["4711.0"], ["4711", "--html", "x.html"], ["4711", "--plot", "x.svg"],
                                   ["4711", "--all-ranks"], ["4711.0", "4712"]])
def test_what_is_of_one_job_asks_for_one(report: Report, words: list[str]) -> None:
    said = refused(report(*words, rows=array()))
    assert "4711 stands for 8 jobs (4711_4, 4711_5, 4711_6, 4711_7, ...): ask for one of them" in said


def test_an_array_beside_another_job(report: Report) -> None:
    """Nothing is compared with the first there: all are rows of the table."""
    rows = [*array(), make_row(json.dumps(record_of()), JobID="90", JobIDRaw="90", JobName="other")]
    text = ask(report, "90", "4711", "--width", "140", rows=rows)
    assert text.startswith("9 jobs ") and cells(text)["90"][0] == "other" and "compared" not in text


def test_figures_fit_a_narrow_terminal_and_one_without_utf8(report: Report) -> None:
    narrow = ask(report, "4711", "--width", "40")
    assert max(map(len, narrow.splitlines())) <= 40 and "…" not in narrow
    assert cells(narrow)["4711_5"] == ["COMPLETED", "80 %"]
    assert ask(report, "4711", settings={"LC_ALL": "C"}).isascii()


def test_for_programs(report: Report) -> None:
    answer = json.loads(ask(report, "4711", "--json"))
    assert list(answer) == ["version", "jobs", "sums", "spread", "odd", "unknown", "remarks"]
    assert [job["job"] for job in answer["jobs"]] == [f"4711_{number}" for number in range(TASKS)]
    assert answer["sums"]["joules"] == 63_020 and answer["sums"]["with_record"] == 7 and answer["sums"]["jobs"] == 8
    assert answer["spread"]["elapsed_s"] == {"least": 3, "median": 25, "most": 200}
    assert {odd["figure"] for odd in answer["odd"]} == {"elapsed_s", "wait", "lost", "joules"}
    assert {odd["job"] for odd in answer["odd"]} == {"4711_5"}


def test_as_csv(report: Report) -> None:
    rows = list(csv.reader(io.StringIO(ask(report, "4711", "--csv"))))
    assert rows[0] == ["job", "kind", "name", "measure", "value", "unit"] and {len(row) for row in rows} == {6}
    assert ["4711_0", "job", "", "energy", "4500.0", "J"] in rows and ["", "sum", "", "energy", "63020.0", "J"] in rows
    assert ["", "spread", "median", "wait_share", "0.29", ""] in rows
    assert ["4711_5", "odd", "", "elapsed", "200.0", "s"] in rows
    assert ["4711_3", "job", "", "why", "no record", ""] in rows


def test_the_total_has_the_sites_prices(report: Report, tmp_path: pathlib.Path) -> None:
    """0.25 a kWh of 63.02 kJ, with a PUE of 1.2."""
    site = tmp_path / "site.json"
    site.write_text('{"price_per_kwh": 0.25, "currency": "EUR", "co2_g_per_kwh": 350, "pue": 1.2}')
    words = ["4711", f"--site={site}"]
    text = ask(report, *words)
    assert "Price    0.00525 EUR, 7.35 g CO2, at 0.25 EUR/kWh, 350 g CO2/kWh, PUE 1.2\n" in text
    sums = json.loads(ask(report, *words, "--json"))["sums"]
    assert sums["price"] == pytest.approx(0.25 * 1.2 * 63_020 / 3.6e6) and sums["currency"] == "EUR"
    assert re.search(r"^,sum,,co2,7\.3\d+,g$", ask(report, *words, "--csv"), re.M)
    assert "Price" not in ask(report, "4711") and json.loads(ask(report, "4711", "--json"))["sums"]["price"] is None


def test_hostile_names_are_words(report: Report) -> None:
    rows = [task(number, record_of(), JobName="\x1b[2J=x\n[red]", State="\x1b]0;own\x07") for number in range(2)]
    for words in ((), ("--csv",), ("--json",)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", ask(report, "4711", *words, rows=rows))


def test_every_run_of_the_tasks(report: Report) -> None:
    rows = [task(0, record_of(), State="REQUEUED", Start="2026-01-02T03:00:00"),
            task(0, record_of(), Restarts="1"), task(1, record_of())]
    text = ask(report, "4711", "--duplicates", rows=rows)
    assert text.count("4711_0") == 2 and "3 tasks" in text
    assert ask(report, "4711", rows=rows, latest=1).count("4711_0") == 1


# Numbers on standard input


def test_numbers_on_standard_input(report: Report) -> None:
    text = ask(report, "-", stdin="4711_1\n  4711_2\t4711_1 99\n")
    assert text.startswith("Array 4711  solver, 2 tasks ") and "sacct knows no job 99." in text
    asked = report.asked()
    assert asked[asked.index("-j") + 1] == "4711_1,4711_2,99"
    assert list(cells(ask(report, "--brief", "-", stdin="4711_1 4711_2"))) == ["job", "4711_1", "4711_2", "total"]


def test_a_task_by_its_raw_number_is_known(report: Report) -> None:
    rows = [task(2, record_of())]
    assert "knows no job" not in ask(report, "-", stdin="4713", rows=rows)


@pytest.mark.parametrize("text", ["4711;id", "4711 x", "4711_", "0", "01", "4711.0", "4711+1", "4711_[1-4]",
                                  "4711,4712", "1" * 11, "1_" + "1" * 11, "4711 --allusers", "４７１１",
                                  "1\x002", "4711 \x1b[2J"])
def test_anything_else_on_standard_input_is_refused(report: Report, text: str) -> None:
    for words in (["-"], ["--brief", "-"]):
        said = refused(report(*words, rows=array(), stdin=text))
        assert "on standard input is no job (accepted: 123, 123_4)" in said and "\x1b" not in said
        assert not (report.folder / "canned.json.argv").exists()


def test_a_record_on_standard_input_is_one(report: Report) -> None:
    for before in ("", "4711 "):
        assert shown(report("-", stdin=before + json.dumps(make_record()))).startswith("A record without its job")
    assert "standard input is empty" in refused(report("-", stdin=" \n"))
    assert "there is no record in '-'" in refused(report("-", stdin="x 4711"))


def test_too_many_numbers_are_refused(report: Report) -> None:
    said = refused(report("-", stdin=" ".join(map(str, range(1, named.NAMED_MAX + 2)))))
    assert f"standard input names {named.NAMED_MAX + 1} jobs, of at most {named.NAMED_MAX}" in said
    assert "is larger than 1048576 bytes" in refused(report("-", stdin="1 " * (1 << 19) + "1"))
    assert not (report.folder / "canned.json.argv").exists()


@pytest.mark.parametrize("words", [["-", "--html", "x.html"], ["-", "--plot", "x.svg"], ["-", "--exe", "x"],
                                   ["-", "--all-ranks"], ["-", "99.0"], ["-", "-"], ["-", "--record", "x"]])
def test_usage_of_lists(report: Report, words: list[str]) -> None:
    assert "usage: mpi-wait report" in refused(report(*words, rows=array(), stdin="4711"), 2)


# A directory


def outputs(folder: pathlib.Path, *names: str) -> str:
    place = folder / "out puts"
    place.mkdir()
    for name in names:
        (place / name).write_text("not read: 4799\n")
    return str(place)


def test_a_directory_of_output_files(report: Report, tmp_path: pathlib.Path) -> None:
    place = outputs(tmp_path, "slurm-4711_10.out", "slurm-4711_2.out", "slurm-98.out", "slurm-98.out.gz", "run.log",
                    "slurm-0.out", "slurm-1;id.out", "slurm-\x1b[2J.out")
    text = ask(report, place)
    asked = report.asked()
    assert asked[asked.index("-j") + 1] == "98,4711_2,4711_10"
    assert "Skipped 5 other entries of '" in text and "sacct knows no job 98, 4711_10." in text and "\x1b" not in text
    assert "Skipped 5" in ask(report, "--brief", place)
    assert json.loads(ask(report, place, "--json"))["remarks"][0].startswith("Skipped 5 other entries")


def test_a_directory_without_jobs(report: Report, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = outputs(tmp_path, "run-4711.out")
    assert "has no file slurm-JOBID.out" in refused(report(place))
    assert "is not a job id" in refused(report(f"{place}/run-4711.out"), 2)
    (tmp_path / "out puts/slurm-1.out").touch()
    assert "--watch exclude it" in refused(report("--watch", place), 2)
    monkeypatch.setattr(named, "ENTRIES_MAX", 1)
    with pytest.raises(Refusal, match="more than 1 entries"):
        named.jobs_in_directory(place)


# How sacct is asked


def answered(words: list[str]) -> subprocess.CompletedProcess[str]:
    delimiter = next(word[12:] for word in words if word.startswith("--delimiter="))
    names = next(word[9:] for word in words if word.startswith("--format=")).split(",")
    ids = words[words.index("-j") + 1].split(",")
    rows = [delimiter.join({"JobID": one, "JobIDRaw": "7"}.get(name, "") for name in names) for one in ids]
    return subprocess.CompletedProcess(words, 0, "\n".join(rows) + "\n", "")


def test_sacct_is_asked_once_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        calls.append(words)
        return subprocess.CompletedProcess(words, 0, "", "") if "--helpformat" in words else answered(words)
    monkeypatch.setattr(sacct, "run_sacct", run)
    targets = [sacct.Target(job, None) for job in ("5", "6", "7_1")]
    found = sacct.read_jobs(targets, False)
    assert [[job.id for job in found[target]] for target in targets] == [["5"], ["6"], ["7_1"]]
    assert len([words for words in calls if "-j" in words]) == 1


def test_many_jobs_are_asked_for_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def rows(words: list[str], texts: list[str]) -> list[dict[str, str]]:
        asked.append(words[words.index("-j") + 1])
        return []
    monkeypatch.setattr(sacct, "_rows", rows)
    monkeypatch.setattr(sacct, "_texts", list)
    jobs = [f"4294967295_{number}" for number in range(2 * sacct.BATCH + 1)]
    assert list(sacct.read_named(jobs, False)) == []
    assert ",".join(asked).split(",") == jobs and len(asked) == 3 and max(map(len, asked)) < 1 << 14


def test_a_row_that_comes_twice_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(report_lines.lines_of_rows([*array(), *array()], "")) == TASKS
    monkeypatch.setattr(report_lines, "NAMED_MAX", TASKS - 1)
    with pytest.raises(Refusal, match="more than 7 jobs"):
        report_lines.lines_of_rows(array(), "")


# Sums and the odd ones


def line(job: str, record: dict[str, Any] | None = None, **changes: Any) -> Line:
    body = of_record(parse_record((record or record_of())["mpi_wait"]), Ending())
    facts = {"job": job, "name": "solver", "user": "ada", "state": "COMPLETED", "elapsed_s": 25.0}
    return Line(**{**facts, **body, **changes})


def odd_names(lines: list[Line]) -> list[str]:
    return [found[0].line.job for found in odd_ones(lines)]


def test_the_oddest_comes_first() -> None:
    lines = [line(str(number), record_of(share=0.29 + number / 1000)) for number in range(6)]
    lines += [line("7", record_of(share=0.5)), line("8", record_of(share=0.9))]
    assert odd_names(lines) == ["8", "7"]


ALIKE: dict[str, list[Line]] = {
    "three are too few": [line("1"), line("2"), line("3", record_of(share=0.9))],
    "a few points": [line(str(number), record_of(share=0.29 + 0.04 * (number == 4))) for number in range(5)],
    "a second of sacct's": [line(str(number), elapsed_s=5.0 + (number == 4)) for number in range(5)],
    "another program": [*(line(str(number)) for number in range(5)), line("6", record_of(share=0.9), name="other")],
    "another number of ranks": [*(line(str(number)) for number in range(5)), line("6", record_of(share=0.9), ranks=8)],
    "another user": [*(line(str(number)) for number in range(5)), line("6", record_of(share=0.9), user="bob")],
    "it failed": [*(line(str(number)) for number in range(5)), line("6", elapsed_s=1.0, state="FAILED")],
    "a wide spread": [line(str(number), record_of(share=number / 10)) for number in range(8)],
}


@pytest.mark.parametrize("why", ALIKE)
def test_none_is_odd(why: str) -> None:
    assert odd_names(ALIKE[why]) == []


def test_an_incomplete_job_is_not_odd() -> None:
    record = record_of(share=0.9)
    record["mpi_wait"]["nodes"] = {"reported": 1, "of": 2}
    lines = [*(line(str(number)) for number in range(5)), line("6", record)]
    assert odd_names(lines) == [] and "nodes of 1 did not report" in sums_of(lines).lacking.lower()


def test_energies_of_other_parts_are_not_summed() -> None:
    lines = [line(str(number), energy_of=of) for number, of in enumerate(("processors", "processors and memory") * 3)]
    energy = next(figure for figure in FIGURES if figure.key == "joules")
    assert sums_of(lines).joules is None and spread_of(energy, lines) is None and odd_names(lines) == []
    assert sums_of([line("1"), line("2")]).joules == 9000
