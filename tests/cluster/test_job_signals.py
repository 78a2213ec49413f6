"""Signals to a rank that naps: checkpoint handlers run in the wait, which goes on; a stopped rank goes on too."""

from __future__ import annotations

import platform
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.lib import jobs
from tests.lib.grants import begin, wait_for
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster
CLOCK_NANOSLEEP = {"x86_64": "230", "aarch64": "115"}[platform.machine()]
SIGNALS = 12
STOPPED_S = 1.5
ROUNDED_S = 0.001  # as the record's times are


@dataclass
class Blocked:
    """A job whose rank 1 naps in MPI_Recv until `release`."""

    cluster: Cluster
    folder: str
    job: int
    process: subprocess.Popen[str]
    pid: int = 0

    def read(self, path: str) -> str:
        return self.cluster.node_run("c1", ["sh", "-c", f"cat {path} 2>/dev/null"]).stdout

    def handled(self) -> str:
        """A letter for each signal that the rank's handler has seen."""
        return self.read(f"{self.folder}/handled")

    def nap(self) -> None:
        """Returns when the rank sleeps in its wait."""
        wait_for(lambda: self.read(f"/proc/{self.pid}/syscall").startswith(CLOCK_NANOSLEEP + " "))

    def signal(self, name: str) -> None:
        self.cluster.node_run("c1", ["kill", f"-{name}", str(self.pid)], check=True)

    def state(self) -> str:
        return self.read(f"/proc/{self.pid}/stat").rpartition(")")[2].split()[0]

    def release(self) -> tuple[int, str]:
        """Lets rank 0 send; returns srun's status and the output."""
        self.cluster.node_run("c1", ["touch", f"{self.folder}/release"], check=True)
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out + errors


Block = Callable[..., Blocked]


def begin_blocked(cluster: Cluster, folder: str, arguments: tuple[str, ...], options: tuple[str, ...]) -> Blocked:
    cluster.node_run("c1", ["install", "-d", "-o", "alice", folder], check=True)
    argv = ["-N1", "-n2", "-w", "c1", "--mpi-wait-policy=nap", *options, f"{PROGRAMS}/checkpoint", folder, *arguments]
    job, process = begin(cluster, argv)
    return Blocked(cluster, folder, job, process)


@pytest.fixture
def block(cluster: Cluster) -> Iterator[Block]:
    """Starts jobs, and ends what is left of them after the test."""
    begun: list[Blocked] = []

    def start(*arguments: str, options: tuple[str, ...] = ()) -> Blocked:
        blocked = begin_blocked(cluster, f"{cluster.share}/{secrets.token_hex(4)}", arguments, options)
        begun.append(blocked)
        blocked.pid = int(wait_for(lambda: blocked.read(f"{blocked.folder}/pid")))
        blocked.nap()
        return blocked

    yield start
    for blocked in begun:
        if blocked.process.poll() is None:
            cluster.run(["scancel", "--signal=KILL", str(blocked.job)])
            blocked.process.communicate(timeout=60)


def wall_s(printed: str) -> float:
    found = re.search(r"wall_s=(\S+) checksum=0x", printed)
    assert found, printed
    return float(found.group(1))


def test_checkpoints_are_taken_in_the_nap_and_the_wait_goes_on(cluster: Cluster, block: Block) -> None:
    """Each signal is handled before the message that ends the wait is sent, and it stays one wait."""
    blocked = block()
    for count in range(1, SIGNALS + 1):
        blocked.signal("USR1")
        wait_for(lambda expected="U" * count: blocked.handled() == expected)
    blocked.nap()
    status, printed = blocked.release()
    assert status == 0, printed
    wait = jobs.record(cluster, blocked.job)["wait"]
    received = wait["by_call"]["MPI_Recv"]
    assert received["calls"] == received["waits"] == 1 and wait["naps"] > SIGNALS
    assert 0 < received["wait_s"] <= wall_s(printed) + ROUNDED_S


def test_scancel_s_signal_reaches_the_napping_rank(cluster: Cluster, block: Block) -> None:
    blocked = block()
    cluster.run(["scancel", "--signal=USR1", str(blocked.job)], check=True)
    wait_for(lambda: blocked.handled() == "U")
    status, printed = blocked.release()
    assert status == 0 and "wall_s=" in printed


def test_a_program_that_is_told_to_end_ends_with_its_own_status(cluster: Cluster, block: Block) -> None:
    """SIGTERM's handler notes it; the program finishes its wait, finalizes, and returns 7."""
    blocked = block()
    blocked.signal("TERM")
    wait_for(lambda: blocked.handled() == "T")
    blocked.nap()
    status, printed = blocked.release()
    assert status == 7 and "wall_s=" in printed
    wait = jobs.record(cluster, blocked.job)["wait"]
    assert wait["ranks"] == 2 and wait["by_call"]["MPI_Recv"]["waits"] == 1
    assert cluster.sacct(f"{blocked.job}.0", ["ExitCode"])[0]["ExitCode"] == "7:0"


def test_a_handler_that_ends_the_program_ends_it_in_the_nap(cluster: Cluster, block: Block) -> None:
    """No message is ever sent; the wait that it ended in counts."""
    blocked = block("exit", options=("-K1",))
    blocked.signal("TERM")
    out, errors = blocked.process.communicate(timeout=60)
    assert "task 1: Exited with exit code 9" in errors and blocked.process.returncode != 0
    assert blocked.handled() == "T" and "wall_s=" not in out
    wait = jobs.record(cluster, blocked.job)["wait"]
    assert wait["ranks"] == 2 and wait["max"]["rank"] == 1
    assert wait["by_call"]["MPI_Recv"]["waits"] == 1 and wait["naps"] > 0


def test_a_stopped_rank_goes_on_and_its_stop_is_no_wait(cluster: Cluster, block: Block) -> None:
    blocked = block()
    blocked.signal("STOP")
    wait_for(lambda: blocked.state() == "T")
    stopped = time.monotonic()
    time.sleep(STOPPED_S)  # what is measured: more than a second in which nobody waited
    stopped_s = time.monotonic() - stopped
    blocked.signal("CONT")
    wait_for(lambda: blocked.state() != "T")
    blocked.nap()
    status, printed = blocked.release()
    assert status == 0
    wait = jobs.record(cluster, blocked.job)["wait"]
    received = wait["by_call"]["MPI_Recv"]
    assert received["waits"] == 1 and wait["naps"] > 0 and "doubtful" not in wait
    assert 0 < received["wait_s"] <= wall_s(printed) - stopped_s + ROUNDED_S
    assert wait["per_rank_asleep_s"][1] <= wait["per_rank_s"][1]
