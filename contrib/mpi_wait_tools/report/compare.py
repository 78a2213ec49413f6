"""The comparison of several jobs as a person sees it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ..jobs.found import Found
from ..meaning.compare import Measure, label, measures, remarks, verdict
from ..meaning.reading import incomplete_line, policy_line
from ..text.bars import bar
from ..text.canvas import Canvas, written
from ..text.units import plural, safe
from .view import Output

DIFFERENCE_WIDTH = 8
CELL_WIDTH, NAMES_WIDTH = 20, 14


def _titles(canvas: Canvas, founds: Sequence[Found]) -> None:
    canvas.console.print(Text(f"{plural(len(founds), 'job')} compared with the first", style="bold"))
    room = max(len(found.name) for found in founds)
    for found in founds:
        record, step = found.record, found.step
        ranks = step.ranks if step else record.wait.ranks if record.wait else 0
        name = f"{safe(found.job.fields['JobName'], 28)}, " if found.job else ""
        if found.has_record:
            seen = plural(ranks, "rank") if found.is_watched else "ranks not watched"
            words = f"{name}{plural(record.nodes_of, 'node')}, {seen}: {policy_line(found.policy)}"
        else:
            words = f"{name}{plural(record.nodes_of, 'node')}: no record"
        canvas.sentence(f"{found.name:<{room}} ", words, "bold")
        if not record.is_complete:
            canvas.sentence(" " * (room + 1), incomplete_line(record), "bold red")


def _bars(canvas: Canvas, measure: Measure, founds: Sequence[Found]) -> None:
    canvas.blank()
    names = [label(found) for found in founds]
    shown = ["–" if value is None else measure.shown(value) for value in measure.values]
    name, amount = max(map(len, names)), max(map(len, shown))
    room = max(8, canvas.width - name - amount - DIFFERENCE_WIDTH - 9)
    most = max(value for value in measure.values if value is not None)
    canvas.console.print(Text(f"  {measure.name}", style="bold"))
    for index, value in enumerate(measure.values):
        change = measure.difference(index) if index else ""
        line = Text(f"    {names[index]:<{name}}  {shown[index]:>{amount}}")
        line.append(f"{change:>{DIFFERENCE_WIDTH}}  ", _style(change))
        canvas.text(line.append(bar(value or 0.0, most, room), "cyan" if index else "blue"))


def _style(change: str) -> str:
    return "green" if change.startswith("−") else "yellow" if change.startswith(("+", "×")) else "dim"


def _table(canvas: Canvas, found_measures: Sequence[Measure], founds: Sequence[Found], chosen: Sequence[int]) -> None:
    rows: list[list[str | Text]] = []
    for measure in found_measures:
        row: list[str | Text] = [measure.name]
        for index in chosen:
            value = measure.values[index]
            row.append("–" if value is None else measure.shown(value))
            if index:
                row.append(Text(measure.difference(index), "dim"))
        rows.append(row)
    columns = ["also"]
    for index in chosen:
        columns += [founds[index].name] + ([""] if index else [])
    canvas.table(columns, rows)


def compare(output: Output, founds: Sequence[Found]) -> str:
    canvas = Canvas(output.width, output.colour)
    _titles(canvas, founds)
    found_measures = measures(founds)
    for measure in found_measures:
        if measure.of_interest:
            _bars(canvas, measure, founds)
    rest = [measure for measure in found_measures if not measure.of_interest]
    cell = max(CELL_WIDTH, max(len(found.name) for found in founds) + DIFFERENCE_WIDTH + 5)
    at_once = max(1, (canvas.width - NAMES_WIDTH) // cell - 1)
    for start in range(1, len(founds), at_once):
        canvas.blank()
        _table(canvas, rest, founds, [0, *range(start, min(len(founds), start + at_once))])
    said = verdict(founds)
    if said:
        canvas.heading("In short")
    for sentence in said:
        canvas.sentence("→", sentence, "green")
    canvas.heading("Mind")
    for sentence in remarks(founds):
        canvas.sentence("!", sentence, "yellow")
    return written(canvas.lines(), output.utf8)
