"""However many steps a job has and whatever they claim: its state, and what the epilog does with it, is bounded."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import BUILD, NO_POWERCAP, REPOSITORY, driver, settings
from tests.lib.segments import HEAD, LANE_HEAD, SIZES, SLOT, SLOTS, segment

PROGRAM = BUILD / "tests/lib/doubles/ending-driver"
MIB = 1024 * 1024
STEPS = 40_000
"""Slurm's default for MaxStepCount."""
CALLS = 227
RANKS = 1024
PAGE = 4096


SIZES_AT = (SLOTS + RANKS * SLOT + PAGE - 1) // PAGE * PAGE


def claims(path: Path, ranks: int, calls: bytes, sizes: bytes = b"") -> Path:
    """A segment with so many ranks, the first of which claims that. Most of it is a hole in the file."""
    with path.open("wb") as file:
        file.write(segment(slots=1, slot_count=RANKS, claimed=ranks)[:SLOTS])
        for rank in range(ranks):
            file.seek(SLOTS + rank * SLOT)
            file.write(struct.pack("<IIiiIIIIQQ", 4711, 2, rank, ranks, 1, 0, 0, 1, 0, 0))
        file.seek(SLOTS + HEAD + LANE_HEAD)
        file.write(calls)
        file.seek(SIZES_AT)
        file.write(sizes)
        file.truncate(SIZES_AT + RANKS * SIZES)
    return path


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes a step's file as long as it gets: every rank, every function and every size. Larger numbers would be
    too long, and their details would go."""
    calls = struct.pack(f"<{8 * CALLS}Q", *[10**15] * 8 * CALLS)
    sizes = struct.pack(f"<{64 * CALLS}Q", *[10**6] * 64 * CALLS)
    return claims(tmp_path_factory.mktemp("forged") / "segment", RANKS, calls, sizes)


def run(*words: object) -> str:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=120, check=True,
                          env=settings(elsewhere=NO_POWERCAP)).stdout


class Job:
    """Job 7 on node c1."""

    def __init__(self, folder: Path, segment: Path) -> None:
        self.root, self.outbox = folder / "run", folder / "out"
        self.state = self.root / "c1/7"
        self.segment = segment
        assert driver("begin", self.root, 7, 2, 2, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP)["code"] == 0

    def steps(self, first: int, count: int) -> None:
        run("steps", self.root, 7, first, count, self.segment)

    def taken(self) -> int:
        """Bytes of memory that its files take in a tmpfs."""
        return sum((path.stat().st_size + PAGE - 1) // PAGE * PAGE for path in self.state.iterdir())

    def end(self) -> dict[str, Any]:
        done: dict[str, Any] = json.loads(run("end", self.root, 7, self.outbox))
        assert done["code"] == 0 and not self.state.exists()
        return done

    def record(self) -> dict[str, Any]:
        (path,) = self.outbox.iterdir()
        assert path.stat().st_size <= 4 * MIB
        record: dict[str, Any] = json.loads(path.read_text())
        return record


@pytest.fixture
def job(tmp_path: Path, forged: Path) -> Job:
    return Job(tmp_path, forged)


def wait_of(job: Job, step: int) -> dict[str, Any]:
    wait: dict[str, Any] = json.loads((job.state / f"step.{step}.json").read_text())["wait"]
    return wait


def test_forty_thousand_forged_steps(job: Job) -> None:
    job.steps(0, STEPS)
    names = {path.name for path in job.state.iterdir()}
    assert names == {"job.json", "steps_counted"} | {f"step.{step}.json" for step in range(4096)}
    assert job.taken() <= 64 * 10**6
    begun = time.monotonic()
    done = job.end()
    print(f"{time.monotonic() - begun:.2f} s, {done}")
    assert done["peak_kib"] <= 64 * 1024
    assert done["opens"] <= 4096 + 64 and done["read"] <= 49 * MIB
    record = job.record()
    assert len(record["steps"]) + record["steps_left_out"] == STEPS
    assert len(record["steps"]) + record["steps_summed"] > 4000


def test_what_an_older_release_left_is_bounded_too(job: Job) -> None:
    """As many files, each as large as it then could be. One and the same file, by many names."""
    job.steps(0, 1)
    step = json.loads((job.state / "step.0.json").read_text())
    step["wait"]["calls"] = {f"MPI_{chr(65 + i)}{'x' * 40}": [10**15] * 4 for i in range(26)}
    step["padding"] = "x" * (198_000 - len(json.dumps(step)))
    (job.state / "step.0.json").write_text(json.dumps(step))
    for number in range(1, STEPS):
        (job.state / f"step.{number}.json").hardlink_to(job.state / "step.0.json")
    done = job.end()
    assert done["peak_kib"] <= 64 * 1024
    assert done["opens"] <= 4096 + 64 and done["read"] <= 49 * MIB
    record = job.record()
    assert len(record["steps"]) + record["steps_left_out"] == STEPS and len(record["steps"]) > 200


def test_from_step_256_on_there_are_sums_only(job: Job) -> None:
    job.steps(254, 4)
    for step in (254, 255):
        assert len(wait_of(job, step)["ranks"]) == RANKS
        assert 100 * 1024 < (job.state / f"step.{step}.json").stat().st_size <= 128 * 1024
    whole = wait_of(job, 255)
    for step in (256, 257):
        wait = wait_of(job, step)
        assert wait["ranks"] == [] and wait["omitted"]["count"] == RANKS and "profile" not in wait
        assert wait["omitted"]["wait_us"] == sum(rank[1] for rank in whole["ranks"]) and wait["span_us"] > 0
        assert (job.state / f"step.{step}.json").stat().st_size <= PAGE


def test_on_a_crowded_node_each_job_has_less_room(job: Job) -> None:
    """128 jobs have together what 16 have: details up to 16 KiB, and sums of steps below 512."""
    for other in range(100, 227):
        (job.root / "c1" / str(other)).mkdir()
    for first in (0, 255, 300, 510):
        job.steps(first, 4)
    assert (job.state / "step.0.json").stat().st_size <= 16 * 1024
    assert (job.state / "step.300.json").stat().st_size <= PAGE
    assert (job.state / "step.511.json").exists() and not (job.state / "step.512.json").exists()
    assert (job.state / "steps_counted").stat().st_size == 2
    job.end()
    record = job.record()
    assert len(record["steps"]) + record["steps_left_out"] == 16


def test_an_honest_step_s_functions_stay_among_its_sums(job: Job, tmp_path: Path) -> None:
    job.segment = claims(tmp_path / "segment", 2, struct.pack("<8Q", *[1000] * 8))
    job.steps(255, 2)
    whole, sums = wait_of(job, 255), wait_of(job, 256)
    assert len(whole["ranks"]) == 2 and "profile" in whole
    assert sums["calls"] == whole["calls"] and len(sums["calls"]) == 1
    assert sums["omitted"]["wait_us"] == sum(rank[1] for rank in whole["ranks"])
    job.end()
    record = job.record()
    assert [step["id"] for step in record["steps"]] == ["255", "256"]
    assert (record["steps_summed"], record["steps_left_out"]) == (1, 0)


def test_functions_that_did_not_wait_are_counted_where_they_may(job: Job, tmp_path: Path) -> None:
    """MPI_Recv may, MPI_Isend does not; of what is never called there is nothing."""
    rows = re.findall(r"^CALL\((\w+), \d+, (\w+)", (REPOSITORY / "preload/contract/mpi_calls.def").read_text(), re.M)
    calls = bytearray(64 * len(rows))
    for name in ("Recv", "Isend"):
        struct.pack_into("<Q", calls, 64 * [row[0] for row in rows].index(name), 12)
    assert dict(rows)["Recv"] == "WAIT" and dict(rows)["Isend"] == "MARK"
    job.segment = claims(tmp_path / "segment", 1, bytes(calls))
    job.steps(0, 1)
    assert wait_of(job, 0)["calls"] == {"MPI_Recv": [12, 0, 0, 0]}


def test_a_step_s_file_is_bounded(job: Job, tmp_path: Path) -> None:
    """Details that take more than 128 KiB go; the sums, by function too, stay."""
    sizes = struct.pack(f"<{64 * CALLS}Q", *[10**15] * 64 * CALLS)
    job.segment = claims(tmp_path / "segment", RANKS, struct.pack(f"<{8 * CALLS}Q", *[10**15] * 8 * CALLS), sizes)
    job.steps(0, 1)
    assert (job.state / "step.0.json").stat().st_size <= 128 * 1024
    wait = wait_of(job, 0)
    assert wait["ranks"] == [] and wait["omitted"]["count"] == RANKS and len(wait["calls"]) > 200


def test_an_epilog_opens_only_what_is_there(job: Job) -> None:
    job.steps(17, 2)
    assert job.end()["opens"] < 64


def test_from_step_4096_on_there_is_one_number(job: Job) -> None:
    job.steps(4095, 3)
    assert {path.name for path in job.state.iterdir()} == {"job.json", "steps_counted", "step.4095.json"}
    assert (job.state / "steps_counted").stat().st_size == 2
    job.end()
    assert [step["id"] for step in job.record()["steps"]] == ["4095"] and job.record()["steps_left_out"] == 2


def test_details_are_taken_from_16_mib(job: Job) -> None:
    """Of files that are long beside their details, so that the record has room for those of all."""
    job.steps(0, 1)
    step = json.loads((job.state / "step.0.json").read_text())
    step["wait"] = {**step["wait"], "ranks": [[0, 5, 1], [1, 9, 2]], "profile": {}, "calls": {}}
    for number in range(100):
        text = json.dumps({**step, "id": number, "padding": ""})
        step_file = json.dumps({**step, "id": number, "padding": "x" * (MIB // 4 - len(text))})
        (job.state / f"step.{number}.json").write_text(step_file)
    job.end()
    record = job.record()
    assert [len(step["wait"]["ranks"]) for step in record["steps"]] == [2] * 64 + [0] * 36
    assert (record["steps_summed"], record["steps_left_out"]) == (36, 0)


def test_the_files_of_batch_and_extern_come_first(job: Job) -> None:
    job.steps(0, 300)
    text = (job.state / "step.0.json").read_text()
    for name, number in (("batch", 0xFFFFFFFB), ("extern", 0xFFFFFFFC)):
        (job.state / f"step.{name}.json").write_text(text.replace('"id":0,', f'"id":{number},', 1))
    job.end()
    record = job.record()
    assert [step["id"] for step in record["steps"]] == ["batch", "extern", *map(str, range(300))]
    assert record["steps"][0]["wait"]["ranks"] and record["steps"][-1]["wait"]["omitted"]["count"] == RANKS
