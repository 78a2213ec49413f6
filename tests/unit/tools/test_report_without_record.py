"""mpi-wait report of several jobs, some of which left no record: what sacct has of them is compared."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
import time
from typing import Any

import pytest
from mpi_wait_tools.jobs.found import cpu_seconds, joules_of

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def row(job: str, record: Any = None, **changes: str) -> dict[str, str]:
    return make_row(json.dumps(record) if record else "", JobID=job, JobIDRaw=job, **changes)


def off_and_nap() -> list[dict[str, str]]:
    off = row("9", ElapsedRaw="24", TotalCPU="01:36.000", ConsumedEnergyRaw="9500")
    nap = row("10", make_record(), ElapsedRaw="25", TotalCPU="00:24.000", ConsumedEnergyRaw="8075")
    return [off, nap]


def compared(report: Report, *argv: str, rows: Any = None, **options: Any) -> str:
    return shown(report(*argv, rows=off_and_nap() if rows is None else rows, **options))


def test_off_and_nap_are_compared(report: Report) -> None:
    text = compared(report, "9", "10")
    assert re.search(r"^  9 +solver, 2 nodes: no record$", text, re.M)
    assert re.search(r"9 \(no record\) +24\.0 s +█", text) and re.search(r"10 \(nap\) +25\.0 s +\+4\.2 %", text)
    assert re.search(r"9 \(no record\) +96\.0 s +█", text) and re.search(r"10 \(nap\) +24\.0 s +−75 %", text)
    assert re.search(r"10 \(nap\) +8\.07 kJ +−15 %", text)
    said = " ".join(text.split())
    assert "10 (nap) took 4.2 % longer, used 75 % less CPU time and used 15 % less energy (ConsumedEnergy)" in said
    assert "9 left no record: of it there is what sacct has" in said and "differ in nodes" not in said
    assert re.search(r"max/mean +– +1\.38", text) and re.search(r"9 \(no record\) +–$", text, re.M)


def test_a_record_under_off_has_no_ranks_to_differ_in(report: Report) -> None:
    """Where the site records all."""
    off = make_record()
    off["mpi_wait"].update(policy={"asked": "off", "used": "off", "by": "job"}, wait=None, steps=[])
    rows = [row("9", off), off_and_nap()[1]]
    text = compared(report, "9", "10", rows=rows)
    assert re.search(r"^  9 +solver, 2 nodes, ranks not watched: off, asked for by the job$", text, re.M)
    assert "differ in nodes or ranks" not in text and "left no record" not in text
    assert re.search(r"9 \(off\) +4\.50 kJ", text) and "10 (nap) took" in text
    alone = compared(report, "9", rows=rows)
    assert "ranks not watched" in alone and "no MPI rank" not in alone
    assert "differ in nodes or ranks" in compared(report, "9", "10", rows=[row("9", make_record([1.0])), rows[1]])


def test_the_order_does_not_matter(report: Report) -> None:
    said = " ".join(compared(report, "10", "9").split())
    assert "9 (no record) took 4.0 % less time, used 4 times" not in said
    assert "9 (no record) took 4.0 % less time, used 300 % more CPU time" in said


def test_steps_without_a_record(report: Report) -> None:
    step = {"JobID": "9.1", "ElapsedRaw": "11", "TotalCPU": "00:44.000", "ConsumedEnergyRaw": "4000"}
    text = compared(report, "9.1", "10.0", steps=[step])
    assert re.search(r"9\.1 \(no record\) +11\.0 s", text) and re.search(r"9\.1 \(no record\) +44\.0 s", text)
    assert "sacct knows no step 9.7" in refused(report("9.7", "10", rows=off_and_nap()))


def test_for_programs(report: Report) -> None:
    answers = json.loads(compared(report, "9", "10", "--json"))
    assert answers[0]["mpi_wait"] is None and answers[1]["mpi_wait"]["v"] == 1
    assert answers[0]["sacct"] == {"elapsed_s": 24.0, "cpu_s": 96.0, "consumed_energy_j": 9500.0}
    rows = list(csv.reader(io.StringIO(compared(report, "9", "10", "--csv"))))
    assert ["9", "sacct", "", "cpu_time", "96.0", "s"] in rows and ["9", "job", "", "elapsed", "24.0", "s"] in rows
    assert not [cells for cells in rows if cells[0] == "9" and cells[1] not in ("sacct", "job")]


def test_a_page_of_both(report: Report, tmp_path: pathlib.Path) -> None:
    compared(report, "9", "10", "--plot", str(tmp_path / "page.svg"))
    assert (tmp_path / "page.svg").stat().st_size > 8000


def test_alone_it_is_still_refused_with_what_helps(report: Report) -> None:
    said = refused(report("9", rows=off_and_nap()))
    assert "has no record" in said and "beside another job, 'mpi-wait report' compares what sacct has" in said


def test_a_job_that_has_just_ended_is_compared_too(report: Report) -> None:
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 4))
    assert "9 (no record)" in compared(report, "9", "10", rows=[{**off_and_nap()[0], "End": end}, off_and_nap()[1]])


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_job_that_has_not_ended_is_not_compared(report: Report, state: str) -> None:
    rows = [{**off_and_nap()[0], "State": state, "End": "Unknown"}, off_and_nap()[1]]
    assert "job 9" in refused(report("9", "10", rows=rows))


def test_a_damaged_record_is_not_taken_for_none(report: Report) -> None:
    rows = [row("9", {"mpi_wait": {"v": 1}}), off_and_nap()[1]]
    assert "damaged" in refused(report("9", "10", rows=rows))


def test_what_nobody_counted_is_not_zero(report: Report) -> None:
    rows = [row("9", ElapsedRaw="24", TotalCPU="00:00:00"), row("10", make_record(), TotalCPU="00:00:00")]
    text = compared(report, "9", "10", rows=rows)
    assert "CPU time\n" not in text and "ConsumedEnergy\n" not in text and "less energy" not in text


@pytest.mark.parametrize("text,seconds", [("00:24.500", 24.5), ("01:02:03", 3723.0), ("2-00:00:01", 172801.0),
                                          ("00:00:00", None), ("", None), ("x", None), ("-1:00", None)])
def test_cpu_times(text: str, seconds: float | None) -> None:
    assert cpu_seconds(text) == seconds


@pytest.mark.parametrize("text,joules", [("8075", 8075.0), ("0", None), ("", None), ("18446744073709551614", None)])
def test_consumed_energy(text: str, joules: float | None) -> None:
    assert joules_of(text) == joules
