"""mpi-wait try --html: the experiment as one page, which loads nothing from anywhere."""

from __future__ import annotations

import shlex

from ..pictures.sheet import document
from ..pictures.svg import Span, spans, text_of
from ..text.units import plural
from .experiment import BASELINE, Experiment
from .verdict import ALIKE, AVOID, FAILED, SMALL_USE, USE, Verdict, baseline, change, verdicts
from .view import SHOWN, known_measures, remarks, title_of

LEVELS = {USE: "good", SMALL_USE: "good", AVOID: "bad", FAILED: "bad", ALIKE: "quiet"}


def _verdict(found: Verdict) -> str:
    level = LEVELS.get(found.kind, "look")
    return (f'<li class="{level}"><span class="level">{text_of(found.kind)}</span><b>{text_of(found.policy)}</b>'
            f"{text_of(found.sentence, 1000)}.</li>")


def _measure(experiment: Experiment, name: str, found: list[Verdict]) -> str:
    rows = []
    for verdict in found:
        ratio = verdict.measures.get(name)
        if ratio is not None:
            low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
            rows.append(Span(verdict.policy, ratio.ratio - 1, low, high, change(ratio)))
    if not rows:
        return ""
    title, mean = title_of(experiment, name), baseline(experiment).get(name)
    bare = f'<p class="quiet">{BASELINE}: {text_of(SHOWN[name](mean))}</p>' if mean is not None else ""
    return f"<section><h2>{text_of(title)}</h2>{bare}{spans(title, rows)}</section>\n"


def page_of(experiment: Experiment, ended: str) -> str:
    found = verdicts(experiment)
    title = shlex.join(experiment.command)
    of = f"{plural(experiment.done(), 'round')}; each policy beside {BASELINE}, with 95 % intervals"
    notes = "".join(f"<li>{text_of(remark, 1000)}</li>" for remark in remarks(experiment, found))
    parts = [
        f'<header><h1>{text_of(title)}</h1><p class="quiet">{text_of(of)}</p><p>{text_of(ended, 400)}</p></header>\n',
        f'<ul class="verdict">{"".join(map(_verdict, found))}</ul>\n',
        *(_measure(experiment, name, found) for name in known_measures(experiment, found)),
        f"<section><h2>Mind</h2><ul>{notes}</ul></section>\n" if notes else "",
        "<footer><p class=\"quiet\">mpi-wait try. An interval that holds 0 shows no difference.</p></footer>",
    ]
    return document(f"mpi-wait try {title}", parts)
