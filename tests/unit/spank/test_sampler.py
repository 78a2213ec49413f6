"""The sampler and the node's accumulator: shared by all who sample, readable after an update, and cheap."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from tests.lib.record_tools import (
    ZONE,
    Elsewhere,
    Ticks,
    driver,
    set_energy,
    show_powercap,
    two_packages,
    write_zone,
    zones,
)

NOW_S = 1_700_000_000.0


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    return two_packages(tmp_path)


def test_accumulator_is_shared_and_survives_damage(powercap: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("update", root, elsewhere=elsewhere)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    assert zones(driver("update", root, elsewhere=elsewhere))[0]["total_uj"] == 2_000_000
    for damage in (
        "",
        "{",
        '{"v": 2}',
        '{"v":1,"boot":"x","source":"rapl","begun_ns":0,"at_ns":0,"wrap_ns":0,"zones":[{}]}',
    ):
        (root / "c1/energy").write_text(damage)
        assert zones(driver("update", root, elsewhere=elsewhere))[0]["total_uj"] == 0
    assert (root / "c1").stat().st_mode & 0o777 == 0o700


def test_what_0_1_left_is_read(powercap: Path, tmp_path: Path) -> None:
    """Objects instead of rows, and less in them."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    snapshot = driver("update", root, elsewhere=elsewhere)
    snapshot["zones"] = [{key: zone[key] for key in ZONE[:-2]} for zone in zones(snapshot)]
    (root / "c1/energy").write_text(json.dumps(snapshot))
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    zone = zones(driver("update", root, elsewhere=elsewhere))[0]
    assert (zone["total_uj"], zone["gaps"]) == (2_000_000, 0)


def test_samplers_of_one_node_do_not_count_twice(powercap: Path, tmp_path: Path) -> None:
    """A sampler remembers what it wrote: not where somebody else has written since."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with Ticks(root, 7, 0, elsewhere, NOW_S) as first, Ticks(root, 7, 1, elsewhere, NOW_S + 0.1) as second:
        for second_number in range(1, 9):
            set_energy(powercap, "intel-rapl:0", 1_000_000 + second_number * 1_000_000)
            first.at(NOW_S + second_number)
            second.at(NOW_S + second_number + 0.1)
            if second_number % 3 == 2:
                driver("update", root, elsewhere=elsewhere, now_s=NOW_S + second_number + 0.2)
        for step in (first, second):
            step.at(NOW_S + 8.5)
    zone = zones(driver("update", root, elsewhere=elsewhere, now_s=NOW_S + 9))[0]
    assert (zone["total_uj"], zone["gaps"]) == (8_000_000, 0)


def test_one_of_many_steps_reads_and_writes_the_accumulator(powercap: Path, tmp_path: Path) -> None:
    """The others, without ranks, take its sample; and each has the counters of its own begin and end."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with contextlib.ExitStack() as stack:
        starts = [NOW_S + step / 10 for step in range(5)]
        steps = [stack.enter_context(Ticks(root, 7, step, elsewhere, start)) for step, start in enumerate(starts)]
        for second in range(1, 5):
            set_energy(powercap, "intel-rapl:0", 1_000_000 + second * 1_000_000)
            reads = [step.at(start + second)[1] for step, start in zip(steps, starts)]
            assert sorted(reads) == [0, 0, 0, 0, 5], f"second {second}"
        for step in steps:
            step.at(NOW_S + 4.9)
        set_energy(powercap, "intel-rapl:0", 9_000_000)
    for number in range(5):
        ends = json.loads((root / f"c1/7/step.{number}.json").read_text())
        assert zones(ends["to"])[0]["total_uj"] - zones(ends["from"])[0]["total_uj"] == 8_000_000


def many_zones(tmp_path: Path, packages: int = 50) -> Elsewhere:
    """Four zones of each package."""
    tree = tmp_path / f"powercap-{packages}"
    for package in range(packages):
        folder = tree / f"intel-rapl/intel-rapl:{package}"
        write_zone(folder, f"package-{package}", 1_000_000)
        for index, name in enumerate(("core", "uncore", "dram")):
            write_zone(folder / f"intel-rapl:{package}:{index}", name, 1_000_000, power_uw=None)
    return show_powercap(tree)


def test_many_zones_need_few_descriptors(tmp_path: Path) -> None:
    """One open file for each, although libpowercap knows ten and writes instance 10 as "a"."""
    assert len(driver("update", tmp_path / "run", elsewhere=many_zones(tmp_path), files=300)["zones"]) == 200


def calls_of_ticks(tmp_path: Path, packages: int, ticks: int) -> list[tuple[int, int]]:
    root, elsewhere = tmp_path / f"run-{packages}", many_zones(tmp_path, packages)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with Ticks(root, 7, 0, elsewhere, NOW_S) as step:
        step.at(NOW_S + 1)
        return [step.at(NOW_S + 2 + tick) for tick in range(ticks)]


def test_a_tick_reads_each_counter_once_and_opens_none(tmp_path: Path) -> None:
    """What it opens are its own few files: as many with 200 zones as with 4. Its time is measured by a benchmark."""
    few, many = calls_of_ticks(tmp_path, 1, 5), calls_of_ticks(tmp_path, 50, 5)
    assert [reads for _, reads in few] == [4] * 5 and [reads for _, reads in many] == [200] * 5
    assert [opens for opens, _ in few] == [opens for opens, _ in many]
    assert max(opens for opens, _ in many) <= 8
