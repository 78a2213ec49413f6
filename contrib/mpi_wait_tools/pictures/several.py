"""Sheets of several jobs: their differences from the first job, or the runs of one program in their order."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs.found import Found
from ..meaning.compare import Measure, label, measures, remarks
from ..meaning.imbalance import ranks_time
from ..meaning.reading import incomplete_line, kinds_of, kinds_words, ranks_of
from ..meaning.rows import JobUse
from ..text.units import clock, percent, plural, safe, scaled
from .job import OF_RANKS
from .page import Sheet
from .shapes import JOBS, Bar, Column, Part, Picture, bars, columns, curves, share_axis, time_axis, value_axis

LEGEND = (("asleep", "asleep"), ("awake", "polling"), ("rest", "computing and all else"))


def _kind(index: int) -> str:
    return f"job{index % len(JOBS)}"


def _measure(measure: Measure, founds: Sequence[Found]) -> Picture:
    rows = []
    for index, (found, value) in enumerate(zip(founds, measure.values)):
        change = measure.difference(index) if index else ""
        shown = "–" if value is None else f"{measure.shown(value)} {change}".strip()
        rows.append(Bar(label(found), (Part(value or 0.0, _kind(index)),), shown, f"{label(found)}: {shown}"))
    return bars(measure.name, rows, max((value or 0.0 for value in measure.values), default=0.0) or 1.0)


def _orders(founds: Sequence[Found]) -> Picture:
    lines = []
    for index, found in enumerate(founds):
        wait = found.record.wait
        ranks = sorted(rank.seconds for rank in ranks_of(found.record, found.step))
        values = ranks or (wait.quantiles if wait is not None and found.step is None else [])
        if len(values) > 1:
            lines.append((_kind(index), safe(label(found), 40), values))
    title = "Ranks in the order of their waiting"
    if not lines:
        return Picture(title, note="no record tells the ranks apart")
    top = max(values[-1] for _, _, values in lines)
    return curves(title, lines, time_axis(top), OF_RANKS, "the flatter, the better balanced")


def _shares(asleep: float, waited: float) -> tuple[Part, ...]:
    """Returns the parts of a bar, in percent of the ranks' time."""
    slept, total = min(100.0, asleep), min(100.0, max(asleep, waited))
    return (Part(slept, "asleep"), Part(total - slept, "awake"), Part(100.0 - total, "rest"))


def _times(founds: Sequence[Found]) -> Picture:
    """Draws the use of the ranks' time, one bar a job. Each bar is the whole time of its own job."""
    rows = []
    for found in founds:
        wait, time = found.record.wait, ranks_time(found.record, found.step)
        if wait is None or not time:
            rows.append(Bar(label(found), (), "–", f"{label(found)}: not known"))
            continue
        total = found.step.wait if found.step else wait.total
        asleep = wait.asleep if wait.asleep is not None and found.step is None else 0.0
        shown, parts = f"{percent(min(1.0, total / time))} waiting", _shares(100 * asleep / time, 100 * total / time)
        rows.append(Bar(label(found), parts, shown, f"{label(found)}: {shown}"))
    return bars("What the ranks' time went to", rows, 100.0, LEGEND)


def comparison_sheet(founds: Sequence[Found]) -> Sheet:
    names = ", ".join(safe(label(found), 30) for found in founds[1:4]) + (", ..." if len(founds) > 4 else "")
    chosen = [measure for measure in measures(founds) if measure.of_interest]
    pictures = [*(_measure(measure, founds) for measure in chosen), _orders(founds), _times(founds)]
    missing = [found for found in founds if not found.record.is_complete]
    stamp = "; ".join(f"{safe(found.name, 14)} {incomplete_line(found.record)}" for found in missing[:2])
    return Sheet(f"{plural(len(founds), 'job')} compared", f"{names} with {safe(label(founds[0]), 30)}", pictures,
                 remarks(founds)[-2:], stamp)


def _run(use: JobUse, parts: tuple[Part, ...], said: str) -> Column:
    return Column(parts, f"{use.names['job']}, {use.names['policy']}: {said}", safe(use.names["job"], 12))


def _runs(uses: Sequence[JobUse], values: Sequence[float | None], kind: str, shown: Sequence[str]) -> list[Column]:
    return [_run(use, (Part(value, kind),) if value is not None else (), said)
            for use, value, said in zip(uses, values, shown)]


def trend_sheet(name: str, when: str, uses: Sequence[JobUse]) -> Sheet:
    elapsed, joules = [use.run.elapsed_s for use in uses], [use.joules for use in uses]
    said = "simulated, not measured" if any(use.simulated for use in uses) else "as the records have it"
    kinds = kinds_of(use.energy_of for use in uses)
    if len(kinds) > 1:
        said = f"not comparable: {kinds_words(kinds, 'run')}"
    shares = []
    for use in uses:
        waiting, asleep = use.share(use.wait_s) or 0.0, use.share(use.asleep_s) or 0.0
        parts = _shares(100 * asleep, 100 * waiting) if use.ranks_s > 0 else ()
        words = f"{percent(waiting)} waiting, {percent(asleep)} asleep" if parts else "not known"
        shares.append(_run(use, parts, words))
    told = ["–" if value is None else scaled(value, "J") for value in joules]
    energy = value_axis(max((value or 0.0 for value in joules), default=0.0), lambda value: scaled(value, "J"))
    pictures = [
        columns("Time", _runs(uses, elapsed, "transfer", [clock(value) for value in elapsed]),
                time_axis(max((value or 0.0 for value in elapsed), default=0.0)),
                legend=[("transfer", "from begin to end, as sacct has it")]),
        columns("Energy", _runs(uses, joules, "power", told), energy, legend=[("power", said)]),
        columns("What the ranks' time went to", shares, share_axis(), legend=LEGEND),
    ]
    return Sheet(f"{plural(len(uses), 'run')} of {safe(name, 28)}", when, pictures,
                 ["One run each: how much such runs differ by themselves shows only in several that are alike."])
