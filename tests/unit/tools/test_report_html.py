"""mpi-wait report --html: of each recorded job a page that is valid, loads nothing, and is nobody else's text."""

from __future__ import annotations

import json
import pathlib
import re

import html5lib
import pytest
from mpi_wait_tools.meaning.advice import AWAKE, BAD, GOOD, LOOK, level_of

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown
from tests.lib.pages import checked
from tests.lib.recorded_jobs import JOBS, rows_of

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=y>\"'&]]>\x1b[31m\x00"


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def page(report: Report, words: list[str], rows: list[dict[str, str]]) -> str:
    path = report.folder / "page.html"
    assert shown(report(*words, "--html", str(path), rows=rows)) == ""
    return path.read_text()


def page_of(report: Report, name: str) -> str:
    rows = [make_row(**row) for row in rows_of(name)]
    return page(report, [rows[-1]["JobID"]], rows[-1:])


@pytest.mark.parametrize("name", JOBS)
def test_each_recorded_job_has_a_valid_page(report: Report, name: str) -> None:
    text = page_of(report, name)
    checked(text)
    assert len(text) < 200_000 and "prefers-color-scheme: dark" in text and "@media print" in text


def test_the_verdict_stands_on_top_with_its_thresholds(report: Report) -> None:
    """One rank of eight is waited for: that is bad; all else is good."""
    text = page_of(report, "one-slow-rank")
    top = text[: text.index("The job")]
    assert "Something is bad." in top and "lost to the imbalance" in top and "26 %" in top
    assert "good below 5.0 %, bad from 20 % of the ranks&#39; time" in top and "Take work from rank 5 (on c2)" in top
    assert '<li class="bad"><span class="level">bad</span> lost to the imbalance' in top
    assert '<li class="good"><span class="level">good</span> waiting awake' in top
    assert "All is good." in page_of(report, "balanced") and "no MPI rank was seen" in page_of(report, "no-mpi")


def test_advice_has_the_line_to_paste(report: Report) -> None:
    text = page_of(report, "profile")
    assert "See mpi-wait-policy(7), POLICIES.<br><code>#SBATCH --mpi-wait-policy=nap</code></li>" in text
    assert "<code>" not in page_of(report, "one-slow-rank")


def test_phases_have_a_section_where_the_program_names_them(report: Report) -> None:
    text = page_of(report, "profile")
    assert "Waiting by phase" in text and "phase 3: 6 min 50 s, 68000 waits of 50.0 s in all" in text
    assert "in no phase" in text and "Waiting by phase" not in page_of(report, "one-slow-rank")


def test_call_sites_have_a_section_where_they_were_asked_for(report: Report) -> None:
    text = page_of(report, "profile")
    assert "Waiting by call site" in text and \
        "<td>cfd+0x1a2f4</td><td>MPI_Allreduce</td><td>31600</td><td>49.8 s</td><td>rank 3, 7.00 s</td>" in text
    assert "Waiting by call site" not in page_of(report, "one-slow-rank")


def test_values_show_on_hover(report: Report) -> None:
    text = page_of(report, "one-slow-rank")
    titles = re.findall(r"<g><title>([^<]*)</title>", text)
    assert "rank 5 on c2: 400 ms waiting, 376 ms of it asleep, of 60.1 s" in titles
    assert any(title.startswith("MPI_Allreduce: 32000 calls, 28800 of them waited") for title in titles)
    assert any(re.match(r"from \d+(\.\d+)? s: \d+ W", title) for title in titles)


def test_a_million_ranks_are_a_curve(report: Report) -> None:
    text = page_of(report, "million-ranks")
    assert "ranks in the order of their waiting" in text and len(re.findall("<g><title>", text)) < 300


def test_missing_nodes_are_said_first(report: Report) -> None:
    text = page_of(report, "lost-node")
    assert text.index("INCOMPLETE: 1 of 2 nodes reported (nodes missing)") < text.index("The job")
    assert "Lost to the imbalance" not in text and "NODE_FAIL" in text


def test_one_step(report: Report) -> None:
    rows = [make_row(**row) for row in rows_of("two-steps")]
    text = page(report, ["4709.1"], rows)
    checked(text)
    assert "Job 4709, step 1" in text and "Waiting by call" not in text


def test_hostile_names_are_text(report: Report) -> None:
    """Of the job, its nodes, its policy's reason: none of it becomes markup."""
    record = make_record()
    body = record["mpi_wait"]
    body["wait"]["min"]["node"] = body["wait"]["max"]["node"] = HOSTILE
    body["policy"]["why"] = body["energy_why"] = HOSTILE
    body["throttle"] = {"core_throttle": 1, "package_throttle": 0, "core_power_limit": 0, "package_power_limit": 0,
                        "most": HOSTILE}
    row = make_row(json.dumps(record), JobID="123", JobName=HOSTILE, State=f"CANCELLED by {HOSTILE}", User=HOSTILE)
    text = page(report, ["123"], [row])
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    html5lib.HTMLParser(strict=True).parse(text)
    assert not list(tree.iter("script")) and not list(tree.iter("img")) and "\x1b" not in text and "\x00" not in text
    assert "&lt;script&gt;" in text and [element.text for element in tree.iter("title")][0] == "Job 123"


def test_simulated_energy_is_called_so(report: Report) -> None:
    text = page(report, ["123"], [make_row(json.dumps(make_record()))])
    assert "simulated, not measured" in text


def test_gpus_that_were_not_counted_are_named(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["not_counted"] = ["gpus"]
    assert "GPUs not counted" in page(report, ["123"], [make_row(json.dumps(record))])


def test_refusals(report: Report, tmp_path: pathlib.Path) -> None:
    rows = [make_row(json.dumps(make_record()))]
    for words in (["--html", "x.txt", "1"], ["--html", "x.html", "1", "2"], ["--html", "x.html", "--json", "1"],
                  ["--html", "x.html", "--duplicates", "1"], ["--html", "x.html", "--brief", "1"]):
        assert "usage: mpi-wait report" in refused(report(*words, rows=rows), 2)
    assert "cannot be written" in refused(report("123", "--html", str(tmp_path / "no/x.html"), rows=rows))


def test_thresholds() -> None:
    look, bad = AWAKE
    assert [level_of(share, AWAKE) for share in (0.0, look - 1e-9, look, bad - 1e-9, bad, 1.0)] == [
        GOOD, GOOD, LOOK, LOOK, BAD, BAD]
