"""The runs of one program in the order of their start: how its time, energy and waiting went. Pure but for rich."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from ..jobs.sacct_many import Period
from ..meaning.compare import difference
from ..meaning.parts import kinds_of, kinds_words
from ..meaning.rows import JobUse, Row
from ..text.canvas import ASLEEP, AWAKE, WAITING, Canvas, written
from ..text.chart import RISING
from ..text.units import clock, count, duration, percent, plural, safe, scaled
from .tally import Tally
from .view import STATES, draw_remarks

UNKNOWN = "·"


@dataclass(frozen=True)
class Line:
    """One figure of every run; None where it is not known."""

    title: str
    of: Callable[[JobUse], float | None]
    shown: Callable[[float], str]
    style: str
    is_share: bool = False
    is_energy: bool = False


LINES = (
    Line("Time", lambda use: use.run.elapsed_s, duration, ""),
    Line("Energy", lambda use: use.joules, lambda value: scaled(value, "J"), "green", is_energy=True),
    Line("Waiting", lambda use: use.share(use.wait_s), percent, WAITING, True),
    Line("Asleep", lambda use: use.share(use.asleep_s), percent, ASLEEP, True),
    Line("Awake", lambda use: use.share(use.awake_s), percent, AWAKE, True),
    Line("Imbalance", lambda use: use.share(use.lost_s), percent, "red", True),
)


def ordered(uses: Sequence[JobUse]) -> list[JobUse]:
    """By start; sacct's times sort as text."""
    return sorted(uses, key=lambda use: (use.run.start, use.names["job"]))


def sparkline(values: Sequence[float | None], room: int) -> str:
    """From 0 to the highest, a character for each of the latest runs that have room."""
    latest = values[-room:]
    most = max((value for value in latest if value is not None), default=0.0)
    return "".join(_cell(value, most) for value in latest)


def _cell(value: float | None, most: float) -> str:
    if value is None:
        return UNKNOWN
    return RISING[max(1, round(value / most * 8))] if most > 0 else RISING[1]


def change_of(values: Sequence[float | None], is_share: bool) -> str:
    """Of the last known value to the first."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    if is_share:
        return f"{(known[-1] - known[0]) * 100:+.1f} pt".replace("-", "−")
    return difference(known[-1], known[0])


def _draw_lines(canvas: Canvas, uses: Sequence[JobUse]) -> None:
    room = max(8, canvas.width - 50)
    alike = len(kinds_of(use.energy_of for use in uses)) < 2
    for line in LINES:
        values = [line.of(use) for use in uses]
        known = [value for value in values if value is not None]
        if not known:
            continue
        ends, change = f"  {line.shown(min(known))} to {line.shown(max(known))}", change_of(values, line.is_share)
        if line.is_energy and not alike:
            change = "of different parts"
        text = Text(f"  {line.title:<9}  ").append(sparkline(values, room), line.style)
        if len(text) + len(ends) + len(change) + 2 <= canvas.width:
            text.append(ends)
        canvas.text(text.append(f"  {change}", "dim"))


def _shown(value: float | None, how: Callable[[float], str]) -> str:
    return "–" if value is None else how(value)


def _draw_table(canvas: Canvas, uses: Sequence[JobUse]) -> None:
    wide = canvas.width >= 70
    titles = ["started", "job", "policy", "st", "time", "nodes", "energy", "awake", "asleep"]
    rows = []
    for use in uses:
        started = safe(use.run.start[:16]).replace("T", " ")
        row = [
            started if wide else started[5:],
            safe(use.names["job"], 12),
            use.names["policy"][:8],
            STATES.get(use.run.state, safe(use.run.state, 3)),
            clock(use.run.elapsed_s),
            count(use.run.nodes) if use.run.nodes else "–",
            _shown(use.joules, lambda value: scaled(value, "J")),
            _shown(use.share(use.awake_s), percent) + ("" if use.complete else "!"),
            _shown(use.share(use.asleep_s), percent),
        ]
        rows.append(row)
    canvas.table(titles, rows, left=(0, 1, 2, 3), drop=(5, 6, 3, 2, 1, 4))


def show_trend(
    width: int, colour: bool, utf8: bool, period: Period, name: str, limit: int, tally: Tally, rows: Sequence[Row]
) -> str:
    canvas, uses = Canvas(width, colour), ordered(tally.uses)
    title = Text(f"{plural(len(uses), 'run')} of {safe(name, 28)}", style="bold")
    canvas.ends(title, Text(period.words()))
    if uses:
        canvas.blank()
        _draw_lines(canvas, uses)
        words = "each from 0 up, the latest run right; the change is of the last to the first"
        canvas.note(Text(words, style="dim"))
        canvas.blank()
        _draw_table(canvas, uses[-limit:])
    if len(uses) > limit:
        canvas.note(Text(f"the latest {limit} of {len(uses)} (--limit {len(uses)} lists all)", style="dim"))
    _draw_mind(canvas, uses)
    draw_remarks(canvas, tally, rows, of_many=False)
    return written(canvas.lines(), utf8)


def _draw_mind(canvas: Canvas, uses: Sequence[JobUse]) -> None:
    """Why the runs may not be of the same work."""
    kinds = kinds_of(use.energy_of for use in uses)
    if len(kinds) > 1:
        canvas.blank()
        words = f"The runs' energy is not of the same parts, and not compared: {kinds_words(kinds, 'run')}."
        canvas.sentence("!", words, "yellow")
    if len({use.run.nodes for use in uses}) > 1:
        canvas.blank()
        canvas.sentence("!", "The runs differ in nodes: their times and energy are not of the same size.", "yellow")
