"""GPUs' energy from the driver's counters to the job's record: real code over a double of the driver's library."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.meters import Machine
from tests.lib.record_tools import driver

TWO = ("0 1000000 0 0 NVIDIA A", "1 500 0 0 NVIDIA B")
LATER = ("0 1250500 0 0 NVIDIA A", "1 500500 0 0 NVIDIA B")
BOTH_JOULES = 750.5


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


def test_without_powercap_amds_are_the_energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of their source; and a device of others is none of the job's."""
    monkeypatch.setenv("SLURM_JOB_GPUS", "1")
    machine = Machine(tmp_path, amds=2, powercap=False)
    machine.show_amds(*AMDS)
    machine.begin()
    machine.show_amds(*AMDS_LATER)
    machine.finish()
    energy = machine.merged()["energy"]
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
