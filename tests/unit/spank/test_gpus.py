"""GPUs' energy from the driver's counters to the job's record: real code over a double of the driver's library."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.meters import Machine
from tests.lib.record_tools import Ticks, driver

TWO = ("0 1000000 0 0 NVIDIA A", "1 500 0 0 NVIDIA B")
LATER = ("0 1250500 0 0 NVIDIA A", "1 500500 0 0 NVIDIA B")
BOTH_JOULES = 750.5
NOW_S = 1_700_000_000.0


def play(machine: Machine, begin: tuple[str, ...] = TWO, end: tuple[str, ...] = LATER) -> dict[str, Any]:
    """A job from begin to end: the node's record."""
    machine.show(*begin)
    machine.begin()
    machine.show(*end)
    return machine.finish()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    return Machine(tmp_path, devices=2)


def test_energy_of_the_jobs_devices(machine: Machine) -> None:
    record = play(machine)
    assert record["gpus"] == {
        "given": 2, "counted": 2, "present": 2, "uj": 750_500_000, "source": "simulated", "why": "",
        "devices": [[0, "NVIDIA A", 250_500_000], [1, "NVIDIA B", 500_000_000]]}
    assert "not_counted" not in record["energy"]
    energy = machine.merged()["energy"]
    assert energy["gpu_joules"] == BOTH_JOULES and "not_counted" not in energy
    assert energy["gpus"] == {"given": 2, "counted": 2, "present": 2, "source": "simulated", "devices": [
        {"node": "c1", "number": 0, "name": "NVIDIA A", "joules": 250.5},
        {"node": "c1", "number": 1, "name": "NVIDIA B", "joules": 500}]}


def test_devices_of_others_are_none_of_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "1")
    machine = Machine(tmp_path, devices=2)
    gpus = play(machine)["gpus"]
    assert (gpus["given"], gpus["counted"], gpus["present"], gpus["uj"]) == (1, 1, 2, 500_000_000)


CROSSED, CROSSED_LATER = ("1 500 0 0 NVIDIA B", *TWO[:1]), ("1 500500 0 0 NVIDIA B", *LATER[:1])
SKIPPED, SKIPPED_LATER = (*CROSSED, "2 0 0 0 NVIDIA C"), (*CROSSED_LATER, "2 3000 0 0 NVIDIA C")


@pytest.mark.parametrize(("given", "begin", "end", "joules", "counted"), [
    ("0,1", CROSSED, CROSSED_LATER, BOTH_JOULES, 2), ("0", CROSSED, CROSSED_LATER, 0, 0),
    ("1,2", SKIPPED, SKIPPED_LATER, 3, 1), ("2", SKIPPED, SKIPPED_LATER, 3, 1),
])
def test_slurm_counts_devices_by_the_bus_or_by_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, begin: tuple[str, ...], end: tuple[str, ...],
    joules: float, counted: int
) -> None:
    """Which of the two it does, no prolog learns: a device counts if it is the job's either way."""
    monkeypatch.setenv("SLURM_JOB_GPUS", given)
    gpus = play(Machine(tmp_path, devices=len(begin)), begin, end)["gpus"]
    assert (gpus["counted"], gpus["uj"]) == (counted, joules * 10**6)
    why = "" if counted == gpus["given"] else "Slurm and the driver may number the GPUs differently"
    assert gpus["why"] == why


@pytest.mark.parametrize(("given", "split", "counted"), [("0", 1, 1), ("1", 0, 0), ("1,2", 1, 0)])
def test_parts_of_devices_have_numbers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, split: int, counted: int
) -> None:
    """Slurm's list has the parts of a device in its place: number 1 may be the second part of device 0."""
    monkeypatch.setenv("SLURM_JOB_GPUS", given)
    begin, end = ([f"{i} {i + more} 0 {int(i == split)} NVIDIA A" for i in range(3)] for more in (0, 5000))
    gpus = play(Machine(tmp_path, devices=3), tuple(begin), tuple(end))["gpus"]
    assert (gpus["counted"], gpus["uj"]) == (counted, 5_000_000 * counted)
    assert gpus["why"] == ("" if counted else "a GPU is split between jobs")


@pytest.mark.parametrize(("begin", "end", "counted", "why"), [
    (TWO, ("0 900000 0 0 NVIDIA A", LATER[1]), 1, "a GPU's counter restarted, or is gone"),
    (TWO, (LATER[0],), 1, "a GPU's counter restarted, or is gone"),
    (TWO, (LATER[0], TWO[1]), 1, "a GPU's counter restarted: is persistence mode off?"),
    (TWO, (LATER[0], "1 500500 0 1 NVIDIA B"), 1, "a GPU is split between jobs"),
    ((TWO[0], "1 - 0 0 NVIDIA B"), LATER, 1, "a GPU has no energy counter"),
    ((TWO[0],), LATER, 1, "a GPU had no counter at the job's begin"),
    (("refuse", *TWO), LATER, 0, "NVML does not start (error 999)"),
    (("crash", *TWO), LATER, 0, "a meter's driver hangs or crashed"),
    (("hang", *TWO), LATER, 0, "a meter's driver hangs or crashed"),
    (TWO, ("crash", *LATER), 0, "a meter's driver hangs or crashed"),
], ids=["reset", "gone", "low", "split", "no counter", "new", "refused", "crash", "hang", "crash at the end"])
def test_devices_that_do_not_count(
    machine: Machine, begin: tuple[str, ...], end: tuple[str, ...], counted: int, why: str
) -> None:
    record = play(machine, begin, end)
    assert (record["gpus"]["counted"], record["gpus"]["why"]) == (counted, why)
    assert record["energy"]["not_counted"] == ["gpus"]
    energy = machine.merged()["energy"]
    assert energy["gpus"]["why"] == record["gpus"]["why"] and ("gpu_joules" in energy) == (counted > 0)


@pytest.mark.parametrize("devices", ["MIG-GPU-1/2/0", "0,x", "?"])
def test_list_that_has_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: str) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", devices)
    record = play(Machine(tmp_path, devices=2))
    assert (record["gpus"]["counted"], record["energy"]["not_counted"]) == (0, ["gpus"])
    assert record["gpus"]["why"] == "Slurm's list of the job's GPUs is not one of numbers"


def test_parts_of_gpus_are_others_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By gres/mps or gres/shard: the prolog and the step note them so (test_plugin.c)."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "parts")
    gpus = play(Machine(tmp_path, devices=2))["gpus"]
    assert (gpus["given"], gpus["counted"], gpus["why"]) == (0, 0, "a GPU is split between jobs")


def test_nodes_without_other_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual machines have no powercap zones, and may have GPUs."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0-1")
    machine = Machine(tmp_path, devices=2, powercap=False)
    assert play(machine)["energy"] is None
    merged = machine.merged()
    assert merged["energy_why"] == "no powercap zones"
    assert (merged["energy"]["joules"], merged["energy"]["gpu_joules"]) == (BOTH_JOULES, BOTH_JOULES)
    assert (merged["energy"]["scope"], merged["energy"]["source"], merged["energy"]["zones_j"]) == ("gpus", "nvml", {})


def test_reader_has_nobodys_environment(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no user says which library root loads."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    monkeypatch.setenv("LD_PRELOAD", "")
    play(machine)
    names = {word.split("=")[0] for word in (machine.home / "seen").read_text().split("\0") if word}
    assert names <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def test_no_reader_where_there_is_nothing_to_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert "gpus" not in play(machine)
    assert not (tmp_path / "seen").exists()


def test_prolog_asks_no_device_of_a_job_without_any(tmp_path: Path) -> None:
    machine = Machine(tmp_path, devices=2)
    machine.show(*TWO)
    machine.begin("", "", "anew")
    assert not (tmp_path / "seen").exists()
    assert machine.finish()["energy"]["not_counted"] == ["gpus"]


def test_one_reader_hangs_at_most(machine: Machine) -> None:
    """The lock is the reader's, who has it as long as it lives."""
    (machine.home / "run/c1").mkdir(parents=True)
    with (machine.home / "run/c1/meters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        gpus = play(machine)["gpus"]
    assert (gpus["counted"], gpus["why"]) == (0, "another reader of the meters hangs")
    assert not (machine.home / "seen").exists()


@pytest.mark.parametrize(("began_ns", "sources", "counted"), [
    (500_000, "energy=nvml", 1), (-1, "energy=nvml", 0), (500_000, "energy=rsmi", 0), (500_000, None, 0)])
def test_an_answer_serves_those_who_asked_before_it_was_begun(
    machine: Machine, began_ns: int, sources: str | None, counted: int
) -> None:
    """Eight jobs with a GPU each may begin at once: they need not wait for eight readings, one behind the other."""
    machine.now_s = NOW_S
    machine.show(*TWO)
    machine.begin()
    kept = json.loads((machine.home / "run/c1/meters").read_text())
    assert kept["sources"] == "energy=nvml" and len(kept["meters"]["meters"]) == 2
    for meter in kept["meters"]["meters"]:
        meter[5:7] = [meter[5] + 250_500_000, meter[6] + 10_000_000]
    machine.now_s = NOW_S + 10
    kept["began_ns"] += 10_000_000_000 + began_ns
    (machine.home / "kept").write_text(json.dumps(kept | {"sources": sources}))
    with (machine.home / "run/c1/meters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        gpus = machine.finish(meanwhile=f"cp {machine.home}/kept {machine.home}/run/c1/meters")["gpus"]
    assert (gpus["counted"], gpus["uj"]) == (2 * counted, 501_000_000 * counted)
    assert len((machine.home / "readings").read_text()) == 1


def test_no_answer_serves_twice(machine: Machine) -> None:
    assert play(machine)["gpus"]["counted"] == 2 and len((machine.home / "readings").read_text()) == 2


@pytest.mark.parametrize("answer", [
    "", "{}", "x" * 40000, '{"why": "", "meters": [["nvml", "gpu", -1, false, "x", 1]]}',
    '{"why": "", "meters": [["other", "gpu", 0, false, "x", 1]]}'])
def test_answers_that_no_reader_gives(machine: Machine, answer: str) -> None:
    (machine.home / "answer").write_text(answer)
    machine.script(f"cat {machine.home}/answer")
    assert play(machine)["gpus"]["counted"] == 0


@pytest.mark.parametrize("change", [
    {"given": -1}, {"counted": 3}, {"given": 3}, {"uj": 1.5}, {"uj": -1}, {"why": 1}, {"why": "x" * 64},
    {"devices": [[0, "x"]]}, {"devices": [[0, 'a"b', 1]]}, {"devices": [[0, "x", 1]] * 17}, {"source": None},
    {"present": 10**9}])
def test_no_node_writes_such(machine: Machine, change: dict[str, Any]) -> None:
    record = play(machine)
    record["gpus"] |= change
    path = machine.home / "out/test-7-0.c1.json"
    path.write_text(json.dumps(record))
    merged = driver("merge", 1, "", path)["mpi_wait"]
    assert "gpus" not in merged["energy"] and "gpu_joules" not in merged["energy"]


AMDS = ("129 1000000 15.25 AMD Instinct B", "128 2000000 15.25 AMD Instinct A")
AMDS_LATER = ("129 3000000 15.25 AMD Instinct B", "128 2100000 15.25 AMD Instinct A")


def play_amds(tmp_path: Path, begin: tuple[str, ...] = AMDS, end: tuple[str, ...] = AMDS_LATER) -> Machine:
    """A job on a node with devices of AMD's, to its end."""
    machine = Machine(tmp_path, amds=2)
    machine.show_amds(*begin)
    machine.begin()
    machine.show_amds(*end)
    machine.finish()
    return machine


def test_energy_of_amds_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the positions of their render nodes, whatever the library's order; a counter of fifteen microjoules."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0-1")
    energy = play_amds(tmp_path).merged()["energy"]
    assert energy["gpu_joules"] == 32.0 and "not_counted" not in energy
    assert energy["gpus"]["devices"] == [
        {"node": "c1", "number": 1, "name": "AMD Instinct B", "joules": 30.5},
        {"node": "c1", "number": 0, "name": "AMD Instinct A", "joules": 1.5}]


@pytest.mark.parametrize("order", [1, -1])
def test_without_powercap_amds_are_the_energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int) -> None:
    """Of their source; and a device of others is none of the job's. Slurm may list them in the library's order."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "1")
    machine = Machine(tmp_path, amds=2, powercap=False)
    machine.show_amds(*AMDS[::order])
    machine.begin()
    machine.show_amds(*AMDS_LATER[::order])
    machine.finish()
    energy = machine.merged()["energy"]
    if order > 0:
        assert energy is None
        return
    assert (energy["scope"], energy["source"], energy["joules"]) == ("gpus", "rsmi", 30.5)
    assert energy["gpus"]["source"] == "rsmi" and energy["gpus"]["given"] == 1


@pytest.mark.parametrize(("begin", "end", "counted", "why"), [
    (AMDS, (AMDS[0], AMDS_LATER[1]), 1, "a GPU's counter restarted: is persistence mode off?"),
    ((AMDS[0], "128 - 15.25 AMD Instinct A"), AMDS_LATER, 1, "a GPU has no energy counter"),
    ((AMDS[0], "130 0 15.25 AMD Instinct A"), (AMDS_LATER[0], "130 0 15.25 AMD Instinct A"), 0,
     "a GPU shares another's counter"),
    (("refuse",), AMDS_LATER, 0, "RSMI does not begin (error 2)"),
    ((), AMDS_LATER, 0, "RSMI counts no devices (error 0)"),
])
def test_why_amds_devices_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: tuple[str, ...],
                                       end: tuple[str, ...], counted: int, why: str) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    energy = play_amds(tmp_path, begin, end).merged()["energy"]
    assert (energy["gpus"]["counted"], energy["gpus"]["why"]) == (counted, why) and energy["not_counted"] == ["gpus"]


def test_a_boards_accelerators_are_no_devices_of_slurms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have numbers too, and are the same devices."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    machine = Machine(tmp_path, devices=1, powercap=False)
    machine.show(TWO[0])
    freshness = {"freshness": "1", "generation": "1"}
    machine.board(**freshness, energy="1000 J 1700000000000000 us", accel0_energy="200 J 1700000000000000 us")
    machine.begin()
    machine.show(LATER[0])
    machine.board(**freshness, energy="3000 J 1700000002000000 us", accel0_energy="900 J 1700000002000000 us")
    machine.finish()
    energy = machine.merged()["energy"]
    assert (energy["gpus"]["given"], energy["gpus"]["counted"], energy["gpu_joules"]) == (1, 1, 250.5)


def show_intels(machine: Machine, first: int, **other: int) -> None:
    machine.show_intel(130, "i915", energy1=first)
    machine.show_intel(129, "xe", **other)


def begin_intels(tmp_path: Path, now_s: float | None = None, **other: int) -> Machine:
    """A job's begin on a node with a device of i915, one of xe, and graphics inside a processor."""
    machine = Machine(tmp_path, powercap=False)
    machine.now_s = now_s
    show_intels(machine, 5_000_000, energy2=1_000_000, **other)
    machine.show_intel(128, "i915", address="0000:00:02.0", energy1=1)
    machine.begin()
    return machine


def finish_intels(machine: Machine, **other: int) -> dict[str, Any]:
    show_intels(machine, 35_000_000, **(other or {"energy2": 3_500_000}))
    machine.finish()
    return machine.merged()["energy"]


NOT_IN_TIME = "a GPU's counter was not read before it could wrap, or is gone"


def test_energy_of_intels_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the positions of their render nodes; of the package where there is no counter of the card; no tile's."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0-1")
    energy = finish_intels(begin_intels(tmp_path))
    assert (energy["source"], energy["joules"], energy["gpu_joules"]) == ("intel", 32.5, 32.5)
    devices = sorted((device["number"], device["name"], device["joules"]) for device in energy["gpus"]["devices"])
    assert devices == [(0, "Intel GPU 0bd5", 2.5), (1, "Intel GPU 0bd5", 30.0)]
    assert energy["gpus"]["present"] == 2 and "not_counted" not in energy


def test_the_cards_counter_comes_before_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    machine = begin_intels(tmp_path, energy1=4_000_000)
    assert finish_intels(machine, energy1=9_000_000, energy2=3_500_000)["gpu_joules"] == 5


@pytest.mark.parametrize(("later_s", "counted"), [(0, 2), (238, 2), (240, 0), (-5, 0)])
def test_intels_counters_must_be_read_before_they_wrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_s: float, counted: int
) -> None:
    """262 kJ at 1 050 W, less ten seconds. A reading in the future is of another clock."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    machine = begin_intels(tmp_path, NOW_S)
    machine.now_s = NOW_S + later_s
    gpus = finish_intels(machine)
    assert (gpus or {}).get("gpu_joules") == (32.5 if counted else None)


def test_samplers_read_intels_counters_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a job of twenty minutes has its joules. Two steps read no more often than one."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    machine = begin_intels(tmp_path, NOW_S)
    with (Ticks(tmp_path / "run", 7, 0, machine.elsewhere, NOW_S, "slow") as ticks,
          Ticks(tmp_path / "run", 7, 1, machine.elsewhere, NOW_S, "slow") as others):
        for seconds in range(100, 1201, 100):
            ticks.at(NOW_S + seconds)
            others.at(NOW_S + seconds)
    readings = len((tmp_path / "readings").read_text())
    machine.now_s = NOW_S + 1210
    assert finish_intels(machine)["gpu_joules"] == 32.5
    assert 12 < readings <= 21


def test_after_a_gap_no_sampler_reads_intels_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    machine = begin_intels(tmp_path, NOW_S)
    with Ticks(tmp_path / "run", 7, 0, machine.elsewhere, NOW_S + 300, "slow") as ticks:
        ticks.at(NOW_S + 500)
    assert len((tmp_path / "readings").read_text()) == 1
    show_intels(machine, 35_000_000, energy2=3_500_000)
    machine.now_s = NOW_S + 510
    assert machine.finish()["gpus"]["why"] == NOT_IN_TIME


def test_no_sampler_reads_what_no_job_has(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    show_intels(machine, 1, energy1=1)
    machine.now_s = NOW_S
    machine.begin("", "", "anew")
    with Ticks(tmp_path / "run", 7, 0, machine.elsewhere, NOW_S, "slow") as ticks:
        ticks.at(NOW_S + 200)
    assert not (tmp_path / "readings").exists() and not (tmp_path / "run/c1/intel").exists()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"since_us": 1}', '{"since_us": 1, "latest_us": -1}', "x" * 300])
def test_notes_that_no_reader_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    machine = begin_intels(tmp_path)
    (tmp_path / "run/c1/intel").write_text(note)
    assert finish_intels(machine) is None
    assert json.loads((tmp_path / "run/c1/intel").read_text())["latest_us"] > 0


@pytest.mark.parametrize(("end", "why"), [
    ({"energy2": 1_000_000}, NOT_IN_TIME), ({"energy2": 900_000}, NOT_IN_TIME),
    ({"energy2": 2**64 - 1}, "a GPU has no energy counter"), ({"power1": 1}, "a GPU has no energy counter"),
], ids=["stands still", "anew", "no number", "gone"])
def test_why_intels_devices_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: dict[str, int], why: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    energy = finish_intels(begin_intels(tmp_path), **end)
    assert (energy["gpus"]["counted"], energy["gpus"]["why"]) == (1, why) and energy["gpu_joules"] == 30


def test_a_tiles_counter_is_not_the_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    machine = Machine(tmp_path)
    machine.show_intel(128, "i915_gt1", energy1=1)
    machine.show_intel(129, "i915", energy1=1_000_000)
    machine.begin()
    machine.show_intel(129, "i915", energy1=2_000_000)
    gpus = machine.finish()["gpus"]
    assert (gpus["counted"], gpus["uj"], gpus["why"]) == (1, 1_000_000, "a GPU has no energy counter")
