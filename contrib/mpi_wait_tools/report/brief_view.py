"""The lines of report --brief for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from ..meaning.cost import cost_words
from ..meaning.saving import saved_words
from ..text.canvas import Canvas, written
from ..text.units import clock, percent, safe, scaled
from .brief_line import Line

DROPPED = ("name", "user", "asleep", "cost", "saved", "policy", "elapsed", "lost", "energy")  # in this order
UNKNOWN_SHOWN = 8
STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "cyan"}


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


COLUMNS: dict[str, Callable[[Line], str]] = {
    "job": lambda line: safe(line.job, 24),
    "name": lambda line: safe(line.name, 12),
    "user": lambda line: safe(line.user, 10),
    "state": lambda line: safe(line.state, 13),
    "elapsed": lambda line: clock(line.elapsed_s),
    "policy": lambda line: line.policy or "–",
    "wait": lambda line: _share(line.wait),
    "asleep": lambda line: _share(line.asleep),
    "lost": lambda line: _share(line.lost),
    "cost": lambda line: "–" if line.cost is None else cost_words(line.cost),
    "saved": lambda line: "–" if line.saved is None else saved_words(line.saved),
    "energy": lambda line: "–" if line.joules is None else scaled(line.joules, "J"),
    "": lambda line: line.why,
}
OF_TEXT = ("job", "name", "user", "state", "policy", "")


def _columns(lines: Sequence[Line]) -> list[str]:
    """Who it was is said where it was not one alone; what would be empty everywhere is left out."""
    users = {line.user for line in lines}
    left_out = set() if len(users) > 1 else {"user"}
    if not any(line.state for line in lines):
        left_out |= {"name", "state"}
    if not any(line.why for line in lines):
        left_out |= {""}
    if not any(line.cost for line in lines):
        left_out |= {"cost"}
    if not any(line.saved for line in lines):
        left_out |= {"saved"}
    return [name for name in COLUMNS if name not in left_out]


def _cell(name: str, line: Line) -> str | Text:
    said = COLUMNS[name](line)
    if name == "state":
        return Text(said, STYLES.get(line.state, "red"))
    return Text(said, "dim") if name == "" else said


def show_brief(width: int, colour: bool, utf8: bool, lines: Sequence[Line], unknown: Sequence[str]) -> str:
    canvas = Canvas(width, colour)
    names = _columns(lines)
    if lines:
        rows = [[_cell(name, line) for name in names] for line in lines]
        left = [index for index, name in enumerate(names) if name in OF_TEXT]
        canvas.table(names, rows, left, [names.index(name) for name in DROPPED if name in names])
    else:
        canvas.note(Text("no job in that time"))
    if unknown:
        more = f" and {len(unknown) - UNKNOWN_SHOWN} others" if len(unknown) > UNKNOWN_SHOWN else ""
        jobs = ", ".join(safe(job) for job in unknown[:UNKNOWN_SHOWN])
        canvas.blank()
        canvas.sentence("!", f"sacct knows no job {jobs}{more}.", "yellow")
    return written(canvas.lines(), utf8)
