"""Tests the benchmark scale: what its program plans, that it plays, and how it sums up rounds."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import codes, document, engine, machine, measuring, picked, publish, variants
from tests.bench.benchmarks import scale
from tests.bench.engine import Cell, Measured
from tests.bench.plan import Plan
from tests.lib.libraries import BUILD, LIBRARY, ROOT

RUN = ROOT / "tests/bench/run"
built = pytest.mark.skipif(not LIBRARY.exists() or not (BUILD / "tests/bench/programs/bound").exists(),
                           reason=f"not built: {LIBRARY}")


def made(ranks: int, rounds: int = 6, steps: int = 700, **longer: float) -> Measured:
    """Returns rounds that get slower. nap and profile are longer by the given per cent in each."""
    found = Measured()
    point = {"pattern": "always", "ranks": ranks, "step_ms": 1, "steps": steps}
    group = f"openmpi-5, {ranks} ranks, always, 1 ms, {steps} steps"
    for number in range(rounds):
        for variant, cpu in ((variants.BARE, 99), ("nap", 40), ("profile", 98)):
            wall = (1300 + 10 * number) * (1 + longer.get(variant, 0) / 100)
            found.add(group, variant, [(point, {"step_wall_us": wall, "ideal_us": 1300, "wait_us": 280,
                                                "wait_cpu_percent": cpu + number})])
    return found


def code_made(found: Measured, ranks: int) -> Measured:
    for number in range(7):
        for variant, wall in ((variants.BARE, 10), ("nap", 10.1), ("profile", 10)):
            figures = {"wall_s": wall + number, "cpu_s": 8 * ranks}
            more = {"waited_s": 2.6 * ranks, "asleep_s": 1.3 * ranks} if variant != variants.BARE else {}
            found.add(f"a code, {ranks} ranks", variant, [({"code": "a code", "ranks": ranks}, {**figures, **more})])
    return found


def results_of(measured: Measured) -> dict[str, Any]:
    results = document.make(scale.NAME, scale.TITLE, measured, scale.targets(measured), False, 6, 0, [0, 0, 0])
    return json.loads(json.dumps(results))


@built
def test_a_pattern_s_work_adds_up() -> None:
    """Sums are in steps, for 16 ranks and 800 steps. The noise is the same in each run, and its mean is small."""
    expected = {"always": 16.3, "rotate": 16.3, "half": 20, "random": 16, "drift": 16, "heavy": 16.21}
    assert expected.keys() == scale.PATTERNS.keys()
    for pattern, ranks_work in expected.items():
        sums, ideal = planned(pattern, 800, 16)
        assert sum(sums) == pytest.approx(800 * ranks_work, rel=0.003), pattern
        assert max(sums) / 800 - 1e-6 <= ideal <= 2, "no rank's mean exceeds the mean of the longest"


@built
def test_a_pattern_s_slow_ranks_are_where_they_should_be() -> None:
    always, rotate, half = (planned(pattern, 800, 16)[0] for pattern in ("always", "rotate", "half"))
    assert max(range(16), key=lambda rank: always[rank]) == 8 and always[8] == pytest.approx(1040, rel=0.003)
    assert all(work == pytest.approx(800 + 0.3 * 50, rel=0.003) for work in rotate), "each is slow once in 16 steps"
    assert all(work == pytest.approx(1200 if rank % 2 else 800, rel=0.005) for rank, work in enumerate(half))


def planned(pattern: str, steps: int, ranks: int) -> tuple[list[float], float]:
    """Returns each rank's work, and the mean of the steps' longest work."""
    mpi = variants.BY_NAME["openmpi-5"]
    words = [variants.program(mpi, "meet"), "plan", pattern, "1000", str(steps), str(ranks)]
    output = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60,
                            env=variants.environment_of(mpi)).stdout
    lines = [line.split() for line in output.splitlines()]
    assert [line[2] for line in lines[:-1]] == [str(rank) for rank in range(ranks)]
    return [float(line[3]) for line in lines[:-1]], float(lines[-1][2])


@built
def test_it_plays_small(tmp_path: Path) -> None:
    done = subprocess.run([RUN, "scale", "--short", "--rounds=1", "--pick=ranks=2", "--pick=steps=20",
                           "--pick=pattern=rotate", "--mpi=openmpi-5", "--mpi=mpich-5", f"--out={tmp_path}"],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "scale: 6 launches, about 7 s" in done.stdout, done.stdout + done.stderr
    results = document.read(tmp_path / "scale.json")
    assert [row["group"] for row in results["rows"][::3]] == [
        f"{name}, 2 ranks, rotate, 1 ms, 20 steps" for name in ("openmpi-5", "mpich-5")]
    assert [row["variant"] for row in results["rows"][:3]] == [variants.BARE, "nap", "profile"]
    for row in results["rows"]:
        wall, ideal = (row["figures"][name]["median"] for name in ("step_wall_us", "ideal_us"))
        assert wall >= 0.999 * ideal > 1280, "work lasts as long as planned"
    assert results["command"].endswith("scale --pick ranks=2 --pick steps=20 --pick pattern=rotate")
    assert scale.NOT_MEASURED in publish.own_lines(scale.published(results), tmp_path / "none.png")


def test_few_cores_measure_nothing_unless_asked() -> None:
    def counts(cores: int, short: bool, *texts: str) -> tuple[list[int], dict[str, str]]:
        plan = Plan(short, None, Measured(), picked=picked.read(texts))  # type: ignore[arg-type]
        return scale.rank_counts(plan, cores, 2 * cores), plan.measured.unavailable
    assert counts(2, False)[0] == [] and "this machine has 2 cores and 4 are needed" in str(counts(2, False)[1])
    assert counts(2, False, "ranks=2") == ([2], {})
    assert counts(2, False, "ranks=2,4,8") == ([2, 4], {"8 ranks": "this machine has 4 CPUs"})
    assert counts(16, False)[0] == [4, 8, 16] and counts(24, False)[0] == [4, 8, 16, 24]
    assert counts(16, True)[0] == [16]


def test_the_short_form_fits_ten_minutes_on_16_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "available", lambda names, *_: [variants.BY_NAME[name] for name in names])
    monkeypatch.setattr(variants, "policy_variants", lambda mpi, names: [variants.Variant(name) for name in names])
    monkeypatch.setattr(scale.machine, "cores", lambda: list(range(16)))
    monkeypatch.setattr(scale.machine, "cpus", lambda: list(range(16)))
    cells = scale.cells(Plan(True, None, Measured()))  # type: ignore[arg-type]
    assert len(cells) == 6 * 2 * 3 and engine.launches(cells, scale.ROUNDS[True]) == 108
    assert engine.expected_s(cells, scale.ROUNDS[True]) < 600
    assert measuring.minutes(engine.expected_s(cells, scale.ROUNDS[True])) == "9 min"


def test_a_pick_that_is_wrong_is_refused() -> None:
    for text in ("ranks", "ranks=", "rank=4", "ranks=0", "steps=many", "step_ms=-1"):
        with pytest.raises(picked.Wrong, match=f"--pick {text}"):
            picked.read([text])
    some = picked.read(["pattern=always,heavy", "step_ms=0.3", "code=LAMMPS"])
    assert [name for name in scale.PATTERNS if some.has("pattern", name)] == ["always", "heavy"]
    assert [name for name in scale.CODES if some.has("code", name)] == ["LAMMPS, atoms in 0.4 of the box"]
    assert some.number("step_ms", (1, 3)) == (0.3,) and some.number("steps", (5,)) == (5,)
    plan = Plan(True, None, Measured(), picked=picked.read(["pattern=allways"]))  # type: ignore[arg-type]
    scale.picks_check(plan)
    assert plan.measured.unavailable["pattern allways"].startswith("there are: always; rotate;")


def test_an_interval_holds_the_median_with_the_probability_that_it_says() -> None:
    assert engine.interval([3, 1, 2]) == (1, 3, 0.75)
    assert engine.interval([5.0]) == (5, 5, 0)
    assert engine.interval(range(6)) == (0, 5, 1 - 2 / 64)
    assert engine.interval(range(9)) == (1, 7, 1 - 2 * 10 / 512)
    assert engine.interval(range(20)) == (5, 14, pytest.approx(0.9586, abs=1e-4))


def test_a_cell_may_have_rounds_of_its_own() -> None:
    played: list[str] = []
    cells = [Cell("a", "1", lambda: played.append("a") or [({}, {"x": 1.0})], seconds=2),
             Cell("b", "1", lambda: played.append("b") or [({}, {"x": 1.0})], 3, 5),
             Cell("b", "2", lambda: played.append("c") or [({}, {"x": 1.0})], 1)]
    engine.run(cells, 2, Measured(), lambda what: None)
    assert played == ["a", "a", "b", "c", "b", "b"]
    assert engine.launches(cells, 2) == 6 and engine.expected_s(cells, 2) == 19


def test_threads_of_a_core_are_no_cores() -> None:
    assert machine.first_threads([0, 1, 2, 3], ["0,2", "1,3", "0,2", "1,3"]) == [0, 1]
    assert machine.first_threads([2, 5], ["unknown", "unknown"]) == [2, 5]
    assert set(machine.cores()) <= set(machine.cpus()) == os.sched_getaffinity(0)
    results = results_of(made(16))
    results["machine"]["cores"] = 8
    assert scale.table_lines(results)[0].startswith("**16 ranks share 8 cores")


@pytest.mark.parametrize(("text", "expected"), [("200000 100000", 2), ("max 100000", math.inf), ("", math.inf)])
def test_a_quota_is_a_limit(text: str, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "first_line", lambda path: text if path.endswith("cpu.max") else "unknown")
    assert machine.quota_cpus() == expected


def test_results_are_kept_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "KEEP_S", -1)

    def cells(plan: Plan) -> list[Cell]:
        return [Cell(group, "1", lambda: [({}, {"x": 1.0})]) for group in "abc"]

    module: Any = SimpleNamespace(NAME="scale", TITLE="A title", ROUNDS=(1, 1), cells=cells, targets=lambda _: [])
    kept: list[dict[str, Any]] = []
    results = measuring.measure(module, measuring.Asked(), lambda *_: None, lambda what: None, kept.append)
    assert [len(so_far["rows"]) for so_far in kept] == [1, 2] and len(results["rows"]) == 3
    assert kept[1]["unavailable"] == {"1 of 3 groups": measuring.NOT_REACHED} and results["unavailable"] == {}


def test_the_tables_of_made_up_results() -> None:
    results = results_of(code_made(made(16, nap=0.5, profile=-0.2), 16))
    results["machine"]["cores"] = 16
    page = "\n".join(scale.section_lines(results))
    assert scale.NOT_MEASURED not in page and "(6 rounds: 97 %, 7 rounds: 98 %)" in page
    assert ("| Open MPI 5.0, 16, 1 ms | one rank always 30 % slow | 700 | 1325 | +0.5 (+0.5 to +0.5) "
            "| -0.2 (-0.2 to -0.2) | 102 (99 to 104) | 42 (40 to 45) | 100 (98 to 103) |") in page
    assert "| a code, 16 ranks | 7 | 13.00 | +0.8 (+0.6 to +1.0) | +0.0 (+0.0 to +0.0) | 128.0 " in page
    assert page.count("wall time above that without the library") == 2
    assert "(worst: always) | 1 % | 0.5 % | met |" in page
    assert "median of the patterns | 50 % | 42.5 % | met |" in page


@pytest.mark.parametrize(("ranks", "is_shown", "is_said"), [(2, False, True), (4, True, True), (16, True, False)])
def test_what_few_ranks_measured_is_not_published(ranks: int, is_shown: bool, is_said: bool, tmp_path: Path) -> None:
    (tmp_path / "scale.png").write_bytes(b"a picture")
    publish.write([results_of(made(ranks, nap=0.5))], tmp_path, tmp_path, tmp_path / "README.md")
    page = (tmp_path / "RESULTS.md").read_text()
    assert f"## {scale.TITLE}" in page and (scale.NOT_MEASURED in page) == is_said
    assert (f"| Open MPI 5.0, {ranks}, 1 ms |" in page) == is_shown
    assert (tmp_path / "results/scale.png").exists() == is_shown


def test_results_of_several_calls_are_taken_in(tmp_path: Path) -> None:
    calls = {"one": 700, "two": 5000, "three": 5000}
    for name, steps in calls.items():
        document.write(tmp_path / f"{name}.json", results_of(made(16, 3, steps, nap=2)))
    words = [RUN, f"--out={tmp_path / 'out'}", *(f"--results={tmp_path / name}.json" for name in calls)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = document.read(tmp_path / "out/scale.json")["rows"]
    assert len(rows) == 6 and [len(row["figures"]["wait_us"]["values"]) for row in rows] == [3, 3, 3, 6, 6, 6]
    other = results_of(made(16))
    other["machine"]["processor"] = "another"
    document.write(tmp_path / "two.json", other)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1 and "differ in 'machine'" in done.stderr


def test_an_alignment_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        codes.alignment_make(tmp_path / name, 400)
    assert all((tmp_path / "one" / file).read_text() == (tmp_path / "two" / file).read_text()
               for file in ("alignment", "start"))
    head, *sequences = (tmp_path / "one/alignment").read_text().splitlines()
    assert head == "16 400" and len({line.split()[1] for line in sequences}) == 16
    assert all(len(line.split()[1]) == 400 for line in sequences)
    tree = (tmp_path / "one/start").read_text()
    assert tree.count("(") == 14 and all(re.search(rf"\bs{number}\b", tree) for number in range(16))


def test_grids_and_programs_of_many_ranks(tmp_path: Path) -> None:
    assert [scale.grid(ranks) for ranks in (1, 2, 6, 7, 16, 24)] == [(1, 1), (1, 2), (2, 3), (1, 7), (4, 4), (4, 6)]
    liquid = next(code for code in scale.PLAYED if scale.LIQUID in code.inputs)
    scale.code_prepare(liquid, tmp_path, 16)
    assert (tmp_path / scale.LIQUID).read_text().endswith("\nrun 24000\n")
    assert len(scale.PLAYED) == len(scale.CODES)
