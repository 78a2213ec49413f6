"""What sleeping saved: from counters around looks of the ranks, through a node's record to the job's. The clock is the
test's."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import Ticks, driver, node_record, set_energy, show_powercap, two_packages
from tests.lib.records import left_out, merge
from tests.lib.segments import HEAD, SLOT, SLOTS, segment, slot

BEGIN = 1_700_000_000.0
LEVEL = 5
TOLD = 1 + 2 * LEVEL
"""The windows of a young job last for 134 ms, in 2.1 s."""
SEED = 0x1234567890ABCDEF
ASLEEP_AT = SLOTS + HEAD + 192 + 8 * 4
LOOK_AT = SLOTS + HEAD + 360
COST = (10**10, 5 * 10**7, 10**6, 40)
"""Steps are 0.5 % longer where ranks sleep, 0.02 % more or less."""
KNOWN = {"looks": 40, "look_mw": 200_000, "beside_mw": 180_000, "error_mw": 1000}


def rank(number: int = 0, look: int = TOLD, slowdown_ppm: int = 10_000, launch: int = SEED) -> bytes:
    return slot(number, 2, 10**6, state=2, start=1, slowdown_ppm=slowdown_ppm, cost=COST, look=look, launch=launch)


class Node:
    """Two packages of 100 W each while all ranks look, of 90 W while they may sleep, as they do for half of that."""

    def __init__(self, folder: Path, *ranks: bytes, beside_w: float = 90.0, in_looks: float = 0.0,
                 cores: int = 4, cpu_ms: int = 0) -> None:
        self.folder, self.powercap, self.segment = folder, two_packages(folder), folder / "segment"
        self.segment.write_bytes(segment(*ranks))
        self.ranks, self.beside_w, self.in_looks = len(ranks), beside_w, in_looks
        self.now_s, self.joules, self.asleep_s = BEGIN, 1.0, 0.0
        self.elsewhere = show_powercap(self.powercap)
        driver("begin", folder / "run", 7, cores, 4, "test", "c1", "nap", 0, elsewhere=self.elsewhere, now_s=BEGIN)
        self.ticks = Ticks(folder / "run", 7, 0, self.elsewhere, BEGIN, segment=self.segment, cpu_ms=cpu_ms)

    def go(self, to_s: float, looks: bool) -> None:
        """Lets time pass in which the ranks look or not, and the sampler do what is due."""
        watts, sleeps = (100.0, self.in_looks) if looks else (self.beside_w, 0.5)
        self.joules += (to_s - self.now_s) * watts
        self.asleep_s += (to_s - self.now_s) * sleeps
        self.now_s = to_s
        for package in (0, 1):
            set_energy(self.powercap, f"intel-rapl:{package}", round(self.joules * 1e6))
        with self.segment.open("r+b") as file:
            for index in range(self.ranks):
                file.seek(ASLEEP_AT + index * SLOT)
                file.write(struct.pack("<Q", round(self.asleep_s * 1e9)))
        self.ticks.at(math.ceil(to_s * 1000) / 1000)

    def play(
        self, looks: int, meanwhile: Callable[[int], None] = lambda _: None, length_s: float | None = None
    ) -> None:
        """As many looks as that; the first is found in the first tick. length_s: for so long all ranks look."""
        begin_ns = round(BEGIN * 1e9) + 10**9
        for index, (from_ns, until_ns) in enumerate(driver("looks", SEED, TOLD, begin_ns, looks)):
            from_s, until_s = from_ns / 1e9, until_ns / 1e9
            all_s = min(from_s + length_s, until_s) if length_s else until_s
            beside_s = (all_s - from_s - 0.001) / 2
            for at_s in (from_s - beside_s, from_s):
                self.go(max(at_s, self.now_s), False)
            for at_s in (from_s + 0.001, all_s):
                self.go(at_s, True)
            for at_s in (until_s + 0.001, until_s + 0.001 + beside_s + 0.001):
                self.go(at_s, False)
            meanwhile(index)

    def tell(self, look: int) -> None:
        """The first rank looks otherwise from now on."""
        with self.segment.open("r+b") as file:
            file.seek(LOOK_AT)
            file.write(struct.pack("<Q", look))

    def end(self) -> dict[str, Any]:
        self.go(self.now_s + 1, False)
        self.ticks.__exit__()
        driver("finish", self.folder / "run", 7, self.folder / "out", "", elsewhere=self.elsewhere, now_s=self.now_s)
        (path,) = (self.folder / "out").glob("*.json")
        return json.loads(path.read_text())


def energy_of(tmp_path: Path, record: dict[str, Any]) -> dict[str, Any]:
    return merge(tmp_path, [record])["energy"]


def test_what_was_saved_reaches_the_record(tmp_path: Path) -> None:
    """A tenth of the power, in steps that are 0.5 % longer: 9.55 %."""
    node = Node(tmp_path, rank(0), rank(1))
    node.play(30)
    energy = energy_of(tmp_path, node.end())
    saved = energy["saved"]
    assert saved["percent"] == pytest.approx(100 * (1 - 0.9 * 1.005), abs=0.05)
    assert 0.02 < saved["error"] < 0.7
    assert 27 <= saved["looks"] <= 30 and "at_least" not in saved and "nodes" not in saved
    assert saved["look_w"] == pytest.approx(200, abs=0.5) and saved["beside_w"] == pytest.approx(180, abs=0.5)
    assert energy["source"] == "simulated" and "saved_why" not in energy


@pytest.mark.parametrize("other", [TOLD - 2, TOLD - 3, TOLD - 4, 0])
def test_ranks_of_other_levels_look_together_for_a_while(tmp_path: Path, other: int) -> None:
    """Windows of a level begin where some of those of the level below do: while the shorter one is open, all look. A
    rank that has not waited yet does not sleep."""
    node = Node(tmp_path, rank(0), rank(1, look=other))
    length_s = 2.0 ** (22 + (other - 1) // 2) / 1e9 if other else None
    node.play(40, length_s=length_s)
    saved = energy_of(tmp_path, node.end())["saved"]
    assert saved["percent"] == pytest.approx(100 * (1 - 0.9 * 1.005), abs=saved["error"]) and saved["error"] < 2.5


def test_a_rank_that_hardly_sleeps_has_no_say(tmp_path: Path) -> None:
    """The slowest one of all, whose rare waits tell of other looks."""
    node = Node(tmp_path, rank(0))
    node.segment.write_bytes(segment(rank(0), rank(1, look=TOLD + 5)))
    node.play(30)
    assert energy_of(tmp_path, node.end())["saved"]["percent"] == pytest.approx(100 * (1 - 0.9 * 1.005), abs=0.1)


def test_a_job_that_sleeps_in_vain_has_saved_nothing(tmp_path: Path) -> None:
    """It takes 0.5 % more, since its steps are longer."""
    node = Node(tmp_path, rank(0), rank(1), beside_w=100.0)
    node.play(30)
    saved = energy_of(tmp_path, node.end())["saved"]
    assert saved["percent"] == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize(("changes", "why"), [
    ({"cores": 2}, "shared with other jobs"),
    ({"in_looks": 0.4}, "ranks slept in looks"),
])
def test_why_it_is_not_known(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    node = Node(tmp_path, rank(0), rank(1), **changes)
    node.play(25)
    energy = energy_of(tmp_path, node.end())
    assert "saved" not in energy and energy["saved_why"] == why


def test_strict_looks_tell_of_a_job_whose_waits_are_long(tmp_path: Path) -> None:
    """It sleeps in the others."""
    node = Node(tmp_path, rank(0), rank(1), in_looks=0.4)

    def meanwhile(look: int) -> None:
        node.in_looks = 0.0 if look % 4 == 2 else 0.4

    node.play(96, meanwhile)
    saved = energy_of(tmp_path, node.end())["saved"]
    assert saved["percent"] == pytest.approx(100 * (1 - 0.9 * 1.005), abs=saved["error"]) and saved["error"] < 2.5
    assert 20 <= saved["looks"] <= 24 and "at_least" not in saved


def test_few_looks_tell_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, rank(0), rank(1))
    node.play(12)
    energy = energy_of(tmp_path, node.end())
    assert "saved" not in energy and energy["saved_why"] == "too few looks"


@pytest.mark.parametrize("ranks", [
    [rank(0), rank(1, slowdown_ppm=0)],
    [rank(0), rank(1, launch=SEED + 1)],
    [rank(0, look=2**64 - 1), rank(1, look=2**64 - 1)],
    [rank(0, look=0), rank(1, look=0)],
    [rank(0), rank(1, look=2**64 - 1)],
    [],
])
def test_ranks_that_do_not_look_together_tell_nothing(tmp_path: Path, ranks: list[bytes]) -> None:
    node = Node(tmp_path, *ranks)
    node.play(5)
    record = node.end()
    assert "saving" not in record


def test_looks_in_which_a_rank_looks_otherwise_are_left_out(tmp_path: Path) -> None:
    """Its level rises for the time of every second look."""
    node = Node(tmp_path, rank(0), rank(1))
    node.play(24, lambda index: node.tell(TOLD + 2 * (index % 2)))
    record = node.end()
    assert record["saving"] == {"why": "too few looks"}


def test_dear_readings_are_rare(tmp_path: Path) -> None:
    """Of 1 ms each time that the CPU's clock is looked at, 8 ms for a look: then 8 s pass before the next one."""
    node = Node(tmp_path, rank(0), rank(1), cpu_ms=1)
    node.play(30)
    node.go(node.now_s + 1, False)
    (path,) = (tmp_path / "run").glob("*/7/step.0.json")
    saving = json.loads(path.read_text())["saving"]
    assert 4 <= len(saving["pairs"]) <= 10
    node.end()


def test_nodes_are_added_up(tmp_path: Path) -> None:
    """Their errors, too: they look at the same time. A node of which nothing is known is said to be missing."""
    wait = node_record()["steps"][0]["wait"] | {"cost": {"slept_us": 10**7, "more_us": 10**5, "deviation_us": 10**4,
                                                         "windows": 50, "slowdown_ppm": 10_000}}
    steps = [node_record()["steps"][0] | {"wait": wait}]
    sayings = [KNOWN, KNOWN | {"looks": 50, "at_least": True}, {"why": "too few looks"}]
    records = [node_record(f"c{index}", "c[0-2]", saving=saving, steps=steps) for index, saving in enumerate(sayings)]
    saved = merge(tmp_path, records)["energy"]["saved"]
    assert saved == {"percent": 9.1, "error": 0.54, "looks": 50, "look_w": 400, "beside_w": 360, "at_least": True,
                     "nodes": 2}


def test_joules_by_different_counters_have_no_saving(tmp_path: Path) -> None:
    """One node has powercap's, the other Cray's, which count more than what looks read."""
    energy = {"source": "rapl", "gaps": 0, "zones_uj": {"package": 200_000_000}}
    board = {"source": "cray", "gaps": 0, "zones_uj": {"psys": 200_000_000}}
    wait = node_record()["steps"][0]["wait"] | {"cost": {"slept_us": 10**7, "more_us": 10**5, "deviation_us": 10**4,
                                                         "windows": 50, "slowdown_ppm": 10_000}}
    steps = [node_record()["steps"][0] | {"wait": wait}]
    records = [node_record("c0", "c[0-1]", saving=KNOWN, steps=steps, energy=energy),
               node_record("c1", "c[0-1]", saving=KNOWN, steps=steps, energy=energy)]
    assert "saved" in merge(tmp_path, records)["energy"]
    records[1] = node_record("c1", "c[0-1]", steps=steps, energy=board)
    told = merge(tmp_path, records)["energy"]
    assert told["source"] == "mixed" and "saved" not in told
    assert told["saved_why"] == "the joules are by other counters"


def test_where_no_steps_were_compared_power_alone_says_nothing(tmp_path: Path) -> None:
    energy = merge(tmp_path, [node_record(saving=KNOWN)])["energy"]
    assert "saved" not in energy and energy["saved_why"] == "no periods were compared"


@pytest.mark.parametrize("saving", [
    7,
    {},
    {"why": 7},
    {"why": "x" * 65},
    {"why": "\u001b[31m"},
    KNOWN | {"looks": 0},
    KNOWN | {"looks": -1},
    KNOWN | {"look_mw": 0},
    KNOWN | {"look_mw": 10**13},
    KNOWN | {"beside_mw": 1.5},
    KNOWN | {"error_mw": -1},
    KNOWN | {"at_least": False},
])
def test_hostile_savings_count_as_absent(tmp_path: Path, saving: Any) -> None:
    assert left_out(tmp_path, node_record(saving=saving)) == '"saving"'
