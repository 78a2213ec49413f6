"""One process drains a node's outbox, however many jobs end; slurmdbd is a file."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import NO_POWERCAP, PROGRAMS, driver, node_record, settings
from tests.lib.spool_site import ME
from tests.lib.waiting import wait_for

JOBS = 1000
BESIDE = 40
"""So many are started before the first of them is waited for."""


class Node:
    """c1, with a spool that it shares with nobody here, unless without one."""

    def __init__(self, folder: Path, spool: bool = True) -> None:
        self.outbox, self.spool, self.account = folder / "c1/out", folder / "spool", folder / "account"
        self.outbox.mkdir(parents=True)
        self.spool.mkdir(mode=0o755)
        self.words = [f"spool={self.spool}", f"spool_user={ME}"] if spool else []
        self.state = folder / "run"
        self.notes = self.state / "c1"
        self.notes.mkdir(mode=0o700, parents=True)
        self.lock, self.note = self.notes / ".writer", self.notes / ".writer.words"

    def put(self, job: int, nodes: str = "c1", node: str = "c1", **changes: Any) -> Path:
        """Whole at once, as the epilog does: a writer may be looking."""
        path = self.outbox / f"test-{job}-0.{node}.json"
        path.with_suffix(".new").write_text(json.dumps(node_record(node, nodes, job=job, **changes)))
        return path.with_suffix(".new").rename(path)

    def reach(self, job: int, nodes: str, node: str) -> None:
        """The record of another node reaches the spool."""
        folder = self.spool / f"test-{job}-0"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{node}.new").write_text(json.dumps(node_record(node, nodes, job=job)))
        (folder / f"{node}.new").rename(folder / f"{node}.json")

    def command(self, *words: str) -> list[str]:
        verb, *rest = words or ("drain",)
        return [str(PROGRAMS["doubled"]), verb, "--outbox", str(self.outbox), "--state", str(self.state),
                "--first-delay", "0", *rest, *self.words]

    def settings(self, away: bool = False, **how: Any) -> dict[str, str]:
        account = {} if away else {"MPIWAIT_ACCOUNT": str(self.account)}
        return settings(**how) | {"MPIWAIT_ME": ME} | account

    def run(self, *words: str, away: bool = False, at_release: str = "", meanwhile: str = "", **more: str) -> int:
        environment = self.settings(away, now_s=time.time(), meanwhile=meanwhile) | more
        if at_release:
            environment["MPIWAIT_AT_RELEASE"] = at_release
        done = subprocess.run(self.command(*words), env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
        return done.returncode

    def says(self, *words: str, away: bool = False, **more: str) -> list[str]:
        """The lines of its log."""
        argv = ["script", "-qec", " ".join(self.command(*words)), "/dev/null"]
        done = subprocess.run(argv, env=self.settings(away, now_s=time.time()) | more, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.splitlines()

    def stored(self) -> list[tuple[int, float, dict[str, Any]]]:
        """Job, joules for Slurm's own accounting (-1: none), and the record."""
        lines = self.account.read_text().splitlines() if self.account.exists() else []
        rows = [json.loads(line) for line in lines]
        return [(job, joules, record["mpi_wait"]) for job, joules, record in rows]

    def jobs(self) -> list[int]:
        return [job for job, _, _ in self.stored()]

    def waiting(self) -> list[str]:
        return sorted(name for name in os.listdir(self.outbox) if name[0] != ".")

    def is_drained(self) -> bool:
        """Whether a process holds the lock."""
        if not self.lock.exists():
            return False
        with self.lock.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(), env=self.settings(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@contextmanager
def held(node: Node) -> Iterator[None]:
    """By a writer of the same site arguments."""
    node.note.write_text("".join(f"{word} " for word in node.words))
    with node.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "no spool"])
def test_one_writer_stores_all_that_is_there(tmp_path: Path, spool: bool) -> None:
    node = Node(tmp_path, spool)
    for job in (7, 8, 9):
        node.put(job)
    assert node.run() == 0
    assert sorted(node.jobs()) == [7, 8, 9] and node.waiting() == []


def test_a_second_writer_leaves_at_once(node: Node) -> None:
    node.put(7)
    with held(node):
        assert node.run() == 0
        assert node.waiting() == ["test-7-0.c1.json"] and node.jobs() == []
    assert node.run() == 0
    assert node.jobs() == [7]


def test_what_comes_while_it_waits_is_taken(node: Node) -> None:
    """Job 7 has a second node, which reports when the writer pauses for the first time; job 8 ends then too."""
    node.put(7, "c[1-2]")
    late = node.put(8).rename(node.outbox.parent / "late")
    there = node.spool / "test-7-0/c2.json"
    (node.outbox.parent / "c2").write_text(json.dumps(node_record("c2", "c[1-2]")))
    meanwhile = (f"cp {node.outbox.parent}/c2 {there}; mv {late} {node.outbox}/test-8-0.c1.json;"
                 f" SLURMD_NODENAME=c1 {' '.join(node.command())}")
    assert node.run(meanwhile=meanwhile) == 0
    assert sorted(node.jobs()) == [7, 8] and node.waiting() == []
    assert {job: record["nodes"]["reported"] for job, _, record in node.stored()} == {7: 2, 8: 1}


def test_what_comes_between_the_last_look_and_the_release_is_taken(node: Node) -> None:
    """Its own writer finds the lock held, and leaves."""
    node.put(7)
    late = node.put(8).rename(node.outbox.parent / "late")
    other = f"mv {late} {node.outbox}/test-8-0.c1.json && MPIWAIT_AT_RELEASE= {' '.join(node.command())}"
    assert node.run(at_release=f"{other} && test -e {node.outbox}/test-8-0.c1.json") == 0
    assert node.jobs() == [7, 8] and node.waiting() == []


def test_an_outbox_that_does_not_change_is_not_read_again(tmp_path: Path) -> None:
    """While the writer waits a minute for another node. By a clock that is behind, its date is always too young to
    tell; what comes in the first pause is taken by either clock."""
    opens = []
    for shift_s in (-600, 600):
        node = Node(tmp_path / str(shift_s))
        node.put(7, "c[1-2]")
        late = node.put(8).rename(node.outbox.parent / "late")
        counted = node.outbox.parent / "opens"
        meanwhile = f"mv {late} {node.outbox}/test-8-0.c1.json"
        environment = node.settings(now_s=time.time() + shift_s, meanwhile=meanwhile) | {"MPIWAIT_OPENS": str(counted)}
        subprocess.run(node.command("drain", "--collect", "60"), env=environment, check=True, timeout=60)
        assert sorted(node.jobs()) == [7, 8] and node.waiting() == []
        opens.append(int(counted.read_text()))
    assert opens[0] - opens[1] >= 40, opens


def test_other_site_arguments_have_a_writer_of_their_own(node: Node) -> None:
    """It waits for the one that is at work, which takes nothing that comes from then on."""
    node.put(7, "c[1-2]")
    late = node.put(8).rename(node.outbox.parent / "late")
    first = node.start()
    try:
        wait_for(node.is_drained, "the first writer's lock")
        node.words.append("energy_tres=on")
        second = node.start()
        try:
            wait_for(lambda: "energy_tres" in node.note.read_text(), "the second one's arguments")
            late.rename(node.outbox / "test-8-0.c1.json")
            third = node.start()
            assert third.wait(timeout=60) == 0 and first.poll() is None and second.poll() is None
            assert node.jobs() == []
            node.reach(7, "c[1-2]", "c2")
            assert [writer.wait(timeout=60) for writer in (first, second)] == [0, 0]
        finally:
            second.kill()
            second.wait()
    finally:
        first.kill()
        first.wait()
    assert [(job, joules) for job, joules, _ in node.stored()] == [(7, -1), (8, 210.0)]


def test_what_slurmdbd_does_not_take_stays_and_the_writer_ends(tmp_path: Path) -> None:
    node = Node(tmp_path, spool=False)
    for job in (7, 8):
        node.put(job)
    assert node.run(away=True) == 2
    assert node.waiting() == ["test-7-0.c1.json", "test-8-0.c1.json"] and not node.is_drained()
    assert node.run() == 0
    assert sorted(node.jobs()) == [7, 8] and node.waiting() == []


def test_one_bad_record_does_not_keep_the_others(node: Node) -> None:
    (node.outbox / "test-6-0.c1.json").write_text("x" * (5 * 1024 * 1024))
    node.put(7)
    assert node.run() == 1
    assert node.jobs() == [7] and node.waiting() == ["test-6-0.c1.json"]


def test_records_of_other_nodes_are_left_to_the_sweep(tmp_path: Path) -> None:
    node = Node(tmp_path, spool=False)
    node.put(7, "c[1-2]", "c2")
    node.put(8)
    assert node.run() == 0
    assert node.jobs() == [8] and node.waiting() == ["test-7-0.c2.json"]


def test_a_thousand_ends_leave_one_writer(node: Node) -> None:
    """The first waits for another node of its job; each of the others leaves, and it stores for them all."""
    node.put(1, "c[1-2]")
    first = node.start()
    try:
        wait_for(node.is_drained, "the first writer's lock")
        for begin in range(2, JOBS + 2, BESIDE):
            writers = []
            for job in range(begin, min(begin + BESIDE, JOBS + 2)):
                node.put(job)
                writers.append(node.start())
            assert [writer.wait(timeout=60) for writer in writers] == [0] * len(writers)
            assert first.poll() is None
        node.reach(1, "c[1-2]", "c2")
        assert first.wait(timeout=60) == 0
    finally:
        first.kill()
        first.wait()
    assert sorted(node.jobs()) == list(range(1, JOBS + 2)) and node.waiting() == []


@pytest.mark.parametrize(("nodes", "joules"), [("c1", 210.0), ("c[1-2]", -1)], ids=["whole", "partial"])
def test_slurm_s_own_energy_is_set_from_whole_records_only(tmp_path: Path, nodes: str, joules: float) -> None:
    node = Node(tmp_path, spool=False)
    node.put(7, nodes)
    assert node.run("drain", "energy_tres=on") == 0
    ((_, told, record),) = node.stored()
    assert told == joules and record["energy"]["joules"] == 210.0


def test_nor_where_a_node_has_no_energy(node: Node) -> None:
    node.put(7, "c[1-2]")
    (node.spool / "test-7-0").mkdir(mode=0o700)
    other = node_record("c2", "c[1-2]", energy=None, energy_why="no powercap zones")
    (node.spool / "test-7-0/c2.json").write_text(json.dumps(other))
    assert node.run("drain", "energy_tres=on") == 0
    ((_, told, record),) = node.stored()
    assert told == -1 and record["nodes"] == {"reported": 2, "of": 2} and record["energy"]["nodes"] == 1


def test_nothing_that_may_hang_comes_before_the_turn(node: Node) -> None:
    """A second process does not even look for the spool, which is not there."""
    node.spool.rmdir()
    assert node.run() == 1
    with held(node):
        assert node.run() == 0


def test_a_holder_that_does_not_move_is_said_once(node: Node) -> None:
    with held(node):
        node.lock.write_text(' 4711, the spool "/s"\0')
        assert node.says() == []
        then = time.time() - 1000
        os.utime(node.lock, (then, then))
        (line,) = node.says()
        assert "has not moved for 16 minutes: process 4711, the spool \"/s\"; records wait" in line
        os.utime(node.lock, (then, then))
        assert node.says() == []
    node.put(7)
    assert node.run() == 0 and node.lock.read_text().startswith(" ")


@pytest.mark.parametrize("words", [["drain"], ["sweep", "--now"]], ids=["drain", "sweep"])
def test_an_error_of_one_job_is_that_job_s(tmp_path: Path, words: list[str]) -> None:
    """And the next one has a connection of its own."""
    node = Node(tmp_path, spool=False)
    for job in (6, 7, 8):
        node.put(job)
    node.put(10000, cluster="a").rename(node.outbox / "a-10000-0.c1.json")
    assert node.run(*words, MPIWAIT_WRONG="10000") == 2
    assert sorted(node.jobs()) == [6, 7, 8] and node.waiting() == ["a-10000-0.c1.json"]
    assert node.run(*words) == 0
    assert sorted(node.jobs()) == [6, 7, 8, 10000] and node.waiting() == []


def age(node: Node) -> None:
    then = time.time() - 1000
    for name in node.waiting():
        os.utime(node.outbox / name, (then, then))


def test_jobs_that_slurmdbd_does_not_take_come_last(tmp_path: Path) -> None:
    """A sweep ends after 32 of them in a row; the next one begins with what it has not tried."""
    node = Node(tmp_path, spool=False)
    for job in (5, *range(1000, 1040)):
        node.put(job)
    age(node)
    assert node.run("sweep", MPIWAIT_WRONG="1000") == 1 and node.jobs() == []
    said = node.says("sweep", MPIWAIT_WRONG="1000")
    assert node.jobs() == [5]
    assert len(said) <= 13 and "slurmdbd does not take job" in said[0]


def test_while_slurmdbd_is_away_old_records_cost_next_to_nothing(tmp_path: Path) -> None:
    """A job's end tries slurmdbd three times and opens as many files, however many records wait; and says one line."""
    opens = []
    for count in (10, 400):
        folder = tmp_path / str(count)
        node = Node(folder, spool=False)
        for job in range(count):
            node.put(job + 1)
        tried = folder / "tried"
        said = node.says(away=True, MPIWAIT_TRIED=str(tried), MPIWAIT_OPENS=str(folder / "opens"))
        assert len(said) == 1 and f"{count} records are left for the sweep: slurmdbd is away" in said[0]
        assert tried.read_text() == "+++" and len(node.waiting()) == count
        opens.append(int((folder / "opens").read_text()))
    assert opens[0] == opens[1]


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "no spool"])
def test_old_records_of_the_outbox_are_the_sweep_s(tmp_path: Path, spool: bool) -> None:
    """Earlier drains have asked slurmdbd for their jobs. To a spool they are moved: that costs slurmdbd nothing."""
    node = Node(tmp_path, spool)
    old = node.put(7)
    then = time.time() - 48 * 3600
    os.utime(old, (then, then))
    node.put(8)
    said = node.says()
    assert sorted(node.jobs()) == ([7, 8] if spool else [8])
    assert said == ([] if spool else ["mpi-wait: 1 records are left for the sweep: they are older than a day"])
    assert node.run() == (0 if spool else 2) and node.run("sweep", "--now") == 0
    assert sorted(node.jobs()) == [7, 8] and node.waiting() == []


@pytest.mark.parametrize(("spool", "first"), [(False, True), (False, False), (True, False)])
def test_a_record_that_nobody_can_merge_is_not_made(tmp_path: Path, spool: bool, first: bool) -> None:
    """A record of another node than the first, where nodes share no spool."""
    node = Node(tmp_path, spool)
    nodes = "c[1-2]" if first else "b[1-2],c1"
    driver("begin", node.state, 7, 2, 2, "test", nodes, "nap", 0, elsewhere=NO_POWERCAP)
    driver("end", node.state, 7, elsewhere=NO_POWERCAP)
    assert node.run(away=True) == (2 if first else 0)
    assert node.waiting() == (["test-7-0.c1.json"] if first else [])
    assert not (node.notes / "7.1").exists() and (node.spool / "test-7-0").exists() == spool


def test_an_outbox_without_room_is_emptied_first(node: Node) -> None:
    """The first record that does not fit ends the making of records, says so, and the writer makes room."""
    for job in (7, 8, 9):
        driver("begin", node.state, job, 2, 2, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP)
        driver("end", node.state, job, elsewhere=NO_POWERCAP)
    node.put(1)
    said = node.says(MPIWAIT_FULL=str(node.outbox))
    assert len(said) == 1 and "No space left on device" in said[0]
    assert node.jobs() == [1] and node.waiting() == []
    assert sorted(path.name for path in node.notes.glob("*.1")) == ["7.1", "8.1", "9.1"]
    assert node.run() == 0
    assert sorted(node.jobs()) == [1, 7, 8, 9] and list(node.notes.glob("*.1")) == []
