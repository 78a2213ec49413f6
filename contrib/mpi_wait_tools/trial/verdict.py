"""Judges each policy of an experiment, by figures, a verdict and one sentence. Also plans the runs: the order of a
round, and the number of rounds. Pure.

Runs are paired by round, which removes drift between rounds. Every policy runs once in a round, in an order that is
drawn for each round, so drift within a round hits all policies alike. A ratio is the geometric mean of the pairs'
ratios. Its interval is Student's t interval of the mean of their logarithms. With five to thirty rounds, as many as
people can afford, the 95 % interval holds the truth in 95 % of experiments (tests/unit/tools/test_try_verdict.py).

A policy is worth its use if it saves, and if it is shown to be no slower than allowed. A conclusion needs an interval
that excludes the opposite. The plan ends when the intervals are narrow, wherever they lie: an end that depends on where
they lie would find differences that do not exist.
"""

from __future__ import annotations

import math
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..meaning.pooling import t_quantile
from ..text.units import plural, safe
from .experiment import BASELINE, Experiment, Run

BOOTSTRAP_ROUNDS_MIN = 10
BOOTSTRAP_SAMPLES = 4000
MEASURES = ("time", "figure", "cpu", "energy")
SMALL = 0.02  # part of the use below which a saving is small
USE, SMALL_USE, SMALL_NOT, AVOID, UNSURE, ALIKE, FEW, FAILED = (
    "use", "small: use", "small: leave", "do not use", "unsure", "alike", "too few", "failed"
)
_ENDINGS = {
    USE: "use it",
    SMALL_USE: "little, but it costs no time that could be seen: use it",
    SMALL_NOT: "little, and it may cost time: leave it",
}
ROUNDS_MIN, ROUNDS_MAX = 6, 30  # limits if the user gives no number of rounds
NARROW = 0.01  # half of an interval of time or CPU time that is narrow enough
BASELINE_FAILURES = 2


@dataclass(frozen=True)
class Ratio:
    """A measure with the policy over the same measure without."""

    ratio: float
    low: float | None  # lower end of the 95 % interval, None below two rounds
    high: float | None  # upper end of the 95 % interval, None below two rounds
    rounds: int
    noise: float | None  # standard deviation of the pairs' ratios as a part of 1, None below two rounds
    bootstrap: tuple[float, float] | None = None  # the interval by bootstrap_of()

    @property
    def half(self) -> float:
        """Half of the interval's width, in logarithms; infinite if there is no interval."""
        return math.log(self.high / self.low) / 2 if self.low and self.high else math.inf

    def inverse(self) -> Ratio:
        """Returns the ratio of slowness for a figure of which more is better."""
        other = None if self.bootstrap is None else (1 / self.bootstrap[1], 1 / self.bootstrap[0])
        low, high = (1 / self.high, 1 / self.low) if self.low and self.high else (None, None)
        return Ratio(1 / self.ratio, low, high, self.rounds, self.noise, other)


def _logs(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [math.log(after / before) for before, after in pairs if before > 0 and after > 0]


def bootstrap_of(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Returns a second interval, which does not assume a normal distribution: Efron's bias-corrected and accelerated
    bootstrap, by scipy. None if scipy is missing, or for few rounds."""
    logs = _logs(pairs)
    if len(logs) < BOOTSTRAP_ROUNDS_MIN or max(logs) == min(logs):
        return None
    try:
        from scipy import stats  # type: ignore
    except ImportError:
        return None

    def mean(sample: Any, axis: int = -1) -> Any:
        return sample.mean(axis=axis)

    found = stats.bootstrap((logs,), mean, n_resamples=BOOTSTRAP_SAMPLES, random_state=0).confidence_interval
    return math.exp(float(found.low)), math.exp(float(found.high))


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """Returns the ratio of pairs (without, with), one pair a round. None if no pair has both values above 0."""
    logs = _logs(pairs)
    if not logs:
        return None
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, 1, None)
    spread = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs), math.expm1(spread))


def mean_of(values: Sequence[float]) -> float | None:
    """Returns the geometric mean, to go with ratios that are geometric means. None if no value is above 0."""
    positive = [value for value in values if value > 0]
    return math.exp(math.fsum(map(math.log, positive)) / len(positive)) if positive else None


@dataclass(frozen=True)
class Energy:
    """The energy that an experiment compares."""

    measure: str = ""  # argument of Run.value(), "" for none
    name: str = "energy"  # name for people
    scope: str = ""  # description of the parts that it counts
    is_measured: bool = False  # False for the model of a simulated node


@dataclass(frozen=True)
class Verdict:
    """The verdict on one policy."""

    policy: str
    kind: str
    sentence: str
    measures: dict[str, Ratio] = field(default_factory=dict)  # known ones of MEASURES; "figure" is not inverted


# The energies that can be compared, the widest first: (name for people, description of the parts).
ENERGIES = {
    "board": ("energy of the node", "the whole node's, by its board's counter, with all that runs there"),
    "all": ("energy with GPUs", "that of processors and memory, and of GPUs by their own counters"),
    "energy": ("energy", "that of {parts}, as the job's record has it"),
    "processors": ("energy", "that of this node's processors and memory, with all that runs there"),
    "gpus": ("energy of GPUs", "that of GPUs alone, by their own counters"),
    "consumed": ("energy (ConsumedEnergy)", "Slurm's own ConsumedEnergy, of what the site's plugin counts"),
}
WITHOUT_GPUS = " without GPUs"  # as meaning/reading.py says it
WHOLE_NODE = ("board", "processors")  # useless for a job that shares its node


def energy_of(experiment: Experiment) -> Energy:
    """Returns the first of ENERGIES that every round has without a policy, and always of one kind."""
    runs = [runs[BASELINE] for runs in experiment.rounds()]
    shared = any(run.is_share for run in experiment.runs)
    for measure, (name, scope) in ENERGIES.items():
        known = [run for run in runs if run.value(measure) is not None]
        if not known or (measure != "energy" and len(known) < len(runs)) or (shared and measure in WHOLE_NODE):
            continue
        if len({run.kind(measure) for run in known}) == 1:
            return _energy(measure, name, scope, known[0])
    return Energy()


def _energy(measure: str, name: str, scope: str, run: Run) -> Energy:
    """Describes a measure of energy, from a run that has it."""
    of_record = run.joules is not None and measure in ("all", "energy")
    simulated = run.source == "simulated" if of_record else run.is_simulated and measure != "consumed"
    lacks = {"energy": WITHOUT_GPUS in run.parts, "processors": run.lacks_gpus, "gpus": run.lacks_gpus}
    if lacks.get(measure):
        scope += "; some GPUs not counted" if measure == "gpus" else "; GPUs not counted"
        name += "" if measure == "gpus" else WITHOUT_GPUS
    parts = safe(run.parts.replace(WITHOUT_GPUS, "")) or "what the record counts"
    return Energy(measure, f"{name} (simulated)" if simulated else name, scope.format(parts=parts), not simulated)


def allowance(experiment: Experiment, policy: str) -> float:
    """Returns by how much a policy may be slower: its own slowdown=, or else the experiment's allow."""
    for word in policy.split(",")[1:]:
        key, _, value = word.partition("=")
        try:
            if key == "slowdown":
                return float(value) / 100
        except ValueError:
            break
    return experiment.allow


def change(ratio: Ratio) -> str:
    """Returns a ratio as a change: "−11 % (−13 … −9)"; without an interval "−11 %"."""
    values = [100 * (value - 1) for value in (ratio.ratio, ratio.low, ratio.high) if value is not None]
    decimals = 1 if max(abs(value) for value in values) < 9.95 else 0

    def shown(value: float) -> str:
        text = f"{value:+.{decimals}f}".replace("-", "−")
        return text if float(text.replace("−", "-")) else text[1:]

    interval = f" ({shown(values[1])} … {shown(values[2])})" if len(values) == 3 else ""
    return f"{shown(values[0])} %{interval}"


def percent_of(part: float) -> str:
    return f"{100 * part:.3g} %"


def ended(status: int) -> str:
    """Puts the status of a program that failed into words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def decide(slower: Ratio, saving: Ratio | None, allow: float) -> str:
    """Returns the kind of a verdict.

    slower is the ratio of the time, or of the program's own figure, above 1 if the policy is slower. Its interval is
    known. saving is the ratio of energy or CPU time, None if not known: then only the time counts. allow is the part of
    1 by which the policy may be slower.
    """
    assert slower.low is not None and slower.high is not None
    if slower.low > 1 + allow:
        return AVOID
    within, alike, faster = slower.high <= 1 + allow, slower.low <= 1, slower.high < 1
    if saving is None or saving.low is None or saving.high is None or saving.low <= 1 <= saving.high:
        return USE if faster else ALIKE if alike else UNSURE
    if saving.low > 1:
        return AVOID if not faster else UNSURE
    if saving.ratio > 1 - SMALL:
        return SMALL_USE if within and alike else SMALL_NOT
    return USE if within else UNSURE


def measures_of(experiment: Experiment, policy: str, energy: Energy, bootstrap: bool = False) -> dict[str, Ratio]:
    found = {}
    for name in MEASURES:
        measure = energy.measure if name == "energy" else name
        pairs = experiment.pairs(policy, measure) if measure else []
        ratio = ratio_of(pairs)
        if ratio is not None:
            found[name] = replace(ratio, bootstrap=bootstrap_of(pairs)) if bootstrap else ratio
    return found


def _conclusion(kind: str, slower: Ratio, saving: Ratio | None, allow: float, rounds: int) -> str:
    if kind in _ENDINGS:
        return _ENDINGS[kind]
    if kind == AVOID and slower.low is not None and slower.low > 1 + allow:
        return f"slower than the {percent_of(allow)} that it may be: do not use it"
    if kind == AVOID:
        return "it uses more: do not use it"
    if saving is not None and saving.high is not None and saving.high < 1:
        return (
            f"it saves, but whether it is slower than the {percent_of(allow)} that it may be is not known after "
            f"{plural(rounds, 'round')}: more rounds would say"
        )
    return f"not clear after {plural(rounds, 'round')}: more would say"


def _failed(experiment: Experiment, policy: str) -> str:
    run = experiment.failures(policy)[0]
    where = f"in round {run.round}" if run.round else "in its first run"
    return (
        f"{safe(policy)}: the program ended with {ended(run.status)} {where}, and with exit status 0 without a policy: "
        "not judged, and not run again"
    )


def verdict_of(experiment: Experiment, policy: str, bootstrap: bool = False) -> Verdict:
    energy, name = energy_of(experiment), safe(policy)
    measures = measures_of(experiment, policy, energy, bootstrap)
    if experiment.is_out(policy):
        return Verdict(policy, FAILED, _failed(experiment, policy), measures)
    time = measures.get("time")
    if time is None or time.low is None:
        rounds = time.rounds if time else 0
        sentence = f"{name}: {plural(rounds, 'round')}, and an interval needs two: nothing is said of it"
        return Verdict(policy, FEW, sentence, measures)
    figure = measures.get("figure")
    slower = time if figure is None or figure.low is None else figure.inverse() if experiment.more_is_better else figure
    # Energy of a simulated node says nothing of a real one, so the CPU time decides there, which is measured.
    saving = measures.get("energy") if energy.is_measured else None
    saved_by, saving = ("energy", saving) if saving is not None and saving.low else ("cpu", measures.get("cpu"))
    allow = allowance(experiment, policy)
    kind = decide(slower, saving, allow)
    if kind == ALIKE:
        sentence = f"{name}: not to be told apart from {BASELINE} in {plural(time.rounds, 'round')}"
        return Verdict(policy, kind, sentence, measures)
    names = {"time": "time", "cpu": "CPU time", "energy": energy.name, "figure": "its own figure"}
    order = [saved_by, *(["energy"] if saved_by == "cpu" else []), "figure", "time"]
    parts = [f"{names[key]} {change(measures[key])}" for key in order if key in measures]
    end = _conclusion(kind, slower, saving, allow, time.rounds)
    return Verdict(policy, kind, f"{name}: {', '.join(parts)}: {end}", measures)


def verdicts(experiment: Experiment) -> list[Verdict]:
    return [verdict_of(experiment, policy, True) for policy in experiment.policies]


def baseline(experiment: Experiment) -> dict[str, float]:
    """Returns the geometric means without a policy, by measure."""
    energy, found = energy_of(experiment), {}
    for name in MEASURES:
        measure = energy.measure if name == "energy" else name
        values = [runs[BASELINE].value(measure) for runs in experiment.rounds()] if measure else []
        mean = mean_of([value for value in values if value is not None])
        if mean is not None:
            found[name] = mean
    return found


def order_of(experiment: Experiment, number: int) -> list[str]:
    """Returns the order of the runs in a round. For one experiment and round it is always the same."""
    policies = [BASELINE, *(policy for policy in experiment.policies if not experiment.is_out(policy))]
    random.Random(f"{experiment.seed}/{number}").shuffle(policies)
    return policies


def next_round(experiment: Experiment) -> int:
    """Returns the number of the next round. An interrupted round is not continued, since its runs would be far apart in
    time."""
    return max((run.round for run in experiment.runs), default=0) + 1


def _is_narrow(experiment: Experiment) -> bool:
    for policy in experiment.policies:
        if experiment.is_out(policy):
            continue
        measures = measures_of(experiment, policy, energy_of(experiment))
        known = [measures[name] for name in ("time", "cpu") if name in measures]
        if not known or any(ratio.half > NARROW for ratio in known):
            return False
    return True


def enough(experiment: Experiment, rounds: int | None) -> str:
    """Returns why no further round is needed; "" if one is. rounds is the number that the user asked for, if any."""
    done = experiment.done()
    if len(experiment.failures(BASELINE)) >= BASELINE_FAILURES:
        return "the program ended badly without a policy too, more than once"
    if all(map(experiment.is_out, experiment.policies)):
        return "no policy is left"
    if done >= (ROUNDS_MAX if rounds is None else rounds):
        return plural(done, "round")
    if rounds is None and done >= ROUNDS_MIN and _is_narrow(experiment):
        return f"the intervals are narrow enough after {plural(done, 'round')}"
    return ""


def round_s(experiment: Experiment) -> float:
    """Estimates the seconds that a round takes, from the mean of the runs so far."""
    spent = [run.wall_s for run in experiment.runs]
    return len(order_of(experiment, 1)) * sum(spent) / len(spent) if spent else 0.0
