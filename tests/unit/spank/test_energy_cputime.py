"""The CPU time of a simulated node's processes is counted once, however they end between two looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.simnode.cputime import TICK_S, CpuTime

NAMESPACE, ANOTHER = "mnt:[1]", "mnt:[2]"


class Processes:
    """A /proc of processes that a test makes and ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.is_in("self", NAMESPACE)

    def is_in(self, pid: int | str, namespace: str) -> None:
        (self.directory / f"{pid}/ns").mkdir(parents=True, exist_ok=True)
        (self.directory / f"{pid}/ns/mnt").symlink_to(namespace)

    def has(self, pid: int, parent: int, own: int, children: int = 0) -> None:
        if not (self.directory / str(pid)).exists():
            self.is_in(pid, NAMESPACE)
        fields = ["S", str(parent), *["0"] * 9, str(own), "0", str(children), "0", *["0"] * 4, "7", *["0"] * 16, "1"]
        (self.directory / f"{pid}/stat").write_text(f"{pid} (a name) {' '.join(fields)}\n")

    def becomes_zombie(self, pid: int) -> None:
        (self.directory / f"{pid}/ns/mnt").unlink()

    def goes(self, pid: int) -> None:
        (self.directory / f"{pid}/ns/mnt").unlink(missing_ok=True)
        (self.directory / f"{pid}/stat").unlink()
        (self.directory / f"{pid}/ns").rmdir()
        (self.directory / str(pid)).rmdir()


@pytest.fixture()
def processes(tmp_path: Path) -> Processes:
    """A daemon 10, its child 20, and a child 30 of that, which has used 50 ticks."""
    made = Processes(tmp_path)
    made.has(10, 1, 5)
    made.has(20, 10, 1)
    made.has(30, 20, 50)
    return made


@pytest.fixture()
def counter(processes: Processes) -> CpuTime:
    return CpuTime(set(), str(processes.directory))


def ticks(counter: CpuTime) -> int:
    used = counter.seconds()
    assert set(used) <= {1}
    return round(used.get(1, 0) / TICK_S)


def test_what_was_used_before_does_not_count(processes: Processes, counter: CpuTime) -> None:
    assert ticks(counter) == 0
    processes.has(30, 20, 80)
    processes.has(40, 20, 3)
    assert ticks(counter) == 33


def test_others_processes_do_not_count(processes: Processes, counter: CpuTime) -> None:
    processes.is_in(50, ANOTHER)
    processes.has(50, 1, 1000)
    assert ticks(counter) == 0


def test_one_that_waits_to_be_reaped_is_counted_once(processes: Processes, counter: CpuTime) -> None:
    processes.has(30, 20, 60)
    processes.becomes_zombie(30)
    assert ticks(counter) == 10
    processes.goes(30)
    processes.has(20, 10, 1, children=60)
    assert ticks(counter) == 0


def test_one_that_ended_with_its_parent_is_counted_once(processes: Processes, counter: CpuTime) -> None:
    for pid in (30, 20):
        processes.goes(pid)
    processes.has(10, 1, 5, children=2 + 55)
    assert ticks(counter) == 1 + 5


def test_one_that_ends_during_a_look_is_counted_once(processes: Processes, counter: CpuTime) -> None:
    """Its parent was looked at before it had reaped it."""
    processes.goes(30)
    assert ticks(counter) == 0
    processes.has(20, 10, 1, children=52)
    assert ticks(counter) == 2


def test_what_was_kept_for_one_look_is_not_kept_for_more(processes: Processes, counter: CpuTime) -> None:
    """A child that its parent never waits for is in nobody's time."""
    processes.goes(30)
    assert [ticks(counter), ticks(counter)] == [0, 0]
    processes.has(20, 10, 1, children=52)
    assert ticks(counter) == 52
