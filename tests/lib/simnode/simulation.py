"""A simulated node for one test, without Slurm: a bare mount namespace and the simulation in it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.lib.throwaway.inside import REPOSITORY
from tests.lib.throwaway.requirements import DEBIAN_PYTHON

READY_TIMEOUT_S = 20
POWERCAP = "/sys/class/powercap"


class Simulation:
    """A mount namespace with a simulation in it, reached through /proc/PID/root."""

    def __init__(self, **options: Any) -> None:
        script = 'mount -t tmpfs none /run && exec "$@"'
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", script, "sh", DEBIAN_PYTHON, "-m",
             "tests.lib.simnode", json.dumps(options)], cwd=REPOSITORY)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.path(f"{POWERCAP}/SIMULATED").exists():
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)

    def path(self, inside: str) -> Path:
        return Path(f"/proc/{self.process.pid}/root{inside}")

    def read(self, inside: str) -> str:
        return self.path(inside).read_text().strip()

    def write(self, inside: str, value: object) -> int:
        """Writes a file. Returns 0, or the error number of opening or writing."""
        try:
            descriptor = os.open(self.path(inside), os.O_WRONLY)
        except OSError as error:
            return error.errno or -1
        try:
            os.write(descriptor, f"{value}\n".encode())
        except OSError as error:
            return error.errno or -1
        finally:
            os.close(descriptor)
        return 0

    def control(self, **values: Any) -> None:
        assert self.write("/run/simnode/fs/control", json.dumps(values)) == 0

    def truth(self) -> dict[str, Any]:
        return json.loads(self.read("/run/simnode/fs/truth"))

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["nsenter", "-t", str(self.process.pid), "-m", "-r", *argv],
                              capture_output=True, text=True, check=True)
