"""Whoever is killed, wherever: one restore later every cpufreq file is as before, in value, owner and mode.

$MPI_WAIT_KILLS says how many are killed at random: other ones each time where it is set, the same hundred without it.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.lib.domains import KINDS, Node, Snapshot, nodes, step_of_two
from tests.lib.faults import walk

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
REPEATS = 20
AT_RANDOM = int(os.environ.get("MPI_WAIT_KILLS", "100"))
POINTS = {
    # name: (points, who is killed there: the holder, the holder with its end, or what undoes for it)
    "written down": (("taken", "noted"), "holder"),
    "half applied": (("change", "changed", "owned"), "holder"),
    "half restored": (("undone", "owned"), "end"),
    "freed": (("freed",), "end"),
    "in restore": (("undone", "owned", "freed"), "restore"),
    "in the epilog": (("undone", "owned", "freed"), "epilog"),
}
UNDOING = {"restore": ("restore",), "epilog": ("epilog", 7)}


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, start: Callable[..., Node]) -> tuple[Node, Snapshot, str]:
    return step_of_two(start, request.param)


def restored(node: Node, before: Snapshot, what: object) -> None:
    done = node.restore()
    assert (what, done.returncode, node.snapshot()) == (what, 0, before), done.stderr
    assert (what, node.held()) == (what, [])


def die(node: Node, text: str, who: str, kill: str) -> bool:
    """A step is told all that, and who is killed there. Whether it was."""
    if who in UNDOING:
        node.driver("hold", 7, 0, text=text)
        return node.driver(*UNDOING[who], kill=kill).returncode in KILLED
    return node.driver("hold", 7, 0, text=text + ("end\n" if who == "end" else ""), kill=kill).returncode in KILLED


def passes(node: Node, text: str, who: str, point: str) -> int:
    """How often a point is passed by the whole of it: the first number at which nobody dies, less one."""
    number = 1
    while die(node, text, who, f"{point}:{number}"):
        node.restore()
        number += 1
    node.restore()
    return number - 1


@pytest.mark.parametrize("name", POINTS)
def test_killed_at_a_point(case: tuple[Node, Snapshot, str], name: str) -> None:
    node, before, text = case
    points, who = POINTS[name]
    last = {point: passes(node, text, who, point) for point in points}
    assert all(last.values()), last
    killed = 0
    while killed < REPEATS:
        for point in points:
            for number in range(1, last[point] + 1):
                assert die(node, text, who, f"{point}:{number}"), (point, number)
                killed += 1
                restored(node, before, (point, number))


def test_killed_at_every_point_in_turn(case: tuple[Node, Snapshot, str]) -> None:
    """The holder's whole life, its end included; then a restore that is killed at each of its own points in turn."""
    node, before, text = case
    holder_points = passes(node, text, "end", "any")
    restore_points = passes(node, text, "restore", "any")
    assert (holder_points, restore_points) == ((26, 8) if "2000000" in text else (22, 8))
    for number in range(1, holder_points + 1):
        assert node.driver("hold", 7, 0, text=text + "end\n", kill=f"any:{number}").returncode in KILLED
        restored(node, before, number)
    node.driver("hold", 7, 0, text=text)
    for number in range(1, restore_points + 1):
        node.driver("restore", kill=f"any:{number}")
    restored(node, before, "restores")


def test_a_taker_killed_at_every_point_in_turn(case: tuple[Node, Snapshot, str]) -> None:
    """Another job's holder dies while it takes the cores over from one that is alive, and from one that is dead."""
    node, before, text = case
    for alive in (False, True):
        number, died = 0, True
        while died:
            number += 1
            first = node.holder(7)
            first.do(*text.splitlines())
            if not alive:
                first.stop(kill=True)
            died = node.driver("hold", 8, 0, text=text, kill=f"any:{number}").returncode in KILLED
            if alive:
                first.do("end")
                first.stop()
            restored(node, before, (alive, number))
        assert number > 10


def test_killed_at_random(case: tuple[Node, Snapshot, str]) -> None:
    """Half of them at a point, half after an answer; every other time the first restores die as well."""
    node, before, text = case
    seed = random.randrange(1 << 32) if "MPI_WAIT_KILLS" in os.environ else 1
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = text + "end\n"
    busy = (text + "release 0\nrelease 1\n") * 30
    killed = tried = 0
    while killed < AT_RANDOM // len(KINDS):
        tried += 1
        if tried % 2:
            done = node.driver("hold", 7, 0, text=whole, kill=f"any:{chance.randrange(1, 50)}")
            killed += done.returncode in KILLED
        else:
            holder = node.holder(7)
            assert holder.process.stdin and holder.process.stdout
            holder.process.stdin.write(busy)
            holder.process.stdin.flush()
            for _ in range(chance.randrange(busy.count("\n"))):
                holder.process.stdout.readline()
            holder.stop(kill=True)
            killed += holder.process.returncode in KILLED
        for _ in range(chance.randrange(3)):
            node.driver("restore", kill=f"any:{chance.randrange(1, 20)}")
        restored(node, before, (seed, tried))
    walk.count("kills", killed, "a domain's holder, at random")
    assert tried < 2 * killed
