"""Power over time: from a sampler's ticks to the job's record, over nodes that begin and end when they like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import Ticks, driver, node_record, set_energy, show_powercap, two_packages
from tests.lib.records import left_out, merge

BEGIN = 1_700_000_000.0


def node(name: str, power: Any, begin: float = 0, end: float = 40, **changes: Any) -> dict[str, Any]:
    """A node that used 10 J in every second, 1 in 10 of it memory's."""
    joules = 10 * (end - begin)
    energy = {"source": "simulated", "gaps": 0, "zones_uj": {"package": joules * 9e5, "dram": joules * 1e5}}
    energy["zones_uj"] = {kind: round(value) for kind, value in energy["zones_uj"].items()}
    record = node_record(name, "c[1-2]", energy=energy, start_s=BEGIN + begin, end_s=BEGIN + end, **changes)
    return record | ({} if power is None else {"power_mw": power})


def power_of(tmp_path: Path, *nodes: dict[str, Any]) -> Any:
    return merge(tmp_path, list(nodes))["energy"].get("power_w")


def test_nodes_are_added_up(tmp_path: Path) -> None:
    first, second = node("c1", [5000, 15000, 10000, 10000]), node("c2", [10000] * 4)
    assert power_of(tmp_path, first, second) == [15, 25, 20, 20]


def test_a_node_that_was_not_sampled_counts_with_its_mean(tmp_path: Path) -> None:
    record = merge(tmp_path, [node("c1", [5000, 15000]), node("c2", None)])["energy"]
    assert record["power_w"] == [15, 25] and sum(record["power_w"]) * 20 == record["joules"]


@pytest.mark.parametrize("power", [None, []])
def test_nothing_sampled_nothing_said(tmp_path: Path, power: list[int | None] | None) -> None:
    assert power_of(tmp_path, node("c1", power), node("c2", power)) is None


def test_nodes_begin_and_end_when_they_like(tmp_path: Path) -> None:
    """The second came 20 s later and left 10 s earlier, with fewer parts."""
    whole, part = node("c1", [10000] * 8, 0, 80), node("c2", [20000, 4000, 6000], 20, 50)
    assert power_of(tmp_path, whole, part) == [10, 10, 30, 14, 16, 10, 10, 10]
    assert power_of(tmp_path, node("c1", [10000] * 2, 0, 10), node("c2", [10000] * 4, 30, 40)) == [10, None, None, 10]


def test_a_gap_is_never_guessed(tmp_path: Path) -> None:
    first, second = node("c1", [5000, None, 10000, 10000]), node("c2", [10000] * 4)
    assert power_of(tmp_path, first, second) == [15, None, 20, 20]
    assert power_of(tmp_path, node("c1", [None, None])) is None


def test_of_a_shared_node_the_jobs_part(tmp_path: Path) -> None:
    shared = node("c1", [5000, 15000, 10000, 10000], cores=1)
    assert power_of(tmp_path, shared) == [1.3, 3.8, 2.5, 2.5]
    shared["energy"]["own_uj"] = 40_000_000
    assert power_of(tmp_path, shared) == [0.5, 1.5, 1, 1]


def test_the_area_is_the_energy(tmp_path: Path) -> None:
    """The node's clock was read a little before its first sample and a little after its last."""
    assert power_of(tmp_path, node("c1", [20800, 10400, 0, 10400])) == [20, 10, 0, 10]


def test_what_has_no_energy_has_no_power(tmp_path: Path) -> None:
    assert merge(tmp_path, [node("c1", [1, 2]) | {"energy": None}])["energy"] is None
    unknown = merge(tmp_path, [node("c1", [1, 2], cores=0), node("c2", [8000, 12000])])["energy"]
    assert unknown["power_w"] == [8, 12] and unknown["nodes"] == 1


@pytest.mark.parametrize(
    "power",
    [7, "x", {}, [1] * 65, [-1, 1], [1.5, 2], ["1", 1], [True, 1], [10**12 + 1, 1], [2**63 - 1, 1], [[1], 1]],
    ids=str,
)
def test_what_no_node_writes_counts_as_absent(tmp_path: Path, power: Any) -> None:
    assert left_out(tmp_path, node("c1", power)) == '"power_mw"'


def test_extremes_stay_a_record(tmp_path: Path) -> None:
    """The largest values, times of no length, and of three thousand years."""
    most = [10**12] * 64
    for begin, end in ((0, 0), (0, 1e-6), (-BEGIN, 9e10), (0, 1e5)):
        merge(tmp_path, [node("c1", most) | {"start_s": BEGIN + begin, "end_s": BEGIN + end}, node("c2", [0, None])])


def test_from_the_sampler_to_the_nodes_record(tmp_path: Path) -> None:
    """Counters that run fast, then slowly: 20 W of each package for three seconds, and 2 W for three more."""
    powercap, root, used_uj = two_packages(tmp_path), tmp_path / "run", 10_000_000
    elsewhere = show_powercap(powercap)
    for package in (0, 1):
        set_energy(powercap, f"intel-rapl:{package}", used_uj)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=BEGIN)
    with Ticks(root, 7, 0, elsewhere, BEGIN) as step:
        for second in range(1, 7):
            used_uj += 20_000_000 if second <= 3 else 2_000_000
            for package in (0, 1):
                set_energy(powercap, f"intel-rapl:{package}", used_uj)
            step.at(BEGIN + second)
    points = json.loads((root / "c1/7/step.0.json").read_text())["power"]
    assert len(points) > 5 and points == sorted(points) and all(point[3] for point in points)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere, now_s=BEGIN + 6)
    record = json.loads(next((tmp_path / "out").glob("*.c1.json")).read_text())
    watts = [milliwatts / 1000 for milliwatts in record["power_mw"]]
    assert watts == [40, 40, 40, 4, 4, 4]
    assert record["end_s"] - record["start_s"] == 6
    assert sum(record["energy"]["zones_uj"][kind] for kind in ("package", "dram")) == 132_000_000
    assert merge(tmp_path, [record])["energy"]["power_w"] == watts
