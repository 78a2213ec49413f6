"""NVIDIA's counters, read by tests/bench/programs/gpu_energy.c from a double of the driver's library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import BUILD

PROGRAM = BUILD / "tests/bench/programs/gpu-energy"
LIBRARY = BUILD / "tests/lib/doubles/libnvidia-ml.so.1"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A directory with the library; its file "nvml" says which devices there are."""
    shutil.copy(LIBRARY, tmp_path / LIBRARY.name)
    return tmp_path


def show(driver: Path, *devices: str) -> None:
    """Each: "MINOR ENERGY_MJ POWER_MW SPLIT NAME". Renamed into place, so that no reader sees a part of it."""
    (driver / "new").write_text("".join(f"{device}\n" for device in devices))
    (driver / "new").rename(driver / "nvml")


def measure(driver: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LD_LIBRARY_PATH": str(driver)}
    return subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)


def lines(done: subprocess.CompletedProcess[str], kind: str) -> list[dict[str, Any]]:
    each = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in each if line["kind"] == kind]


def test_energy_of_a_command(driver: Path) -> None:
    show(driver, "0 1000000 0 0 NVIDIA A", "3 500 0 1 NVIDIA B")
    (driver / "later").write_text("0 1250500 0 0 NVIDIA A\n3 500 0 1 NVIDIA B\n")
    done = measure(driver, "--around", "0.05", "--", "mv", str(driver / "later"), str(driver / "nvml"))
    first, second = lines(done, "device")
    assert (done.returncode, lines(done, "driver")[0]["driver"]) == (0, "simulated")
    assert (first["minor"], first["name"], first["split"], first["counter_j"]) == (0, "NVIDIA A", False, 250.5)
    assert (second["minor"], second["split"], second["counter_j"]) == (3, True, 0)
    assert (first["counter_steps"], second["counter_steps"]) == (1, 0)
    assert lines(done, "command")[0]["exit"] == 0


def test_power_is_integrated(driver: Path) -> None:
    """The counter runs by the clock that the program measures with, so both must come to the same."""
    show(driver, "0 run 350000 0 NVIDIA A")
    (device,) = lines(measure(driver, "--seconds", "0.2", "--series"), "device")
    assert device["counter_steps"] > 0
    assert device["instant_j"] == device["average_j"] == pytest.approx(350 * device["seconds"], rel=1e-4)


def test_device_without_a_counter(driver: Path) -> None:
    show(driver, "0 - 350000 0 NVIDIA A")
    (device,) = lines(measure(driver, "--seconds", "0.02"), "device")
    assert (device["samples"], device["counter_j"], device["counter_over_average"]) == (0, None, None)


def test_names_are_plain_text(driver: Path) -> None:
    show(driver, '0 1 0 0 a"b\\c\x1b[31md\u00e9' + "e" * 200)
    (device,) = lines(measure(driver, "--seconds", "0.02"), "device")
    assert device["name"] == "abc[31md" + "e" * 55


def test_exits_as_the_command_does(driver: Path) -> None:
    show(driver, "0 1 0 0 NVIDIA A")
    assert measure(driver, "--around", "0", "--", "sh", "-c", "exit 7").returncode == 7


@pytest.mark.parametrize(("devices", "why"), [
    (("refuse", "0 1 0 0 NVIDIA A"), "NVML does not start (error 999)"),
    ((), "NVML reaches none of 0 devices"),
])
def test_driver_that_refuses(driver: Path, devices: tuple[str, ...], why: str) -> None:
    show(driver, *devices)
    done = measure(driver, "--seconds", "0.02")
    assert (done.returncode, done.stdout, done.stderr) == (69, "", f"gpu-energy: {why}\n")


def test_library_that_is_not_there_or_old(driver: Path) -> None:
    show(driver, "0 1 0 0 NVIDIA A")
    shutil.copy(BUILD / "tests/lib/doubles/libown-locale.so", driver / LIBRARY.name)
    assert measure(driver).stderr == "gpu-energy: libnvidia-ml.so.1 is too old\n"
    (driver / LIBRARY.name).unlink()
    assert measure(driver).stderr == "gpu-energy: no libnvidia-ml.so.1\n"


@pytest.mark.parametrize("words", [["--seconds"], ["--seconds", "x"], ["--other"], ["--"]])
def test_wrong_usage(driver: Path, words: list[str]) -> None:
    done = measure(driver, *words)
    assert (done.returncode, done.stdout) == (64, "") and done.stderr.startswith("usage: gpu-energy")
