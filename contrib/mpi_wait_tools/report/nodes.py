"""The nodes of a job as a heat map of characters: a row a node, a column a figure."""

from __future__ import annotations

from rich.text import Text

from ..meaning.by_node import FIGURES, MARK_MEANS, NodeMap, NodeRow, node_map, rest_line
from ..record.record import Record, Step
from ..text.bars import shade
from ..text.canvas import ASLEEP, JOINT, WAITING, Canvas
from ..text.units import count, safe

NODES_SHOWN = 16
CELL = 3  # columns of a shade
NAME_MAX = 16
DROPPED = ("ranks", "least", "most", "slowed", "power", "asleep", "")  # in this order, where there is no room


def _cell(nodes: NodeMap, row: NodeRow, place: int) -> Text:
    value = row.values[place]
    if value is None:
        return Text(f"–{JOINT}", style="dim")
    style = ASLEEP if FIGURES[place].name == "asleep" else WAITING
    is_marked = nodes.stands_out(row, place)
    drawn = Text(shade(value, nodes.most(place)) * CELL, style=style)
    drawn.append(f"{FIGURES[place].shown(value):>8}", "bold yellow" if is_marked else "")
    return drawn.append("!" if is_marked else JOINT, "bold yellow")


def _legend(canvas: Canvas, nodes: NodeMap, is_marked: bool) -> None:
    line = Text("░▒▓█ ", style=WAITING).append(f"from 0 to the most of each column. {nodes.means()}", "dim")
    if is_marked:
        line.append(" !", "bold yellow").append(f" {MARK_MEANS}", "dim")
    canvas.note(line)


def draw_nodes(canvas: Canvas, record: Record, step: Step | None, everything: bool) -> None:
    """Nothing where the nodes are few or not known. everything: every node, however many."""
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
    _legend(canvas, nodes, any(nodes.stands_out(row, place) for row in shown for place in places))
