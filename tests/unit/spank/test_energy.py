"""Energy counters to node record: real code on counters that the test writes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import (
    BOOTED_S,
    NO_POWERCAP,
    Elsewhere,
    Ticks,
    driver,
    run,
    set_energy,
    show_powercap,
    show_processors,
    two_packages,
    write_zone,
    zones,
)
from tests.lib.segments import segment, slot

NOW_S = 1_700_000_000.0


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    return two_packages(tmp_path)


def test_every_zone_is_read(powercap: Path, tmp_path: Path) -> None:
    snapshot = driver("update", tmp_path / "run", elsewhere=show_powercap(powercap))
    assert snapshot["source"] == "simulated"
    assert [(zone["name"], zone["kind"], zone["instance"]) for zone in zones(snapshot)] == [
        ("package-0", "package", 0),
        ("dram", "dram", 0),
        ("package-1", "package", 1),
        ("dram", "dram", 1),
        ("psys", "psys", 2),
    ]
    (powercap / "SIMULATED").unlink()
    assert driver("update", tmp_path / "run", elsewhere=show_powercap(powercap))["source"] == "rapl"


def test_no_powercap(tmp_path: Path) -> None:
    done = run("driver", "update", tmp_path / "run", elsewhere=NO_POWERCAP)
    assert json.loads(done.stdout) == {"code": -19, "error": "no powercap zones"}
    assert done.stderr == ""


def test_programs_do_not_inherit_counters(powercap: Path) -> None:
    assert "energy_uj" not in run("driver", "leaks", elsewhere=show_powercap(powercap)).stdout


@pytest.mark.parametrize(
    ("samples", "total", "gaps"),
    [
        ([(0, 10), (1, 60)], 50, 0),
        ([(0, 990), (1, 20)], 30, 0),
        ([(0, 990), (1, 20), (2, 990), (3, 5)], 30 + 970 + 15, 0),
        ([(0, 10), (10, 60)], 0, 1),
        ([(0, 10), (10, 60), (11, 70)], 10, 1),
        ([(0, 10), (9.9, 5)], 995, 0),
    ],
)
def test_wraps_and_gaps(samples: list[tuple[float, int]], total: int, gaps: int) -> None:
    """Range 1000 uJ at 100 uW: from 10 s on a wrap may have gone unseen."""
    words = [word for sample in samples for word in sample]
    zone = zones(driver("add", 1000, 100, *words))[0]
    assert (zone["total_uj"], zone["gaps"]) == (total, gaps)


def test_job_of_a_damaged_accumulator_has_a_gap(powercap: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere)
    (root / "c1/energy").unlink()
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere)
    assert json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]["gaps"] == 1


def test_one_job_from_begin_to_end(powercap: Path, tmp_path: Path) -> None:
    """The node record has the energy between begin and end, and the step's waits; the state is gone."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    begun = time.monotonic_ns()
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 1, elsewhere=elsewhere)
    set_energy(powercap, "intel-rapl:0", 5_000_000)
    path = tmp_path / "segment"
    path.write_bytes(
        segment(
            slot(1, 2, 2_000_000, asleep_ns=1_000_000, start=begun + 10**9, end=begun + 2 * 10**9)
        )
    )
    threads = driver("step", root, 7, 0, 100, 0, path, elsewhere=elsewhere)
    assert threads == {"meanwhile": 2, "after": 1, "apart": True}
    done = driver("finish", root, 7, tmp_path / "out", "/bin/true", elsewhere=elsewhere)
    assert done == {"code": 0, "error": "", "child": False}
    record = json.loads((tmp_path / "out/test-7-1.c1.json").read_text())
    assert record["energy"] == {
        "source": "simulated",
        "gaps": 0,
        "zones_uj": {"package": 4_000_000, "dram": 0, "psys": 0},
        "dropped": [],
        "own_uj": 2_000_000,
    }
    assert (record["cores"], record["cores_total"], record["node"]) == (2, 4, "c1")
    assert record["steps"][0]["wait"]["ranks"] == [[1, 2000, 1000]]
    assert record["steps"][0]["wait"]["calls"].keys() == {"MPI_Recv"}
    assert not (root / "c1/7").exists() and (root / "c1/energy").exists()


def test_killed_stepd_loses_one_interval(powercap: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    path = tmp_path / "segment"
    path.write_bytes(segment(slot(0, 1, 2_000_000, state=2, start=int((NOW_S - BOOTED_S) * 1e9))))
    with Ticks(root, 7, 3, elsewhere, NOW_S, segment=path, killed=True) as ticks:
        for passed_s in (1.0, 2.0, 2.6):
            ticks.at(NOW_S + passed_s)
    step = json.loads((root / "c1/7/step.3.json").read_text())
    assert step["wait"]["ranks"] == [[0, 2000, 0]]
    assert step["end_s"] - step["start_s"] == 2


def test_zones_that_vanish_are_named(powercap: Path, tmp_path: Path) -> None:
    """Package 1 goes for good; package 0's instance is asked for too although a number before psys is missing."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    set_energy(powercap, "intel-rapl:2", 12_000_000)
    shutil.rmtree(powercap / "intel-rapl/intel-rapl:1")
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere)
    energy = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]
    assert energy["dropped"] == [["package-1", "vanished"], ["package-1/dram", "vanished"]]
    assert energy["gaps"] == 1
    assert energy["zones_uj"] == {"package": 2_000_000, "dram": 0, "psys": 3_000_000}
    assert energy["own_uj"] == 2_000_000


def test_second_begin_fills_in_and_keeps_the_baseline(powercap: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 0, 0, "test", "", "nap", "", elsewhere=elsewhere)
    first = json.loads((root / "c1/7/job.json").read_text())
    for known in (2, 5):
        driver("begin", root, 7, 3, 8, "test", "c[1-2]", "yield", known, elsewhere=elsewhere)
    second = json.loads((root / "c1/7/job.json").read_text())
    assert second["baseline"] == first["baseline"] and second["start_s"] == first["start_s"]
    assert (second["cores"], second["cores_total"], second["nodes"], second["restart_count"]) == (
        3,
        8,
        "c[1-2]",
        2,
    )
    assert second["policy"]["asked"] == "nap"


def test_job_without_zones_says_why(tmp_path: Path) -> None:
    root = tmp_path / "run"
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP)
    driver("step", root, 7, 0, 10, 0, elsewhere=NO_POWERCAP)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=NO_POWERCAP)
    record = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())
    assert record["energy"] is None and record["energy_why"] == "no powercap zones"


def test_what_no_epilog_has_removed_goes_after_a_month(tmp_path: Path) -> None:
    """A node that crashed has no epilog of its jobs; the next job's begin looks for them."""
    root = tmp_path / "run"
    now_s = 1_700_000_000.0
    for job, days in ((5, 40), (6, 20), (7, 0)):
        then = now_s - days * 86400
        driver("begin", root, job, 4, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=then)
        os.utime(root / f"c1/{job}", (then, then))
    assert [(root / f"c1/{job}").exists() for job in (5, 6, 7)] == [False, True, True]


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "the first of the boot"])
def test_a_lock_that_somebody_holds_costs_no_energy(powercap: Path, tmp_path: Path, begun: bool) -> None:
    """From the job's begin to its end: the counters and the newest sample in the file are enough. Where there is no
    sample the job writes the first one without the lock, after two seconds."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    if begun:
        driver("update", root, elsewhere=elsewhere, now_s=NOW_S)
    else:
        (root / "c1").mkdir(0o700, parents=True)
    with (root / "c1/energy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S + 1)
        set_energy(powercap, "intel-rapl:0", 3_000_000)
        with Ticks(root, 7, 0, elsewhere, NOW_S + 4) as step:
            step.at(NOW_S + 5)
        driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere, now_s=NOW_S + 6)
    record = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())
    assert (record["energy_why"], record["energy"]["gaps"]) == ("", 0)
    assert record["energy"]["own_uj"] == 2_000_000


def test_a_lock_that_is_never_let_go_leaves_no_gap(powercap: Path, tmp_path: Path) -> None:
    """Memory's counters can go round in 65 s: well before that a sample is written in spite of the lock."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with (root / "c1/energy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for seconds in range(30, 210, 30):
            for zone, begin_j in enumerate((1, 1, 9)):
                set_energy(powercap, f"intel-rapl:{zone}", (begin_j + seconds) * 1_000_000)
            driver("update", root, elsewhere=elsewhere, now_s=NOW_S + seconds)
        driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere, now_s=NOW_S + 181)
    energy = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]
    assert (energy["gaps"], energy["own_uj"]) == (0, 360_000_000)


def test_a_gap_behind_a_begin_that_was_not_written(powercap: Path, tmp_path: Path) -> None:
    """Another process had the lock at the job's begin, and no step ran for an hour: the file's sum at the end is less
    than at the begin. What the node used before the job is not the job's."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    for seconds, energy_j in ((0, 1), (10, 500)):
        set_energy(powercap, "intel-rapl:0", energy_j * 1_000_000)
        driver("update", root, elsewhere=elsewhere, now_s=NOW_S + seconds)
    set_energy(powercap, "intel-rapl:0", 510_000_000)
    with (root / "c1/energy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S + 11)
    set_energy(powercap, "intel-rapl:0", 900_000_000)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere, now_s=NOW_S + 3611)
    energy = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]
    assert (energy["own_uj"], energy["gaps"]) == (0, 1)


def test_a_sample_that_another_process_overtakes(powercap: Path, tmp_path: Path) -> None:
    """Its counters are older than those that the other one has written meanwhile: no counter has gone back."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    snapshot = driver("update", root, elsewhere=elsewhere, now_s=NOW_S)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    snapshot["at_ns"] = int((NOW_S + 1 - BOOTED_S) * 1e9) + 500_000
    snapshot["zones"][0][3:5] = [3_500_000, 2_500_000]
    (tmp_path / "newer").write_text(json.dumps(snapshot))
    with (root / "c1/energy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        overtaken = driver("update", root, elsewhere=elsewhere, now_s=NOW_S + 1,
                           meanwhile=f"cp {tmp_path}/newer {root}/c1/energy")
    zone = zones(overtaken)[0]
    assert (zone["total_uj"], zone["gaps"], zone["problem"]) == (2_500_000, 0, 0)


def two_dies(tmp_path: Path, second_uj: int) -> Elsewhere:
    """A package whose dies have a zone each, with memory; the first one's counter stands at 70 J."""
    tree = tmp_path / f"dies-{second_uj}"
    for instance, (name, energy_uj) in enumerate((("package-0-die-0", 70_000_000), ("package-0-die-1", second_uj))):
        folder = tree / f"intel-rapl/intel-rapl:{instance}"
        write_zone(folder, name, energy_uj)
        write_zone(folder / f"intel-rapl:{instance}:0", "dram", 1_000_000)
    return show_powercap(tree)


@pytest.mark.parametrize(("second_uj", "mirrored"), [
    (70_000_000, True), (69_200_000, True), (70_800_000, True), (72_500_000, False), (67_000_000, False),
])
def test_dies_that_show_one_counter_count_once(tmp_path: Path, second_uj: int, mirrored: bool) -> None:
    """A mirror may differ by what a counter does between two readings; dies with counters of their own are added up."""
    root, elsewhere = tmp_path / "run", two_dies(tmp_path, second_uj)
    powercap = Path(elsewhere["/sys/class/powercap"])
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    for instance, energy_uj in ((0, 80_000_000), (1, second_uj + 10_000_000)):
        set_energy(powercap, f"intel-rapl:{instance}", energy_uj)
        set_energy(powercap, f"intel-rapl:{instance}/intel-rapl:{instance}:0", 2_000_000)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere, now_s=NOW_S + 1)
    energy = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]
    factor = 1 if mirrored else 2
    assert energy["zones_uj"] == {"package": factor * 10_000_000, "dram": factor * 1_000_000}
    assert energy["own_uj"] == factor * 11_000_000
    assert energy.get("mirrored") == (1 if mirrored else None)
    assert (energy["gaps"], energy["dropped"]) == (0, [])


def energy_with(tmp_path: Path, powercap: Path, devices: dict[str, tuple[str, str]]) -> Any:
    """devices: the vendor and the place on the bus of each DRM device."""
    drm, root = tmp_path / "drm", tmp_path / "run"
    for name, (vendor, place) in devices.items():
        (drm / name / "device").mkdir(parents=True)
        (drm / name / "device/vendor").write_text(f"{vendor}\n")
        (drm / name / "device/uevent").write_text(f"DRIVER=x\nPCI_SLOT_NAME={place}\nMODALIAS=y\n")
    elsewhere = show_powercap(powercap) | {"/sys/class/drm": drm, "/proc/driver/nvidia/gpus": tmp_path / "nvidia"}
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, elsewhere=elsewhere)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere)
    return json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]


@pytest.mark.parametrize(("devices", "gpus"), [
    ({}, False),
    ({"renderD128": ("0x10de", "0000:3b:00.0")}, True),
    ({"card0": ("0x1a03", "0000:02:00.0"), "renderD128": ("0x1002", "0000:03:00.0")}, True),
    ({"renderD128": ("0x8086", "0000:00:02.0"), "renderD129": ("0x8086", "0000:29:00.0")}, True),
    ({"renderD128": ("0x8086", "0000:00:02.0")}, False),
    ({"card0": ("0x1a03", "0000:02:00.0")}, False),
    ({"renderD128": ("0x1af4", "0000:00:03.0")}, False),
], ids=["none", "NVIDIA", "AMD", "Intel", "the processor's own", "a management controller", "a virtual screen"])
def test_what_is_not_counted_is_named(
    powercap: Path, tmp_path: Path, devices: dict[str, tuple[str, str]], gpus: bool
) -> None:
    assert energy_with(tmp_path, powercap, devices).get("not_counted") == (["gpus"] if gpus else None)


def test_gpus_of_a_driver_that_draws_nothing(powercap: Path, tmp_path: Path) -> None:
    """NVIDIA's, without its module for screens."""
    (tmp_path / "nvidia/0000:3b:00.0").mkdir(parents=True)
    assert energy_with(tmp_path, powercap, {})["not_counted"] == ["gpus"]


def test_packages_that_show_one_figure_are_two(powercap: Path, tmp_path: Path) -> None:
    """Different packages have counters of their own, whatever those show."""
    for package in (0, 1):
        set_energy(powercap, f"intel-rapl:{package}", 5_000_000)
    snapshot = driver("update", tmp_path / "run", elsewhere=show_powercap(powercap))
    assert [zone["problem"] for zone in zones(snapshot)] == [0] * 5


def test_epilog_of_a_job_without_state(tmp_path: Path) -> None:
    assert driver("finish", tmp_path / "run", 99, tmp_path / "out", "/bin/true")["code"] == 0
    assert not (tmp_path / "out").exists()


def test_writer_is_detached(tmp_path: Path) -> None:
    """A session of its own, nothing but /dev/null open, no variable that a user could have named; jobs go first, and
    where memory is short it goes first."""
    helper, seen = tmp_path / "helper", tmp_path / "seen"
    helper.write_text(
        f'#!/bin/sh\n(echo "$@"; ps -o pid=,sid= $$; ls -l /proc/$$/fd; env;'
        f" echo gives way $(nice) $(cat /proc/$$/oom_score_adj)) > {seen}.new 2>&1\n"
        f"mv {seen}.new {seen}\n"
    )
    helper.chmod(0o755)
    driver("begin", tmp_path / "run", 7, 4, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP)
    os.environ["SPANK_EVIL"] = "1"
    done = driver("finish", tmp_path / "run", 7, tmp_path / "out", helper, "spool=/x")
    del os.environ["SPANK_EVIL"]
    assert done == {"code": 0, "error": "", "child": False}
    deadline = time.monotonic() + 10
    while not seen.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    text = seen.read_text()
    assert text.startswith("drain spool=/x\n")
    assert text.count("/dev/null") == 3 and "pipe:" not in text
    assert "SLURMD_NODENAME=c1" in text and "EVIL" not in text
    assert "gives way 1" in text and text.splitlines()[-1].split()[-1] == "500"
    pid, sid = text.splitlines()[1].split()
    assert sid == pid or int(sid) != os.getsid(0)


@pytest.fixture
def processors(tmp_path: Path) -> Path:
    """Two packages of two cores with two threads each, whose counters begin at ten times the package's number."""
    tree = tmp_path / "cpu"
    for cpu in range(8):
        package, core = cpu // 2 % 2, cpu % 4
        (tree / f"cpu{cpu}/topology").mkdir(parents=True)
        (tree / f"cpu{cpu}/topology/physical_package_id").write_text(f"{package}\n")
        (tree / f"cpu{cpu}/topology/thread_siblings_list").write_text(f"{core},{core + 4}\n")
        (tree / f"cpu{cpu}/thermal_throttle").mkdir()
        for kind in THROTTLE:
            set_throttle(tree, cpu, kind, 10 * package)
    (tree / "online").write_text("0-7\n")
    return tree


THROTTLE = ("core_throttle", "package_throttle", "core_power_limit", "package_power_limit")


def set_throttle(tree: Path, cpu: int, kind: str, count: int) -> None:
    (tree / f"cpu{cpu}/thermal_throttle/{kind}_count").write_text(f"{count}\n")


def throttle_of(tmp_path: Path, processors: Path, cpus: str, *changes: tuple[int, str, int]) -> Any:
    """What the node record says when the counts change while the job runs."""
    root, elsewhere = tmp_path / "run", show_processors(processors)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, cpus, elsewhere=elsewhere)
    for cpu, kind, count in changes:
        set_throttle(processors, cpu, kind, count)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere)
    return json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["throttle"]


@pytest.mark.parametrize(
    ("cpus", "expected"), [("0-1,4-5", [5, 2, 0, 0]), ("2", [4, 0, 0, 1]), ("", [9, 2, 0, 1])]
)
def test_throttling_on_the_jobs_packages(
    tmp_path: Path, processors: Path, cpus: str, expected: list[int]
) -> None:
    """Threads show their core's count, cores their package's: each is counted once."""
    changes = [(cpu, "core_throttle", 5) for cpu in (0, 4)]
    changes += [(cpu, "package_throttle", 2) for cpu in (0, 1, 4, 5)]
    changes += [(cpu, "core_throttle", 14) for cpu in (2, 6)]
    changes += [(cpu, "package_power_limit", 11) for cpu in (2, 3, 6, 7)]
    assert throttle_of(tmp_path, processors, cpus, *changes) == dict(zip(THROTTLE, expected))


def test_throttle_counters_that_went_back_or_are_missing(tmp_path: Path, processors: Path) -> None:
    changes = [(cpu, "package_power_limit", 3) for cpu in (2, 3, 6, 7)]
    assert throttle_of(tmp_path, processors, "2-3", *changes) is None
    for folder in processors.glob("cpu*/thermal_throttle"):
        shutil.rmtree(folder)
    assert throttle_of(tmp_path, processors, "2-3") is None


@pytest.mark.parametrize(("online", "later"), [("0-7", "0-2,4-6"), ("0-2,4-6", "0-7")], ids=["off", "on"])
@pytest.mark.parametrize(("cpus", "known"), [("2", False), ("", False), ("0", True)])
def test_a_core_that_goes_offline_or_online_takes_its_throttling_with_it(
    tmp_path: Path, processors: Path, online: str, later: str, cpus: str, known: bool
) -> None:
    """Neither its events since the boot nor those that it can no longer show are the job's. Other cores' events may
    hide that a sum went back. Packages that are not the job's do not matter."""
    (processors / "online").write_text(f"{online}\n")
    root, elsewhere = tmp_path / "run", show_processors(processors)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, cpus, elsewhere=elsewhere)
    (processors / "online").write_text(f"{later}\n")
    for cpu in (2, 6):
        set_throttle(processors, cpu, "core_throttle", 100)
    driver("finish", root, 7, tmp_path / "out", "", elsewhere=elsewhere)
    throttle = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["throttle"]
    assert throttle == (dict.fromkeys(THROTTLE, 0) if known else None)
