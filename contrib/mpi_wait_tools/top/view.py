"""The answer of mpi-wait top for people: rows of jobs or of sums, and the runs of one program in their order."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from ..jobs.sacct import Period
from ..meaning.bill import bill_of, bill_words, made_of, mass, money
from ..meaning.compare import difference
from ..meaning.cost import cost_words, saved_words
from ..meaning.reading import kinds_of, kinds_words
from ..meaning.rows import JobUse, Row, Tally
from ..site.tariff import Tariff
from ..text.canvas import ASLEEP, AWAKE, WAITING, Canvas, written
from ..text.plot import RISING, bar
from ..text.units import clock, core_time, count, duration, percent, plural, safe, scaled

NAME_WIDTH, BAR_WIDTH, BAR_MIN = 20, 40, 6
GAP = 2  # characters between two columns of the table
STATES = {
    "BOOT_FAIL": "BF",
    "CANCELLED": "CA",
    "COMPLETED": "CD",
    "DEADLINE": "DL",
    "FAILED": "F",
    "NODE_FAIL": "NF",
    "OUT_OF_MEMORY": "OOM",
    "PREEMPTED": "PR",
    "REQUEUED": "RQ",
    "TIMEOUT": "TO",
}
"""As squeue and sacct abbreviate them."""


TITLES = {"awake": "Energy spent waiting awake", "threads": "Threads busy while ranks wait",
          "saved": "Energy saved by sleeping in waits"}


@dataclass(frozen=True)
class Column:
    """A column of the table. On a narrow terminal the column with the lowest keep goes first; 9 never goes."""

    title: str
    cell: Callable[[Row], str]
    keep: int = 9
    is_text: bool = False


def _share(part: float, whole: float) -> str:
    return percent(min(1.0, part / whole)) if whole > 0 else "–"


def _energy(row: Row) -> str:
    return scaled(row.joules, "J") if row.unknown < row.jobs else "–"


def _awake(row: Row) -> str:
    return ("~" if row.estimated else "") + scaled(row.awake_j, "J") if row.unknown < row.jobs else "–"


def _bill_columns(tariff: Tariff) -> list[Column]:
    def price(row: Row) -> str:
        value = bill_of(tariff, row.billed_j).price
        return "–" if value is None or row.unknown == row.jobs else money(value)

    def co2(row: Row) -> str:
        value = bill_of(tariff, row.billed_j).co2_g
        return "–" if value is None or row.unknown == row.jobs else mass(value)

    columns = [] if tariff.price_per_kwh is None else [Column(tariff.currency, price, 2)]
    return columns + ([] if tariff.co2_g_per_kwh is None else [Column("CO2", co2, 2)])


def _columns(by: str, order: str, rows: Sequence[Row], tariff: Tariff) -> list[Column]:
    keep = 9 if order == "threads" else 2
    first = Column(by, lambda row: safe(row.name, NAME_WIDTH) or "(none)", is_text=True)
    of_job = [
        Column("name", lambda row: safe(row.run.name, 10), 5, is_text=True),
        Column("user", lambda row: safe(row.labels.get("user", ""), 8), 1, is_text=True),
        Column("policy", lambda row: row.labels["policy"][:8], 3, is_text=True),
        Column("st", lambda row: STATES.get(row.run.state, safe(row.run.state, 3)), 6, is_text=True),
        Column("time", lambda row: clock(row.run.elapsed_s), 7),
        Column("nodes", lambda row: count(row.run.nodes) if row.run.nodes else "–", 4),
    ]
    figures = [
        Column("energy", _energy, 2),
        Column("awake", _awake, 8),
        Column("awake", lambda row: _share(row.awake_s, row.ranks_s)),
        Column("asleep", lambda row: _share(row.asleep_s, row.ranks_s)),
        Column("imbalance", lambda row: _share(row.lost_s, row.lost_of_s), 0),
    ]
    if any(row.cost for row in rows):
        figures.insert(4, Column("cost", lambda row: cost_words(row.cost) if row.cost else "–", 1))
    if any(row.saved for row in rows):
        saved = Column("saved", lambda row: saved_words(row.saved) if row.saved else "–", 9 if order == "saved" else 1)
        figures.insert(4, saved)
    if any(row.threads_s for row in rows):
        figures.insert(4, Column("threads", lambda row: core_time(row.threads_s) if row.threads_s else "–", keep))
    figures[1:1] = _bill_columns(tariff)
    own = of_job if by == "job" else [Column("jobs", lambda row: count(row.jobs))]
    return [first, *own, *figures]


def _width(column: Column, rows: Sequence[Row]) -> int:
    return max(len(column.title), *(len(column.cell(row)) for row in rows)) + GAP


def fitting(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[Column]:
    """Returns the columns for which there is room, in their order."""
    chosen = list(columns)
    while sum(_width(column, rows) for column in chosen) > width - GAP:
        dispensable = [column for column in chosen if column.keep < 9]
        if not dispensable:
            break
        chosen.remove(min(dispensable, key=lambda column: column.keep))
    return chosen


def _lengths(rows: Sequence[Row], order: str) -> list[float]:
    """Returns the lengths of the rows' bars, which are of the figure that the rows are in the order of."""
    if order == "threads":
        return [row.threads_s for row in rows]
    if order == "saved":
        return [max(0.0, row.saved_j) for row in rows]
    joules = any(row.awake_j > 0 for row in rows)
    return [row.awake_j if joules else row.awake_s for row in rows]


def _table(canvas: Canvas, rows: list[Row], by: str, order: str, tariff: Tariff) -> None:
    columns = fitting(_columns(by, order, rows, tariff), rows, canvas.width)
    cells: list[list[str | Text]] = [[column.cell(row) for column in columns] for row in rows]
    room = min(BAR_WIDTH, canvas.width - GAP - sum(_width(column, rows) for column in columns) - 1)
    titles, left = [column.title for column in columns], [i for i, column in enumerate(columns) if column.is_text]
    if room >= BAR_MIN:
        values = _lengths(rows, order)
        for line, value in zip(cells, values):
            line.append(Text(bar(value, max(values), room), AWAKE))
        left.append(len(titles))
        titles.append("")
    canvas.table(titles, cells, left=left)


def _blocks(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Returns the rows by kind of energy. The kind is "" if there is only one."""
    kinds = list(dict.fromkeys(row.energy_of for row in rows))
    if len([kind for kind in kinds if kind]) > 1:
        return [(kind, [row for row in rows if row.energy_of == kind]) for kind in kinds]
    return [("", list(rows))] if rows else []


def _energy_sum(kind: str, rows: Sequence[Row]) -> str:
    joules, awake = sum(row.joules for row in rows), sum(row.awake_j for row in rows)
    if joules <= 0:
        return ""
    about = "~" if any(row.estimated for row in rows) else ""
    simulated = " (simulated, not measured)" if any(row.simulated for row in rows) else ""
    of = f" of {kind}" if kind else ""
    return f"{scaled(joules, 'J')}{of}, {about}{scaled(awake, 'J')} of it waiting awake{simulated}"


def _sums(canvas: Canvas, tally: Tally, rows: list[Row]) -> None:
    parts = [f"{plural(len(tally.uses), 'job')} of {count(tally.jobs)} with a record"]
    parts += [text for text in (_energy_sum(kind, block) for kind, block in _blocks(rows)) if text]
    waited, asleep = sum(row.wait_s for row in rows), sum(row.asleep_s for row in rows)
    parts.append(f"ranks waited {core_time(waited)}, {_share(asleep, waited)} of it asleep")
    canvas.note(Text("; ".join(parts), style="dim"))


def _bill_sum(canvas: Canvas, rows: Sequence[Row], tariff: Tariff) -> None:
    bill = bill_of(tariff, sum(row.billed_j for row in rows))
    if not bill.is_empty and rows:
        simulated = " (simulated, not measured)" if any(row.simulated for row in rows) else ""
        words = f"{bill_words(tariff, bill)} for the energy that is known, {made_of(tariff)}{simulated}"
        canvas.note(Text(words, style="dim"))


def show_top(
    width: int, colour: bool, utf8: bool, period: Period, arguments: argparse.Namespace, tally: Tally, rows: list[Row],
    tariff: Tariff,
) -> str:
    canvas = Canvas(width, colour)
    title = Text(f"{TITLES[arguments.order]}, by {arguments.by}", style="bold")
    canvas.ends(title, Text(period.words()))
    _sums(canvas, tally, rows)
    _bill_sum(canvas, rows, tariff)
    for kind, block in _blocks(rows[: arguments.limit]):
        canvas.blank()
        if kind:
            canvas.note(Text(f"Energy of {kind}", style="bold"))
        _table(canvas, block, arguments.by, arguments.order, tariff)
    if len(rows) > arguments.limit:
        canvas.note(Text(f"{len(rows) - arguments.limit} more (--limit {len(rows)})", style="dim"))
    draw_remarks(canvas, tally, rows)
    return written(canvas.lines(), utf8)


def draw_remarks(canvas: Canvas, tally: Tally, rows: Sequence[Row], of_many: bool = True) -> None:
    said = []
    if of_many and any(row.estimated for row in rows):
        said.append("~ is an estimate: the energy by the share of time that ranks waited awake.")
    if any(row.simulated for row in rows):
        said.append("Energy is simulated for some of the jobs, not measured.")
    if of_many and len(_blocks(rows)) > 1:
        said.append("Energies of different parts are not comparable: each has a table of its own.")
    if any(row.unknown for row in rows):
        said.append(f"Of {plural(sum(row.unknown for row in rows), 'job')} the energy is not known.")
    if any(row.lacks_gpus for row in rows):
        said.append(f"GPUs not counted: {plural(sum(row.lacks_gpus for row in rows), 'job')} ran on nodes with some.")
    if any(row.incomplete for row in rows):
        number = sum(row.incomplete for row in rows)
        said.append(f"{plural(number, 'record')} INCOMPLETE: nodes did not report, their figures are missing here.")
    if tally.numbers_again:
        said.append(f"{plural(tally.numbers_again, 'number')} came again: several lines with one are different jobs.")
    if tally.from_extra:
        said.append(f"{plural(tally.from_extra, 'record')} from Extra, which a job's owner can change.")
    if tally.unreadable:
        said.append(f"{plural(tally.unreadable, 'record')} cannot be read: damaged, or of another release.")
    if said:
        canvas.blank()
    for sentence in said:
        canvas.sentence("!", sentence, "yellow")


UNKNOWN = "·"


@dataclass(frozen=True)
class Line:
    """One figure of every run; of() returns None if it is not known."""

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
    """Returns the runs by their start. The times of sacct sort as text."""
    return sorted(uses, key=lambda use: (use.run.start, use.names["job"]))


def sparkline(values: Sequence[float | None], room: int) -> str:
    """Returns one character per run, scaled from 0 to the highest value: the latest runs for which there is room."""
    latest = values[-room:]
    most = max((value for value in latest if value is not None), default=0.0)
    return "".join(_cell(value, most) for value in latest)


def _cell(value: float | None, most: float) -> str:
    if value is None:
        return UNKNOWN
    return RISING[max(1, round(value / most * 8))] if most > 0 else RISING[1]


def change_of(values: Sequence[float | None], is_share: bool) -> str:
    """Returns the change from the first known value to the last; "" if fewer than two are known."""
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
    """Draws the reasons why the runs may not have done the same work."""
    kinds = kinds_of(use.energy_of for use in uses)
    if len(kinds) > 1:
        canvas.blank()
        words = f"The runs' energy is not of the same parts, and not compared: {kinds_words(kinds, 'run')}."
        canvas.sentence("!", words, "yellow")
    if len({use.run.nodes for use in uses}) > 1:
        canvas.blank()
        canvas.sentence("!", "The runs differ in nodes: their times and energy are not of the same size.", "yellow")
