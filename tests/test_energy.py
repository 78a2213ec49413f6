"""Energy counters to node record: real code on counters that the test writes, in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.record_tools import driver, no_powercap, run, set_energy, show_powercap, two_packages, zones

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount namespace")

HEADER, SLOTS, LANE, CALLS, CALL, SIZES = 64, 4096, 256 + 64 * 256, 256, 64, 8 * 40 * 256
SLOT = 128 + 8 * LANE
MAGIC = 0x315441545357504D


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    return two_packages(tmp_path)


def segment(
    *ranks: bytes, claimed: int | None = None, slots: int = 64, sizes: bytes = b"", **header: int
) -> bytes:
    fields = {
        "magic": MAGIC,
        "version": 2,
        "header_size": HEADER,
        "slot_size": SLOT,
        "slot_count": slots,
        "sizes_size": SIZES,
    } | header
    head = struct.pack(
        "<QIIIIII",
        fields["magic"],
        fields["version"],
        fields["header_size"],
        fields["slot_size"],
        fields["slot_count"],
        len(ranks) if claimed is None else claimed,
        fields["sizes_size"],
    )
    slots_end = (SLOTS + slots * SLOT + 4095) // 4096 * 4096
    content = (head.ljust(SLOTS, b"\0") + b"".join(ranks)).ljust(slots_end, b"\0") + sizes
    return content.ljust(slots_end + slots * SIZES, b"\0")


def slot(
    rank: int,
    size: int,
    wait_ns: int,
    *,
    state: int = 3,
    start: int = 0,
    end: int = 0,
    asleep_ns: int = 0,
    open_call: int = 0,
    open_ns: int = 0,
    lanes: int = 1,
    row: int = 9,
    time_ns: int = 0,
    handed: int = 0,
    flags: int = 0,
    loop_polls: int = 0,
    burned_ns: int = 0,
    burned_cpu_ns: int = 0,
) -> bytes:
    head = struct.pack("<IIiiIIIIQQ", 4711, state, rank, size, 1, 1, flags, lanes, start, end).ljust(
        128, b"\0"
    )
    lane = struct.pack("<IIQQQQQQQ", 1, open_call, 1000, 1000 + open_ns, 0, 2, 300, 400, 40)
    lane = (lane + struct.pack("<4Q", 0, 0, 0, loop_polls)).ljust(192, b"\0")
    lane += struct.pack("<8Q", 0, 0, 0, 0, asleep_ns, 0, 0, 0)
    calls = bytearray(CALL * CALLS)
    call = (10, 3, wait_ns, wait_ns // 2, time_ns, burned_ns, burned_cpu_ns, handed)
    struct.pack_into("<8Q", calls, CALL * row, *call)
    return (head + lane + bytes(calls)).ljust(SLOT, b"\0")


def test_every_zone_is_read(powercap: Path, tmp_path: Path) -> None:
    snapshot = driver("update", tmp_path / "run", namespace=show_powercap(powercap))
    assert snapshot["source"] == "simulated"
    assert [(zone["name"], zone["kind"], zone["instance"]) for zone in zones(snapshot)] == [
        ("package-0", "package", 0),
        ("dram", "dram", 0),
        ("package-1", "package", 1),
        ("dram", "dram", 1),
        ("psys", "psys", 2),
    ]
    (powercap / "SIMULATED").unlink()
    assert driver("update", tmp_path / "run", namespace=show_powercap(powercap))["source"] == "rapl"


def test_no_powercap(tmp_path: Path) -> None:
    done = run("driver", "update", tmp_path / "run", namespace=no_powercap())
    assert json.loads(done.stdout) == {"code": -19, "error": "no powercap zones"}
    assert done.stderr == ""


def test_programs_do_not_inherit_counters(powercap: Path) -> None:
    assert "energy_uj" not in run("driver", "leaks", namespace=show_powercap(powercap)).stdout


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
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, namespace=namespace)
    (root / "c1/energy").unlink()
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    driver("finish", root, 7, tmp_path / "out", "", namespace=namespace)
    assert json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]["gaps"] == 1


def test_one_job_from_begin_to_end(powercap: Path, tmp_path: Path) -> None:
    """The node record has the energy between begin and end, and the step's waits; the state is gone."""
    root, namespace = tmp_path / "run", show_powercap(powercap)
    begun = time.monotonic_ns()
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 1, namespace=namespace)
    set_energy(powercap, "intel-rapl:0", 5_000_000)
    path = tmp_path / "segment"
    path.write_bytes(
        segment(
            slot(1, 2, 2_000_000, asleep_ns=1_000_000, start=begun + 10**9, end=begun + 2 * 10**9)
        )
    )
    threads = driver("step", root, 7, 0, 100, 0, path, namespace=namespace)
    assert threads == {"meanwhile": 2, "after": 1}
    done = driver("finish", root, 7, tmp_path / "out", "/bin/true", namespace=namespace)
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
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, namespace=namespace)
    path = tmp_path / "segment"
    path.write_bytes(segment(slot(0, 1, 2_000_000, state=2, start=time.monotonic_ns())))
    assert run("driver", "step", root, 7, 666, 1300, 1, path, namespace=namespace).returncode != 0
    step = json.loads((root / "c1/7/step.666.json").read_text())
    assert step["wait"]["ranks"] == [[0, 2000, 0]]
    assert step["end_s"] - step["start_s"] > 0.9


def test_zones_that_vanish_are_named(powercap: Path, tmp_path: Path) -> None:
    """Package 1 goes for good; package 0's instance is asked for too although a number before psys is missing."""
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, namespace=namespace)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    set_energy(powercap, "intel-rapl:2", 12_000_000)
    shutil.rmtree(powercap / "intel-rapl/intel-rapl:1")
    driver("finish", root, 7, tmp_path / "out", "", namespace=namespace)
    energy = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())["energy"]
    assert energy["dropped"] == [["package-1", "vanished"], ["package-1/dram", "vanished"]]
    assert energy["gaps"] == 1
    assert energy["zones_uj"] == {"package": 2_000_000, "dram": 0, "psys": 3_000_000}
    assert energy["own_uj"] == 2_000_000


def test_second_begin_fills_in_and_keeps_the_baseline(powercap: Path, tmp_path: Path) -> None:
    root, namespace = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 0, 0, "test", "", "nap", 0, namespace=namespace)
    first = json.loads((root / "c1/7/job.json").read_text())
    driver("begin", root, 7, 3, 8, "test", "c[1-2]", "yield", 2, namespace=namespace)
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
    driver("begin", root, 7, 4, 4, "test", "c1", "nap", 0, namespace=no_powercap())
    driver("step", root, 7, 0, 10, 0, namespace=no_powercap())
    driver("finish", root, 7, tmp_path / "out", "", namespace=no_powercap())
    record = json.loads((tmp_path / "out/test-7-0.c1.json").read_text())
    assert record["energy"] is None and record["energy_why"] == "no powercap zones"


def test_epilog_of_a_job_without_state(tmp_path: Path) -> None:
    assert driver("finish", tmp_path / "run", 99, tmp_path / "out", "/bin/true")["code"] == 0
    assert not (tmp_path / "out").exists()


def test_writer_is_detached(tmp_path: Path) -> None:
    """A session of its own, nothing but /dev/null open, no variable that a user could have named."""
    helper, seen = tmp_path / "helper", tmp_path / "seen"
    helper.write_text(
        f'#!/bin/sh\n(echo "$@"; ps -o pid=,sid= $$; ls -l /proc/$$/fd; env) > {seen}.new 2>&1\n'
        f"mv {seen}.new {seen}\n"
    )
    helper.chmod(0o755)
    driver("begin", tmp_path / "run", 7, 4, 4, "test", "c1", "nap", 0, namespace=no_powercap())
    os.environ["SPANK_EVIL"] = "1"
    done = driver("finish", tmp_path / "run", 7, tmp_path / "out", helper, "spool=/x")
    del os.environ["SPANK_EVIL"]
    assert done == {"code": 0, "error": "", "child": False}
    deadline = time.monotonic() + 10
    while not seen.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    text = seen.read_text()
    assert text.startswith("write test-7-0 spool=/x\n")
    assert text.count("/dev/null") == 3 and "pipe:" not in text
    assert "SLURMD_NODENAME=c1" in text and "EVIL" not in text
    pid, sid = text.splitlines()[1].split()
    assert sid == pid or int(sid) != os.getsid(0)


def read_slots(tmp_path: Path, content: bytes, begun: int = 0, now: int = 10**10) -> dict:
    path = tmp_path / "segment"
    path.write_bytes(content)
    return driver("slots", path, begun, now)


def test_open_wait_of_a_killed_rank_counts(tmp_path: Path) -> None:
    wait = read_slots(
        tmp_path, segment(slot(0, 2, 10**6, state=2, start=10**9, open_call=10, open_ns=5 * 10**6))
    )
    assert wait["ranks"] == [[0, 6000, 0]]
    assert wait["calls"]["MPI_Recv"] == [10, 4, 6000, 5000]
    assert wait["span_us"] == 9_000_000
    finalised = read_slots(
        tmp_path,
        segment(slot(0, 2, 10**6, start=10**9, end=2 * 10**9, open_call=10, open_ns=10**6)),
    )
    assert finalised["ranks"] == [[0, 1000, 0]] and finalised["span_us"] == 1_000_000


def test_what_served_and_what_burned(tmp_path: Path) -> None:
    ranks = [
        slot(0, 2, 10**6, start=1, end=10**9, flags=2 | 64 | 1 << 31, loop_polls=7),
        slot(1, 2, 10**6, start=1, end=10**9, flags=2, burned_ns=5 * 10**9, burned_cpu_ns=2**63),
    ]
    wait = read_slots(tmp_path, segment(*ranks))
    assert wait["hooks"] == {"loop": 7} and wait["flags"] == {"no_hook": 2, "loops": 1}
    assert wait["spun"] == {"MPI_Recv": [5 * 10**6, 5 * 10**6]} and wait["doubtful"] == 1
    quiet = slot(0, 2, 10**9, start=1, end=10**9, burned_ns=10**7, burned_cpu_ns=10**7)
    wait = read_slots(tmp_path, segment(quiet))
    assert not {"hooks", "flags", "spun"} & set(wait), "mostly it waited as it should"


@pytest.mark.parametrize(
    ("changes", "rank"),
    [
        ({"rank": -5}, -1),
        ({"rank": 2**24}, -1),
        ({"rank": 3, "size": 2}, -1),
        ({"size": -1}, 0),
        ({"wait_ns": 2**64 - 1}, 0),
        ({"start": 2**63}, 0),
        ({"end": 2**63}, 0),
        ({"asleep_ns": 2**64 - 1}, 0),
    ],
)
def test_hostile_slots_are_cut_and_marked(
    tmp_path: Path, changes: dict[str, int], rank: int
) -> None:
    values = {"rank": 0, "size": 2, "wait_ns": 10**6, "start": 10**9, "end": 2 * 10**9} | changes
    wait = read_slots(
        tmp_path,
        segment(slot(values.pop("rank"), values.pop("size"), values.pop("wait_ns"), **values)),
    )
    assert wait["doubtful"] == 1
    assert wait["ranks"][0][0] == rank
    assert 0 <= wait["ranks"][0][2] <= wait["ranks"][0][1] <= 10**7
    assert wait["span_us"] <= 10**7


def test_every_number_at_its_largest(tmp_path: Path) -> None:
    content = bytearray(b"\xff" * len(segment()))
    content[:SLOTS] = segment(claimed=2**32 - 1)[:SLOTS]
    for index in range(64):
        struct.pack_into("<I", content, SLOTS + index * SLOT + 4, 2)
    wait = read_slots(tmp_path, bytes(content))
    assert wait["doubtful"] == 64 and wait["unseen"] == 1_000_000
    assert wait["profile"]["MPI_Recv"][3] == 10**18 and len(wait["profile"]["MPI_Recv"][4]) == 40


def test_profile_is_summed_by_call(tmp_path: Path) -> None:
    sizes = struct.pack("<40Q", 1, 0, 0, 0, 7, *[0] * 35).rjust(40 * 8 * 10, b"\0").ljust(SIZES, b"\0")
    ranks = [
        slot(rank, 2, 10**6, start=10**9, end=2 * 10**9, time_ns=3 * 10**6, handed=4096)
        for rank in (0, 1)
    ]
    wait = read_slots(tmp_path, segment(*ranks, sizes=sizes + sizes))
    assert wait["profile"] == {"MPI_Recv": [20, 6000, 2000, 8192, [2, 0, 0, 0, 14]]}
    assert "profile" not in read_slots(tmp_path, segment(slot(0, 1, 10**6, start=1, end=2)))


def test_the_last_wait_of_a_killed_rank_is_time_too(tmp_path: Path) -> None:
    killed = slot(0, 1, 0, state=2, start=10**9, open_call=10, open_ns=5 * 10**6, handed=8)
    wait = read_slots(tmp_path, segment(killed))
    assert wait["profile"]["MPI_Recv"] == [10, 5000, 5000, 8, []]


@pytest.mark.parametrize(
    ("header", "length", "message"),
    [
        ({}, 0, "cannot be read"),
        ({"magic": 1}, None, "not one of version 2"),
        ({"version": 1}, None, "not one of version 2"),
        ({"sizes_size": 8}, None, "not one of version 2"),
        ({"slot_size": 8}, None, "not one of version 2"),
        ({}, SLOTS + 100, "has no slot"),
    ],
)
def test_broken_segments_are_refused(
    tmp_path: Path, header: dict[str, int], length: int | None, message: str
) -> None:
    assert message in read_slots(tmp_path, segment(**header)[:length])["error"]


def test_segment_says_more_slots_than_it_has(tmp_path: Path) -> None:
    wait = read_slots(
        tmp_path, segment(slot(0, 1, 5000, start=1, end=2), slot_count=2**32 - 1, claimed=70)
    )
    assert len(wait["ranks"]) == 1 and wait["unseen"] == 6


def show_processors(tree: Path) -> str:
    return f"mount --bind {tree} /sys/devices/system/cpu"


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
    root, namespace = tmp_path / "run", show_processors(processors)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, cpus, namespace=namespace)
    for cpu, kind, count in changes:
        set_throttle(processors, cpu, kind, count)
    driver("finish", root, 7, tmp_path / "out", "", namespace=namespace)
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
    assert throttle_of(tmp_path, processors, "2-3", *changes)["package_power_limit"] == 3
    for folder in processors.glob("cpu*/thermal_throttle"):
        shutil.rmtree(folder)
    assert throttle_of(tmp_path, processors, "2-3") is None
