"""mpi-wait report --brief, against a fake sacct."""

from __future__ import annotations

import json
import pathlib
import pwd
import re
import time
from typing import Any

import pytest
from mpi_wait_tools.jobs.named import jobs_named

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown
from tests.lib.recorded_jobs import JOBS, rows_of


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def row(job: str, record: Any = "", **changes: str) -> dict[str, str]:
    text = record if isinstance(record, str) else json.dumps(record)
    facts = {"User": "ada", "Account": "physics", "Partition": "short", "Start": "2026-01-02T03:04:05"}
    return make_row(text, JobID=job, JobIDRaw=job.partition("_")[0], **{**facts, **changes})


def rows() -> list[dict[str, str]]:
    incomplete, polled = make_record(), make_record()
    incomplete["mpi_wait"]["nodes"] = {"reported": 1, "of": 2, "why": "nodes missing"}
    polled["mpi_wait"]["policy"] = {"asked": "profile", "used": "profile", "why": "", "by": "job"}
    polled["mpi_wait"]["energy"]["source"] = "rapl"
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 30))
    return [
        row("101", make_record()),
        row("102", polled, State="TIMEOUT"),
        row("103_1", incomplete, State="NODE_FAIL"),
        row("104", "", ElapsedRaw="65"),
        row("105", "", State="RUNNING"),
        row("106", "", State="PENDING", ElapsedRaw="0"),
        row("107", '{"mpi_wait":{"v":2}}', State="CANCELLED by 1000"),
        row("108", "", End=now, ElapsedRaw="25"),
        row("109", "", State="CANCELLED by 1000", End=now, ElapsedRaw="0", NodeList="None assigned"),
    ]


def ask(report: Report, *argv: str, answer: Any = None, **options: Any) -> str:
    answer = rows() if answer is None else answer
    return shown(report("--brief", *argv, rows=answer, latest=len(answer), **options))


def cells(text: str) -> dict[str, list[str]]:
    """By job; columns stand two spaces apart at least."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return {words[0]: words[1:] for words in lines if words[0]}


def test_one_line_a_job(report: Report) -> None:
    lines = cells(ask(report, "101", "102", "103", "104", "105", "106", "107", "108", "109", "--width", "120"))
    assert lines["job"] == ["name", "state", "elapsed", "policy", "wait", "asleep", "lost", "energy"]
    assert lines["101"] == ["solver", "COMPLETED", "0:25", "nap", "29 %", "90 %", "27 %", "4.50 kJ",
                            "simulated"]
    assert lines["102"] == ["solver", "TIMEOUT", "0:25", "profile", "29 %", "90 %", "–", "4.50 kJ"]
    assert lines["103_1"][1] == "NODE_FAIL" and lines["103_1"][-3:] == ["–", "4.50 kJ", "1 of 2 nodes, simulated"]
    assert lines["104"] == ["solver", "COMPLETED", "1:05", "–", "–", "–", "–", "–", "no record"]
    assert lines["105"] == ["solver", "RUNNING", "0:25", "–", "–", "–", "–", "–"]
    assert lines["106"] == ["solver", "PENDING", "–", "–", "–", "–", "–", "–"]
    assert lines["107"][1] == "CANCELLED" and lines["107"][-1] == "record not readable"
    assert lines["108"][-1] == "no record yet" and lines["109"][-1] == "never ran"
    for width in ("50", "60"):
        narrow = ask(report, "101", "102", "103", "--width", width)
        assert max(map(len, narrow.splitlines())) <= int(width) and "…" not in narrow
        assert cells(narrow)["103_1"][0] == "NODE_FAIL" and cells(narrow)["103_1"][-1] == "1 of 2 nodes, simulated"


def test_a_total_of_simulated_energy_says_so(report: Report) -> None:
    assert cells(ask(report, "101", "102", "--width", "120"))["total"][-2:] == ["9.00 kJ", "simulated"]


def test_who_it_was_is_said_where_there_are_several(report: Report) -> None:
    several = [row("101", make_record()), row("102", make_record(), User="bob")]
    assert cells(ask(report, "-u", "ada,bob", "--width", "84", answer=several))["102"][:2] == ["bob", "COMPLETED"]
    assert "ada" not in ask(report, "-u", "ada", answer=several[:1])


def test_what_sacct_is_asked(report: Report) -> None:
    ask(report, "101,103_[1-3,7]", "105+1", answer=[row("101")])
    asked = report.asked()
    assert asked[asked.index("-j") + 1] == "101,103_1,103_2,103_3,103_7,105+1" and "-D" not in asked
    ask(report, "-u", "ada", "-S", "2026-01-02", "-E", "2026-01-02T12:00", answer=rows()[:1])
    asked = report.asked()
    assert {"--user=ada", "--starttime=2026-01-02T00:00:00", "--endtime=2026-01-02T12:00:00"} <= set(asked)
    ask(report, answer=rows()[:1])
    assert f"--user={pwd.getpwuid(0).pw_name}" in report.asked() or "--allusers" not in report.asked()
    ask(report, "101", "--duplicates", answer=rows()[:1])
    assert "-D" in report.asked()


def test_a_job_that_may_have_hung_is_in_no_loss(report: Report) -> None:
    """Its own line has a dash there: the total is that of the jobs whose loss is known."""
    hung = make_record([0.0, 80.0, 80.0, 80.0])
    hung["mpi_wait"]["wait"]["share"] = 0.75
    answer = [row("101", make_record()), row("102", hung, State="TIMEOUT")]
    lines = cells(ask(report, "101", "102", "--width", "120", answer=answer))
    assert lines["job"][-2:] == ["lost", "energy"]
    assert [lines[job][-3] for job in ("101", "102", "total")] == ["27 %", "–", "27 %"]


def test_a_period_has_a_bound(report: Report) -> None:
    """sacct is asked for a day at a time: of all days since 1970, as sacct itself takes them, 20000 times."""
    assert "more than 3660 days" in refused(report("--brief", "-S", "1990-01-01", rows=[]), 2)
    assert not (report.folder / "canned.json.argv").exists()


def test_winbinds_users(report: Report) -> None:
    ask(report, "-u", "DOM\\eve", answer=[row("101", make_record(), User="DOM\\eve")])
    assert "--user=DOM\\eve" in report.asked()


def test_as_json(report: Report) -> None:
    lines = {line["job"]: line for line in json.loads(ask(report, "101", "104", "102", "--json"))}
    assert lines["101"]["joules"] == 4500 and lines["101"]["simulated"] and lines["101"]["state"] == "COMPLETED"
    assert lines["101"]["wait"] == 0.29 and lines["101"]["asleep"] == 0.9 and lines["101"]["elapsed_s"] == 25
    assert lines["104"]["policy"] is None and lines["104"]["wait"] is None and lines["104"]["why"] == "no record"
    assert lines["102"]["lost"] is None and not lines["102"]["simulated"]


def test_what_was_saved_is_said_where_it_is_known(report: Report) -> None:
    record, unknown, partial = make_record(), make_record(), make_record()
    saved = {"percent": 9.12, "error": 0.58, "looks": 412, "look_w": 234.0, "beside_w": 212.0}
    record["mpi_wait"]["energy"]["saved"] = partial["mpi_wait"]["energy"]["saved"] = saved
    unknown["mpi_wait"]["energy"]["saved_why"] = "too few looks"
    partial["mpi_wait"]["nodes"] = {"reported": 1, "of": 2, "why": "nodes missing"}
    answer = [row("101", record), row("102", unknown), row("103", partial)]
    lines = cells(ask(report, "101", "102", "103", "--width", "120", answer=answer))
    place = lines["job"].index("saved") - len(lines["job"]) - 1
    assert lines["101"][place] == "9.1 % ± 0.6" and lines["102"][place] == lines["103"][place] == "–"
    said = [(line["saved_percent"], line["saved_error"], line["saved_looks"])
            for line in json.loads(ask(report, "101", "102", "103", "--json", answer=answer))]
    assert said == [(9.12, 0.58, 412), (None, None, None), (None, None, None)]
    assert "saved" not in cells(ask(report, "102", answer=answer[1:2]))["job"]


def test_a_record_that_the_spool_keeps(report: Report, tmp_path: pathlib.Path) -> None:
    (tmp_path / "spool/done").mkdir(parents=True)
    (tmp_path / "spool/done/c-101-0.json").write_text(json.dumps(make_record()))
    line = cells(ask(report, "101", "--spool", str(tmp_path / "spool"), "--width", "100", answer=[row("101")]))["101"]
    assert "4.50 kJ" in line and "no record" not in line


def test_records_as_files(report: Report, tmp_path: pathlib.Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(make_record()))
    line = cells(shown(report("--brief", "--record", str(tmp_path / "one.json"))))["one"]
    assert line == ["0:25", "nap", "29 %", "90 %", "27 %", "4.50 kJ", "simulated"]


def test_a_job_that_may_still_get_its_record_has_not_gone_without(report: Report) -> None:
    """Of the jobs without one, 105 runs, 106 waits, and 108 has just ended."""
    text = " ".join(ask(report, "101", "105", "106", "108", answer=[rows()[at] for at in (0, 4, 5, 7)]).split())
    assert "! 3 jobs have no record yet: the total is without." in text
    text = " ".join(ask(report, "101", "104", "105", answer=[rows()[at] for at in (0, 3, 4)]).split())
    assert "! 1 job left no record; 1 job has no record yet: the total is without." in text


def test_jobs_that_sacct_does_not_know(report: Report) -> None:
    assert "sacct knows no job 999." in ask(report, "101", "999", answer=rows()[:1])
    said = refused(report("--brief", "998,999", rows=[]))
    assert "sacct knows no job 998, 999: submitted just now, a task of an array that has not run yet, " in said
    assert ask(report, "-u", "ada", answer=[]) == "  no job in that time\n"
    assert "is not of the fields" in refused(report("--brief", "101", rows=[], more="x\n"))


def test_hostile_names_are_words(report: Report) -> None:
    hostile = row("101", make_record(), JobName="\x1b[31m<b>\n[red]", User="eve\x07")
    text = ask(report, "101", "--width", "120", answer=[hostile])
    assert "\x1b" not in text and "\x07" not in text and len(text.splitlines()) == 2
    assert "[31m" in text


@pytest.mark.parametrize("words", [["101.0"], ["x"], ["103_[4-1]"], ["103_[1-5000]"], ["1,,2"], ["--csv"],
                                   ["--plot", "x.svg", "1"], ["--all-ranks", "1"], ["-u", "ada", "1"],
                                   ["-S", "yesterday"], ["-S", "1h", "-E", "2h"], ["-u", "a,,b"]])
def test_usage(report: Report, words: list[str]) -> None:
    assert "usage: mpi-wait report" in refused(report("--brief", *words), 2)


def test_what_is_for_it_alone(report: Report) -> None:
    assert "--user is for --brief" in refused(report("-u", "ada"), 2)
    assert "--since is for --brief" in refused(report("-S", "1h", "101"), 2)


def test_jobs_are_named_as_sacct_names_them() -> None:
    assert jobs_named("1,2_3,4+5") == ["1", "2_3", "4+5"]
    assert jobs_named("7_[1,3-5]") == ["7_1", "7_3", "7_4", "7_5"]
    assert jobs_named("7_[0-999]") is not None and jobs_named("7_[0-1000]") is None
    assert jobs_named("") is None and jobs_named("7_[1-]") is None and jobs_named("0") is None


def test_a_line_for_each_of_the_recorded_jobs(report: Report) -> None:
    """A job without MPI, one that was requeued, a million ranks: one line, and it fits."""
    answer = [make_row(**rows_of(name)[-1]) for name in JOBS]
    text = ask(report, *(one["JobID"] for one in answer), "--width", "100", answer=answer)
    lines = cells(text)
    assert list(lines)[len(JOBS) + 1] == "total" and max(map(len, text.splitlines())) <= 100
    assert lines["4713"][-6:] == ["nap", "–", "–", "–", "–", "11.2 kJ"] and "1 of 2 nodes" in lines["4706"][-1]
    assert ask(report, answer=answer, settings={"LC_ALL": "C"}).isascii()
