"""States that stay on a node: a live job's, whatever the time of day says, and an earlier run's without a record."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.lib.record_tools import NO_POWERCAP, driver, run

NOW_S = 1_700_000_000.0
MONTH_S = 31 * 86400


def begin(root: Path, job: int, now_s: float = NOW_S, run: int | None = None) -> None:
    """run: which one of the job's, as its prolog is told."""
    anew = ["", "", "anew"] if run is not None else []
    words: list[object] = [root, job, 2, 4, "test", "c1", "nap", run or 0, *anew]
    assert driver("begin", *words, elsewhere=NO_POWERCAP, now_s=now_s)["code"] == 0


def test_a_clock_that_jumps_by_a_month_takes_no_state(tmp_path: Path) -> None:
    """By the time of day nothing was written there for a month; by the time that the node has been up, since today."""
    begin(tmp_path, 7)
    os.utime(tmp_path / "c1/7", (NOW_S - MONTH_S, NOW_S - MONTH_S))
    begin(tmp_path, 8)
    assert (tmp_path / "c1/7/job.json").exists()


def test_what_is_none_of_a_job_stays(tmp_path: Path) -> None:
    begin(tmp_path, 7)
    for name in ("7.", "7.1x", "x7", "7.1.1", "cpufreq", "99999999999"):
        (tmp_path / "c1" / name).mkdir()
        os.utime(tmp_path / "c1" / name, (0, 0))
    begin(tmp_path, 8, NOW_S + MONTH_S)
    assert len(list((tmp_path / "c1").iterdir())) >= 7


def test_what_killed_writers_have_begun_goes_after_a_day(tmp_path: Path) -> None:
    begin(tmp_path, 7)
    kept = {"topology-b-0-3.xml": 0.0, ".writer": 0.0, ".writer.words": 0.0, ".energy.12": NOW_S - 3600,
            "topology-b-0-3.xml.12": NOW_S - 3600}
    stale = {".energy.4711": 0.0, "..writer.words.4711": 0.0, "topology-b-0-3.xml.4711": 0.0}
    for name, then in (kept | stale).items():
        (tmp_path / "c1" / name).touch()
        os.utime(tmp_path / "c1" / name, (then, then))
    begin(tmp_path, 8)
    found = {path.name for path in (tmp_path / "c1").iterdir()}
    assert found & (kept | stale).keys() == kept.keys()


@pytest.mark.parametrize("runs", [1, 2])
def test_an_earlier_run_without_a_record_gets_it_later(tmp_path: Path, runs: int) -> None:
    """The epilog dies after its note, before it has set the state apart, and the job is requeued: each run's record is
    made later."""
    root, outbox = tmp_path / "run", tmp_path / "out"
    for number in range(runs + 1):
        begin(root, 7, NOW_S + 100 * number, number)
        if number < runs:
            driver("end", root, 7, elsewhere=NO_POWERCAP, now_s=NOW_S + 100 * number + 50)
            (root / f"c1/7.{number + 1}").rename(root / "c1/7")
    assert {path.name for path in (root / "c1").iterdir() if path.name[0] == "7"} == {
        "7", *(f"7.{number}" for number in range(1, runs + 1))}
    done = run("mpi-wait-node", "sweep", "--only-move", "--state", root, "--outbox", outbox, f"spool={tmp_path}/none",
               elsewhere=NO_POWERCAP, now_s=NOW_S + 1000)
    assert "7.1" not in done.stderr, done.stderr
    ends = sorted(json.loads(path.read_text())["end_s"] for path in outbox.glob("*.json"))
    assert ends == [NOW_S + 100 * number + 50 for number in range(runs)]
    assert [path.name for path in (root / "c1").iterdir() if path.name[0] == "7"] == ["7"]


def test_a_job_that_began_under_the_former_release_has_its_record(tmp_path: Path) -> None:
    root, outbox = tmp_path / "run", tmp_path / "out"
    begin(root, 7)
    state = root / "c1/7/job.json"
    newer = ("cpus", "usable", "sources", "gpu_list", "begun_ns", "too_late", "gpus", "meters")
    state.write_text(json.dumps({key: value for key, value in json.loads(state.read_text()).items()
                                 if key not in newer}))
    driver("end", root, 7, elsewhere=NO_POWERCAP, now_s=NOW_S + 50)
    run("mpi-wait-node", "sweep", "--only-move", "--state", root, "--outbox", outbox, f"spool={tmp_path}/none",
        elsewhere=NO_POWERCAP, now_s=NOW_S + 1000)
    record = json.loads(next(outbox.glob("*.json")).read_text())
    assert (record["start_s"], record["end_s"], record["policy"]["asked"]) == (NOW_S, NOW_S + 50, "nap")
