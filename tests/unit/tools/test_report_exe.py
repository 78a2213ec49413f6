"""mpi-wait report --exe: functions and lines for call sites, from the files that ran and from no others."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.report_double import Report, make_record, make_row


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


SOURCE = """
volatile int counted;
__attribute__((noinline)) void exchange(void)
{
\tcounted++;
\tcounted++;
}
int main(void) { exchange(); return 0; }
"""


def compiled(folder: Path, *flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    source, program = folder / "halo.c", folder / "app"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-g", *flags, "-o", program, source], check=True)
    return program


def record_of(program: Path, *, build_id: bool = True) -> str:
    """Of a job that waited in exchange(), behind its first instruction."""
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = int(re.search(r"([0-9a-f]+) T exchange", symbols)[1], 16)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    site = {"module": "app", "offset": hex(address + 1), "call": "MPI_Recv", "waits": 1, "wait_s": 1}
    if build_id:
        site["build_id"] = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    record = make_record()
    record["mpi_wait"]["wait"]["sites"] = [site]
    return json.dumps(record)


def told(report: Report, record: str, *paths: Path, part: str = "--csv") -> str:
    done = report("123", "--width", "120", part, *(word for path in paths for word in ("--exe", str(path))),
                  rows=[make_row(record)])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", [[], ["-no-pie"]], ids=["pie", "no-pie"])
def test_a_call_site_is_a_function_and_a_line(report: Report, tmp_path: Path, flags: list[str]) -> None:
    program = compiled(tmp_path / "built", *flags)
    record = record_of(program)
    for path in (program, program.parent):
        assert "site,exchange halo.c:5 MPI_Recv,wait,1.0,s" in told(report, record, path)
    answer = json.loads(told(report, record, program, part="--json"))
    assert list(answer["lines"].values()) == ["exchange halo.c:5"]
    assert "exchange halo.c:5" in told(report, record, program, part="--no-color")


def test_another_build_is_not_what_ran(report: Report, tmp_path: Path) -> None:
    """The same name is not enough; the same build-id is, whatever the file is called now."""
    program, other = compiled(tmp_path / "built"), compiled(tmp_path / "other", "-DOTHER", "-O2")
    record = record_of(program)
    text = told(report, record, other, part="--no-color")
    assert "exchange" not in text and "is not the app that ran: its build-id is another one" in " ".join(text.split())
    moved = program.rename(tmp_path / "built/app.old")
    assert "exchange halo.c:5" in told(report, record, other, moved)


def test_without_a_build_id_the_name_is_taken_and_that_is_said(report: Report, tmp_path: Path) -> None:
    program = compiled(tmp_path / "built", "-Wl,--build-id=none")
    record = record_of(compiled(tmp_path / "twin"), build_id=False)
    text = told(report, record, program, part="--no-color")
    assert "exchange halo.c:5" in text and "app has no build-id" in text


def test_what_cannot_be_resolved_is_said(report: Report, tmp_path: Path) -> None:
    program = compiled(tmp_path / "built")
    record = record_of(program)
    subprocess.run(["strip", program], check=True)
    assert "has neither symbols nor lines" in " ".join(told(report, record, program, part="--no-color").split())
    text = told(report, record, Path("/etc/passwd"), part="--no-color")
    assert "--exe names no app: its 1 call site stand as addresses" in " ".join(text.split())
    done = report("123", "--exe", str(tmp_path / "absent"), rows=[make_row(record)])
    assert done.returncode != 0 and "no such file or directory" in done.stderr
