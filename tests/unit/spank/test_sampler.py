"""The sampler and the node's accumulator: shared by all who sample, readable after an update, and cheap."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.lib.record_tools import BUILD, ZONE, driver, set_energy, show_powercap, two_packages, write_zone, zones

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount namespace")
SAMPLER_COST = BUILD / "tests/bench/programs/sampler_cost"


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    return two_packages(tmp_path)


def test_accumulator_is_shared_and_survives_damage(powercap: Path, tmp_path: Path) -> None:
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("update", root, namespace=namespace)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    assert zones(driver("update", root, namespace=namespace))[0]["total_uj"] == 2_000_000
    for damage in (
        "",
        "{",
        '{"v": 2}',
        '{"v":1,"boot":"x","source":"rapl","begun_ns":0,"at_ns":0,"wrap_ns":0,"zones":[{}]}',
    ):
        (root / "c1/energy").write_text(damage)
        assert zones(driver("update", root, namespace=namespace))[0]["total_uj"] == 0
    assert (root / "c1").stat().st_mode & 0o777 == 0o700


def test_what_0_1_left_is_read(powercap: Path, tmp_path: Path) -> None:
    """Objects instead of rows, and less in them."""
    root, namespace = tmp_path / "run", show_powercap(powercap)
    snapshot = driver("update", root, namespace=namespace)
    snapshot["zones"] = [{key: zone[key] for key in ZONE[:-2]} for zone in zones(snapshot)]
    (root / "c1/energy").write_text(json.dumps(snapshot))
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    zone = zones(driver("update", root, namespace=namespace))[0]
    assert (zone["total_uj"], zone["gaps"]) == (2_000_000, 0)


def test_samplers_of_one_node_do_not_count_twice(powercap: Path, tmp_path: Path) -> None:
    """A sampler remembers what it wrote: not where somebody else has written since."""
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, namespace=namespace)
    running = [
        threading.Thread(target=driver, args=("step", root, 7, step, 4000, 1), kwargs={"namespace": namespace})
        for step in (0, 1)
    ]
    for thread in running:
        thread.start()
    for step in range(8):
        time.sleep(0.45)
        set_energy(powercap, "intel-rapl:0", 2_000_000 + step * 1_000_000)
        if step % 3 == 2:
            driver("update", root, namespace=namespace)
    for thread in running:
        thread.join()
    zone = zones(driver("update", root, namespace=namespace))[0]
    assert (zone["total_uj"], zone["gaps"]) == (8_000_000, 0)


def many_zones(tmp_path: Path) -> str:
    """200 zones of 50 packages."""
    tree = tmp_path / "powercap"
    for package in range(50):
        folder = tree / f"intel-rapl/intel-rapl:{package}"
        write_zone(folder, f"package-{package}", 1_000_000)
        for index, name in enumerate(("core", "uncore", "dram")):
            write_zone(folder / f"intel-rapl:{package}:{index}", name, 1_000_000, power_uw=None)
    return show_powercap(tree)


def test_many_zones_need_few_descriptors(tmp_path: Path) -> None:
    """Few open files, although libpowercap opens ten for each zone and writes instance 10 as "a"."""
    namespace = many_zones(tmp_path) + "\nulimit -n 300"
    assert len(driver("update", tmp_path / "run", namespace=namespace)["zones"]) == 200


def test_what_the_sampler_costs(tmp_path: Path) -> None:
    """A whole tick, of 200 zones every second, beside what reading their counters alone must cost."""
    if not SAMPLER_COST.exists():
        pytest.skip(f"not built: {SAMPLER_COST}")
    root = tmp_path / "run"
    root.mkdir()
    namespace = f"mount -t tmpfs -o mode=755 none {root}\n" + many_zones(tmp_path)
    command = ["unshare", "-m", "sh", "-ec", f'{namespace}\nexec "$@"', "sh", str(SAMPLER_COST), root, "6", "fast", "0"]
    tick_us = read_us = 1e9
    for _ in range(3):
        environment = os.environ | {"SLURMD_NODENAME": "c1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        _, cpu_s, ticks, count, once_us = (float(word) for word in done.stdout.split())
        assert count == 200 and ticks > 0
        tick_us, read_us = min(tick_us, cpu_s / ticks * 1e6), min(read_us, once_us)
    print(f"{tick_us:.0f} us a tick, {tick_us / 1e4:.3f} % of a core; {read_us:.0f} us to read")
    assert tick_us < 15 * read_us
