"""Whatever a job's user writes into its stats segment, and however many steps it starts, the job keeps its record."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tests.lib.record_tools import driver, node_record, validate
from tests.lib.segments import SLOT, SLOTS, read_slots, segment

LIMIT = 4 * 1024 * 1024  # of a node's record, spank/record/parse.h


def merged(tmp_path: Path, record: dict[str, Any]) -> dict[str, Any]:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(record))
    job: dict[str, Any] = driver("merge", 1, "", path)
    validate(job)
    return job["mpi_wait"]


def test_every_number_at_its_largest_still_merges(tmp_path: Path) -> None:
    content = bytearray(b"\xff" * len(segment()))
    content[:SLOTS] = segment(claimed=2**32 - 1)[:SLOTS]
    for index in range(64):
        struct.pack_into("<I", content, SLOTS + index * SLOT + 4, 2)
    wait = read_slots(tmp_path, bytes(content), now=10**18)
    record = node_record()
    record["steps"][0]["wait"] = wait
    job = merged(tmp_path, record)
    assert job["wait"]["ranks"] == 64 and job["wait"]["hooks"]["opal"] == 10**15
    assert job["energy"]["joules"] == merged(tmp_path, node_record())["energy"]["joules"]


def write_steps(folder: Path, count: int) -> None:
    """Each with as many functions as there is room for."""
    names = [f"MPI_{chr(65 + index)}{'x' * 40}" for index in range(16)]
    wait = node_record()["steps"][0]["wait"]
    wait |= {"spun": {name: [10**15, 10**15] for name in names}, "calls": {name: [10**18] * 4 for name in names}}
    step = {"v": 1, "policy": {"asked": "", "used": "", "why": "", "by": ""}, "cores": 1, "start_s": 1.0, "end_s": 2.0,
            "wait": wait, "grant": {"mode": "lease", "cores": 1, "transitions": 0, "low_us": 0,
                                    "refused": {f"{index}{'y' * 60}": 1 for index in range(12)}}}
    text = json.dumps(step)
    for index in range(count):
        (folder / f"step.{index}.json").write_text(f'{{"id": {index}, {text[1:]}')


def write_ranks(folder: Path, steps: int, ranks: int) -> None:
    """Of all steps together, more ranks than are listed one by one."""
    wait = node_record()["steps"][0]["wait"]
    for index in range(steps):
        listed = [[rank, 1000 * index + rank, 7] for rank in range(ranks)]
        step = {"v": 1, "id": index, "policy": {"asked": "", "used": "", "why": "", "by": ""}, "cores": 1,
                "start_s": 1.0, "end_s": 2.0, "wait": {**wait, "ranks": listed, "size": ranks}}
        (folder / f"step.{index}.json").write_text(json.dumps(step))


def record_of_steps(tmp_path: Path, count: int, ranks: int = 0, damaged: int = 0) -> dict[str, Any]:
    root, outbox = tmp_path / "run", tmp_path / "out"
    outbox.mkdir(mode=0o700)
    assert driver("begin", root, 7, 2, 2, "test", "c1", "nap", 0)["code"] == 0
    if ranks:
        write_ranks(root / "c1/7", count, ranks)
    else:
        write_steps(root / "c1/7", count)
    for index in range(damaged):
        (root / f"c1/7/step.{10**6 + index}.json").write_text('{"v":')
    assert driver("finish", root, 7, outbox, "")["code"] == 0
    (path,) = outbox.iterdir()
    assert path.stat().st_size <= LIMIT
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def test_the_details_of_very_many_steps_go(tmp_path: Path) -> None:
    """Those of the first steps stay while they fill half of the record; of the others there are sums."""
    record = record_of_steps(tmp_path, 2500)
    waits = [step["wait"] for step in record["steps"]]
    whole = [wait for wait in waits if wait["ranks"]]
    assert len(waits) == 2500 and waits[: len(whole)] == whole and 300 < len(whole) < 600
    assert all(wait["calls"] and wait["spun"] for wait in whole)
    assert waits[-1]["calls"] == {} and "spun" not in waits[-1] and waits[-1]["omitted"]["count"] == 2
    job = merged(tmp_path, record)
    assert job["wait"]["ranks"] == 5000 and job["steps_summed"] == record["steps_summed"] == 2500 - len(whole)


def test_more_than_that_is_left_out_and_the_rest_of_the_record_stays(tmp_path: Path) -> None:
    record = record_of_steps(tmp_path, 5000)
    assert len(record["steps"]) == 4096 and record["steps_left_out"] == 904
    job = merged(tmp_path, record)
    assert job["policy"]["asked"] == "nap" and job["steps_left_out"] >= 904 and job["wait"]["ranks"] == 8192


def test_ranks_beyond_those_that_are_listed_are_summed_up(tmp_path: Path) -> None:
    """Least and most waiting of a step stay known; the job's record still has every rank in its sums."""
    record = record_of_steps(tmp_path, 70, ranks=1000)
    waits = [step["wait"] for step in record["steps"]]
    short = [wait for wait in waits if "omitted" in wait]
    assert len(waits) == 70 and len(short) == 5 and all(wait["ranks"] == [] for wait in short)
    for wait in short:
        (first, least), (last, most) = wait["omitted"]["min"], wait["omitted"]["max"]
        assert (first, last, most - least) == (0, 999, 999) and wait["omitted"]["count"] == 1000
        assert wait["omitted"]["wait_us"] == 1000 * least + 999 * 500 and wait["omitted"]["asleep_us"] == 7000
    assert merged(tmp_path, record)["wait"]["ranks"] == 70_000


def test_a_step_s_file_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    record = record_of_steps(tmp_path, 3, damaged=2)
    assert len(record["steps"]) == 3 and record["steps_left_out"] == 2
