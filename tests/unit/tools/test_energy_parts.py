"""Energies of different parts are named, and neither compared nor added up."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from mpi_wait_tools.meaning.reading import energy_of
from mpi_wait_tools.record.record import parse_record

from tests.lib.doubles.report_double import Report, make_record, make_row, shown

BOTH, PROCESSORS = "processors and memory", "processors"


def used(joules: float, zones: str = "package dram", **changes: Any) -> dict[str, Any]:
    record = make_record()
    energy = record["mpi_wait"]["energy"]
    energy.update(joules=joules, zones_j=dict.fromkeys(zones.split(), 10.0), source="rapl", **changes)
    return record


WITHOUT_GPUS: dict[str, Any] = {"not_counted": ["gpus"]}
KINDS = {
    BOTH: used(1),
    PROCESSORS: used(1, "package core"),
    "memory": used(1, "dram"),
    "whole boards": used(1, "psys"),
    "processors and memory without GPUs": used(1, **WITHOUT_GPUS),
    "processors of some nodes": used(1, "package", nodes=1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_is_called(kind: str) -> None:
    assert energy_of(parse_record(KINDS[kind]["mpi_wait"])) == kind


def compared(folder: pathlib.Path, first: dict[str, Any], second: dict[str, Any]) -> str:
    paths = []
    for name, record in (("a", first), ("b", second)):
        (folder / f"{name}.json").write_text(json.dumps(record))
        paths += ["--record", str(folder / f"{name}.json")]
    return " ".join(shown(Report(folder)(*paths)).split())


@pytest.mark.parametrize("other", [used(50, "package"), used(50, **WITHOUT_GPUS), used(50, nodes=1),
                                   used(50, scope="node"), {**used(50)} | {"simulated": True}])
def test_no_conclusion_compares_them(tmp_path: pathlib.Path, other: dict[str, Any]) -> None:
    if other.pop("simulated", False):
        other["mpi_wait"]["energy"]["source"] = "simulated"
    text = compared(tmp_path, used(100), other)
    assert "energy than" not in text and "−50 %" not in text and "100 J" in text and "50.0 J" in text
    assert "used 50 % less energy than" in compared(tmp_path, used(100), used(50))


def test_the_comparison_names_them(tmp_path: pathlib.Path) -> None:
    text = compared(tmp_path, used(100), used(50, "package"))
    assert f"not of the same parts (a of {BOTH}, b of {PROCESSORS}): it is not compared" in text
    assert "same parts" not in compared(tmp_path, used(100), used(50))


class Top(Report):
    command = "top"


def row(job: str, record: Any, user: str = "ada", start: int = 1) -> dict[str, str]:
    facts = {"JobID": job, "JobIDRaw": job, "User": user, "Account": "x", "Partition": "p"}
    return make_row(json.dumps(record) if record else "", Start=f"2026-01-02T03:04:0{start}", **facts)


def rows() -> list[dict[str, str]]:
    unknown = make_record()
    unknown["mpi_wait"].update(energy=None, energy_why="no powercap zones")
    return [row("1", used(100)), row("2", used(900, "package")), row("3", used(40), "bob"), row("4", unknown, "bob"),
            row("5", used(20))]


def asked(folder: pathlib.Path, *words: str) -> str:
    return shown(Top(folder)(*words, rows=rows(), latest=9))


def test_top_adds_up_each_kind_for_itself(tmp_path: pathlib.Path) -> None:
    found = json.loads(asked(tmp_path, "--by", "user", "--json"))["rows"]
    assert [(line["name"], line["energy_of"], line["joules"], line["jobs"]) for line in found] == [
        ("ada", BOTH, 120, 2), ("bob", BOTH, 40, 2), ("ada", PROCESSORS, 900, 1)]
    assert found[1]["without_energy"] == 1


def test_top_has_a_table_for_each_kind(tmp_path: pathlib.Path) -> None:
    text = asked(tmp_path)
    first, _, second = text.partition(f"Energy of {PROCESSORS}\n")
    assert f"Energy of {BOTH}\n" in first and "\n  2 " in second and "\n  3 " in first
    words = " ".join(text.split())
    assert f"160 J of {BOTH}" in words and f"900 J of {PROCESSORS}" in words and "1.06 kJ" not in words
    alike = shown(Top(tmp_path)(rows=rows()[:1], latest=9))
    assert "Energy of" not in alike and "of processors" not in alike


def test_a_trend_says_no_change_of_them(tmp_path: pathlib.Path) -> None:
    text = " ".join(asked(tmp_path, "--name", "solver").split())
    assert f"not compared: {BOTH} of 3 runs, {PROCESSORS} of 1 run." in text
    assert "of different parts" in text and "+" not in text.partition("Energy ")[2].partition("Waiting")[0]


def test_brief_lines_name_them(tmp_path: pathlib.Path) -> None:
    given = rows()
    text = shown(Report(tmp_path)("--brief", "1", "2", "4", rows=given, latest=9, settings={"COLUMNS": "140"}))
    assert f"energy of {BOTH}" in text and f"energy of {PROCESSORS}\n" in text
    assert "energy of" not in shown(Report(tmp_path)("--brief", "1", "3", rows=given, latest=9))
    lines = json.loads(shown(Report(tmp_path)("--brief", "--json", "1", "2", "4", rows=given, latest=9)))
    assert [line["energy_of"] for line in lines] == [BOTH, PROCESSORS, None]
