"""What mpi-wait report refuses, in which words, and what must never reach a terminal."""

from __future__ import annotations

import json
import pathlib
import re
import time
from typing import Any, Callable

import pytest

from tests.lib.doubles.report_double import (
    Report,
    make_record,
    make_row,
    refused,
    shown,
)


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


@pytest.mark.parametrize("name", ["123", "123_4", "123+1"])
def test_job_ids(report: Report, name: str) -> None:
    assert f"Job {name} " in shown(
        report(name, rows=[make_row(json.dumps(make_record()), JobID=name)])
    )
    assert report.asked()[:2] == ["-j", name]


@pytest.mark.parametrize(
    "name", ["0", "x", "123,124", "--", "123.x", "123_", "1;id", "123.0.0", "", "1" * 20]
)
def test_what_is_no_job_id_is_usage(report: Report, name: str) -> None:
    assert "usage:" in refused(report(*([name] if name != "--" else ["--", "-x"])), status=2)
    assert not (report.folder / "canned.json.argv").exists()


def test_other_usage(report: Report) -> None:
    assert "which job?" in refused(report(), status=2)
    assert "exclude each other" in refused(report("123", "--record", "x"), status=2)
    assert "is not a number from 40 to 1000" in refused(report("123", "--width", "wide"), status=2)


def soon(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - seconds))


ABSENT = {
    "running": (
        make_row(State="RUNNING", End="Unknown"),
        "job 123 is still running: its record is written some seconds",
    ),
    "pending": (make_row(State="PENDING", End="Unknown"), "job 123 has not run yet (PENDING)"),
    "no policy": (
        make_row(),
        "it had no policy (--mpi-wait-policy), or the site keeps no record of such jobs",
    ),
    "foreign text": (
        make_row("JS1:H4sIAAAA"),
        "AdminComment holds another tool's text (JS1:H4sIAAAA)",
    ),
    "foreign JSON": (make_row('{"site":1}'), "AdminComment holds another tool's text"),
    "newer version": (
        make_row('{"mpi_wait":{"v":2}}'),
        "the record has version 2, this mpi-wait reads version 1",
    ),
    "cut": (
        make_row(json.dumps(make_record())[:300]),
        "AdminComment of job 123: the record is damaged",
    ),
    "cut by the column": (make_row('{"mpi_wait":{"a":"' + "x" * 65600), "cut where the field ends"),
    "no object": (make_row('{"mpi_wait":[]}'), "the record is damaged: mpi_wait is not an object"),
    "NaN": (make_row('{"mpi_wait":{"v":NaN}}'), "the record is damaged (NaN is no JSON"),
    "nested": (make_row('{"mpi_wait":' + "[" * 60000), "the record is damaged"),
    "unknown job": (None, "sacct knows no job 123: submitted just now, a task of an array that has not run yet, "),
}


@pytest.mark.parametrize("name", ABSENT)
def test_why_there_is_no_report(report: Report, name: str) -> None:
    row, words = ABSENT[name]
    assert words in refused(report("123", rows=[row] if row else []))


def test_a_job_that_has_just_ended(report: Report) -> None:
    said = refused(report("123", rows=[make_row(End=soon(4))]))
    assert re.search(
        r"ended [0-9]+ s ago and has no record yet: .* ask again in a few seconds .*-node sweep --now",
        said,
    )
    assert "and has no record: it had no policy, or" in refused(report("123", rows=[make_row(End=soon(60))]))
    assert "has no record: it had no policy (" in refused(report("123", rows=[make_row(End=soon(3600))]))
    never = make_row(End=soon(4), NodeList="None assigned", State="CANCELLED by 1000")
    assert "has no record: it ended before it had a node" in refused(report("123", rows=[never]))


def test_sacct_that_fails_or_is_missing(report: Report) -> None:
    said = refused(report("123", status=1, stderr="sacct: error: slurm_persist_conn_open\nmore\n"))
    assert said == "mpi-wait: sacct failed: slurm_persist_conn_open\n"
    (report.folder / "sacct").unlink()
    path = {"PATH": str(report.folder)}
    assert "sacct was not found" in refused(report("123", settings=path))


def change(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(record: dict[str, Any]) -> None:
        place = record["mpi_wait"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return apply


HOSTILE = {
    "a string for a number": (
        change("wait", "mean_s", value="12"),
        "mpi_wait.wait.mean_s is not a number",
    ),
    "true for a number": (
        change("wait", "ranks", value=True),
        "mpi_wait.wait.ranks is not a whole number in range",
    ),
    "negative": (change("energy", "joules", value=-1), "mpi_wait.energy.joules is out of range"),
    "infinite": (change("elapsed_s", value=1e300), "mpi_wait.elapsed_s is out of range"),
    "a huge integer": (
        change("energy", "joules", value=10**400),
        "mpi_wait.energy.joules is out of range",
    ),
    "no ranks": (
        change("wait", "ranks", value=0),
        "mpi_wait.wait.ranks is not a whole number in range",
    ),
    "a list for an object": (
        change("wait", "by_call", value=[]),
        "mpi_wait.wait.by_call is not an object",
    ),
    "no MPI function": (
        change("wait", "by_call", value={"\x1b[2J": {}}),
        "names something that is no MPI function",
    ),
    "a list of hooks": (
        change("wait", "hooks", value=["opal"]),
        "mpi_wait.wait.hooks is not an object",
    ),
    "a flag with an escape": (
        change("wait", "flags", value={"\x1b[2J": 1}),
        "mpi_wait.wait.flags has names that are not possible",
    ),
    "a call that is none": (
        change("wait", "spun", value={"system": {"s": 1, "cpu_s": 1}}),
        "mpi_wait.wait.spun names something that is no MPI function",
    ),
    "null in the list": (
        change("wait", "per_rank_s", value=[1, None]),
        "per_rank_s[1] is not a number",
    ),
    "lists of two lengths": (
        change("wait", "per_rank_asleep_s", value=[1.0]),
        "and per_rank_s differ in length",
    ),
    "a policy with an escape": (
        change("policy", "used", value="nap\x1b[31m"),
        "mpi_wait.policy.used is not one of the possible",
    ),
    "an unknown source": (
        change("energy", "source", value="guess"),
        "mpi_wait.energy.source is not one of the possible",
    ),
    "an unknown grant": (
        change("grant", value={"mode": "loan", "cores": 1}),
        "mpi_wait.grant.mode is not one of the possible",
    ),
    "a list as a reason": (
        change("policy", "why", value=["x"]),
        "mpi_wait.policy.why is not a string",
    ),
    "no steps": (change("steps", value=None), "mpi_wait.steps is not a list"),
    "a step with an escape": (
        change("steps", 0, "id", value="0\n"),
        "mpi_wait.steps[0].id is not one of the possible",
    ),
    "share over one": (change("wait", "share", value=38), "mpi_wait.wait.share is out of range"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_record_is_refused_by_the_key(report: Report, name: str) -> None:
    apply, words = HOSTILE[name]
    record = make_record()
    apply(record)
    assert words in refused(report("123", rows=[make_row(json.dumps(record))]))
    assert "damaged" in refused(report("123", "--json", rows=[make_row(json.dumps(record))]))


EVIL = "\x1b]0;own\x07\x1b[2J\r\b\x9b31m\u202egnp\u200b\x00[red]x[/red]"


def test_nothing_that_a_terminal_obeys_gets_out(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["policy"]["why"] = EVIL
    record["mpi_wait"]["energy"] = None
    record["mpi_wait"]["energy_why"] = EVIL
    record["mpi_wait"]["nodes"].update(reported=1, why=EVIL)
    row = make_row(json.dumps(record), JobName=EVIL.replace("\r", ""), State="COMPLETED" + EVIL[:8])
    outputs = [
        report("123", rows=[row]),
        report("123", "--json", rows=[row]),
        report("123", rows=[make_row(EVIL.replace("\r", ""))]),
        report("123", status=1, stderr=EVIL),
    ]
    for result in outputs:
        text = result.stdout + result.stderr
        assert text and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]", text)
    assert "\\x1b[2J" in outputs[0].stdout and "[red]x" in outputs[0].stdout


def test_every_cut_of_a_record_is_refused(report: Report, tmp_path: pathlib.Path) -> None:
    text = json.dumps(make_record())
    for size in range(0, len(text), 149):
        path = tmp_path / "cut.json"
        path.write_text(text[:size])
        refused(report("--record", str(path)))
