"""A job's number may come again, after MaxJobId or where slurmctld has lost its state: the tools tell jobs apart."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

import pytest
from mpi_wait_tools.jobs.runs import by_job, latest_runs

from tests.lib.doubles.report_double import FIELDS, Report, make_record, make_row, refused, shown

BEGUN = 1_767_323_000  # some day in 2026
APART_S = 100


class Top(Report):
    command = "top"


def at(second: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(BEGUN + second))


def row(turn: int, user: str = "ada", joules: float = 0, **changes: str) -> dict[str, str]:
    """The number 100 for the turn-th time, each for 25 s. joules: without, there is no record."""
    record = make_record()
    record["mpi_wait"]["energy"]["joules"] = joules
    times = {"Submit": at(turn * APART_S), "Start": at(turn * APART_S + 1), "End": at(turn * APART_S + 26)}
    facts = {"JobID": "100", "JobIDRaw": "100", "User": user, "JobName": f"{user}s", "Account": "x", "Partition": "p"}
    return make_row(json.dumps(record) if joules else "", **{**facts, **times, **changes})


@pytest.mark.parametrize("before,after,jobs", [
    (row(0), row(1, "bob"), 2),
    (row(0, State="REQUEUED", JobName="x"), row(1, "bob", JobName="x"), 2),
    (row(0, State="NODE_FAIL"), row(1, JobName="other"), 2),
    (row(0), row(1), 2),
    (row(0, State="REQUEUED"), row(1), 1),
    (row(0, State="PREEMPTED"), row(1, State="RUNNING"), 1),
    (row(0), row(1, Restarts="1"), 1),
    (row(0, State="REQUEUED"), row(1, Restarts="0"), 2),
])
def test_which_rows_are_runs_of_one_job(before: dict[str, str], after: dict[str, str], jobs: int) -> None:
    assert len(by_job([after, before])) == jobs
    assert latest_runs([before, after]) == ([before, after] if jobs == 2 else [after])


def twice() -> list[dict[str, str]]:
    return [row(0, "bob", 221), row(1, "ada", 319)]


def asked(report: Report, *words: str, rows: list[dict[str, str]] | None = None, **options: Any) -> str:
    return shown(report(*words, rows=twice() if rows is None else rows, latest=9, **options))


def test_top_has_a_line_for_each(tmp_path: pathlib.Path) -> None:
    found = json.loads(asked(Top(tmp_path), "--json"))["rows"]
    assert sorted((line["name"], line["job_name"], line["joules"], line["jobs"], line["submit"]) for line in found) == [
        ("100", "adas", 319, 1, at(APART_S)), ("100", "bobs", 221, 1, at(0))]
    assert "1 number came again: several lines with one are different jobs." in asked(Top(tmp_path))
    again = [row(0, joules=1, State="NODE_FAIL"), row(1, joules=2), row(2, joules=4)]
    found = json.loads(asked(Top(tmp_path), "--json", rows=again))["rows"]
    assert sorted((line["jobs"], line["joules"]) for line in found) == [(1, 4), (2, 3)]
    assert "came again" not in asked(Top(tmp_path), rows=again[:2])


def test_brief_has_both_of_a_time_and_one_run_of_each(tmp_path: pathlib.Path) -> None:
    rows = [*twice(), row(2, "ada", 5, State="REQUEUED"), row(3, "ada", 7)]
    lines = json.loads(asked(Report(tmp_path), "--brief", "--json", "-u", "ada,bob", rows=rows))
    assert [(line["user"], line["joules"], line["submit"]) for line in lines] == [
        ("bob", 221, at(0)), ("ada", 319, at(APART_S)), ("ada", 7, at(3 * APART_S))]
    lines = json.loads(asked(Report(tmp_path), "--brief", "--json", "--duplicates", "-u", "ada,bob", rows=rows))
    assert [line["joules"] for line in lines] == [221, 319, 5, 7]


def test_duplicates_are_called_what_they_are(tmp_path: pathlib.Path) -> None:
    rows = [*twice(), row(2, "ada", 5, Restarts="1")]
    text = asked(Report(tmp_path), "100", "--duplicates", "--width", "120", rows=rows, helpformat=[*FIELDS, "Restarts"])
    for words in (f"bob's of {at(0)}", f"ada's of {at(APART_S)}, run 1 of 2", f"ada's of {at(APART_S)}, run 2 of 2"):
        assert f"Job 100, {words} " in " ".join(text.split())


def keep(folder: pathlib.Path, number: int, turn: int | None, joules: float) -> None:
    """A file of done/, which says when its run was; None: it does not, as of an older release."""
    record = make_record()
    record["mpi_wait"]["energy"]["joules"] = joules
    if turn is not None:
        begun = BEGUN + turn * APART_S + 1
        record["run"] = {"start_s": begun + 0.2, "end_s": begun + 25.7, "restart_count": number}
    (folder / "spool/done").mkdir(parents=True, exist_ok=True)
    (folder / f"spool/done/c-100-{number}.json").write_text(json.dumps(record))


def test_the_spool_s_record_is_the_row_s_own(tmp_path: pathlib.Path) -> None:
    """The number of the run in the name says little: the first job was requeued, and the second is not."""
    report, spool = Report(tmp_path), f"--spool={tmp_path}/spool"
    keep(tmp_path, 1, 0, 111)
    keep(tmp_path, 0, 2, 333)
    for turn, joules in ((0, "111 J"), (2, "333 J")):
        assert joules in asked(report, "100", spool, rows=[row(turn)])
        (line,) = json.loads(asked(report, "--brief", "--json", "100", spool, rows=[row(turn)]))
        assert f"{line['joules']:.0f} J" == joules
    assert "has no record" in refused(report("100", spool, rows=[row(1)]))
    assert "has not run yet" in refused(report("100", spool, rows=[row(3, State="PENDING", Start="Unknown")]))
    (report.folder / "sacct").unlink()
    assert "333 J" in shown(report("100", spool, settings={"PATH": str(report.folder)}))


def test_a_record_of_an_older_release_is_found(tmp_path: pathlib.Path) -> None:
    keep(tmp_path, 0, 0, 111)
    keep(tmp_path, 1, None, 222)
    assert "111 J" in asked(Report(tmp_path), "100", f"--spool={tmp_path}/spool", rows=[row(0)])
    assert "222 J" in asked(Report(tmp_path), "100", f"--spool={tmp_path}/spool", rows=[row(1)])
