"""Writes the report for people: one run of a job, or several jobs beside one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from ..jobs.found import Found
from ..jobs.sacct import Job
from ..jobs.source_lines import NO_LINES, Lines
from ..meaning.advice import Advice, Ending, advice, ending_of
from ..meaning.compare import Measure, label, measures, remarks, verdict
from ..meaning.reading import incomplete_line, no_ranks, notes, policy_line, ranks_of
from ..meaning.worlds import ranks_words, steps_of_ranks
from ..record.record import Record, Step
from ..site.tariff import NO_TARIFF, Tariff
from ..text.canvas import GAP, Canvas, beside, written
from ..text.output import WIDTH_TWO_COLUMNS
from ..text.plot import bar
from ..text.units import duration, plural, safe
from .calls import draw_calls, draw_phases, draw_profile, draw_sites, draw_steps
from .energy import draw_energy, draw_policy
from .waiting import draw_nodes, draw_picture, draw_waiting

STATE_STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "cyan"}


@dataclass(frozen=True)
class Output:
    """The output that the report is written to."""

    width: int
    colour: bool
    utf8: bool


@dataclass(frozen=True)
class Shown:
    """The subject of a report, and how much of it to show."""

    job: Job | None  # None if the record came from a file
    field: str  # the field of sacct that held the record
    record: Record
    step: Step | None = None  # the step to report, None for the whole job
    everything: bool = False  # show all ranks and nodes
    calls: int = 10  # most rows in a table of calls
    run: str = ""  # "run 1 of 2" for a job that was requeued
    lines: Lines = NO_LINES  # source lines of the call sites
    tariff: Tariff = NO_TARIFF  # the site's prices

    @property
    def ending(self) -> Ending:
        return ending_of(self.job)


def _draw_header(canvas: Canvas, shown: Shown) -> None:
    """Draws the head of the report. A warning of missing nodes comes first, in red if there are colours."""
    missing = incomplete_line(shown.record)
    if missing:
        canvas.console.print(Text(f"{missing}; all figures are theirs", style="bold red"))
    name = f"Job {safe(shown.job.id)}" if shown.job is not None else "A record without its job"
    name += f", {shown.run}" if shown.run else ""
    left = Text(name if shown.step is None else f"{name}, step {shown.step.id}", style="bold")
    if shown.job is None:
        right = Text(f"ran {duration(shown.record.elapsed)}")
    else:
        left.append("  " + safe(shown.job.fields["JobName"], 28), style="")
        style = STATE_STYLES.get(shown.job.state, "red")
        right = Text(safe(shown.job.fields["State"], 24), style=style)
        right.append(f" after {safe(shown.job.fields['Elapsed'], 16)}", style="")
    canvas.ends(left, right)


def _draw_facts(canvas: Canvas, shown: Shown) -> None:
    record, step = shown.record, shown.step
    policy = step.policy if step is not None and step.policy is not None else record.policy
    canvas.line("Policy", policy_line(policy))
    parts = [plural(step.nodes or record.nodes_of if step else record.nodes_of, "node")]
    if shown.job is not None and step is None and shown.job.fields["AllocCPUS"].isdigit():
        parts.append(plural(int(shown.job.fields["AllocCPUS"][:12]), "CPU"))
    ranks = step.ranks if step is not None else record.wait.ranks if record.wait is not None else 0
    seen = "" if record.is_complete else f" seen on {record.nodes_reported} of them"
    parts.append((ranks_words(record, step, ranks) if ranks else no_ranks(record, step, policy)) + seen)
    if step is None and len(record.steps) > 1:
        steps, ran = len(record.steps) + record.steps_left_out, len(steps_of_ranks(record))
        of = f" in {ran} of" if 1 < ran < steps and not record.steps_left_out else ","
        parts[-1] += f"{of} {plural(steps, 'step')}"
    canvas.line("Ran on", ", ".join(parts))
    draw_energy(canvas, shown.job, record, step, shown.tariff)


def _draw_waits(canvas: Canvas, shown: Shown) -> None:
    """Draws the waiting, its picture and the nodes."""
    record, step = shown.record, shown.step
    wait = record.wait
    if wait is not None and (step is None or step.ranks):
        ranks = ranks_of(record, step)
        canvas.heading("Waiting in MPI")
        draw_waiting(canvas, record, wait, ranks, step, shown.ending.is_broken)
        draw_picture(canvas, record, ranks, step, shown.everything)
        draw_nodes(canvas, record, step, shown.everything)


def _draw_tables(canvas: Canvas, shown: Shown) -> None:
    """Draws the tables of calls, phases, call sites and steps."""
    wait = shown.record.wait
    if shown.step is not None:
        return
    if wait is not None and wait.calls:
        draw_calls(canvas, wait.calls, wait.total, shown.calls)
    if wait is not None and wait.profile:
        draw_profile(canvas, wait.profile, wait.point_to_point, shown.calls)
    if wait is not None and wait.phases:
        draw_phases(canvas, wait.phases)
    if wait is not None and wait.sites:
        draw_sites(canvas, wait.sites, shown.lines, wait.total, shown.calls)
    if len(shown.record.steps) > 1:
        draw_steps(canvas, shown.record.steps, shown.record.policy.used)


def _draw_advice(canvas: Canvas, findings: Sequence[Advice]) -> None:
    """Draws advice; below each, on a line of its own, what to paste."""
    if findings:
        canvas.heading("Advice")
    for finding in findings:
        canvas.sentence("→", finding.words, "green")
        if finding.paste:
            canvas.whole(finding.paste)


def _draw_reading(canvas: Canvas, shown: Shown) -> None:
    """Draws the effects of the policy, advice, and notes on the figures."""
    record, wait = shown.record, shown.record.wait
    if shown.step is None and (wait is not None or record.grant is not None):
        draw_policy(canvas, record)
    if wait is not None and shown.step is None:
        _draw_advice(canvas, advice(record, shown.ending))
    remarks = notes(record, shown.field) + shown.lines.remarks
    if shown.step is not None and wait is not None and wait.calls:
        remarks.append("Calls are counted for the whole job only.")
    if shown.everything and shown.step is None and wait is not None and not wait.per_rank:
        remarks.append("--all-ranks shows no more here: the record has no list of the ranks, they were too many.")
    if shown.ending.is_component and wait is not None:
        remarks.append("The other components of the job have records of their own: their ranks are not in this one.")
    if remarks:
        canvas.heading("Mind")
    for remark in remarks:
        canvas.sentence("!", remark, "yellow")


def show(output: Output, shown: Shown) -> str:
    """Returns the whole report of one run of a job, or of a step, in two columns if there is room."""
    header = Canvas(output.width, output.colour)
    _draw_header(header, shown)
    if output.width < WIDTH_TWO_COLUMNS:
        for draw in (_draw_facts, _draw_waits, _draw_tables, _draw_reading):
            draw(header, shown)
        return written(header.lines(), output.utf8)
    half = (output.width - GAP) // 2
    left, right = Canvas(half, output.colour), Canvas(half, output.colour)
    _draw_facts(left, shown)
    _draw_reading(left, shown)
    _draw_waits(right, shown)
    _draw_tables(left if len(left.lines()) < len(right.lines()) else right, shown)
    return written([*header.lines(), "", *beside(left.lines(), right.lines(), half)], output.utf8)


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
