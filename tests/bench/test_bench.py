"""Tests that the benchmarks run, and that their results are valid. The figures are not judged here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bench import codes, document, engine, forecasts, publish, targets, variants
from tests.bench.benchmarks import applications, imbalance, late_sender, launch
from tests.bench.engine import Cell, Failure, Measured, Row
from tests.lib import libraries
from tests.lib.libraries import BUILD, LIBRARY, ROOT

RUN = ROOT / "tests/bench/run"
NAMES = ("late-sender", "calls", "imbalance", "oversubscription", "patterns", "polling", "polls", "threads", "launch",
         "record", "sampler", "applications", "foresight", "launches", "job", "scale")
SMALL = {"scale": ("--pick=ranks=2", "--pick=steps=20")}  # few ranks, for machines with few cores
built = pytest.mark.skipif(not LIBRARY.exists() or not (BUILD / "tests/bench/programs/stamp").exists(),
                           reason=f"not built: {LIBRARY}")


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RUN, *words], capture_output=True, text=True, timeout=300, check=False)


@built
@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_and_its_results_validate(name: str, tmp_path: Path) -> None:
    done = bench(name, "--short", "--rounds=1", f"--out={tmp_path}", *SMALL.get(name, ()))
    assert done.returncode == 0, done.stdout + done.stderr
    results = document.read(tmp_path / f"{name}.json")
    assert results["short"] == (name != "scale") and results["problems"] == []
    if not results["rows"]:
        pytest.skip("; ".join(f"{what}: {why}" for what, why in results["unavailable"].items()))
    for row in results["rows"]:
        for figure in row["figures"].values():
            assert figure["low"] <= figure["median"] <= figure["high"] and len(figure["values"]) >= 1
    picture = tmp_path / f"{name}.png"
    if "no picture" in done.stdout:
        pytest.skip("no matplotlib: the picture was NOT drawn")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 200_000


def measured(*samples: tuple[str, str, dict, dict]) -> Measured:
    found = Measured()
    for group, variant, point, figures in samples:
        found.add(group, variant, [(point, figures)])
    return found


def test_variants_take_turns() -> None:
    played: list[str] = []

    def cell(group: str, variant: str) -> Cell:
        return Cell(group, variant, lambda: played.append(group + variant) or [({}, {"x": 1.0})])

    found = Measured()
    engine.run([cell("a", "1"), cell("a", "2"), cell("b", "1"), cell("b", "2")], 2, found, lambda what: None)
    assert played == ["a1", "a2", "a2", "a1", "b1", "b2", "b2", "b1"]
    assert [len(row.values["x"]) for row in found.rows] == [2, 2, 2, 2]


def test_a_launch_that_fails_is_a_problem_and_not_tried_again() -> None:
    tried: list[int] = []

    def fail() -> list[engine.Sample]:
        tried.append(1)
        raise Failure("exit status 3")

    found = Measured()
    engine.run([Cell("a", "nap", fail)], 5, found, lambda what: None)
    assert found.problems == ["a, nap: exit status 3"] and len(tried) == 1 and found.rows == []


def test_pairs_are_compared_round_by_round() -> None:
    found = Measured()
    for bare, nap in ((10, 11), (100, 120), (20, 22)):  # a slow round is slow for both
        found.add("a", "no library", [({}, {"x": bare})])
        found.add("a", "nap", [({}, {"x": nap})])
    nap, bare = found.find("a", "nap"), found.find("a", "no library")
    assert engine.ratio(nap, bare, "x") == pytest.approx(1.1) and engine.difference(nap, bare, "x") == 2
    assert engine.ratio(nap, None, "x") is None and engine.quantile([1, 2, 3, 4], 0.5) == 2.5


@pytest.mark.parametrize(("share", "median", "met"), [(0.05, 40, "met"), (0.2, 40, "not met"),
                                                      (None, 0, "not measured")])
def test_targets_are_judged(share: float | None, median: float, met: str) -> None:
    found = Measured()
    point = {"call": "recv", "bytes": 8, "delay_us": 1000.0}
    if share is not None:
        for group, worse in (("openmpi", 0.5), ("mpich", 1)):
            found.add(group, "no library", [(point, {"cpu_share": 1, "median_us": 2, "p99_us": 5})])
            found.add(group, "nap", [(point, {"cpu_share": share * worse, "median_us": median, "p99_us": 90})])
    judged = late_sender.targets(found)[0].as_dict()
    assert targets.verdict(judged) == met
    if share:
        assert judged["value"] == pytest.approx(100 * share), "the worst of the libraries counts"
        assert "openmpi" in judged["why"] and "mpich" in judged["why"]


def test_a_step_may_be_longer_by_the_budget_and_no_more() -> None:
    def beyond(added_us: float) -> float | None:
        point = {"imbalance": 80, "step_us": 2000.0}
        found = measured(("openmpi", "no library", point, {"step_wall_us": 2000.0, "cpu_over_work": 2.0}),
                         ("openmpi", "nap", point, {"step_wall_us": 2000.0 + added_us, "cpu_over_work": 1.05}))
        return imbalance.targets(found)[2].value
    assert beyond(99) == pytest.approx(-1) and beyond(101) == pytest.approx(1), "a sixteenth of 1600 us of waiting"


def test_the_epilog_is_timed_by_the_controller_s_log() -> None:
    log = ("[2026-01-01T23:59:59.900] _job_complete: JobId=7 done\n"
           "[2026-01-01T23:59:59.950] debug2: node_did_resp c1\n"
           "[2026-01-02T00:00:00.025] debug2: _slurm_rpc_epilog_complete: JobId=7 Node=c1\n")
    assert launch.epilog_times(log, "7")["epilog_ms"] == pytest.approx(125)
    without_epilog = "".join(log.splitlines(True)[:2])
    assert launch.epilog_times(without_epilog, "7")["epilog_ms"] == pytest.approx(50)
    assert launch.epilog_times(log, "8") == {}


def test_callbacks_are_timed_by_those_around_them() -> None:
    trace = ("before init 2 11 1000000 0\nbefore init 2 12 1000000 0\nafter init 2 12 4000000 2000000\n"
             "after init 2 11 2000000 1000000\nafter exit 2 11 9 9\n")
    assert launch.traced(trace) == {("init", "slurmstepd"): {"callback_ms": 2.0, "cpu_ms": 1.5}}


def test_what_is_published_says_what_was_not_met_and_not_measured(tmp_path: Path) -> None:
    found = measured(("openmpi", "nap", {}, {"x": 1.0}))
    wanted = [targets.at_most("one", 5, 10, "ms"), targets.at_most("two | three", 11, 10, "ms", "worst of 3"),
              targets.at_most(publish.SHOWN[2], 11, 10, "ns"),
              targets.at_least("four", None, 1, "")]
    found.unavailable["hpcc"] = "not installed"
    results = document.make("calls", "A title", found, wanted, False, 1, 0, [0, 0, 0])
    document.write(tmp_path / "calls.json", results)
    (tmp_path / "calls.png").write_bytes(b"a picture")
    (tmp_path / "README.md").write_text("before\n<!-- begin benchmark -->\nold\n<!-- end benchmark -->\nafter\n")
    publish.write([document.read(tmp_path / "calls.json")], tmp_path, tmp_path, tmp_path / "README.md")
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before\n") and readme.endswith("after\n") and "old" not in readme
    assert f"| {publish.SHOWN[2]} | at most 10 ns | 11 ns, **not met** |" in readme and "| one |" not in readme
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| one | at most 10 ms | 5 ms | met |" in page
    assert "| two \\| three | at most 10 ms | 11 ms | **not met** | worst of 3 | `tests/bench/run calls` |" in page
    assert "Of 4 targets: 1 met, 2 not met, 1 not measured." in page and "not quiet" not in page
    assert "| four | at least 1 | – | not measured |" in page and "Not measured: hpcc: not installed." in page
    assert "![A title](results/calls.png)" in page and (tmp_path / "results/calls.png").exists()
    wanted[0] = targets.at_most("one", 12, 10, "ms")
    again = document.make("calls", "A title", found, wanted, False, 1, 0, [0, 0, 0])
    again["seconds"] = 7
    five = [targets.at_most("five", 1, 2, "ms")]
    other = document.make("polls", "Another title", found, five, False, 1, 0, [0, 0, 0])
    publish.write([results, other], tmp_path, tmp_path, tmp_path / "README.md")
    publish.write([again], tmp_path, tmp_path, tmp_path / "README.md")
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| one | at most 10 ms | 12 ms | **not met** |" in page and page.count("## A title") == 1
    assert "| five | at most 2 ms | 1 ms | met |" in page and "## Another title" in page
    assert "`tests/bench/run calls`, 7 s" in page and "`tests/bench/run polls`, 7 s" not in page
    assert "Of 5 targets: 1 met, 3 not met, 1 not measured." in page
    again["targets"][0]["text"] = "six"
    with pytest.raises(ValueError, match="no such row yet: . six "):
        publish.write([again], tmp_path, tmp_path, tmp_path / "README.md")
    results["load"]["before"][0] = 3
    assert "not quiet: its load was 3" in publish.page([results], tmp_path)
    if not Path("/sys/class/powercap").exists():
        assert "**Energy: not measured" in page


def application(group: str, variant: str, **figures: float) -> Row:
    return Row(group, variant, {}, {name: [value] for name, value in figures.items()})


def test_an_application_is_judged_by_its_work_alone() -> None:
    """A program whose ranks hardly wait has no CPU time to save: only its wall time is judged."""
    found = Measured(rows=[
        application("waits", variants.BARE, wall_s=10, cpu_s=20),
        application("waits", "profile", wall_s=10, cpu_s=20, waited_s=8, asleep_s=0),
        application("waits", "nap", wall_s=10.2, cpu_s=15, waited_s=8, asleep_s=7, long_waits=8000),
        application("computes", variants.BARE, wall_s=10, cpu_s=20),
        application("computes", "profile", wall_s=10, cpu_s=20, waited_s=1.9, asleep_s=0),
        application("computes", "nap", wall_s=9.9, cpu_s=20, waited_s=1.9, asleep_s=0, long_waits=0),
        Row(applications.SLEEPS, forecasts.SLEEP, {"nap_us": 1000},
            {"late_us": [20], "late_99_us": [35], "cpu_us": [15]}),
    ])
    judged = {target.text: target for target in applications.targets(found)}
    assert [round(target.value or 0, 6) for target in judged.values()] == [25, 2, -1]
    assert [target.met for target in judged.values()] == [False, False, True]
    assert judged["waits, nap: CPU time above the work alone"].why == "the work takes 12 s; at least 2 %"
    assert judged["waits, nap: wall time above that without the library"].why == (
        "10 s without; nap +2.0 % (+2.0 to +2.0); profile +0.0 % (+0.0 to +0.0)")
    results = document.make(applications.NAME, "A title", found, list(judged.values()), False, 1, 0, [0, 0, 0])
    page = "\n".join(applications.section_lines(results))
    assert "| waits | nap | 10.20 | 15.00 | 8.00 | 7.00 |" in page
    assert f"| waits | {variants.BARE} | 10.00 | 20.00 | – | – |" in page and applications.SLEEPS not in page
    assert "(the work takes 12 s; at least 2 %) | 10 % | 25 % | not met |" in page
    assert "| CPU time above the work | 1 of 1 | waits, nap: 25 %, wanted 10 | Each wait" in page
    assert "| wall time | 1 of 2 | waits, nap: 2 %, wanted 1 | The account" in page


def test_the_codes_inputs_are_in_the_tree() -> None:
    named = {name for code in codes.CODES for name in code.inputs}
    assert named == {path.name for path in codes.INPUTS.iterdir()}
    assert all(code.standard_input in (*code.inputs, "") and code.words for code in codes.CODES)


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "calls.json").write_text(json.dumps({"version": 0}))
    done = bench("--draw", f"--out={tmp_path}")
    assert done.returncode == 1 and "has no results of this version" in done.stderr


def test_wrong_usage_is_refused() -> None:
    done = bench("calles")
    assert done.returncode == 2 and "no benchmark 'calles' (there are: late-sender" in done.stderr
    assert "name a benchmark" in bench().stderr
    assert bench("applications", "--application=x").returncode == 2


@built
def test_nothing_outlives_a_run_that_is_ended(tmp_path: Path) -> None:
    mark = f"{4000 + os.getpid() % 1000}.5"
    command = f"own=sh -c 'echo >{tmp_path}/began; sleep {mark}; true'"
    with subprocess.Popen([RUN, "applications", f"--out={tmp_path}", f"--application={command}"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        while not (tmp_path / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        run.terminate()
        assert run.wait(30) == 143
    left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, timeout=30, check=True).stdout
    assert f"sleep {mark}" not in left.splitlines()


def test_an_end_amid_a_launch_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes inside Popen's constructor, before anything else knows the process."""
    begun = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            begun.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(libraries.subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
    try:
        with pytest.raises(SystemExit):
            libraries.execute(["sleep", "4321"], dict(os.environ), 100)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert begun[0].returncode == -signal.SIGKILL


@built
def test_an_application_of_the_site_s_own(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = f"own=sh -c 'echo \"${{LD_PRELOAD:-none}}\" >>{seen}'"
    done = bench("applications", "--short", "--rounds=1", f"--out={tmp_path}", f"--application={command}")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row for row in document.read(tmp_path / "applications.json")["rows"] if row["group"] == "own"]
    assert [row["variant"] for row in rows] == ["no library", "nap"]
    assert seen.read_text().split() == ["none", str(LIBRARY)] and "cpu_s" in rows[0]["figures"]
