"""Draws lists of jobs: a line each, and below them what they are together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from ..meaning.cost import cost_words, saved_words
from ..meaning.line import SIMULATED, Line
from ..meaning.spread import ENDS, FIGURES, Sums, spread_of
from ..text.canvas import Canvas
from ..text.units import clock, count, percent, plural, safe, scaled

# Columns that go if there is no room, in this order.
DROPPED = ("name", "user", "asleep", "cost", "saved", "policy", "elapsed", "lost", "energy")
UNKNOWN_SHOWN = 8
STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "cyan"}


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _joules(value: float | None) -> str:
    return "–" if value is None else scaled(value, "J")


COLUMNS: dict[str, Callable[[Line], str]] = {
    "job": lambda line: safe(line.job, 24),
    "name": lambda line: safe(line.name, 12),
    "user": lambda line: safe(line.user, 10),
    "state": lambda line: safe(line.state, 13),
    "elapsed": lambda line: clock(line.elapsed_s),
    "policy": lambda line: line.policy or "–",
    "ranks": lambda line: "–" if line.ranks is None else count(line.ranks),
    "wait": lambda line: _share(line.wait),
    "asleep": lambda line: _share(line.asleep),
    "lost": lambda line: _share(line.lost),
    "cost": lambda line: "–" if line.cost is None else cost_words(line.cost),
    "saved": lambda line: "–" if line.saved is None else saved_words(line.saved),
    "energy": lambda line: _joules(line.joules),
    "": lambda line: line.why,
}
OF_TEXT = ("job", "name", "user", "state", "policy", "")
SUMS: dict[str, Callable[[Sums], str]] = {
    "job": lambda sums: "total",
    "state": lambda sums: plural(len(sums.lines), "job"),
    "elapsed": lambda sums: clock(sums.elapsed_s),
    "ranks": lambda sums: "–" if sums.ranks is None else count(sums.ranks),
    "wait": lambda sums: _share(sums.wait),
    "asleep": lambda sums: _share(sums.asleep),
    "lost": lambda sums: _share(sums.lost),
    "cost": lambda sums: "–" if sums.row.cost is None else cost_words(sums.row.cost),
    "saved": lambda sums: "–" if sums.row.saved is None else saved_words(sums.row.saved),
    "energy": lambda sums: _joules(sums.joules),
    "": lambda sums: SIMULATED if sums.row.simulated and sums.joules is not None else "",
}


def columns_of(lines: Sequence[Line], ranks: bool) -> list[str]:
    """Returns the columns to show. Leaves out empty ones, and the user if all jobs are of one."""
    left_out = set() if ranks else {"ranks"}
    if len({line.user for line in lines}) < 2:
        left_out |= {"user"}
    if not any(line.state for line in lines):
        left_out |= {"name", "state"}
    if not any(line.why for line in lines):
        left_out |= {""}
    if not any(line.cost for line in lines):
        left_out |= {"cost"}
    if not any(line.saved for line in lines):
        left_out |= {"saved"}
    return [name for name in COLUMNS if name not in left_out]


def _style(name: str, line: Line) -> str:
    return STYLES.get(line.state, "red") if name == "state" else "dim" if name == "" else ""


def _spread_rows(names: Sequence[str], lines: Sequence[Line]) -> list[list[str | Text]]:
    """Returns the rows of the least value, the median and the most of each figure. Returns none if no figure is known
    of two jobs, as where all but one wait for their run."""
    spreads = {figure.name: (figure, spread_of(figure, lines)) for figure in FIGURES}
    rows: list[list[str | Text]] = []
    for title in ENDS if any(spread is not None for _, spread in spreads.values()) else ():
        row = []
        for name in names:
            figure, spread = spreads.get(name, (None, None))
            shown = figure.shown(getattr(spread, title)) if figure is not None and spread is not None else ""
            row.append(Text(title if name == "job" else shown, "dim"))
        rows.append([*row])
    return rows


def draw_lines(
    canvas: Canvas, lines: Sequence[Line], names: Sequence[str], sums: Sums | None = None, of: Sequence[Line] = (),
    dropped: Sequence[str] = DROPPED,
) -> None:
    """Draws a line a job; below them the spread of the jobs in `of`, if there are any, and the sums, if given. The
    columns in dropped go first if there is no room, in this order."""
    rows: list[list[str | Text]] = [[Text(COLUMNS[name](line), _style(name, line)) for name in names] for line in lines]
    if of:
        rows += [[""] * len(names), *_spread_rows(names, of)]
    if sums is not None:
        rows.append([Text(SUMS[name](sums) if name in SUMS else "", "bold") for name in names])
    left = [index for index, name in enumerate(names) if name in OF_TEXT]
    canvas.table(names, rows, left, [names.index(name) for name in dropped if name in names])


def unknown_line(unknown: Sequence[str]) -> str:
    """Returns the sentence on jobs that sacct does not know."""
    more = f" and {len(unknown) - UNKNOWN_SHOWN} others" if len(unknown) > UNKNOWN_SHOWN else ""
    return f"sacct knows no job {', '.join(safe(job) for job in unknown[:UNKNOWN_SHOWN])}{more}."
