"""The core of mpi-wait try: intervals, the plan and the verdicts, on numbers alone."""

from __future__ import annotations

import json
import math
import random
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mpi_wait_tools.text.output import Refusal
from mpi_wait_tools.trial.experiment import Experiment, Run, as_json, from_json
from mpi_wait_tools.trial.verdict import (
    ALIKE,
    AVOID,
    FAILED,
    FEW,
    ROUNDS_MAX,
    ROUNDS_MIN,
    SMALL_NOT,
    SMALL_USE,
    UNSURE,
    USE,
    Ratio,
    bootstrap_of,
    change,
    decide,
    enough,
    mean_of,
    next_round,
    order_of,
    ratio_of,
    round_s,
    t_quantile,
    verdict_of,
)

EMPTY = Experiment(("srun", "./app"), ("nap",), "srun", seed=7)


def ratio(low: float, high: float) -> Ratio:
    return Ratio(math.sqrt(low * high), low, high, 10, 0.01)


def drawn(
    seed: int, rounds: int | None, effect: float = 1.0, noise: float = 0.02, odd: float = 0.0, cpu: float = 1.0
) -> Experiment:
    """A simulated experiment, by the plan itself: each round has a pace of its own, each run its own noise, and a part
    of the runs is disturbed."""
    dice = random.Random(seed)
    experiment = replace(EMPTY, seed=seed).with_run(Run(0, "off", 0, 30.0, 40.0))
    while not enough(experiment, rounds):
        number, pace = next_round(experiment), dice.gauss(0, 0.05)
        for policy in order_of(experiment, number):
            factor, saved = (effect, cpu) if policy == "nap" else (1.0, 1.0)
            late = 0.1 * dice.random() if dice.random() < odd else 0.0
            wall = 30.0 * factor * math.exp(pace + dice.gauss(0, noise) + late)
            used = 40.0 * saved * math.exp(pace + dice.gauss(0, noise) + late)
            experiment = experiment.with_run(Run(number, policy, 0, wall, used))
    return experiment


# 0.5 % and 3 % are what runs of a second differ by on a quiet and on a busy machine of two CPUs.
@pytest.mark.parametrize("noise,odd", [(0.005, 0.0), (0.03, 0.0), (0.01, 0.1)])
@pytest.mark.parametrize("rounds", [3, 10, None])
def test_intervals_hold_the_truth(noise: float, odd: float, rounds: int | None) -> None:
    """95 of 100 would be the promise; the plan that stops when intervals are narrow must keep it, too."""
    held = 0
    for seed in range(100):
        found = ratio_of(drawn(seed, rounds, 1.002, noise, odd).pairs("nap", "time"))
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 1.002 <= found.high
    assert held >= 90


def test_two_alike_are_seldom_told_apart() -> None:
    """Of 100 experiments with no difference at most ten may find one, and hardly any may say 'use it'."""
    kinds = [verdict_of(drawn(seed, 10, noise=0.01), "nap").kind for seed in range(100)]
    assert kinds.count(ALIKE) >= 85 and kinds.count(USE) <= 2


def test_a_large_saving_is_found() -> None:
    found = [verdict_of(drawn(seed, None, 1.001, 0.002, cpu=0.6), "nap") for seed in range(50)]
    assert [one.kind for one in found].count(USE) >= 48
    assert all(one.measures["cpu"].high is not None and one.measures["cpu"].high < 0.65 for one in found)
    assert found[0].sentence.startswith("nap: CPU time −4") and found[0].sentence.endswith(": use it")


def test_what_is_slower_than_it_may_be_is_never_advised() -> None:
    """3 % slower, however much it saves."""
    assert not [seed for seed in range(50) if verdict_of(drawn(seed, 10, 1.03, 0.01, cpu=0.5), "nap").kind == USE]


@pytest.mark.parametrize("slower,saving,allow,kind", [
    (ratio(0.997, 1.005), ratio(0.87, 0.91), 0.01, USE),
    (ratio(1.02, 1.04), ratio(0.5, 0.6), 0.01, AVOID),
    (ratio(1.02, 1.04), ratio(0.5, 0.6), 0.05, USE),
    (ratio(0.97, 1.05), ratio(0.5, 0.6), 0.01, UNSURE),
    (ratio(0.998, 1.004), ratio(0.985, 0.995), 0.01, SMALL_USE),
    (ratio(1.002, 1.006), ratio(0.985, 0.995), 0.01, SMALL_NOT),
    (ratio(0.98, 1.03), ratio(0.985, 0.995), 0.01, SMALL_NOT),
    (ratio(0.99, 1.02), ratio(0.9, 1.1), 0.01, ALIKE),
    (ratio(1.002, 1.006), ratio(0.9, 1.1), 0.01, UNSURE),
    (ratio(0.9, 0.95), ratio(0.9, 1.1), 0.01, USE),
    (ratio(0.99, 1.01), ratio(1.03, 1.05), 0.01, AVOID),
    (ratio(0.9, 0.95), ratio(1.03, 1.05), 0.01, UNSURE),
    (ratio(0.9, 0.95), None, 0.01, USE),
    (ratio(0.99, 1.02), None, 0.01, ALIKE),
    (ratio(1.02, 1.03), None, 0.01, AVOID),
])
def test_what_follows_from_intervals(slower: Ratio, saving: Ratio | None, allow: float, kind: str) -> None:
    assert decide(slower, saving, allow) == kind


def experiment(*rows: tuple[float, float, float, float], **more: Any) -> Experiment:
    """rows: time and CPU time without and with nap, by round."""
    found = replace(EMPTY, **more)
    for number, (off, nap, cpu_off, cpu_nap) in enumerate(rows, 1):
        found = found.with_run(Run(number, "off", 0, off, cpu_off)).with_run(Run(number, "nap", 0, nap, cpu_nap))
    return found


ROWS = [(10.0, 10.01, 40.0, 22.0), (10.1, 10.1, 40.2, 22.3), (9.9, 9.92, 39.9, 22.1), (10.0, 10.0, 40.1, 21.9)]


def with_energy(runs: Experiment, source: str, saved: float = 0.89) -> Experiment:
    def joules(run: Run) -> Run:
        return replace(run, joules=run.wall_s * 200 * (saved if run.policy == "nap" else 1.0), source=source)
    return replace(runs, runs=tuple(map(joules, runs.runs)))


def test_the_sentences() -> None:
    found = verdict_of(with_energy(experiment(*ROWS), "rapl"), "nap")
    assert found.sentence == "nap: energy −11 % (−11 … −11), time +0.1 % (−0.1 … +0.2): use it"
    bare = verdict_of(experiment(*ROWS), "nap")
    assert bare.sentence == "nap: CPU time −45 % (−46 … −44), time +0.1 % (−0.1 … +0.2): use it"
    noisy = experiment((10, 11, 40, 22), (11, 10, 40, 22.2), (10, 11, 40, 22), (10, 10.2, 40, 22.1))
    unsure = verdict_of(noisy, "nap").sentence
    assert "whether it is slower than the 1 % that it may be is not known after 4 rounds" in unsure
    slow = experiment((10, 11, 40, 22), (10, 11.1, 40, 22), (10, 11.05, 40, 22.2))
    assert verdict_of(slow, "nap").sentence.endswith("slower than the 1 % that it may be: do not use it")
    alike = experiment((10, 10.1, 40, 40.2), (10, 9.9, 40, 39.9), (10, 10, 40, 40.1))
    assert verdict_of(alike, "nap").sentence == "nap: not to be told apart from off in 3 rounds"
    assert verdict_of(with_energy(experiment(*ROWS), "rapl", 0.99), "nap").sentence.endswith(
        "time +0.1 % (−0.1 … +0.2): little, but it costs no time that could be seen: use it")


def test_what_a_simulated_node_used_decides_nothing() -> None:
    """It is shown under its name; CPU time decides."""
    found = verdict_of(with_energy(experiment(*ROWS), "simulated", 1.5), "nap")
    assert found.kind == USE and found.sentence.startswith("nap: CPU time −45 %")
    assert "energy (simulated) +50 %" in found.sentence
    assert verdict_of(with_energy(experiment(*ROWS), "rapl", 1.5), "nap").kind == AVOID


def test_slurms_own_energy_where_there_is_no_record() -> None:
    runs = tuple(replace(run, consumed_j=2000 * (0.8 if run.policy == "nap" else 1) + run.round)
                 for run in experiment(*ROWS).runs)
    assert "energy (ConsumedEnergy) −20 %" in verdict_of(replace(EMPTY, runs=runs), "nap").sentence


def test_zero_one_and_two_rounds() -> None:
    assert verdict_of(EMPTY, "nap").sentence == "nap: 0 rounds, and an interval needs two: nothing is said of it"
    assert verdict_of(experiment(*ROWS[:1]), "nap").kind == FEW
    assert verdict_of(experiment(*ROWS[:1]), "nap").sentence.startswith("nap: 1 round, and an interval")
    assert verdict_of(experiment(*ROWS[:2]), "nap").kind != FEW


def test_the_programs_own_figure_decides_over_time() -> None:
    """Ten percent less work an hour, where more is better; ten percent fewer seconds a step, where less is."""
    runs = tuple(replace(run, figure=12.0 * (0.9 if run.policy == "nap" else 1.0) + run.round / 1000)
                 for run in experiment(*ROWS).runs)
    more = replace(EMPTY, runs=runs, figure="x", more_is_better=True)
    assert verdict_of(more, "nap").kind == AVOID and "its own figure −10 %" in verdict_of(more, "nap").sentence
    assert verdict_of(replace(more, more_is_better=False), "nap").kind == USE


def test_a_policys_own_slowdown_is_its_allowance() -> None:
    slow = experiment((10, 10.3, 40, 22), (10, 10.31, 40, 22), (10, 10.29, 40, 22.2))
    own = replace(slow, policies=("nap,slowdown=5",), runs=tuple(
        replace(run, policy="nap,slowdown=5" if run.policy == "nap" else "off") for run in slow.runs))
    assert verdict_of(slow, "nap").kind == AVOID and verdict_of(own, "nap,slowdown=5").kind == USE
    assert verdict_of(replace(slow, allow=0.05), "nap").kind == USE


def test_a_program_that_ends_differently() -> None:
    signalled = experiment(*ROWS).with_run(Run(5, "nap", -11, 1.0)).with_run(Run(5, "off", 0, 10.0))
    found = verdict_of(signalled, "nap")
    assert found.kind == FAILED and found.sentence == (
        "nap: the program ended with signal SIGSEGV in round 5, and with exit status 0 without a policy: not judged, "
        "and not run again")
    assert order_of(signalled, 6) == ["off"] and enough(signalled, None) == "no policy is left"
    bad = experiment(*ROWS).with_run(Run(5, "off", 3, 1.0))
    assert len(list(bad.rounds())) == 4 and enough(bad, None) == ""
    assert "without a policy too" in enough(bad.with_run(Run(6, "off", 3, 1.0)), None)


def test_the_plan() -> None:
    assert next_round(EMPTY) == 1 and enough(EMPTY, 0) == "0 rounds" and enough(EMPTY, 1) == ""
    assert {tuple(order_of(EMPTY, number)) for number in range(20)} == {("off", "nap"), ("nap", "off")}
    assert order_of(EMPTY, 3) == order_of(EMPTY, 3) and round_s(EMPTY) == 0
    cut = experiment(*ROWS).with_run(Run(5, "off", 0, 10.0))
    assert next_round(cut) == 6 and cut.done() == 4, "an interrupted round is not gone on with"
    assert round_s(experiment(*ROWS)) == pytest.approx(20, rel=0.01)
    assert drawn(1, None, noise=0.001).done() == ROUNDS_MIN
    assert drawn(1, None, noise=0.1).done() == ROUNDS_MAX and drawn(1, 4, noise=0.1).done() == 4


def test_known_quantiles_and_means() -> None:
    assert t_quantile(1) == pytest.approx(12.706, abs=0.001) and t_quantile(9) == pytest.approx(2.262, abs=0.001)
    assert t_quantile(31) == pytest.approx(2.0395, abs=0.0005) and t_quantile(1000) == pytest.approx(1.9623, abs=0.0005)
    found = ratio_of([(1.0, 2.0), (1.0, 8.0)])
    assert found is not None and found.ratio == pytest.approx(4) and ratio_of([]) is None
    one = ratio_of([(2.0, 1.0)])
    assert one is not None and one.low is None and one.half == math.inf and ratio_of([(0.0, 1.0)]) is None
    assert mean_of([1.0, 4.0]) == pytest.approx(2) and mean_of([]) is None
    assert found.inverse().ratio == pytest.approx(0.25) and found.low is not None
    assert found.inverse().high == pytest.approx(1 / found.low)


def test_a_bootstrap_where_scipy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of it; from ten rounds on."""
    double = types.ModuleType("scipy")
    confidence = types.SimpleNamespace(low=math.log(0.9), high=math.log(0.95))
    answer = types.SimpleNamespace(confidence_interval=confidence)
    double.stats = types.SimpleNamespace(bootstrap=lambda *_, **__: answer)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "scipy", double)
    pairs = [(1.0, 0.9 + number / 1000) for number in range(10)]
    assert bootstrap_of(pairs) == pytest.approx((0.9, 0.95)) and bootstrap_of(pairs[:9]) is None
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert bootstrap_of(pairs) is None


@pytest.mark.parametrize("found,words", [
    (ratio(0.87, 0.91), "−11 % (−13 … −9)"), (ratio(0.997, 1.005), "+0.1 % (−0.3 … +0.5)"),
    (Ratio(1.0, 0.9999, 1.0001, 3, 0.0), "0.0 % (0.0 … 0.0)"), (Ratio(0.5, None, None, 1, None), "−50 %"),
    (ratio(2.0, 2.1), "+105 % (+100 … +110)"),
])
def test_changes_in_words(found: Ratio, words: str) -> None:
    assert change(found) == words


def test_a_state_is_read_as_it_was_written() -> None:
    full = with_energy(experiment(*ROWS, figure="x(.)", notes=("a",)), "rapl")
    full = replace(full, runs=(*full.runs, Run(5, "nap", -9, 1.0, job="12", steps=("0", "7"), used="nap", figure=2.0)))
    again = from_json(json.loads(json.dumps(as_json(full))))
    assert again == full and again.notes == ("a",)


def changed(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update({key: value})


@pytest.mark.parametrize("change_it", [
    changed("mpi_wait_try", 2), changed("policies", []), changed("policies", ["a b"]), changed("policies", "nap"),
    changed("runs", [3]), changed("runs", [{"round": 1}]), changed("command", [1]), changed("seed", "x"),
    changed("runs", [{"round": 1, "policy": "nop", "status": 0, "wall_s": 1}]), changed("allow", -1),
    changed("runs", [{"round": -1, "policy": "nap", "status": 0, "wall_s": 1}]),
    changed("runs", [{"round": 1, "policy": "nap", "status": 0, "wall_s": math.inf}]),
    changed("runs", [{"round": 1, "policy": "nap", "status": 0, "wall_s": 1, "job": "1;rm"}]),
    changed("runs", [{"round": 1, "policy": "nap", "status": 0, "wall_s": 1, "steps": ["-j9"]}]),
    changed("more_is_better", 1), changed("runs", [{"round": True, "policy": "nap", "status": 0, "wall_s": 1}]),
])
def test_a_state_that_somebody_else_wrote_is_refused(change_it: Callable[[dict[str, Any]], Any]) -> None:
    body = as_json(experiment(*ROWS))
    change_it(body)
    with pytest.raises(Refusal):
        from_json(body)
    for other in (None, [], "x", {}):
        with pytest.raises(Refusal):
            from_json(other)
