"""The accumulator against the simulated node's model: the real code on the model's counters, the clock as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import Elsewhere, driver, show_processors
from tests.lib.simnode.model import Model, Options

POWER_UW = 150_000_000
KINDS = {"core": "core", "dram": "dram", "psys": "psys"}

Change = Callable[[Model], None]


class Sampled:
    """A model whose time passes as told, and what a sampler saw of it."""

    def __init__(self, tmp_path: Path, **options: Any) -> None:
        self.model = Model(Options(**options))
        self.path = tmp_path / "samples.json"
        self.now_s = 0.0
        self.samples: list[dict[str, Any]] = []
        self.sample()

    def run(self, seconds: float, busy: float = 0.0) -> None:
        """Time in which CPU 0, of package 0, works that part of it."""
        self.now_s += seconds
        self.model.advance(seconds, {0: (busy * seconds, 1.0)})

    def sample(self, damage: Callable[[dict[str, Any]], None] | None = None) -> None:
        zones = []
        for path, zone in self.model.zones.items():
            range_uj = self.model.options.range_uj
            zones.append(
                {
                    "name": zone.name,
                    "kind": KINDS.get(zone.name, "package"),
                    "instance": int(path.split(":")[1]),
                    "energy_uj": zone.shown_uj(range_uj),
                    "range_uj": range_uj,
                    "power_max_uw": POWER_UW,
                }
            )
            if damage:
                damage(zones[-1])
        self.samples.append({"at_s": self.now_s, "zones": zones})

    def every(self, interval: float, seconds: float, busy: float = 0.0) -> None:
        for _ in range(round(seconds / interval)):
            self.run(interval, busy)
            self.sample()

    def window(self, cores: int = 4, total: int = 4, cpus: str = "", elsewhere: Elsewhere | None = None,
               usable: str = "") -> Any:
        self.path.write_text(json.dumps(self.samples))
        return driver("samples", self.path, cores, total, cpus, usable, elsewhere=elsewhere)

    def differences_j(self, window: dict[str, Any]) -> Iterator[tuple[str, float]]:
        for path, zone in self.model.zones.items():
            name = f"{path.split(':')[1]}/{zone.name}"
            yield name, abs(window["zones"][name]["used_uj"] - zone.total_uj) / 1e6


def is_whole(sampled: Sampled, window: dict[str, Any]) -> bool:
    problems = [zone for zone in window["zones"].values() if zone["gaps"] or zone["why"]]
    return not problems and all(wrong <= 1 for _, wrong in sampled.differences_j(window))


def test_more_zones_than_there_is_room_for(tmp_path: Path) -> None:
    """Zones that come and go may be more than any machine has at once: the first ones are kept."""
    samples = [
        {"at_s": 1.0 + second, "zones": [
            {"name": f"package-{number}", "kind": "package", "instance": number, "energy_uj": 1000 * second,
             "range_uj": 10**9, "power_max_uw": POWER_UW}
            for number in range(200 * second, 200 * second + 200)]}
        for second in (0, 1)
    ]
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(samples))
    window = driver("samples", path, 4, 4, "")
    assert {"0/package-0", "255/package-255"} <= set(window["zones"]) and len(window["zones"]) == 256


def test_one_second(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 1, busy=1)
    window = sampled.window()
    assert is_whole(sampled, window)
    assert window["all_uj"] == pytest.approx(2 * 23e6 + 32e6, abs=1e6)


def test_ten_minutes_with_fifty_wraps(tmp_path: Path) -> None:
    """20 W idle and 30 W of work fill 600 J fifty times; at its most the zone would take 4 s."""
    sampled = Sampled(tmp_path, range_uj=600_000_000, start_uj=599_000_000)
    sampled.every(1.3, 600, busy=1)
    assert sampled.model.zones["intel-rapl:0"].total_uj > 49 * 600e6
    assert is_whole(sampled, sampled.window())


def test_a_pause_of_half_a_wrap_loses_nothing(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path, range_uj=600_000_000, start_uj=400_000_000)
    sampled.every(1, 5)
    sampled.run(2, busy=1)
    sampled.every(1, 5)
    assert is_whole(sampled, sampled.window())


def test_a_pause_of_two_wraps_is_a_gap_and_nothing_is_guessed(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path, range_uj=600_000_000)
    sampled.every(1, 5)
    before = {path: zone.total_uj for path, zone in sampled.model.zones.items()}
    sampled.run(60)
    sampled.sample()
    lost = {path: zone.total_uj - before[path] for path, zone in sampled.model.zones.items()}
    assert lost["intel-rapl:0"] == 2 * 600e6
    sampled.every(1, 5)
    window = sampled.window()
    for path, zone in sampled.model.zones.items():
        seen = window["zones"][f"{path.split(':')[1]}/{zone.name}"]
        assert seen["gaps"] == 1
        assert seen["used_uj"] == pytest.approx(zone.total_uj - lost[path], abs=1e6)


def test_a_counter_that_begins_anew_is_no_wrap(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path, start_uj=5_000_000_000)
    sampled.every(1, 5)
    sampled.model.reset("intel-rapl:0")
    sampled.every(1, 5)
    window = sampled.window()
    assert window["zones"]["0/package-0"]["gaps"] == 1
    assert window["zones"]["0/package-0"]["used_uj"] == pytest.approx(9 * 20e6, abs=1e6)
    assert window["zones"]["1/package-1"] == {
        "used_uj": 200_000_000,
        "gaps": 0,
        "why": "",
        "share": 1,
    }


def test_a_zone_that_vanishes_is_named_and_keeps_what_it_had(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 5)
    sampled.model.remove("intel-rapl:1")
    sampled.every(1, 5)
    window = sampled.window()
    gone = window["zones"]["1/package-1"]
    assert (gone["why"], gone["gaps"], gone["used_uj"]) == ("vanished", 1, 100_000_000)
    assert window["zones"]["0/package-0"]["used_uj"] == 200_000_000


def test_a_zone_that_comes_back_counts_from_there(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 5)
    gone = sampled.model.zones.pop("intel-rapl:0")
    sampled.every(1, 5)
    sampled.model.zones["intel-rapl:0"] = gone
    sampled.every(1, 5)
    seen = sampled.window()["zones"]["0/package-0"]
    assert (seen["why"], seen["gaps"]) == ("", 1)
    assert seen["used_uj"] == pytest.approx(5 * 20e6 + 4 * 20e6, abs=1e6)


@pytest.mark.parametrize("energy", ["beyond its range", "impossible"])
def test_nonsense_is_left_out_and_named(tmp_path: Path, energy: str) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 5)
    for index in range(4):
        value = {
            "beyond its range": sampled.model.options.range_uj + 1,
            "impossible": 50_000_000_000 * (1 + index % 2),
        }[energy]

        def damage(zone: dict[str, Any], value: int = value) -> None:
            if zone["name"] == "package-0":
                zone["energy_uj"] = value

        sampled.run(1)
        sampled.sample(damage)
    window = sampled.window()
    assert window["zones"]["0/package-0"]["why"] == "nonsense"
    assert window["zones"]["0/package-0"]["gaps"] >= 1
    assert window["zones"]["0/package-0"]["used_uj"] == 100_000_000
    assert window["zones"]["1/package-1"]["used_uj"] == 180_000_000


def test_a_package_that_stands_still_is_named(tmp_path: Path) -> None:
    """A core zone may rest; a package that runs cannot."""
    sampled = Sampled(tmp_path, package_idle_w=0.0)
    sampled.every(1, 12, busy=0)
    zones = sampled.window()["zones"]
    assert (zones["0/package-0"]["why"], zones["0/package-0"]["gaps"]) == ("stopped", 1)
    assert (zones["0/core"]["why"], zones["2/psys"]["why"]) == ("", "")
    sampled.every(1, 3, busy=1)
    assert sampled.window()["zones"]["0/package-0"]["why"] == ""


@pytest.fixture
def two_packages(tmp_path: Path) -> Elsewhere:
    """Eight processors in two packages: 0-3 and 4-7."""
    tree = tmp_path / "cpu"
    for cpu in range(8):
        (tree / f"cpu{cpu}/topology").mkdir(parents=True)
        (tree / f"cpu{cpu}/topology/physical_package_id").write_text(f"{cpu // 4}\n")
    (tree / "online").write_text("0-7\n")
    return show_processors(tree)


def test_two_packages_of_which_the_job_has_one(tmp_path: Path, two_packages: Elsewhere) -> None:
    """Package 0 works; the job on package 1 has none of that."""
    sampled = Sampled(tmp_path)
    sampled.every(1, 10, busy=1)
    working = sampled.window(4, 8, "0-3", two_packages)
    resting = sampled.window(4, 8, "4-7", two_packages)
    assert working["own_uj"] == pytest.approx(10 * (20 + 30 + 3 + 2) * 1e6, abs=1e6)
    assert resting["own_uj"] == pytest.approx(10 * (20 + 3) * 1e6, abs=1e6)
    assert working["zones"]["0/dram"]["share"] == 1 and working["zones"]["1/dram"]["share"] == 0
    assert working["zones"]["2/psys"]["share"] == 0.5


@pytest.mark.parametrize(
    "jobs", [(("0-3", 4), ("4-7", 4)), (("0-1", 2), ("2-7", 6)), (("0,2,4", 3), ("1,3,5-7", 5))]
)
def test_shares_of_jobs_that_fill_the_node_add_up(
    tmp_path: Path, two_packages: Elsewhere, jobs: tuple[tuple[str, int], ...]
) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 10, busy=1)
    windows = [sampled.window(cores, 8, cpus, two_packages) for cpus, cores in jobs]
    assert sum(window["own_uj"] for window in windows) == pytest.approx(windows[0]["all_uj"], rel=0.01)


@pytest.mark.parametrize(("usable", "jobs"), [
    ("0-2,4-6", (("0-2", 3), ("4-6", 3))),
    ("0-2,4-7", (("0,4", 2), ("1-2,5-7", 5))),
    ("0-3", (("0", 1), ("1-3", 3))),
    ("1-7", (("0-3", 4), ("4-7", 4))),
])
def test_jobs_that_have_all_that_jobs_can_have_add_up(
    tmp_path: Path, two_packages: Elsewhere, usable: str, jobs: tuple[tuple[str, int], ...]
) -> None:
    """Cores that Slurm keeps from jobs are in nobody's part; a package that it keeps wholly is shared by all jobs. The
    last job was let have one of them."""
    sampled = Sampled(tmp_path)
    sampled.every(1, 10, busy=1)
    total = sum(count for _, count in jobs)
    windows = [sampled.window(count, total, cpus, two_packages, usable) for cpus, count in jobs]
    assert sum(window["own_uj"] for window in windows) == pytest.approx(windows[0]["all_uj"], rel=0.01)


def test_shares_on_a_partly_idle_node_leave_a_rest(tmp_path: Path, two_packages: Elsewhere) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 10)
    windows = [sampled.window(2, 8, cpus, two_packages) for cpus in ("0-1", "4-5")]
    assert sum(window["own_uj"] for window in windows) == pytest.approx(windows[0]["all_uj"] / 2, rel=0.01)


def test_a_die_has_its_own_cores(tmp_path: Path, two_packages: Elsewhere) -> None:
    for cpu in range(8):
        (tmp_path / f"cpu/cpu{cpu}/topology/die_id").write_text(f"{cpu // 2 % 2}\n")
    sampled = Sampled(tmp_path)
    sampled.model.zones["intel-rapl:0"].name = "package-0-die-0"
    sampled.model.zones["intel-rapl:1"].name = "package-0-die-1"
    sampled.samples.clear()
    sampled.sample()
    sampled.every(1, 2)
    zones = sampled.window(2, 8, "2-3", two_packages)["zones"]
    assert (zones["0/package-0-die-0"]["share"], zones["1/package-0-die-1"]["share"]) == (0, 1)


def test_dies_of_one_counter_share_the_package_s_cores(tmp_path: Path, two_packages: Elsewhere) -> None:
    """The one counter that counts is the whole package's, not its die's. Where the second counter goes its own way it
    counts from there, after a gap."""
    for cpu in range(8):
        (tmp_path / f"cpu/cpu{cpu}/topology/die_id").write_text(f"{cpu // 2 % 2}\n")

    def mirror(zone: dict[str, Any]) -> None:
        zone["mirror"] = zone["name"] == "package-0-die-1"

    sampled = Sampled(tmp_path)
    for die in (0, 1):
        sampled.model.zones[f"intel-rapl:{die}"].name = f"package-0-die-{die}"
    sampled.samples.clear()
    for _ in range(3):
        sampled.run(1)
        sampled.sample(mirror)
    window = sampled.window(2, 8, "2-3", two_packages)
    first, second = (window["zones"][f"{die}/package-0-die-{die}"] for die in (0, 1))
    assert (first["share"], first["used_uj"]) == (0.5, 40_000_000)
    assert (second["used_uj"], second["gaps"], second["why"]) == (0, 0, "")
    sampled.every(1, 2)
    assert sampled.window()["zones"]["1/package-0-die-1"] == {"used_uj": 20_000_000, "gaps": 1, "why": "", "share": 1}


def test_without_the_jobs_processors_its_part_of_the_cores_holds(tmp_path: Path) -> None:
    sampled = Sampled(tmp_path)
    sampled.every(1, 10, busy=1)
    assert sampled.window(1, 4)["own_uj"] == pytest.approx(sampled.window()["all_uj"] / 4, rel=0.01)
    assert "own_uj" not in sampled.window(0, 4)
