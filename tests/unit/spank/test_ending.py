"""The epilog notes a job's end in /run; the record is made from that note, however much later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import NO_POWERCAP, PROGRAMS, driver, set_energy, show_powercap, two_packages
from tests.lib.segments import segment, slot

BEGUN_S = 1_700_000_000.0
MIB = 1024 * 1024


def begin(root: Path, job: int = 7, **how: Any) -> None:
    assert driver("begin", root, job, 2, 2, "test", "c1", "nap", "", **how)["code"] == 0


def record(outbox: Path, key: str = "test-7-0") -> dict[str, Any]:
    made: dict[str, Any] = json.loads((outbox / f"{key}.c1.json").read_text())
    return made


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "c1").iterdir() if path.name[0].isdigit())


def test_the_record_is_of_the_end_whenever_it_is_made(tmp_path: Path) -> None:
    """And neither the job's next run nor that run's end touches it."""
    root, outbox, powercap = tmp_path / "run", tmp_path / "out", two_packages(tmp_path)
    elsewhere = show_powercap(powercap)
    for run in range(2):
        began_s = BEGUN_S + 100 * run
        begin(root, elsewhere=elsewhere, now_s=began_s)
        set_energy(powercap, "intel-rapl:0", 3_000_000 + run * 5_000_000)
        assert driver("end", root, 7, elsewhere=elsewhere, now_s=began_s + 10)["code"] == 1
        set_energy(powercap, "intel-rapl:0", 7_000_000 + run * 5_000_000)
    assert names(root) == ["7.1", "7.2"] and not outbox.exists()
    assert driver("make", root, outbox, elsewhere=elsewhere, now_s=BEGUN_S + 5000)["code"] == 0
    assert names(root) == []
    made = sorted((record(outbox, key) for key in ("test-7-0", "test-7-1")), key=lambda one: one["start_s"])
    assert [one["end_s"] - BEGUN_S for one in made] == [10, 110]
    assert [one["energy"]["zones_uj"]["package"] for one in made] == [2_000_000, 1_000_000]


@pytest.mark.parametrize("set_s", [-200, 200])
def test_a_clock_that_is_set_during_the_job(tmp_path: Path, set_s: int) -> None:
    """By slurmctld's clock the job took 60 s: slurmdbd's row of another length would be none of this run's."""
    root, outbox = tmp_path / "run", tmp_path / "out"
    begin(root, elsewhere=NO_POWERCAP, now_s=BEGUN_S)
    state = root / "c1/7/job.json"
    job = json.loads(state.read_text())
    state.write_text(json.dumps(job | {"start_s": job["start_s"] + set_s}))
    assert driver("end", root, 7, elsewhere=NO_POWERCAP, now_s=BEGUN_S + 60)["code"] == 1
    assert driver("make", root, outbox, elsewhere=NO_POWERCAP, now_s=BEGUN_S + 70)["code"] == 0
    made = record(outbox)
    assert (made["start_s"], made["end_s"]) == (pytest.approx(BEGUN_S, abs=0.01), BEGUN_S + 60)


def test_an_epilog_that_was_killed_early_has_an_end_too(tmp_path: Path) -> None:
    """After its directory had been renamed, and before: without memory for more than an empty note."""
    root, outbox = tmp_path / "run", tmp_path / "out"
    for job, name in ((7, "7.1"), (8, "8")):
        begin(root, job, elsewhere=NO_POWERCAP)
        (root / f"c1/{job}").rename(root / f"c1/{name}")
    (root / "c1/8/ended").touch()
    begin(root, 9, elsewhere=NO_POWERCAP)
    assert driver("make", root, outbox, elsewhere=NO_POWERCAP)["code"] == 0
    assert names(root) == ["9"] and sorted(path.name[:6] for path in outbox.iterdir()) == ["test-7", "test-8"]


def test_what_was_being_removed_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "run"
    begin(root, elsewhere=NO_POWERCAP)
    assert driver("end", root, 7, elsewhere=NO_POWERCAP)["code"] == 1
    (root / "c1/7.1/job.json").unlink()
    assert driver("make", root, tmp_path / "out", elsewhere=NO_POWERCAP)["code"] == 0
    assert names(root) == [] and list((tmp_path / "out").glob("*")) == []


def test_a_run_that_begins_while_the_record_is_made_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prolog has set the earlier run apart, whose record is in the outbox by then."""
    root, outbox = tmp_path / "run", tmp_path / "out"
    begin(root, elsewhere=NO_POWERCAP)
    (root / "c1/7/ended").touch()
    monkeypatch.setenv("MPIWAIT_RENAMED", f"cd {root}/c1 && test -e {outbox}/test-7-0.c1.json && mv 7 7.1 &&"
                       " mkdir -m 700 7 && cp 7.1/job.json 7")
    assert driver("make", root, outbox, elsewhere=NO_POWERCAP) == {"code": 0, "error": ""}
    monkeypatch.delenv("MPIWAIT_RENAMED")
    assert (root / "c1/7/job.json").exists()
    assert driver("make", root, outbox, elsewhere=NO_POWERCAP)["code"] == 0
    assert names(root) == ["7"] and [path.name for path in outbox.iterdir()] == ["test-7-0.c1.json"]


def test_a_record_that_is_made_before_the_epilog_sets_the_state_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain of another job finds the note first. The epilog has nothing to complain of."""
    root, outbox = tmp_path / "run", tmp_path / "out"
    begin(root, elsewhere=NO_POWERCAP)
    monkeypatch.setenv("MPIWAIT_RENAMED", f"test -e {root}/c1/7/ended && MPIWAIT_RENAMED="
                       f" {PROGRAMS['driver']} make {root} {outbox} >&2")
    assert driver("end", root, 7, elsewhere=NO_POWERCAP) == {"code": 1, "error": ""}
    assert names(root) == [] and record(outbox)["job_id"] == 7


@pytest.mark.parametrize(("waiting", "steps"), [(10, 1), (256, 0), (4096, None)])
def test_a_disk_that_hangs_for_long_does_not_fill_run(tmp_path: Path, waiting: int, steps: int | None) -> None:
    root, outbox = tmp_path / "run", tmp_path / "out"
    begin(root, elsewhere=NO_POWERCAP)
    driver("step", root, 7, 0, 10, 0, elsewhere=NO_POWERCAP)
    for job in range(1000, 1000 + waiting):
        (root / f"c1/{job}.1").mkdir(mode=0o700)
    done = driver("end", root, 7, elsewhere=NO_POWERCAP)
    if steps is None:
        assert done["code"] < 0 and "dropped" in done["error"] and "7.1" not in names(root)
        return
    assert done["code"] == 1 and driver("make", root, outbox, elsewhere=NO_POWERCAP)["code"] == 0
    made = record(outbox)
    assert (len(made["steps"]), made["steps_left_out"]) == (steps, 1 - steps)


@pytest.mark.parametrize(("taken", "most"), [(100, 4 * MIB), (200, 64 * 1024), (300, 4096)])
def test_an_outbox_that_has_taken_its_part_of_the_disk(tmp_path: Path, taken: int, most: int) -> None:
    """A job of many ranks and steps loses its details; energy and sums stay."""
    root, outbox, powercap = tmp_path / "run", tmp_path / "out", two_packages(tmp_path)
    outbox.mkdir(mode=0o700)
    with (outbox / "test-1-0.c1.json").open("w") as old:
        old.truncate(taken * MIB)
    begin(root, elsewhere=show_powercap(powercap))
    path = tmp_path / "segment"
    path.write_bytes(segment(*(slot(rank, 64, 10**9 + rank, start=1, end=2) for rank in range(64))))
    for step in range(6):
        driver("step", root, 7, step, 10, 0, path, elsewhere=show_powercap(powercap))
    assert driver("finish", root, 7, outbox, "", elsewhere=show_powercap(powercap))["code"] == 0
    made = record(outbox)
    assert (outbox / "test-7-0.c1.json").stat().st_size <= most
    assert made["energy"]["zones_uj"] and len(made["steps"]) + made["steps_left_out"] == 6
    assert any("ranks" in step["wait"] and step["wait"]["ranks"] for step in made["steps"]) == (most > 4096)
