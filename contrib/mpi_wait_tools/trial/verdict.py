"""What an experiment says of each policy: figures, a verdict, and the one sentence. Pure.

A policy is worth its use if it saves, and if it is shown to be no slower than it may be. What an interval does not
exclude is not concluded.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from ..text.units import plural, safe
from .experiment import BASELINE, Experiment
from .interval import Ratio, bootstrap_of, mean_of, ratio_of

MEASURES = ("time", "figure", "cpu", "energy")
SMALL = 0.02  # of what is used: a saving below this is small
USE, SMALL_USE, SMALL_NOT, AVOID, UNSURE, ALIKE, FEW, FAILED = (
    "use", "small: use", "small: leave", "do not use", "unsure", "alike", "too few", "failed"
)


@dataclass(frozen=True)
class Energy:
    """Which energy there is to compare. measure: of a run, "" for none; name: what people call it; is_measured: not by
    a model of a simulated node."""

    measure: str = ""
    name: str = "energy"
    is_measured: bool = False


@dataclass(frozen=True)
class Verdict:
    """measures: those that are known of MEASURES, by name; figure as it is, more or less."""

    policy: str
    kind: str
    sentence: str
    measures: dict[str, Ratio] = field(default_factory=dict)


def energy_of(experiment: Experiment) -> Energy:
    """The record's before Slurm's own; of records the one source that all of them have."""
    sources = {run.source for run in experiment.runs if run.joules is not None and run.policy == BASELINE}
    if len(sources) == 1:
        source = next(iter(sources))
        return Energy("energy", "energy" if source == "rapl" else f"energy ({safe(source)})", source == "rapl")
    if not sources and any(run.consumed_j is not None for run in experiment.runs):
        return Energy("consumed", "energy (ConsumedEnergy)", True)
    return Energy()


def allowance(experiment: Experiment, policy: str) -> float:
    """By how much it may be slower: what its own words say, or what holds for all."""
    for word in policy.split(",")[1:]:
        key, _, value = word.partition("=")
        try:
            if key == "slowdown":
                return float(value) / 100
        except ValueError:
            break
    return experiment.allow


def change(ratio: Ratio) -> str:
    """ "−11 % (−13 … −9)"; without an interval "−11 %"."""
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
    """How a program ended that did not end well."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def decide(slower: Ratio, saving: Ratio | None, allow: float) -> str:
    """slower: of the time, or of the program's own figure, more being worse. saving: of what is to be saved, None where
    it is not known; then only time counts. Both have an interval. allow: by how much it may be slower."""
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


_ENDINGS = {
    USE: "use it",
    SMALL_USE: "little, but it costs no time that could be seen: use it",
    SMALL_NOT: "little, and it may cost time: leave it",
}


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
    # What a simulated node used says nothing of a real one: there CPU time, which was measured, decides.
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
    """The geometric means without a policy, by measure."""
    energy, found = energy_of(experiment), {}
    for name in MEASURES:
        measure = energy.measure if name == "energy" else name
        values = [runs[BASELINE].value(measure) for runs in experiment.rounds()] if measure else []
        mean = mean_of([value for value in values if value is not None])
        if mean is not None:
            found[name] = mean
    return found
