"""Cray's counters and hwmon's from the kernel's files to the job's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.meters import Machine
from tests.lib.record_tools import driver, run, set_energy

CORPUS = Path(__file__).parents[1] / "fuzz/corpus"
BEGIN = {"freshness": "10", "energy": "1000 J 1700000000000000 us", "cpu_energy": "600 J 1700000000000000 us",
         "memory_energy": "100 J 1700000000000000 us", "accel0_energy": "200 J 1700000000000000 us",
         "version": "2", "power": "300 W 1700000000000000 us"}
END = {"freshness": "30", "energy": "1500 J 1700000002000000 us", "cpu_energy": "900 J 1700000002000000 us",
       "memory_energy": "150 J 1700000002000000 us", "accel0_energy": "250 J 1700000002000000 us"}
OLD_BEGIN = {"freshness": "10", "energy": "1000 J"}
OLD_END = {"freshness": "30", "energy": "1500 J"}
PARTS = {"cray": {"node": 500_000_000, "cpu": 300_000_000, "memory": 50_000_000, "gpu": 50_000_000}}


def read(machine: Machine, *words: str) -> dict[str, Any]:
    done = run("mpi-wait-node", "meters", *words, elsewhere=machine.elsewhere)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def play(machine: Machine, begin: dict[str, str], end: dict[str, str]) -> dict[str, Any]:
    machine.board(**begin)
    machine.begin()
    machine.board(**end)
    return machine.finish()


@pytest.mark.parametrize(("begin", "end", "parts"), [
    (BEGIN, END, PARTS), (OLD_BEGIN, OLD_END, {"cray": {"node": 500_000_000}})], ids=["with times", "without"])
def test_board_beside_powercap(
    tmp_path: Path, begin: dict[str, str], end: dict[str, str], parts: dict[str, Any]
) -> None:
    machine = Machine(tmp_path)
    record = play(machine, begin, end)
    assert record["meters"] == parts and record["energy"]["source"] == "simulated"
    told = {one["scope"]: (one["source"], one["joules"], one["nodes"]) for one in machine.merged()["energy"]["meters"]}
    assert told == {scope: ("cray", uj / 1e6, 1) for scope, uj in parts["cray"].items()}


def test_board_where_there_is_nothing_else(tmp_path: Path) -> None:
    machine = Machine(tmp_path, powercap=False)
    record = play(machine, BEGIN, END)
    assert record["energy"]["zones_uj"] == {"psys": 500_000_000} and record["energy"]["source"] == "cray"
    energy = machine.merged()["energy"]
    assert (energy["joules"], energy["source"], energy["scope"]) == (500, "cray", "node")
    assert "not_counted" not in energy


def test_board_has_gpus_in_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, devices=1, powercap=False)
    assert "not_counted" not in play(machine, BEGIN, END)["energy"]


STUCK = {**END, "energy": BEGIN["energy"]}
BACK = {**END, "energy": "10 J 1700000002000000 us"}


@pytest.mark.parametrize("end", [STUCK, BACK, {**END, "energy": "x"}, {**END, "freshness": "x"}],
                         ids=["stale", "anew", "no number", "no freshness"])
def test_board_that_does_not_count(tmp_path: Path, end: dict[str, str]) -> None:
    machine = Machine(tmp_path, powercap=False)
    record = play(machine, BEGIN, end)
    assert record["energy"] is None and "node" not in record.get("meters", {}).get("cray", {})
    assert record["energy_why"] == "no powercap zones"


def test_board_that_is_gone_at_the_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path, powercap=False)
    machine.board(**BEGIN)
    machine.begin()
    for path in (tmp_path / "cray").iterdir():
        path.unlink()
    (tmp_path / "cray").rmdir()
    record = machine.finish()
    assert record["energy"] is None and "meters" not in record


@pytest.mark.parametrize(("files", "why"), [
    (BEGIN | {"energy": "1 J 2 s"}, "a counter of the board cannot be read"),
    (BEGIN | {"energy": "-1 J"}, "a counter of the board cannot be read"),
    (BEGIN | {"cpu_energy": "99999999999999999999 J"}, "a counter of the board cannot be read"),
    (BEGIN | {"energy": "1 J 2 us 3"}, "a counter of the board cannot be read"),
    (BEGIN | {"energy": "1000 W"}, "a counter of the board cannot be read"),
    (BEGIN | {"freshness": ""}, "the board's counters have no freshness"),
])
def test_lines_that_no_board_writes(tmp_path: Path, files: dict[str, str], why: str) -> None:
    machine = Machine(tmp_path)
    machine.board(**files)
    assert read(machine) == {"why": why, "meters": []}


def test_board_that_root_may_not_read(tmp_path: Path) -> None:
    """A link in place of the file stands for it: no permission stops root, and no link is followed."""
    machine = Machine(tmp_path)
    machine.board(**BEGIN)
    (tmp_path / "cray/energy").unlink()
    (tmp_path / "cray/energy").symlink_to(tmp_path / "cray/cpu_energy")
    assert read(machine)["why"] == "a counter of the board cannot be read"


@pytest.mark.parametrize(("updates", "count", "why"), [
    (3, 4, ""), (9, 4, ""), (11, 0, "the board's counters changed while being read")])
def test_torn_readings_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int, count: int, why: str
) -> None:
    """The freshness is another one each of the first times that it is read. There are five tries of two readings."""
    monkeypatch.setenv("MPIWAIT_TORN", f"{updates}:{tmp_path}/cray/freshness")
    machine = Machine(tmp_path)
    machine.board(**BEGIN)
    found = read(machine)
    assert (len(found["meters"]), found["why"]) == (count, why)


def test_sockets_of_amd(tmp_path: Path) -> None:
    """Each socket is a package of which the job has its part; cores are in them."""
    machine = Machine(tmp_path, powercap=False)
    machine.monitor(0, "k10temp", energy1=("Esocket0", 5))
    machine.monitor(3, "amd_energy", energy1=("Ecore000", 1), energy2=("Esocket0", 1_000_000),
                    energy3=("Esocket1", 2_000_000))
    machine.begin()
    machine.monitor(3, "amd_energy", energy2=("Esocket0", 4_000_000), energy3=("Esocket1", 4_000_000))
    energy = machine.finish()["energy"]
    assert (energy["source"], energy["zones_uj"]) == ("hwmon", {"package": 5_000_000})
    assert machine.merged()["energy"]["joules"] == 5


def test_system_of_power(tmp_path: Path) -> None:
    machine = Machine(tmp_path, powercap=False)
    counters = {"energy1": ("System", 0), "energy2": ("Chip 0 Vdd", 0), "energy3": ("System 2", 0)}
    machine.monitor(1, "ibmpowernv", **counters)
    machine.begin()
    machine.monitor(1, "ibmpowernv", energy1=("System", 7_000_000), energy2=("Chip 0 Vdd", 9))
    assert machine.finish()["energy"]["zones_uj"] == {"psys": 7_000_000}


@pytest.mark.parametrize(("order", "source", "told"), [
    ("cray+powercap", "psys", {"powercap": {"cpu": 1_000_000, "memory": 0, "node": 0}}),
    ("powercap+cray", "package", {}),
    ("cray", "psys", {"powercap": {"cpu": 1_000_000, "memory": 0, "node": 0}}),
    ("hwmon+cray+powercap", "psys", {"powercap": {"cpu": 1_000_000, "memory": 0, "node": 0}}),
    ("powercap", "package", None),
])
def test_site_says_of_which_source_joules_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, source: str, told: dict[str, Any] | None
) -> None:
    """The first one in the site's list that has counted the job; the others are told beside."""
    monkeypatch.setenv("MPIWAIT_SOURCES", order)
    machine = Machine(tmp_path)
    machine.board(**BEGIN)
    machine.begin()
    machine.board(**END)
    set_energy(tmp_path / "powercap", "intel-rapl:0", 2_000_000)
    record = machine.finish()
    assert set(record["energy"]["zones_uj"]) == ({"psys"} if source == "psys" else {"package", "dram", "psys"})
    assert record.get("meters") == (None if told is None else told | PARTS)


@pytest.mark.parametrize(("order", "why"), [
    ("powercap+cray", None), ("cray+powercap", "the joules are by other counters")])
def test_looks_tell_nothing_of_joules_by_other_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, why: str | None
) -> None:
    """Looks read powercap's packages alone: what is saved is a part of no board's joules, with its GPUs in them."""
    monkeypatch.setenv("MPIWAIT_SOURCES", order)
    machine = Machine(tmp_path)
    machine.board(**BEGIN)
    machine.begin()
    (folder,) = (tmp_path / "run").glob("*/7")
    step = json.loads((CORPUS / "state/seed-step").read_text())
    (folder / "step.0.json").write_text(json.dumps(step))
    machine.board(**END)
    saving = machine.finish()["saving"]
    assert saving == {"why": why} if why else saving["looks"] == 48
    assert machine.merged()["energy"]["saved_why"] == (why or "no periods were compared")


@pytest.mark.parametrize("meters", [
    {"cray": {"node": -1}}, {"cray": {"other": 1}}, {"other": {"node": 1}}, {"cray": []}, [], {"cray": {"node": 1.5}}])
def test_no_node_writes_such(tmp_path: Path, meters: Any) -> None:
    machine = Machine(tmp_path)
    record = play(machine, BEGIN, END)
    record["meters"] = meters
    path = tmp_path / "out/test-7-0.c1.json"
    path.write_text(json.dumps(record))
    assert "meters" not in driver("merge", 1, "", path)["mpi_wait"]["energy"]


@pytest.mark.parametrize(("words", "read_of"), [((), {"cray", "nvml"}), (("energy=nvml",), {"nvml"}),
                                                (("energy=powercap+hwmon",), set())])
def test_only_what_the_site_names_is_read(tmp_path: Path, words: tuple[str, ...], read_of: set[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    machine = Machine(tmp_path, devices=1)
    machine.show("0 5 0 0 NVIDIA A")
    machine.board(**BEGIN)
    assert {meter[0] for meter in read(machine, *words)["meters"]} == read_of
