"""Records that were kept as files (sink=file), and how mpi-wait report finds them."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest
from mpi_wait_tools.report.lines import lines_of_rows

from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    (tmp_path / "spool/done").mkdir(parents=True)
    return Report(tmp_path)


def keep(report: Report, name: str, joules: float = 4500.0) -> str:
    record = make_record()
    record["mpi_wait"]["energy"]["joules"] = joules
    (report.folder / "spool/done" / name).write_text(json.dumps(record))
    return f"--spool={report.folder}/spool"


def test_where_sacct_has_no_record(report: Report) -> None:
    keep(report, "big-cluster-123-0.json", 1.0)
    keep(report, "big-cluster-1234-9.json", 2.0)
    spool = keep(report, "big-cluster-123-10.json", 3000.0)
    text = shown(report("123", spool, rows=[make_row("")]))
    assert text.startswith("Job 123  solver") and "3.00 kJ = 0.833 Wh" in text
    stored = make_row(json.dumps(make_record()))
    assert "4.50 kJ" in shown(report("123", spool, rows=[stored]))
    task = make_row("", JobID="120_3", JobIDRaw="123")
    assert "3.00 kJ" in shown(report("120_3", spool, rows=[task]))


def test_where_there_is_no_sacct(report: Report) -> None:
    spool = keep(report, "c-123-0.json")
    (report.folder / "sacct").unlink()
    path = {"PATH": str(report.folder)}
    assert "4.50 kJ" in shown(report("123", spool, settings=path))
    assert "step 0" in shown(report("123.0", spool, settings=path))
    assert "no step 7" in refused(report("123.7", spool, settings=path))
    assert "sacct was not found" in refused(report("124", spool, settings=path))
    assert "sacct was not found" in refused(report("124", "--spool=/nonexistent", settings=path))


def test_the_spool_of_plugstack_conf(report: Report) -> None:
    keep(report, "c-123-0.json")
    line = f"optional /opt/x/spank_mpi_wait.so default=off spool={report.folder}/spool\n"
    (report.folder / "plugstack.conf").write_text(line)
    environment = {"SLURM_CONF": str(report.folder / "slurm.conf")}
    assert "4.50 kJ" in shown(report("123", rows=[make_row("")], env=environment))
    (report.folder / "plugstack.conf").rename(report.folder / "elsewhere.conf")
    refused(report("123", rows=[make_row("")], env=environment))
    (report.folder / "slurm.conf").write_text(f"PlugStackConfig={report.folder}/elsewhere.conf # ours\n")
    assert "4.50 kJ" in shown(report("123", rows=[make_row("")], env=environment))


def test_what_is_no_file_of_ours(report: Report) -> None:
    spool = keep(report, "other.json")
    done = report.folder / "spool/done"
    (done / "c-123-0.json").symlink_to(done / "other.json")
    assert "cannot be read" in refused(report("123", spool, rows=[make_row("")]))
    (done / "c-123-0.json").unlink()
    os.mkfifo(done / "c-123-0.json")
    assert "is no file" in refused(report("123", spool, rows=[make_row("")]))
    (done / "c-123-0.json").unlink()
    (done / "c-123-0.json").write_text('{"mpi_wait":{"v":2}}')
    assert "version 2" in refused(report("123", spool, rows=[make_row("")]))


def test_the_names_are_listed_once_for_many_jobs(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool of a busy site has tens of thousands of records. Each job without one in sacct is searched there."""
    for job in range(101, 111):
        keep(report, f"c-{job}-0.json", float(job))
    listed: list[str] = []

    def listdir(path: str, plain: Callable[[str], list[str]] = os.listdir) -> list[str]:
        listed.append(path)
        return plain(path)

    monkeypatch.setattr(os, "listdir", listdir)
    rows = [make_row("", JobID=str(job), JobIDRaw=str(job)) for job in range(101, 112)]
    lines = lines_of_rows(rows, f"{report.folder}/spool")
    assert [line.joules for line in lines] == [*map(float, range(101, 111)), None]
    assert listed == [f"{report.folder}/spool/done"]
