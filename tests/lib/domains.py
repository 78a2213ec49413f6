"""Shared by the tests of frequency domains: a simulated node for one test, processes that hold domains, and the
contents of the files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lib.simnode.simulation import Simulation
from tests.lib.throwaway.inside import REPOSITORY
from tests.lib.throwaway.requirements import missing_for_simulation

BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
DRIVER = BUILD / "tests/lib/doubles/domain-driver"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
STATE = "/run/mpi-wait/c1"
FREE = "mpi-wait-domain 1\nfree\n"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURMD_NODENAME": "c1"}
FILES = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_setspeed")

Snapshot = dict[str, tuple[str, int, int, int]]
Done = subprocess.CompletedProcess[str]


def helper() -> Path:
    """Returns the path of the installed mpi-wait-node."""
    stage = Path(os.environ.get("MPI_WAIT_STAGE", REPOSITORY / "build/stage/opt/mpi-wait"))
    return stage / "sbin/mpi-wait-node"


class Node:
    """A simulated node whose /run is empty at first."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.path = simulation.path

    def command(self, *words: object) -> list[str]:
        return ["nsenter", "-t", str(self.simulation.process.pid), "-m", "-r", *map(str, words)]

    def run(self, *words: object, text: str = "", kill: str = "", more: dict[str, str] | None = None) -> Done:
        """Runs a command on the node. more: variables that the command sees, but nsenter does not."""
        settings = [f"{name}={value}" for name, value in (more or {}).items()]
        return subprocess.run(
            self.command(*(["env", *settings] if settings else []), *words),
            input=text, capture_output=True, text=True, timeout=60, check=False,
            env=ENVIRONMENT | ({"MPIWAIT_KILL": kill} if kill else {}),
        )  # fmt: skip

    def driver(self, *words: object, text: str = "", kill: str = "") -> Done:
        return self.run(DRIVER, "/run/mpi-wait", *words, text=text, kill=kill)

    def restore(self, *options: str) -> Done:
        return self.run(helper(), "restore", *options)

    def snapshot(self) -> Snapshot:
        """Returns text, owner and mode of every file in FILES of every domain."""
        files: Snapshot = {}
        for policy in sorted(self.path(CPUFREQ).iterdir()):
            for name in FILES:
                status = (policy / name).stat()
                text = (policy / name).read_text()
                files[f"{policy.name}/{name}"] = (text, status.st_uid, status.st_gid, status.st_mode)
        return files

    def read(self, policy: int, name: str) -> str:
        return self.simulation.read(f"{CPUFREQ}/policy{policy}/{name}")

    def write(self, policy: int, name: str, value: object) -> None:
        assert self.simulation.write(f"{CPUFREQ}/policy{policy}/{name}", value) == 0

    def held(self) -> list[str]:
        """Returns the names of the domains that are held."""
        folder = self.path(f"{STATE}/cpufreq")
        files = sorted(folder.iterdir()) if folder.exists() else []
        return [path.name for path in files if not path.read_text().startswith(FREE)]

    def holder(self, job: int, step: object = 0, within: Sequence[str] = ()) -> Holder:
        """Starts a holder. within: a command that starts the holder in turn."""
        return Holder(self, job, step, within)


class Holder:
    """A process that holds domains, as slurmstepd does, and obeys commands."""

    def __init__(self, node: Node, job: int, step: object, within: Sequence[str]) -> None:
        words = node.command(*within, DRIVER, "/run/mpi-wait", "hold", job, step)
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=ENVIRONMENT,
        )
        self.opened = self._answer()

    def _answer(self) -> tuple[int, str]:
        assert self.process.stdout
        number, _, message = self.process.stdout.readline().partition(" ")
        return int(number), message.strip()

    def tell(self, *words: object) -> tuple[int, str]:
        assert self.process.stdin
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def do(self, *lines: str) -> None:
        for line in lines:
            assert self.tell(line) == (0, "")

    def stop(self, kill: bool = False) -> str:
        """Ends the holder: closes its stdin, or kills it. Returns its log."""
        if kill:
            self.process.kill()
        return self.process.communicate(timeout=30)[1]


GIVEN = (
    "take {0}", "change {0} 1000000 2400000 to=65534:65534:600", "set {0} 1200000", "set {0} 2000000",
)
"""The commands of a holder that changes one domain and grants its file."""
LIMITS = ("take {0}", "change {0} 1000000 3500000 to=65534:65534:664", "set {0} 1000000")
"""The same commands for a driver with another highest frequency."""
AMD = tuple(line.replace("3500000", "3700000") for line in LIMITS)
KINDS = {"acpi-cpufreq": GIVEN, "intel_pstate": LIMITS}  # commands of a holder, by the node's driver


def script(lines: tuple[str, ...], policies: tuple[int, ...] = (0,)) -> list[str]:
    return [line.format(policy) for policy in policies for line in lines]


def nodes() -> Iterator[Callable[..., Node]]:
    """Makes nodes, and ends them with the fixture whose body this is."""
    reasons = missing_for_simulation(Path("/proc/filesystems").read_text().split())
    if os.geteuid() != 0:
        reasons.append("root")
    if not DRIVER.exists() or not helper().exists():
        reasons.append(f"a build: {DRIVER} and {helper()}")
    if reasons:
        pytest.skip("the simulated node needs " + "; ".join(reasons))
    started: list[Simulation] = []

    def start(**options: Any) -> Node:
        started.append(Simulation(**options))
        return Node(started[-1])

    yield start
    for simulation in started:
        simulation.process.kill()
        simulation.process.wait()


def step_of_two(start: Callable[..., Node], driver: str) -> tuple[Node, Snapshot, str]:
    """Starts a node. Returns it, a snapshot, and the commands of a holder that changes both domains of a step of two
    cores."""
    node = start(driver=driver, strict_limits=driver == "intel_pstate")
    return node, node.snapshot(), "\n".join(script(KINDS[driver], (0, 1))) + "\n"
