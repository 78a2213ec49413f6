"""The canvas of reports: collects lines, headings, tables and bars of one width.

Foreign text enters through units.safe and as rich Text, never as markup.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .plot import ASCII, bar

LABEL_WIDTH = 9
ASLEEP, AWAKE, WAITING, TRANSFER = "cyan", "yellow", "magenta", "green"  # WAITING: asleep and awake not told apart
GAP = 4  # characters between two parts that stand beside one another
HEIGHT = 25  # any number: without one, rich asks the terminal for its height at each line
JOINT = "\ue000"  # stands for a space at which no line may break, between a number and its unit
DISTRIBUTION_WIDTH = 40
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Canvas:
    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour, self.buffer = width, colour, io.StringIO()
        self.console = Console(
            file=self.buffer,
            width=width,
            height=HEIGHT,
            force_terminal=colour,
            color_system="standard" if colour else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def lines(self) -> list[str]:
        """Returns the lines drawn so far, without empty lines at either end."""
        written = self.buffer.getvalue().replace(JOINT, " ")
        return "\n".join(line.rstrip() for line in written.split("\n")).strip("\n").split("\n")

    def blank(self) -> None:
        self.console.print()

    def text(self, text: Text) -> None:
        """Draws one line, cut if it is too long."""
        self.console.print(text, no_wrap=True, crop=True)

    def line(self, label: str, value: str, style: str = "", tail: tuple[str, str] | None = None) -> None:
        """Draws "  Label    value". A long value is wrapped under itself."""
        grid = Table.grid(padding=0)
        grid.add_column(width=LABEL_WIDTH + 2, no_wrap=True)
        grid.add_column(overflow="fold")
        shown = Text(re.sub(r"(?<=\d) ", JOINT, value), style=style)
        if tail:
            shown.append("  ").append(*tail)
        grid.add_row(Text("  " + label, style="bold"), shown)
        self.console.print(grid)

    def sentence(self, mark: str, value: str, style: str) -> None:
        """Draws a mark and a sentence. A long sentence is wrapped under itself."""
        grid = Table.grid(padding=0)
        grid.add_column(width=len(mark) + 3, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f"  {mark}", style=style), Text(re.sub(r"(?<=\d) (?=%)", JOINT, value)))
        self.console.print(grid)

    def whole(self, value: str) -> None:
        """Draws a line to be copied, below a sentence. A long line is cut into pieces without indents."""
        before = "    " if len(value) + 4 <= self.width else ""
        self.console.print(Text(before + value), no_wrap=False, overflow="fold")

    def heading(self, title: str) -> None:
        self.blank()
        self.console.print(Rule(Text(title, style="bold"), align="left", style="dim", characters="─"))

    def ends(self, left: Text, right: Text) -> None:
        grid = Table.grid(expand=True)
        grid.add_column(overflow="fold")
        grid.add_column(justify="right")
        grid.add_row(left, right)
        self.console.print(grid)

    def note(self, text: Text) -> None:
        """Draws a text of several colours, two characters in. A long one is wrapped."""
        grid = Table.grid(padding=0)
        grid.add_column(width=2)
        grid.add_column(overflow="fold")
        grid.add_row(Text(), text)
        self.console.print(grid)

    def _with_room(self, rows: Sequence[Sequence[str | Text]], drop: Sequence[int]) -> list[int]:
        """Returns the columns that stay. Columns in drop go, one after the other, until no number must be cut."""
        places = list(range(max(map(len, rows))))
        widths = {place: max(len(row[place]) for row in rows if place < len(row)) + 2 for place in places}
        for place in drop:
            if sum(widths[one] for one in places) <= self.width:
                break
            places.remove(place)
        return places

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        left: Sequence[int] = (0,),
        drop: Sequence[int] = (),
    ) -> None:
        """Draws a table. The columns in left are aligned left, others right; those in drop go first if there is no
        room, in this order."""
        places = self._with_room([columns, *rows], drop)
        left = [index for index, place in enumerate(places) if place in left]
        columns, rows = [columns[place] for place in places], [[row[place] for place in places] for row in rows]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False)
        table.add_column("")
        for index, name in enumerate(columns):
            table.add_column(
                Text(name), justify="left" if index in left else "right", no_wrap=True, overflow="ellipsis"
            )
        for row in rows:
            table.add_row("", *(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        self.console.print(table)

    def distribution(self, title: str, rows: Sequence[tuple[str, float, str]], style: str = "blue") -> None:
        """Draws rows of (label, value, value in words) as bars."""
        self.blank()
        self.note(Text(title))
        label, amount = max(len(row[0]) for row in rows), max(len(row[2]) for row in rows)
        room = min(DISTRIBUTION_WIDTH, self.width - label - amount - 7)
        most = max(row[1] for row in rows)
        for name, value, shown in rows:
            line = Text(f"  {name:>{label}}  {shown:>{amount}}  ").append(bar(value, most, room), style)
            self.text(line)


def beside(left: list[str], right: list[str], width: int) -> list[str]:
    """Returns the lines of two parts beside one another. width is that of the left part. Escapes take no room."""
    count = max(len(left), len(right))
    rows = zip(left + [""] * (count - len(left)), right + [""] * (count - len(right)))
    return [(a + " " * (width + GAP - len(_ESCAPE.sub("", a))) + b).rstrip() for a, b in rows]


def written(lines: list[str], utf8: bool) -> str:
    text = "\n".join(lines) + "\n"
    return text if utf8 else text.translate(ASCII).encode("ascii", "replace").decode()
