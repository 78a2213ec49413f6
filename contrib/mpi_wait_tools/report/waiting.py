"""Draws the waiting of a job's ranks, as lines and as a picture that shows which ranks wait for which."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ..meaning.imbalance import Imbalance, Scale, imbalance_of, scale_of
from ..meaning.nodes import FIGURES, MARK_MEANS, NodeMap, NodeRow, node_map, rest_line, slow_nodes_line
from ..meaning.reading import Rank, balance_of, extremes_of
from ..record.record import Record, Step
from ..record.wait import Wait
from ..text.canvas import ASLEEP, AWAKE, JOINT, WAITING, Canvas
from ..text.plot import Column, column_rows, gather, histogram, quantile, shade, split_bar, stretched
from ..text.units import core_time, count, duration, percent, plural, safe

RANKS_SHOWN = 16  # more ranks than these are shown as a chart, the extremes and a distribution
EXTREMES = 4
QUANTILES = {0.0: "least", 0.1: "10 %", 0.25: "25 %", 0.5: "median", 0.75: "75 %", 0.9: "90 %", 1.0: "most"}


def draw_waiting(
    canvas: Canvas, record: Record, wait: Wait, ranks: list[Rank], step: Step | None, is_broken: bool
) -> None:
    """Draws the figures of the waiting. is_broken: the job did not run to its end."""
    imbalance = imbalance_of(record, step)
    if step is not None:
        total, mean = step.wait, step.wait / step.ranks
        whole = step.elapsed * step.ranks if step.elapsed else 0
        share = f", {percent(min(1.0, total / whole))} of the step's time" if whole else ""
    else:
        total, mean = wait.total, wait.mean
        share = f", {percent(wait.share)} of the ranks' time" if wait.share is not None else ""
    seen = "" if record.is_complete else " (of those seen)"
    canvas.line("Total", f"{core_time(total)}{share}{seen}")
    values = [rank.seconds for rank in ranks]
    least, most = (min(values), max(values)) if values else (wait.least.seconds, wait.most.seconds)
    spread = f"{duration(least)} least · {duration(mean)} mean · {duration(most)} most"
    canvas.line("Per rank", spread if values or step is None else f"{duration(mean)} mean")
    reading = balance_of(record, ranks, step, is_broken)
    if reading:
        canvas.line("Balance", reading)
    if imbalance is not None and imbalance.lost_s > 0 and imbalance.share is not None and not is_broken:
        canvas.line("Lost", _lost(imbalance, imbalance.share))
    slow = slow_nodes_line(record) if step is None else ""
    if slow:
        canvas.line("Slow", slow, "yellow")


def _lost(imbalance: Imbalance, share: float) -> str:
    core = f", {percent(imbalance.core_share)} of core time" if imbalance.core_share is not None else ""
    limit, only = ("up to ", ", if all wait for the one that waits least") if imbalance.lone else ("", "")
    return f"{limit}{core_time(imbalance.lost_s)} to the imbalance: {percent(share)} of the ranks' time{core}{only}"


def draw_picture(canvas: Canvas, record: Record, ranks: list[Rank], step: Step | None, everything: bool) -> None:
    """Draws every rank, if they are few or all are wanted; else a chart of all and the extremes."""
    wait = record.wait
    ordered = sorted(ranks, key=lambda rank: -rank.seconds)
    if ranks and ordered[0].seconds > 0:
        scale = scale_of(record, step, len(ranks), ordered[0].seconds)
        if everything or len(ranks) <= RANKS_SHOWN:
            canvas.blank()
            _bars(canvas, ranks, scale)
            _legend(canvas, ranks, scale)
            return
        _by_rank(canvas, ranks)
        between = f"{plural(len(ranks) - 2 * EXTREMES, 'rank')} between (--all-ranks shows them)"
        _ends(canvas, ordered[:EXTREMES], ordered[-EXTREMES:], scale, between)
        _histogram(canvas, [rank.seconds for rank in ranks])
    elif wait is not None and step is None and wait.quantiles:
        scale = scale_of(record, None, wait.ranks, wait.most.seconds)
        _by_order(canvas, wait)
        most, least = extremes_of(record, wait)
        left_out = max(0, wait.ranks - len(most[:EXTREMES]) - len(least[-EXTREMES:]))
        if most and least:
            between = f"{plural(left_out, 'rank')} between, of whom the record has quantiles"
            _ends(canvas, most[:EXTREMES], least[-EXTREMES:], scale, between)
        _quantiles(canvas, wait)


def _bars(canvas: Canvas, ranks: Sequence[Rank], scale: Scale, aligned_with: Sequence[Rank] = ()) -> None:
    both = [*ranks, *aligned_with]
    label = max(len(rank.label) for rank in both)
    node = max(len(safe(rank.node, 16)) for rank in both)
    amount = max(len(duration(rank.seconds)) for rank in both)
    room = canvas.width - label - amount - 11 - (node + 1 if node else 0)
    for rank in ranks:
        place = f" {safe(rank.node, 16):<{node}}" if node else ""
        line = Text(f"  {rank.noun} {rank.label:>{label}}").append(place, "dim")
        line.append(f"  {duration(rank.seconds):>{amount}}  ")
        part = rank.seconds if rank.asleep is None else rank.asleep
        asleep, polling = split_bar(rank.seconds, part, scale.top, room)
        rest = round(scale.run / scale.top * room) - len(asleep) - len(polling) if scale.run else 0
        known = ASLEEP if rank.asleep is not None else WAITING
        canvas.text(line.append(asleep, known).append(polling, AWAKE).append("─" * max(0, rest), "dim"))


def _legend(canvas: Canvas, ranks: Sequence[Rank], scale: Scale) -> None:
    if any(rank.asleep is not None for rank in ranks):
        parts = [("█", ASLEEP), (" asleep", "dim"), ("  ░", AWAKE), (" polling", "dim")]
    else:
        parts = [("█", WAITING), (" waiting", "dim")]
    if scale.run:
        parts.append((f"  ─ the rest of {duration(scale.run)}: computing, transferring", "dim"))
    line = Text()
    for part in parts:
        line.append(*part)
    canvas.note(line)


def _ends(canvas: Canvas, most: list[Rank], least: list[Rank], scale: Scale, between: str) -> None:
    canvas.blank()
    _bars(canvas, most, scale, least)
    canvas.note(Text(f"… {between}", style="dim"))
    _bars(canvas, least, scale, most)
    _legend(canvas, most, scale)


def _chart(canvas: Canvas, title: str, columns: list[Column], left: str, right: str) -> None:
    rows = column_rows(columns)
    if not rows:
        return
    top = duration(max(column.most for column in columns))
    canvas.blank()
    canvas.note(Text(title))
    for index, row in enumerate(rows):
        label = top if index == 0 else "0" if index == len(rows) - 1 else ""
        line = Text(f"  {label:>{len(top)}} ").append("│", "dim")
        canvas.text(line.append(row, WAITING))
    room = max(len(columns), len(left) + len(right) + 2)
    foot = f"{left}{' ' * (room - len(left) - len(right))}{right}"
    canvas.text(Text(" " * (len(top) + 4) + foot, style="dim"))


def _room(canvas: Canvas, most: float) -> int:
    return canvas.width - len(duration(most)) - 5


def _by_rank(canvas: Canvas, ranks: list[Rank]) -> None:
    values = [rank.seconds for rank in ranks]
    room = _room(canvas, max(values))
    columns = gather(values, room) if len(values) > room else gather(stretched(values, room), room)
    size = -(-len(values) // room)
    each = f", {plural(size, 'rank')} in a column (░ up to the one that waits most)" if size > 1 else ""
    _chart(canvas, f"Waiting by rank{each}:", columns, ranks[0].name, ranks[-1].name)


def _by_order(canvas: Canvas, wait: Wait) -> None:
    """Draws the curve through the quantiles: all ranks in the order of their waiting."""
    room = _room(canvas, wait.quantiles[-1])
    places = [(index + 0.5) / room for index in range(room)]
    values = [quantile(wait.quantiles, place) for place in places]
    title = f"All {count(wait.ranks)} ranks in the order of their waiting:"
    _chart(canvas, title, [Column(value, value) for value in values], "who waits least", "who waits most")


def _histogram(canvas: Canvas, values: list[float]) -> None:
    rows = [
        (f"{duration(one.low)} – {duration(one.high)}", float(one.ranks), plural(one.ranks, "rank"))
        for one in histogram(values)
    ]
    canvas.distribution("How many ranks wait how long:", rows, WAITING)


def _quantiles(canvas: Canvas, wait: Wait) -> None:
    values = [(name, quantile(wait.quantiles, part)) for part, name in QUANTILES.items()]
    title = f"So many of the {count(wait.ranks)} ranks wait at most:"
    canvas.distribution(title, [(name, value, duration(value)) for name, value in values], WAITING)


NODES_SHOWN = 16
CELL = 3  # characters of a shaded cell
NAME_MAX = 16
DROPPED = ("ranks", "least", "most", "slowed", "power", "asleep", "")  # columns, in the order in which they go


def _cell(nodes: NodeMap, row: NodeRow, place: int) -> Text:
    value = row.values[place]
    if value is None:
        return Text(f"–{JOINT}", style="dim")
    style = ASLEEP if FIGURES[place].name == "asleep" else WAITING
    is_marked = nodes.stands_out(row, place)
    drawn = Text(shade(value, nodes.most(place)) * CELL, style=style)
    drawn.append(f"{FIGURES[place].shown(value):>8}", "bold yellow" if is_marked else "")
    return drawn.append("!" if is_marked else JOINT, "bold yellow")


def _nodes_legend(canvas: Canvas, nodes: NodeMap, is_marked: bool) -> None:
    line = Text("░▒▓█ ", style=WAITING).append(f"from 0 to the most of each column. {nodes.means()}", "dim")
    if is_marked:
        line.append(" !", "bold yellow").append(f" {MARK_MEANS}", "dim")
    canvas.note(line)


def draw_nodes(canvas: Canvas, record: Record, step: Step | None, everything: bool) -> None:
    """Draws the table of nodes, unless they are few or not known. everything: shows all nodes, however many."""
    nodes = node_map(record, step)
    if nodes is None:
        return
    shown, rest = nodes.unusual(len(nodes.rows) if everything else NODES_SHOWN)
    places = [place for place in range(len(FIGURES)) if nodes.is_known(place)]
    names = ["node", "ranks", *(FIGURES[place].name + JOINT for place in places)]
    rows: list[list[str | Text]] = [
        [safe(row.name, NAME_MAX), count(row.ranks), *(_cell(nodes, row, place) for place in places)] for row in shown
    ]
    if any(row.remark for row in shown):
        names.append("")
        rows = [[*cells, Text(row.remark, "yellow")] for cells, row in zip(rows, shown)]
    plain = [name.rstrip(JOINT) for name in names]
    canvas.heading("Waiting by node")
    canvas.table(names, rows, (0, plain.index("") if "" in plain else 0),
                 [plain.index(name) for name in DROPPED if name in plain])
    if rest:
        canvas.note(Text(f"… {rest_line(rest)} (--all-ranks shows them)", style="dim"))
    _nodes_legend(canvas, nodes, any(nodes.stands_out(row, place) for row in shown for place in places))
