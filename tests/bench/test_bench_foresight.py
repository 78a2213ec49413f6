"""Tests what the benchmark of forecasts computes: verdicts, the best possible, and its section and that of job."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.bench import best, document, forecasts, publish, targets, unmet
from tests.bench.benchmarks import foresight, job
from tests.bench.engine import Measured
from tests.bench.forecasts import CALLS, Figures
from tests.bench.plan import Plan

SLEEP = best.Sleep(length_us=1000, late_us=5, late_99_us=25, cpu_us=10)
JOB = """\
1000 ranks, 300 steps of 1 ms, sleeps end 5 us late: job longer by %, CPU of waits in %, measured by %
                                      ladder                forecasts             silent
one rank always 30 % slow      max     +0.00   100   +0.00   +0.04    20   +0.05   +0.02    41   -0.06
the slow rank rotates          tree    +6.58    74   +0.00   +0.39    29   +0.41   +0.09    31   +0.12
half of the ranks 50 % slower  ring        -     -       -   +0.30    37   +0.25   +0.05    43   +0.11
random, 10 %                   tree        -     -       -   +0.90    45   +0.80   +1.00    50   +0.70
"""


@pytest.mark.parametrize(("wait_us", "jitter", "least_us"), [
    (1000, 0, 30),  # CPU time of the sleep, and of the polls because most sleeps end before the 99th percentile
    (1000, 0.02, 50),  # and the time by which the wait exceeds the shortest
    (25, 0, 25),  # too short for a sleep
    (28, 0.5, 28),  # may be too short for a sleep
    (31, 0, 30), (29, 0, 29),  # never more than polling
])
def test_the_best_of_a_wait(wait_us: float, jitter: float, least_us: float) -> None:
    assert best.wait_cpu_us(wait_us, SLEEP, jitter) == pytest.approx(least_us)
    assert best.wait_cpu_share(wait_us, SLEEP, jitter) == pytest.approx(least_us / wait_us)


def test_the_best_of_steps_and_of_waits_by_chance() -> None:
    assert best.step_cpu_over_work(1000, 0.4, SLEEP) == pytest.approx(30 / 1600), "one of two ranks waits"
    assert best.step_cpu_over_work(1000, 0, SLEEP) == 0
    assert best.coin_cpu_share(100, 1900, SLEEP) == pytest.approx((100 + 100 + 30) / 2000), "the short one is polled"
    assert best.change_cpu_share((300, 1000), SLEEP) == pytest.approx(60 / 1300)


def test_the_sleep_that_is_nearest_in_length_counts() -> None:
    sleeps = [best.Sleep(length, 0, 0, 0) for length in (100, 1000, 5000)]
    found = [best.nearest(sleeps, length).length_us for length in (1, 300, 400, 2300, 90000)]
    assert found == [100, 100, 1000, 5000, 5000]


def wait_row(cpu: float, median: float, p99: float, after: float = 0) -> dict[str, float]:
    return {"cpu_share": cpu, "median_us": median, "p99_us": p99, "after_us": after, "run_us": 1e6, "count": 100}


def measured(cpu: float = 0.07, median: float = 4, p99: float = 20, after: float = 9000) -> Measured:
    """Returns measurements of one library, with the given figures for nap."""
    found = Measured()
    found.add("openmpi", "sleep", [({"nap_us": 1000.0}, {"late_us": 5, "late_99_us": 25, "cpu_us": 10})])
    near, coin = {"scene": "near", "late_us": 1000.0}, {"scene": "coin", "late_us": 1000.0}
    steps = [{"who": who, "imbalance": 40, "step_us": 1000.0} for who in foresight.WHO]
    for variant, values in {"no library": (1, 2, 3, 200), "ladder": (0.5, 30, 60, 3000),
                            "nap": (cpu, median, p99, after)}.items():
        rows = [(near, wait_row(*values[:3])), (coin, wait_row(*values)),
                (dict(CALLS), {"call_ns": 30 + values[1], "messages": 1e6, "oneway_us": 1})]
        for place, point in enumerate(steps):
            rows.append((point, {"cpu_over_work": 1 + values[0], "step_wall_us": 1000 + values[1] * place}))
        found.add("openmpi", variant, rows)
        found.add("instructions", variant, [({"call": "MPI_Send"}, {"instructions": 20 + values[1]})])
    return found


def verdicts(found: Measured) -> dict[str, str]:
    return {target.text.removeprefix("Open MPI 4.1, "): targets.verdict(target.as_dict())
            for target in foresight.targets(found)}


def test_each_figure_is_judged_by_what_is_wanted_of_it() -> None:
    good = verdicts(measured())
    assert set(good.values()) == {"met"} and len(good) == 12
    worse = verdicts(measured(cpu=0.41, median=5.1, p99=27.1, after=10300))
    missed = {text for text, verdict in worse.items() if verdict == "not met"}
    assert missed == {"1 ms late: CPU of the wait", "1 ms late: median lateness",
                      "1 ms late: 99th percentile of the lateness, that of a sleep at most",
                      "steps of 1 ms: CPU time above the work, worst of 3", "0.1 or 1.9 ms by coin: delay, of the run",
                      "0.1 or 1.9 ms by coin: CPU of the wait"}


def test_what_is_not_met_has_a_reason() -> None:
    def table(found: Measured) -> list[str]:
        return unmet.lines([target.as_dict() for target in foresight.targets(found)])

    assert all(unmet.kind_of(target.text) is not None for target in foresight.targets(measured())
               if not target.text.startswith("instructions"))
    assert table(measured()) == []
    rows = table(measured(cpu=0.41, median=5.1, p99=27.1, after=10300))[4:-1]
    assert len(rows) == 6 and all(row.count("|") == 5 and not row.endswith("|  |") for row in rows)
    assert rows[0].startswith("| late partner, CPU | 1 of 1 | Open MPI 4.1, 1 ms late: 41 %, wanted 8 | The best")


def test_the_delay_is_what_waits_end_later_in_all_of_the_run() -> None:
    figures = Figures(measured().rows)
    assert forecasts.delay_percent(figures, "openmpi", "nap", "coin") == pytest.approx(100 * (9000 - 200) / 1e6)
    assert forecasts.delay_percent(figures, "openmpi", "nap", "uniform") is None


def test_what_was_not_measured_is_said_so() -> None:
    found = measured()
    found.rows = [row for row in found.rows if row.variant != "nap" and row.group != "instructions"]
    assert set(verdicts(found).values()) == {"not measured"}


def made(name: str, found: Measured, module: Any) -> dict[str, Any]:
    results = document.make(name, module.TITLE, found, module.targets(found), False, 1, 0, [0, 0, 0])
    return {**results, "stolen_percent": 0.5}


def job_measured() -> Measured:
    found = Measured()
    for way, samples in job.lines_read(JOB).items():
        found.add(job.group_of(1000, job.GOOD), way, samples)
    return found


def test_the_emulator_s_lines_are_read_and_judged() -> None:
    found = job_measured()
    row = found.find("1000 ranks, 5/12", "forecasts", pattern="the slow rank rotates", meeting="tree")
    assert row and row.values == {"longer_percent": [0.39], "cpu_percent": [29.0], "measured_percent": [0.41]}
    assert len(found.rows) == 10, "the ladder did not play two of them"
    assert [(target.value, target.met) for target in job.targets(found)] == [
        (31, False), (0.39, False), (50, True), (1, True), (None, None), (None, None), (None, None), (None, None),
        (1, True), (21, False)]


def plan_of(short: bool) -> Plan:
    return Plan(short, ExitStack(), Measured())


def test_the_emulator_plays_what_is_selected() -> None:
    assert job.GOOD.words == ("5", "12", "0", "0", "0", "0") and str(job.TAIL) == "5/12, late tail"
    cells = job.cells(plan_of(short=True))
    assert [cell.group for cell in cells[::3]] == ["50 ranks, 5/12", "50 ranks, 16/36", "50 ranks, 5/12, late tail"]
    largest = [cell for cell in job.cells(plan_of(short=False)) if cell.group == "10000 ranks, 16/36"]
    assert [cell.variant for cell in largest] == 2 * [*job.WAYS[1:]]
    assert [cell.rounds for cell in largest] == 2 * [job.ROUNDS[0]] + 2 * [job.MOST_TIMES * job.ROUNDS[0]]


def test_each_round_of_an_emulated_job_is_another_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(words: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(words[9])
        return subprocess.CompletedProcess(words, 0, JOB.replace("29 ", f"{20 + int(words[9])} "), "")

    monkeypatch.setattr(job.subprocess, "run", run)
    job.started.cache_clear()
    telling, silent, *_ = (cell for cell in job.cells(plan_of(short=False)) if cell.group == "10000 ranks, 16/36")
    for draw in range(3):
        played = [cell.play() for cell in (telling, silent)]
        assert played == [job.lines_read(JOB.replace("29 ", f"{20 + draw} "))[way] for way in job.WAYS[1:]]
    assert {"0", "1", "2"} <= set(ran) <= set("01234") and len(set(ran)) == len(ran)
    job.started.cache_clear()


def test_each_has_a_section_of_its_own_that_others_leave_alone(tmp_path: Path) -> None:
    readme, page = tmp_path / "README.md", tmp_path / "RESULTS.md"
    readme.write_text("before\n\n<!-- begin benchmark -->\n<!-- end benchmark -->\n\n<!-- begin foresight -->\nold\n"
                      "<!-- end foresight -->\n\nafter\n")
    documents = [made("foresight", measured(), foresight), made("job", job_measured(), job)]
    for results in documents:
        document.write(tmp_path / f"{results['benchmark']}.json", results)
    publish.write([document.read(tmp_path / "foresight.json"), documents[1]], tmp_path, tmp_path, readme)
    text = page.read_text()
    assert text.startswith("<!-- begin foresight -->") and "<!-- begin job -->" in text
    assert "| 1 ms | 100 | 50 | 7 met | 8 | 5 | 2 | 28 | 2 met | 3 | 58 | 18 met | 25 |" in text
    assert "| 1 ms | 100 | 50 | 7 met | 8 | 1.88 | 5.13 | 2.79, 5.58 | 0.2 met | 0.398 met |" in text
    assert "| 0.1 or 1.9 ms by coin | 50 | 7 met | 40 | 11.5 | -4.5 | 0.28 | 0.88 met | 1 |" in text
    assert "| Open MPI 4.1 | 28 | 2 met | 1 | 1 met | 1 | 1 met |" in text
    assert "0.5 % of the CPU time stolen meanwhile, load before 0" in text
    assert "| the slow rank rotates, tree | 6.58, 74 | 0.39 (0.41), 29 | 0.09 (0.12), 31 |" in text
    assert "| half of the ranks 50 % slower, ring | – | 0.30 (0.25), 37 | 0.05 (0.11), 43 |" in text
    assert "No draw with forecasts was longer by more than 1.00 %." in text
    assert "old" not in readme.read_text() and "`nap`'s forecasts meet " in readme.read_text()
    other = document.make("calls", "Others", measured(), [targets.at_most("one", 5, 10, "ms")], False, 1, 0, [0, 0, 0])
    publish.write([other], tmp_path, tmp_path, readme)
    again = page.read_text()
    assert again.startswith("# What it costs") and "## Others" in again
    assert again.endswith(text[text.index("<!-- begin foresight -->"):])
    publish.write([documents[1]], tmp_path, tmp_path, readme)
    assert page.read_text() == again
