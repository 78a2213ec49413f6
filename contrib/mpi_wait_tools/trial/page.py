"""The experiment as a page (--html) and as a sheet (--plot): each policy's intervals beside no policy."""

from __future__ import annotations

import shlex

from ..pictures.page import Sheet, rendered
from ..pictures.shapes import Picture, Span, spans
from ..text.units import plural, safe
from .experiment import BASELINE, Experiment
from .verdict import ALIKE, AVOID, FAILED, SMALL_USE, USE, Verdict, baseline, change, energy_of, verdicts
from .view import SHOWN, known_measures, remarks, title_of

LEVELS = {USE: "good", SMALL_USE: "good", AVOID: "bad", FAILED: "bad", ALIKE: "quiet"}
NO_DIFFERENCE = "An interval that holds 0 shows no difference."


def _pictures(experiment: Experiment, found: list[Verdict]) -> list[Picture]:
    """One for each measure that is known of a policy."""
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
