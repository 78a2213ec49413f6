"""A node with meters, for tests: GPUs of NVIDIA by a double of their driver's library, Cray's board, hwmon."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.lib.record_tools import BUILD, NO_POWERCAP, PROGRAMS, Elsewhere, driver, two_packages, validate

LIBRARY = BUILD / "tests/lib/doubles/libnvidia-ml.so.1"
AMDS_LIBRARY = BUILD / "tests/lib/doubles/librocm_smi64.so"


class Machine:
    """A node with meters. The program that reads them is a script, which starts mpi-wait-node under sanitizers."""

    def __init__(self, home: Path, devices: int = 0, powercap: bool = True, amds: int = 0) -> None:
        self.home = home
        self.now_s: float | None = None  # time of the prolog and the epilog; None: the machine's
        for number in range(devices):
            (home / f"nvidia/0000:{number:02x}:00.0").mkdir(parents=True)
        for number in range(amds):
            device = home / f"drm/renderD{128 + number}/device"
            device.mkdir(parents=True)
            (device / "vendor").write_text("0x1002\n")
        shutil.copy(LIBRARY, home / LIBRARY.name)
        shutil.copy(AMDS_LIBRARY, home / AMDS_LIBRARY.name)
        kernel: Elsewhere = {"/sys/class/drm": home / "drm", "/proc/driver/nvidia/gpus": home / "nvidia",
                             "/sys/cray/pm_counters": home / "cray", "/sys/class/hwmon": home / "hwmon"}
        kernel |= {"/sys/class/powercap": two_packages(home)} if powercap else NO_POWERCAP
        self.reader = home / "reader"
        self.elsewhere = kernel | {"/bin/true": self.reader}
        moved = ":".join(f"{path}={place}" for path, place in kernel.items())
        self.script(f'env -0 > {home}/seen; echo >> {home}/readings\n'
                    f'export MPIWAIT_ELSEWHERE="{moved}" LD_LIBRARY_PATH={home}\n'
                    f'exec {PROGRAMS["mpi-wait-node"]} "$@"')

    def script(self, text: str) -> None:
        self.reader.write_text(f"#!/bin/sh\n{text}\n")
        self.reader.chmod(0o755)

    def show(self, *devices: str) -> None:
        (self.home / "nvml").write_text("".join(f"{device}\n" for device in devices))

    def show_amds(self, *devices: str) -> None:
        (self.home / "rsmi").write_text("".join(f"{device}\n" for device in devices))

    def show_intel(self, minor: int, driver: str, address: str = "0000:3a:00.0", **counters: int) -> None:
        """Shows a device of Intel's with its monitor, and one of a tile. counters: microjoules by name, energy1."""
        device = self.home / f"drm/renderD{minor}/device"
        for number, name in ((1, "i915_gt0"), (2, driver)):
            monitor = device / f"hwmon/hwmon{number}"
            shutil.rmtree(monitor, ignore_errors=True)
            monitor.mkdir(parents=True)
            (monitor / "name").write_text(f"{name}\n")
            for counter, energy_uj in counters.items():
                (monitor / f"{counter}_input").write_text(f"{energy_uj if number == 2 else 7}\n")
        (device / "vendor").write_text("0x8086\n")
        (device / "device").write_text("0x0bd5\n")
        (device / "uevent").write_text(f"DRIVER={driver}\nPCI_SLOT_NAME={address}\n")

    def begin(self, *prolog: str) -> None:
        words = [self.home / "run", 7, 4, 4, "test", "c1", "nap", 0, *prolog]
        assert driver("begin", *words, elsewhere=self.elsewhere, now_s=self.now_s)["code"] == 0

    def finish(self, meanwhile: str = "") -> dict[str, Any]:
        """Returns the node's record. meanwhile: a shell command that runs in the first pause."""
        driver("finish", self.home / "run", 7, self.home / "out", "", elsewhere=self.elsewhere, now_s=self.now_s,
               meanwhile=meanwhile)
        return json.loads((self.home / "out/test-7-0.c1.json").read_text())

    def board(self, **files: str) -> None:
        """Writes the files of Cray's counters."""
        (self.home / "cray").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.home / "cray" / name).write_text(f"{text}\n")

    def monitor(self, number: int, driver: str, **counters: tuple[str, int]) -> None:
        """Makes hwmonN. counters: label and microjoules by name, energy1 and so on."""
        folder = self.home / f"hwmon/hwmon{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{driver}\n")
        for name, (label, energy_uj) in counters.items():
            (folder / f"{name}_label").write_text(f"{label}\n")
            (folder / f"{name}_input").write_text(f"{energy_uj}\n")

    def merged(self) -> dict[str, Any]:
        """Returns the job's record, merged from this node's record alone."""
        record = driver("merge", 1, "", self.home / "out/test-7-0.c1.json")
        validate(record)
        return record["mpi_wait"]
