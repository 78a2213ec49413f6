"""Writes the answer of mpi-wait try for people: on a terminal, as a page (--html) and as a sheet (--plot)."""

from __future__ import annotations

import shlex

from rich.text import Text

from ..pictures.page import Sheet, rendered
from ..pictures.shapes import Picture, Span, spans
from ..text.canvas import Canvas, written
from ..text.units import core_time, digits, duration, percent, plural, safe, scaled
from .experiment import BASELINE, Experiment
from .verdict import ALIKE, AVOID, FAILED, MEASURES, SMALL_USE, USE, Verdict, baseline, change, energy_of, verdicts

STYLES = {USE: "green", SMALL_USE: "green", AVOID: "red", FAILED: "red"}
TITLES = {"time": "time", "cpu": "CPU time", "figure": "figure"}
SHOWN = {
    "time": duration, "cpu": core_time, "energy": lambda value: scaled(value, "J"), "figure": digits,
}
LEVELS = {USE: "good", SMALL_USE: "good", AVOID: "bad", FAILED: "bad", ALIKE: "quiet"}
NO_DIFFERENCE = "An interval that holds 0 shows no difference."


def title_of(experiment: Experiment, name: str) -> str:
    return energy_of(experiment).name if name == "energy" else TITLES[name]


def known_measures(experiment: Experiment, found: list[Verdict]) -> list[str]:
    mean = baseline(experiment)
    return [name for name in MEASURES if name in mean or any(name in verdict.measures for verdict in found)]


def _table(canvas: Canvas, experiment: Experiment, found: list[Verdict]) -> None:
    """Draws the table of policies and measures. A table that is too wide is transposed: one row a measure."""
    mean, names = baseline(experiment), known_measures(experiment, found)
    bare = [SHOWN[name](mean[name]) if name in mean else "–" for name in names]
    cells = {verdict.policy: [change(verdict.measures[name]) if name in verdict.measures else "–" for name in names]
             for verdict in found}
    rows = [[BASELINE, *bare], *([safe(policy, 20), *row] for policy, row in cells.items())]
    titles = ["policy", *(title_of(experiment, name) for name in names)]
    width = sum(max(len(str(row[place])) for row in [titles, *rows]) + 2 for place in range(len(titles)))
    if width <= canvas.width - 2:
        canvas.table(titles, rows)
        return
    for verdict in found:
        canvas.blank()
        lines = [[title, one, other] for title, one, other in zip(titles[1:], bare, cells[verdict.policy])]
        canvas.table(["", BASELINE, safe(verdict.policy, 20)], lines)


def _noise(experiment: Experiment, found: list[Verdict]) -> str:
    parts = []
    for name in known_measures(experiment, found):
        noise = [verdict.measures[name].noise for verdict in found if name in verdict.measures]
        known = [value for value in noise if value is not None]
        if known:
            parts.append(f"{title_of(experiment, name)} {percent(max(known))}")
    return ", ".join(parts)


def remarks(experiment: Experiment, found: list[Verdict]) -> list[str]:
    energy, said = energy_of(experiment), list(experiment.notes)
    runs = [run for run in experiment.runs if run.round and not run.status]
    for policy in experiment.policies:
        used = {run.used for run in runs if run.policy == policy and run.used} - {policy.partition(",")[0]}
        if used:
            became = safe(", ".join(sorted(used)))
            said.append(f"{safe(policy)} became {became} on these nodes: that is what was measured.")
    missing = sum(run.figure is None for run in runs) if experiment.figure else 0
    if missing:
        said.append(f"The figure was found in {len(runs) - missing} of {plural(len(runs), 'run')}.")
    if energy.measure:
        said.append(f"Energy is {energy.scope}.")
    if energy.measure and not energy.is_measured:
        said.append("Energy is of simulated nodes, not measured: CPU time decides here, and says nothing of joules.")
    elif not energy.measure and any("cpu" in verdict.measures for verdict in found):
        said.append("Energy is not known: CPU time decides here, which is no measure of joules.")
    broken = [verdict for verdict in found if (pair := verdict.measures.get("cpu")) and pair.bootstrap and pair.low
              and pair.high and (pair.low > 1 or pair.high < 1) != (pair.bootstrap[0] > 1 or pair.bootstrap[1] < 1)]
    said += [f"{safe(one.policy)}: a bootstrap of its CPU time disagrees: more rounds would say." for one in broken]
    return said


def show_experiment(width: int, colour: bool, utf8: bool, experiment: Experiment, ended: str) -> str:
    """Returns the answer as text. `ended` says why the experiment ended; "" if nothing was run."""
    found, canvas = verdicts(experiment), Canvas(width, colour)
    runs = sum(1 for run in experiment.runs if run.round)
    spent = sum(run.wall_s for run in experiment.runs)
    title = Text(safe(shlex.join(experiment.command), max(20, width - 30)), style="bold")
    canvas.ends(title, Text(f"{plural(runs, 'run')}, {duration(spent)}"))
    if ended:
        canvas.note(Text(ended, style="dim"))
    if any(experiment.rounds()):
        canvas.blank()
        _table(canvas, experiment, found)
        noise = _noise(experiment, found)
        if noise:
            canvas.note(Text(f"95 % intervals; between rounds the ratios differ by {noise}", style="dim"))
    canvas.blank()
    for verdict in found:
        canvas.sentence("→", f"{verdict.sentence}.", STYLES.get(verdict.kind, "yellow"))
    for remark in remarks(experiment, found):
        canvas.sentence("!", remark, "yellow")
    return written(canvas.lines(), utf8)


def _pictures(experiment: Experiment, found: list[Verdict]) -> list[Picture]:
    """Returns a picture for each measure that is known of some policy."""
    pictures, means = [], baseline(experiment)
    for name in known_measures(experiment, found):
        rows = []
        for verdict in found:
            ratio = verdict.measures.get(name)
            if ratio is not None:
                low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
                rows.append(Span(verdict.policy, ratio.ratio - 1, low, high, change(ratio)))
        note = f"{BASELINE}: {SHOWN[name](means[name])}" if name in means else ""
        pictures += [spans(title_of(experiment, name), rows, note)] if rows else []
    return pictures


def page_of(experiment: Experiment, ended: str) -> str:
    found, command = verdicts(experiment), shlex.join(experiment.command)
    told = [{"level": LEVELS.get(one.kind, "look"), "kind": one.kind, "policy": one.policy, "sentence": one.sentence}
            for one in found]
    return rendered(
        "try.html", title=f"mpi-wait try {safe(command, 200)}", command=command, ended=ended, verdicts=told,
        of=f"{plural(experiment.done(), 'round')}; each policy beside {BASELINE}, with 95 % intervals",
        pictures=_pictures(experiment, found), remarks=remarks(experiment, found),
        footer=f"mpi-wait try. {NO_DIFFERENCE}",
    )


def sheet_of(experiment: Experiment) -> Sheet:
    found, energy = verdicts(experiment), energy_of(experiment)
    simulated = ["Energy is of simulated nodes, not measured."] * (bool(energy.measure) and not energy.is_measured)
    of = f"each policy beside {BASELINE}, {plural(experiment.done(), 'round')}: ratios and 95 % intervals"
    said = [f"{safe(verdict.sentence, 200)}." for verdict in found]
    return Sheet(safe(shlex.join(experiment.command), 60), of, _pictures(experiment, found),
                 [*said, NO_DIFFERENCE, *simulated])
