"""mpi-wait top, against a fake sacct. tests/cluster/test_top_cluster.py has it beside Slurm."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import pwd
import re
import subprocess
from typing import Any

import pytest
from mpi_wait_tools.jobs.sacct import Period, parse_time  # noqa: E402  (the path above comes first)

from tests.lib.doubles.record_doubles import one_slow_node, spinning
from tests.lib.doubles.report_double import COMMAND, DELIMITER, Report, make_record, make_row, refused, shown


class Top(Report):
    command = "top"


@pytest.fixture
def top(tmp_path: pathlib.Path) -> Top:
    return Top(tmp_path)


def row(job: str, record: Any, user: str = "ada", account: str = "physics", **changes: str) -> dict[str, str]:
    text = record if isinstance(record, str) else json.dumps(record)
    facts = {"User": user, "Account": account, "Partition": "short", "Start": f"2026-01-02T03:04:0{job[-1]}"}
    return make_row(text, JobID=job, JobIDRaw=job, **{**facts, **changes})


def rows() -> list[dict[str, str]]:
    return [
        row("101", make_record()),
        row("102", make_record(), user="bob", account="chemistry"),
        row("103", spinning()),
        row("104", "JS1:H4sI"),
        row("105", '{"mpi_wait":{"v":2}}'),
        row("106", ""),
    ]


def ask(top: Top, *argv: str, answer: list[dict[str, str]] | None = None, **options: Any) -> str:
    answer = rows() if answer is None else answer
    return shown(top(*argv, rows=answer, latest=len(answer), **options))


def test_jobs_come_by_the_joules_spent_waiting_awake(top: Top) -> None:
    """What is slept through is no waste: of the jobs that waited as long, the one that polled comes first."""
    text = ask(top)
    lines = [line.split() for line in text.splitlines() if re.match(r"  10\d ", line)]
    assert [line[0] for line in lines] == ["103", "101", "102"]
    assert "~1.51 kJ" in " ".join(lines[0])
    assert text.count("~130 J") == 2
    assert "3 jobs of 6 with a record; 14.2 kJ, ~1.77 kJ of it waiting awake" in " ".join(text.split())
    assert "ranks waited 87.0 s, 60 % of it asleep" in " ".join(text.split())
    assert "1 record cannot be read" in text and "simulated" in text and "~ is an estimate" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_jobs_whose_gpus_were_not_counted_are_named(top: Top) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["not_counted"] = ["gpus"]
    answer = [row("101", record), row("102", make_record())]
    assert "GPUs not counted: 1 job ran on nodes with some" in " ".join(ask(top, answer=answer).split())
    rows = json.loads(ask(top, "--json", "--by", "job", answer=answer))["rows"]
    assert {line["name"]: line["without_gpus"] for line in rows} == {"101": 1, "102": 0}
    assert "GPU" not in ask(top)


@pytest.mark.parametrize("by,names", [("account", ["physics", "chemistry"]), ("user", ["ada", "bob"]),
                                      ("partition", ["short"]), ("policy", ["profile", "nap"])])
def test_they_are_summed_up(top: Top, by: str, names: list[str]) -> None:
    answer = json.loads(ask(top, "--by", by, "--json"))
    assert [line["name"] for line in answer["rows"]] == names
    assert sum(line["jobs"] for line in answer["rows"]) == 3
    assert (answer["jobs"], answer["without_record"], answer["unreadable"]) == (6, 2, 1)
    assert re.search(rf"^  {names[0]} +\d", ask(top, "--by", by), re.M)


def test_what_sacct_is_asked(top: Top) -> None:
    ask(top, "--since", "2026-01-02", "--until", "2026-01-02T12:00", "--user", "ada,bob", "--account", "x",
        "--partition", "short")
    asked = top.asked()
    assert "--starttime=2026-01-02T00:00:00" in asked and "--endtime=2026-01-02T12:00:00" in asked
    assert {"--user=ada,bob", "--accounts=x", "--partition=short"} <= set(asked) and "--allusers" not in asked
    ask(top)
    assert "--allusers" in top.asked()


def test_a_job_of_several_days_counts_once(top: Top) -> None:
    answer = json.loads(ask(top, "--since", "2026-01-01", "--until", "2026-01-05", "--json"))
    assert answer["jobs"] == 6 and sum(line["jobs"] for line in answer["rows"]) == 3
    again = [row("101", make_record(), State="REQUEUED"), row("101", make_record(), Start="2026-01-02T05:00:00")]
    assert json.loads(ask(top, "--json", answer=again))["rows"][0]["jobs"] == 2


@pytest.mark.parametrize("share,steps,expected", [(0, 1, 96.0), (0.001, 1, 96.0), (0, 0, 0.0), (0.01, 1, 4.0)])
def test_ranks_that_hardly_wait_are_in_the_ranks_time(top: Top, share: float, steps: int, expected: float) -> None:
    """The share in the record has three decimals. Without these jobs, a sum would be that of the jobs that wait."""
    calm = make_record([0.01, 0.01, 0.01, 0.01])
    calm["mpi_wait"]["wait"]["share"] = share
    calm["mpi_wait"]["steps"] = calm["mpi_wait"]["steps"][:steps]
    answer = [row("101", make_record()), row("102", calm)]
    (line,) = json.loads(ask(top, "--json", "--by", "user", answer=answer))["rows"]
    assert line["ranks_s"] == pytest.approx(100 + expected) and line["wait_s"] == pytest.approx(29.04)
    if expected == 96:
        assert re.search(r"^  ada .* 1\.5 %  +13 %", ask(top, "--by", "user", answer=answer), re.M)


def test_a_job_that_may_have_hung_is_in_no_loss(top: Top) -> None:
    """It did not run to its end: the rank that waits least may have stopped answering, and the work be balanced."""
    hung = make_record([0.0, 80.0, 80.0, 80.0])
    answer = [row("101", make_record()), row("102", hung, State="TIMEOUT")]
    found = {line["name"]: line["lost_s"] for line in json.loads(ask(top, "--json", answer=answer))["rows"]}
    assert found == {"101": 27.0, "102": 0.0}
    text = ask(top, "--width", "120", answer=answer)
    assert re.search(r"^  101 .* 27 % *█*$", text, re.M) and re.search(r"^  102 .* – *█*$", text, re.M)
    assert re.search(r"^  ada .* 27 % *█*$", ask(top, "--by", "user", "--width", "120", answer=answer), re.M)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_runs_of_a_requeued_job_are_one_line(top: Top, reverse: bool) -> None:
    """Its time is that of both runs, as its energy is, and its state is the last run's."""
    later = {"Start": "2026-01-02T05:00:00", "Submit": "2026-01-02T03:30:00", "ElapsedRaw": "3600", "NNodes": "3"}
    runs = [row("101", make_record(), State="REQUEUED"), row("101", make_record(), **later)]
    answer = runs[::-1] if reverse else runs
    (line,) = json.loads(ask(top, "--json", answer=answer))["rows"]
    assert (line["joules"], line["elapsed_s"], line["state"], line["nodes"]) == (9000, 3625, "COMPLETED", 3)
    assert (line["start"], line["submit"]) == ("2026-01-02T03:04:01", "2026-01-02T03:03:00")
    assert re.search(r"101 +solver +nap +CD +1:00:25 +3 +9\.00 kJ", ask(top, answer=answer))
    assert json.loads(ask(top, "--json", "--by", "user", answer=answer))["rows"][0]["jobs"] == 2


def test_texts_with_newlines_and_delimiters(top: Top) -> None:
    answer = [row("101", f"one\ntwo {json.dumps(make_record())}", Extra=f"x{DELIMITER}\ny"), row("102", spinning())]
    assert [line["name"] for line in json.loads(ask(top, "--json", answer=answer))["rows"]] == ["102", "101"]


def test_rows_that_are_none_are_counted(top: Top) -> None:
    answer = json.loads(ask(top, "--json", answer=[row("101", make_record())], more=f"{'xDELIMITER' * 40}\n"))
    assert (answer["jobs"], answer["unreadable"], len(answer["rows"])) == (2, 1, 1)


def test_a_record_in_extra_is_said_to_be_the_users_word(top: Top) -> None:
    mine = row("101", "", Extra=json.dumps(make_record()))
    assert json.loads(ask(top, "--json", answer=[mine, row("102", make_record())]))["from_extra"] == 1
    assert "1 record from Extra, which a job's owner can change." in ask(top, answer=[mine])


def test_nothing_to_show(top: Top) -> None:
    assert "0 jobs of 0 with a record" in ask(top, answer=[])
    without = make_record()
    without["mpi_wait"].update(energy=None, energy_why="no powercap zones")
    text = ask(top, answer=[row("101", without)])
    assert "Of 1 job the energy is not known." in text
    assert re.search(r"101 +solver +ada +nap +CD +0:25 +2 +– +– +2\.9 % +26 %", text)


def test_a_limit_and_many_columns(top: Top) -> None:
    answer = [row(str(100 + number), one_slow_node(64)) for number in range(30)]
    text = ask(top, "--limit", "5", "--width", "120", answer=answer)
    assert len(re.findall(r"^  1\d\d ", text, re.M)) == 5 and "25 more (--limit 30)" in text
    assert "imbalance" in text and max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--since", "0d"], ["--by", "node"], ["--user", "a,,b"],
                                   ["--limit", "0"], ["--user=--help"], ["--since", "1h", "--until", "2h"],
                                   ["--since", "1900-01-01"], ["--mine", "--user", "ada"], ["--plot", "x.svg"],
                                   ["--name", ""], ["--user", "a\nb"], ["--account", " "],
                                   ["--partition=-x"], ["--name", "a", "--by", "user"],
                                   ["--name", "a", "--plot", "x.gif"], ["--name", "a", "--plot", "x.svg", "--json"]])
def test_wrong_usage(top: Top, words: list[str]) -> None:
    assert "usage:" in refused(top(*words), status=2)


@pytest.mark.parametrize("name", ["DOM\\eve", "eve@dom.example", "eve,DOM\\bob", "e-v.e_1$", "domain users", "5.1+2",
                                  "éve", "1000"])
@pytest.mark.parametrize("option,asked", [("--user", "--user"), ("--account", "--accounts"),
                                          ("--partition", "--partition")])
def test_names_are_slurms_to_judge(top: Top, option: str, asked: str, name: str) -> None:
    ask(top, f"{option}={name}")
    assert f"{asked}={name}" in top.asked()


@pytest.mark.parametrize("name,is_asked", [
    ("solver-2.1+x", True), ("a,b", False), ("it's", False), ('"x"', False), ("流体", False), ("two words", False),
    ("a\nb\x1b[2J", False), ("%x_$HOME", False), ("-x", False), ("n" * 300, True),
])
def test_jobs_of_any_name(top: Top, name: str, is_asked: bool) -> None:
    """sacct is not asked for a name that it would cut, unquote or refuse to compare: the rows say whose they are."""
    answer = [row("101", make_record(), JobName=name), row("102", make_record(), JobName="other")]
    said = json.loads(ask(top, f"--name={name}", "--json", answer=answer))
    assert [line["name"] for line in said["rows"]] == ["101"] and said["jobs"] == 1
    assert (f"--name={name}" in top.asked()) == is_asked
    text = ask(top, f"--name={name}", answer=answer)
    assert "1 run of" in text and not any(ord(char) < 32 and char != "\n" for char in text)


def test_sacct_that_fails(top: Top) -> None:
    assert refused(top(status=1, stderr="sacct: error: no\nmore\n")) == "mpi-wait: sacct failed: no\n"
    (top.folder / "sacct").unlink()
    assert "sacct" in refused(top(settings={"PATH": str(top.folder)}))


def test_nothing_that_a_terminal_obeys(top: Top) -> None:
    hostile = row("101", make_record(), user="\x1b[2Jada", JobName="\x1b[2J", State="\x1b[2J")
    text = ask(top, "--width", "120", answer=[hostile])
    assert "\x1b" not in text and "\\x1b" in text


def jobs_of(top: Top, *argv: str, **options: Any) -> list[dict[str, Any]]:
    return json.loads(ask(top, *argv, "--json", **options))["rows"]


def test_asleep_and_awake_are_told_apart(top: Top) -> None:
    nap, polled = make_record(), spinning()
    first, second = jobs_of(top, answer=[row("101", nap), row("102", polled)])
    assert (first["name"], second["name"]) == ("102", "101")
    assert first["awake_s"] == 29 and first["asleep_s"] == 0 and first["wait_s"] == second["wait_s"]
    assert second["awake_s"] == pytest.approx(2.9) and second["awake_j"] == pytest.approx(130.5)


def test_what_threads_burned_can_be_the_order(top: Top) -> None:
    """One that slept well, and left its threads spinning, comes first; where none has any there is no column."""
    hybrid = make_record()
    hybrid["mpi_wait"]["wait"]["threads_s"] = 90.0
    answer = [row("101", hybrid), row("102", spinning())]
    assert [line["name"] for line in jobs_of(top, answer=answer)] == ["102", "101"]
    first, second = jobs_of(top, "--order", "threads", answer=answer)
    assert (first["name"], first["threads_s"], second["threads_s"]) == ("101", 90, 0)
    text = ask(top, "--order", "threads", "--width", "110", answer=answer)
    assert "Threads busy while ranks wait, by job" in text
    assert re.search(r"^  job .* threads ", text, re.M) and re.search(r"^  101 .* 90\.0 s ", text, re.M)
    assert "threads" not in ask(top)


def saving(percent: float, error: float = 1.0) -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"]["energy"]["saved"] = {"percent": percent, "error": error, "looks": 40, "look_w": 200,
                                             "beside_w": 180}
    return record


def test_what_was_saved_is_a_column_and_an_order(top: Top) -> None:
    """Of jobs of which it is known; joules are those of the job that polls, less its own."""
    answer = [row("101", saving(5.0)), row("102", spinning()), row("103", saving(20.0, 2.0))]
    assert [line["name"] for line in jobs_of(top, "--order", "saved", answer=answer)] == ["103", "101", "102"]
    best, _, unknown = jobs_of(top, "--order", "saved", answer=answer)
    assert (best["saved_percent"], best["saved_error"]) == (20, 2) and best["saved_j"] == pytest.approx(
        best["joules"] * 0.25, rel=0.001)
    assert unknown["saved_percent"] is None and unknown["saved_j"] is None
    text = ask(top, "--order", "saved", "--width", "120", answer=answer)
    assert "Energy saved by sleeping in waits, by job" in text and "20.0 % ± 2.0" in text
    (both,) = jobs_of(top, "--by", "account", answer=[row("101", saving(5.0)), row("103", saving(20.0, 2.0))])
    assert 12 < both["saved_percent"] < 14 and both["saved_error"] < 2
    assert "saved" not in ask(top, answer=[row("101", make_record())])


@pytest.mark.parametrize("order", ["awake", "threads", "saved"])
def test_bars_are_of_what_the_lines_are_in_the_order_of(top: Top, order: str) -> None:
    """Each job has most of one figure, and comes first by it, with the longest bar."""
    hybrid, saver = make_record(), saving(20.0)
    hybrid["mpi_wait"]["wait"]["threads_s"] = 90.0
    users = {"awake": spinning(), "threads": hybrid, "saved": saver}
    answer = [row(str(101 + place), record, user=name) for place, (name, record) in enumerate(users.items())]
    lines = ask(top, "--by", "user", "--order", order, "--width", "120", answer=answer).splitlines()
    bars = {line.split()[0]: line.count("█") for line in lines if line.split()[:1] in [[name] for name in users]}
    assert next(iter(bars)) == order == max(bars, key=lambda name: bars[name])
    assert sorted(bars.values(), reverse=True) == list(bars.values())


def test_a_record_that_does_not_tell_asleep_is_awake(top: Top) -> None:
    record = make_record()
    del record["mpi_wait"]["wait"]["asleep_s"]
    assert jobs_of(top, answer=[row("101", record)])[0]["awake_s"] == 29


LONG = {"JobName": "a_program_with_a_long_name", "State": "OUT_OF_MEMORY", "ElapsedRaw": "3600000", "NNodes": "12345"}


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_name_state_time_and_nodes_stand_in_the_table(top: Top, width: int) -> None:
    answer = [row(str(4_000_000_000 + number), make_record(), user="a_long_user", **LONG) for number in range(3)]
    text = ask(top, "--width", str(width), answer=answer)
    assert max(map(len, text.splitlines())) <= width and not re.search(r"[0-9a-z]…", text)
    if width >= 80:
        line = next(line for line in text.splitlines() if line.startswith("  4000000000"))
        assert re.search(r"4000000000 +a_program_\S* +.*OOM +41-16:00:00 +12345 .*2\.9 % +26 %", line)
    assert "energy" in ask(top, "--width", "120") and "imbalance" in ask(top, "--width", "130")


def test_incomplete_records_are_said(top: Top) -> None:
    record = make_record()
    record["mpi_wait"]["nodes"] = {"reported": 1, "of": 2}
    text = ask(top, answer=[row("101", record)])
    assert "1 record INCOMPLETE: nodes did not report" in text
    assert jobs_of(top, answer=[row("101", record)])[0]["incomplete"] == 1


def runs() -> list[dict[str, str]]:
    """Of one program, three of them polling; and a job of another name."""
    answer = [row(f"10{number}", spinning(5000.0 + 100 * number), ElapsedRaw=str(25 + number)) for number in range(3)]
    answer += [row(f"10{number}", make_record(), ElapsedRaw="26", State="TIMEOUT") for number in range(3, 5)]
    return [*answer, row("109", make_record(), JobName="other")]


def test_the_runs_of_one_program_are_a_trend(top: Top) -> None:
    text = ask(top, "--name", "solver", answer=runs())
    assert "--name=solver" in top.asked() and text.startswith("5 runs of solver")
    assert re.search(r"^  Time +[▁▂▃▄▅▆▇█]{5}  25\.0 s to 27\.0 s  \+4\.0 %$", text, re.M)
    assert re.search(r"^  Awake +███▁▁  2\.9 % to 29 %  −26\.1 pt$", text, re.M)
    jobs = re.findall(r"^  2026-01-02 03:04 +(\d+) +(\w+) +(\w+) ", text, re.M)
    assert jobs == [("100", "profile", "CD"), ("101", "profile", "CD"), ("102", "profile", "CD"),
                    ("103", "nap", "TO"), ("104", "nap", "TO")]
    assert max(map(len, text.splitlines())) <= 80
    assert "the latest 2 of 5" in ask(top, "--name", "solver", "--limit", "2", answer=runs())
    assert "0 runs of nothing" in ask(top, "--name", "nothing", answer=runs())


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_trend_fits(top: Top, width: int) -> None:
    answer = [row(str(4_000_000_000 + number), make_record(), **{**LONG, "JobName": "solver"}) for number in range(70)]
    text = ask(top, "--name", "solver", "--width", str(width), answer=answer)
    assert re.search(r"^  Awake .* ±?[+]0\.0 pt$", text, re.M)
    assert max(map(len, text.splitlines())) <= width and not re.search(r"[0-9a-z]…", text)


def test_runs_of_other_sizes_are_said(top: Top) -> None:
    answer = [row("101", make_record()), row("102", make_record(), NNodes="4")]
    assert "The runs differ in nodes" in ask(top, "--name", "solver", answer=answer)
    assert "The runs differ" not in ask(top, "--name", "solver", answer=answer[:1])


def test_a_trend_is_drawn(top: Top, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "trend.svg"
    assert ask(top, "--name", "solver", "--plot", str(page), answer=runs()) == ""
    assert page.read_bytes().startswith(b"<?xml") and page.stat().st_size > 8000
    said = refused(top("--name", "nothing", "--plot", str(page), rows=runs(), latest=6))
    assert "no job of the name 'nothing' left a record" in said


def test_mine(top: Top) -> None:
    ask(top, "--mine", answer=[])
    assert f"--user={pwd.getpwuid(os.getuid()).pw_name}" in top.asked() and "--allusers" not in top.asked()


def test_times() -> None:
    now = 1_800_000_000.0
    assert parse_time("2h", now) == now - 7200 and parse_time("now", now) == now
    assert parse_time("1w", now) == now - 604800 and parse_time("2026-13-01", now) is None
    assert [day.until - day.since for day in Period(0, 200_000).days()] == [86400, 86400, 27200]


def test_progress_is_for_eyes_only(top: Top) -> None:
    assert top(rows=rows(), latest=6).stderr == ""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PATH": f"{top.folder}:/usr/bin:/bin", "FAKE_SACCT": str(top.canned), "TERM": "xterm"}
    done = subprocess.run([COMMAND, "top", "--since", "3d"], env=environment, stdout=subprocess.PIPE, stderr=theirs,
                          timeout=60, check=True)
    os.close(theirs)
    assert b"days" in os.read(ours, 65536) and b"days" not in done.stdout
    os.close(ours)
