"""mpi-wait report against a fake sacct: where it finds the record, and what it writes to files, pipes and terminals."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import subprocess
from typing import Callable

import pytest

from tests.lib.doubles.report_double import COMMAND, DELIMITER, FIELDS, Report, make_record, make_row, refused, shown


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


FINDS: dict[str, Callable[[str], dict[str, str]]] = {
    "merged with another tool's keys": lambda text: make_row(
        json.dumps({"site": {"a": 1}, **json.loads(text)})
    ),
    "in the middle of other text": lambda text: make_row(f"JS1:abc {text} and more"),
    "behind text with newlines and delimiters": lambda text: make_row(
        f"one\ntwo\n{text}", JobName="a\nb", Extra=f"x{DELIMITER}y"
    ),
    "in SystemComment, AdminComment being taken": lambda text: make_row(
        "JS1:H4sI", SystemComment=text
    ),
    "in Extra": lambda text: make_row("", Extra=text),
}


@pytest.mark.parametrize("row", FINDS.values(), ids=FINDS.keys())
def test_the_record_is_found(report: Report, row: Callable[[str], dict[str, str]]) -> None:
    assert "4.50 kJ" in shown(report("123", rows=[row(json.dumps(make_record()))]))


FORGED = json.dumps(make_record()).replace('"joules": 4500.0', '"joules": 1e12')


@pytest.mark.parametrize("field", ["JobName", "Extra"])
@pytest.mark.parametrize("delimiter", [DELIMITER, "|", "of the call before"])
def test_a_users_text_is_one_cell(report: Report, field: str, delimiter: str) -> None:
    """Neither a cell nor a row more, whatever it holds: nobody can know the delimiter before the call."""
    honest = make_row(json.dumps(make_record()))
    shown(report("123", rows=[honest]))
    cut = report.delimiter() if len(delimiter) > 1 else delimiter
    cells = make_row(FORGED, JobID="124", JobIDRaw="124").values()
    honest[field] = f"x{cut}{FORGED}{cut}{cut}7\n{cut.join(cells)}\n"
    text = shown(report("123", rows=[honest]))
    assert "4.50 kJ" in text and "TJ" not in text
    assert report.delimiter() != cut and len(report.delimiter()) > 32


def test_a_record_in_extra_is_the_users_word(report: Report) -> None:
    text = shown(report("123", rows=[make_row("", Extra=FORGED)]))
    assert "stands in Extra, which the job's owner can change" in " ".join(text.split())


def test_rows_of_another_number_of_cells_are_refused(report: Report) -> None:
    rows = [make_row(json.dumps(make_record()))]
    for more in ("a row that never ends", f"{'x'.join(['DELIMITER'] * 20)}\n", f"{'DELIMITER' * 12}no number\n"):
        assert "rows that are not of the 17 fields asked for" in refused(report("123", rows=rows, more=more))


def test_an_old_sacct_is_not_asked_for_extra(report: Report) -> None:
    rows = [make_row(json.dumps(make_record()))]
    shown(report("123", rows=rows, helpformat=FIELDS[:11]))
    assert "Extra" not in " ".join(report.asked())
    shown(report("123", rows=rows))
    assert "Extra" in " ".join(report.asked())


def test_a_raw_record(report: Report, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(make_record()))
    from_file, from_stdin = (
        shown(report("--record", str(path))),
        shown(report("-", stdin=path.read_text())),
    )
    assert from_file == from_stdin and from_file.startswith("A record without its job")
    assert "cannot be read: No such file" in refused(report("--record", str(tmp_path / "none")))
    assert "there is no record in" in refused(report("-", stdin="hello"))
    assert "larger than" in refused(report("-", stdin="x" * (1 << 21)))


def test_json_is_the_record_and_the_row(report: Report) -> None:
    record = make_record()
    answer = json.loads(shown(report("123", "--json", rows=[make_row(json.dumps(record))])))
    assert answer["mpi_wait"] == record["mpi_wait"] and answer["field"] == "AdminComment"
    assert answer["job"]["JobID"] == "123" and answer["job"]["State"] == "COMPLETED"
    assert "AdminComment" not in answer["job"]


def test_duplicates_are_every_run(report: Report) -> None:
    later = make_record()
    later["mpi_wait"]["energy"]["joules"] = 9000.0
    rows = [
        make_row(json.dumps(make_record()), State="REQUEUED"),
        make_row(),
        make_row(json.dumps(later)),
    ]
    assert (
        "9.00 kJ = 2.50 Wh" in shown(report("123", rows=rows))
        and "--duplicates" not in report.asked()
    )
    text = shown(report("123", "--duplicates", rows=rows))
    assert text.index("4.50 kJ = ") < text.index("9.00 kJ = 2.50 Wh") and text.count("Job 123") == 2
    assert len(json.loads(shown(report("123", "--duplicates", "--json", rows=rows)))) == 2


def test_ascii_where_the_output_is_not_utf8(report: Report) -> None:
    environment = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    text = shown(
        report(
            "123", rows=[make_row(json.dumps(make_record()), JobName="caf\u00e9")], env=environment
        )
    )
    assert text.isascii() and re.search(r"rank 1  10\.0 s  #+\.+-+\n", text) and "50.0 us" in text


def on_a_terminal(report: Report, *argv: str, **environment: str) -> str:
    record = report.folder / "record.json"
    record.write_text(json.dumps(make_record()))
    command = " ".join([str(COMMAND), "report", "--record", str(record), *argv])
    result = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
        check=True,
    )
    return result.stdout


def test_colour_is_for_terminals_only(report: Report) -> None:
    assert "\x1b[" in on_a_terminal(report)
    assert "\x1b[" not in on_a_terminal(report, "--no-color")
    assert "\x1b[" not in on_a_terminal(report, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(report, TERM="dumb")
    assert "\x1b" not in shown(report("123", rows=[make_row(json.dumps(make_record()))]))


def test_a_reader_that_leaves_is_no_error(report: Report) -> None:
    record = copy.deepcopy(make_record([1.0 + rank % 9 for rank in range(20000)]))
    path = report.folder / "many.json"
    path.write_text(json.dumps(record))
    command = f"'{COMMAND}' report --all-ranks --record '{path}' | head -1"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert result.stdout.startswith("A record") and result.stderr == ""


@pytest.mark.parametrize("words", ["report --record record.json", "report --record record.json --json", "--help"])
def test_a_full_disk_costs_one_line(report: Report, words: str) -> None:
    (report.folder / "record.json").write_text(json.dumps(make_record()))
    done = subprocess.run(["bash", "-c", f"'{COMMAND}' {words} >/dev/full"], cwd=report.folder, capture_output=True,
                          encoding="utf-8", timeout=60, check=False)
    said = "mpi-wait: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("words", ["report --record none.json", "check", "--help"])
def test_a_closed_output_costs_one_line(report: Report, words: str) -> None:
    done = subprocess.run(["bash", "-c", f"'{COMMAND}' {words} >&-"], cwd=report.folder, capture_output=True,
                          encoding="utf-8", timeout=60, check=False)
    said = "mpi-wait: the output cannot be written: standard output is closed\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize("argv", [["--help"], ["report", "--help"]])
def test_help(argv: list[str]) -> None:
    result = subprocess.run(
        [str(COMMAND), *argv], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert "report" in result.stdout and result.stderr == ""
