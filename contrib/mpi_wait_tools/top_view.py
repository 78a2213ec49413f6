"""The answer of top for people: one line per job, account or user, with a bar of the energy spent waiting."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from rich.text import Text

from .bars import bar
from .canvas import Canvas, written
from .sacct_many import Period
from .top_rows import Row
from .units import count, duration, percent, plural, safe, scaled

if TYPE_CHECKING:
    from .top import Tally

NAME_WIDTH = 20
BAR_WIDTH = 40
WIDE = 100  # columns from which on there is room for the imbalance


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _share(part: float, whole: float) -> str:
    return percent(min(1.0, part / whole)) if whole > 0 else ""


def _columns(by: str, wide: bool) -> list[str]:
    names = [by, *(["user", "policy"] if by == "job" else ["jobs"]), "energy", "waiting", "of it", "ranks wait"]
    return names + (["imbalance"] if wide else [])


def _cells(row: Row, by: str, wide: bool) -> list[str | Text]:
    known = row.unknown < row.jobs
    about = "~" if row.estimated else ""
    own = [safe(row.labels["user"], 12), row.labels["policy"]] if by == "job" else [count(row.jobs)]
    cells: list[str | Text] = [
        safe(row.name, NAME_WIDTH) or "(none)",
        *own,
        scaled(row.joules, "J") if known else "–",
        about + scaled(row.waiting_j, "J") if known else "–",
        _share(row.waiting_j, row.joules),
        _share(row.wait_s, row.ranks_s),
    ]
    return [*cells, _share(row.lost_s, row.ranks_s)] if wide else cells


def _table(canvas: Canvas, rows: list[Row], by: str) -> None:
    wide = canvas.width >= WIDE
    columns = _columns(by, wide)
    cells = [_cells(row, by, wide) for row in rows]
    widths = [max(len(name), *(len(line[index]) for line in cells)) for index, name in enumerate(columns)]
    room = max(0, min(BAR_WIDTH, canvas.width - sum(widths) - 2 * len(columns) - 4))
    most = max(row.waiting_j for row in rows)
    value = (lambda row: row.waiting_j) if most > 0 else (lambda row: row.wait_s)
    top = max(value(row) for row in rows)
    for row, line in zip(rows, cells):
        line.append(Text(bar(value(row), top, room), "cyan"))
    canvas.table([*columns, ""], cells, left=(0, 1, 2, len(columns)) if by == "job" else (0, len(columns)))


def _sums(canvas: Canvas, tally: Tally, rows: list[Row]) -> None:
    joules, waiting = sum(row.joules for row in rows), sum(row.waiting_j for row in rows)
    about = "~" if any(row.estimated for row in rows) else ""
    parts = [f"{plural(len(tally.uses), 'job')} of {count(tally.jobs)} with a record"]
    if joules > 0:
        simulated = " (simulated, not measured)" if any(row.simulated for row in rows) else ""
        parts.append(f"{scaled(joules, 'J')}, {about}{scaled(waiting, 'J')} of it waiting{simulated}")
    parts.append(f"{duration(sum(row.wait_s for row in rows))} of ranks waiting")
    canvas.console.print(Text("  " + "; ".join(parts), style="dim"))


def show_top(
    width: int, colour: bool, utf8: bool, period: Period, arguments: argparse.Namespace, tally: Tally, rows: list[Row]
) -> str:
    canvas = Canvas(width, colour)
    title = Text(f"Energy spent waiting, by {arguments.by}", style="bold")
    canvas.ends(title, Text(f"{_moment(period.since)} to {_moment(period.until)}"))
    _sums(canvas, tally, rows)
    if rows:
        canvas.blank()
        _table(canvas, rows[: arguments.limit], arguments.by)
    if len(rows) > arguments.limit:
        canvas.console.print(Text(f"  {len(rows) - arguments.limit} more (--limit {len(rows)})", style="dim"))
    _remarks(canvas, tally, rows)
    return written(canvas.lines(), utf8)


def _remarks(canvas: Canvas, tally: Tally, rows: list[Row]) -> None:
    said = []
    if any(row.estimated for row in rows):
        said.append("~ is an estimate: the energy by the share of time that ranks waited; less where they slept.")
    if any(row.simulated for row in rows):
        said.append("Energy is simulated for some of the jobs, not measured.")
    if any(row.unknown for row in rows):
        said.append(f"Of {plural(sum(row.unknown for row in rows), 'job')} the energy is not known.")
    if tally.from_extra:
        said.append(f"{plural(tally.from_extra, 'record')} from Extra, which a job's owner can change.")
    if tally.unreadable:
        said.append(f"{plural(tally.unreadable, 'record')} cannot be read: damaged, or of another release.")
    if said:
        canvas.blank()
    for sentence in said:
        canvas.sentence("!", sentence, "yellow")
