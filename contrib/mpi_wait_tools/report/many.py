"""The report of many jobs, an array's tasks for example: a line each, their sums and spread, and the odd ones."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..jobs.named import number_of
from ..meaning.bill import Bill, bill_of, bill_words, made_of
from ..meaning.line import Line, with_parts, without_simulated
from ..meaning.spread import ENDS, FIGURES, Odd, Sums, energies_are_alike, odd_ones, spread_of, sums_of
from ..site.tariff import Tariff
from ..text.output import Refusal, output_is_utf8, output_width, wants_colour
from ..text.units import plural, rounded, safe
from .csv_rows import HEADER, cell_of
from .lines import as_json, known_or_refused, lines_of_rows

LINES_SHOWN, ODD_SHOWN = 1000, 8
DROPPED = ("name", "user", "policy", "asleep", "lost", "ranks", "cost", "saved", "elapsed", "energy")
SAID = {"wait": "waiting", "lost": "lost to the imbalance"}


@dataclass(frozen=True)
class Many:
    """Many jobs, by their numbers."""

    lines: Sequence[Line]
    sums: Sums
    odd: Sequence[Sequence[Odd]]
    unknown: Sequence[str]  # jobs that sacct does not know
    remarks: Sequence[str]  # sentences on what was skipped
    tariff: Tariff  # the site's prices

    @property
    def bill(self) -> Bill:
        """The bill of the energy that is known; empty if energies are not of the same parts."""
        return Bill(None, None) if self.sums.joules is None else bill_of(self.tariff, self.sums.row.billed_j)

    @property
    def title(self) -> str:
        """Names the array, if all jobs are its tasks."""
        bases = {line.job.partition("_")[0] for line in self.lines if "_" in line.job}
        whole = len(bases) == 1 and all("_" in line.job for line in self.lines)
        names = {line.name for line in self.lines}
        name = f"  {safe(names.pop(), 28)}" if len(names) == 1 else ""
        return f"Array {bases.pop()}{name}, {plural(len(self.lines), 'task')}" if whole else plural(
            len(self.lines), "job") + name


def many_of(
    rows: Iterable[Mapping[str, str]], spool: str, jobs: Sequence[str], remarks: Sequence[str], tariff: Tariff
) -> Many:
    """Returns the jobs in sacct's rows. jobs are those that were asked for. Raises Refusal if sacct knows none."""
    lines = sorted(lines_of_rows(rows, spool), key=lambda line: (number_of(line.job), line.submit))
    unknown = known_or_refused(lines, jobs)
    return Many(with_parts(lines), sums_of(lines), odd_ones(lines), unknown, remarks, tariff)


def _odd_line(found: Sequence[Odd]) -> str:
    """Returns a sentence on an odd job: "4711_7: elapsed 3:20, the median is 0:25; ..."."""
    parts = [f"{SAID.get(odd.figure.name, odd.figure.name)} {odd.figure.shown(odd.value)}, the median is "
             f"{odd.figure.shown(odd.median)}" for odd in found]
    return f"{safe(found[0].line.job)}: {'; '.join(parts)}."


def _mind(many: Many) -> list[str]:
    from .table import unknown_line

    said = [many.sums.lacking] if many.sums.lacking else []
    said += [unknown_line(many.unknown)] * bool(many.unknown) + list(many.remarks)
    if many.sums.row.simulated:
        said.append("Energy is simulated for at least one job, not measured.")
    if len(many.lines) > LINES_SHOWN:
        said.append(f"The first {LINES_SHOWN} of {len(many.lines)} jobs are listed; the figures below them are of all.")
    if not energies_are_alike(many.lines):
        said.append("Energy is not of the same parts in all jobs: it is neither summed nor compared.")
    return said


def show_many(width: int, colour: bool, utf8: bool, many: Many) -> str:
    """Returns the table for people."""
    from rich.text import Text

    from ..text.canvas import Canvas, written
    from .table import columns_of, draw_lines

    canvas = Canvas(width, colour)
    states = Counter(safe(line.state or "UNKNOWN", 13) for line in many.lines)
    shown = ", ".join(f"{number} {state}" for state, number in states.most_common())
    canvas.ends(Text(many.title, style="bold"), Text(shown))
    canvas.blank()
    alike = len({line.name for line in many.lines}) == 1
    names = [name for name in columns_of(without_simulated(many.lines), ranks=True) if name != "name" or not alike]
    draw_lines(canvas, without_simulated(many.lines[:LINES_SHOWN]), names, many.sums, many.lines, DROPPED)
    if not many.bill.is_empty:
        canvas.blank()
        label = "CO2" if many.tariff.price_per_kwh is None else "Price"
        canvas.line(label, f"{bill_words(many.tariff, many.bill)}, {made_of(many.tariff)}")
    if many.odd:
        canvas.heading("Odd ones")
    for found in many.odd[:ODD_SHOWN]:
        canvas.sentence("!", _odd_line(found), "yellow")
    if len(many.odd) > ODD_SHOWN:
        canvas.sentence(" ", f"{len(many.odd) - ODD_SHOWN} more.", "")
    remarks = _mind(many)
    if remarks:
        canvas.heading("Mind")
    for remark in remarks:
        canvas.sentence("!", remark, "yellow")
    return written(canvas.lines(), utf8)


def _sums(many: Many) -> list[tuple[str, str, float | int | None, str]]:
    """Returns the sums as key in JSON, measure in CSV, value and unit."""
    sums, bill = many.sums, many.bill
    row, cost, saved = sums.row, sums.row.cost, sums.row.saved
    return [
        ("jobs", "jobs", len(sums.lines), ""),
        ("with_record", "with_record", row.jobs, ""),
        ("elapsed_s", "elapsed", sums.elapsed_s, "s"),
        ("ranks", "ranks", sums.ranks, ""),
        ("ranks_s", "ranks_time", row.ranks_s, "s"),
        ("wait_s", "wait", row.wait_s, "s"),
        ("asleep_s", "asleep", row.asleep_s, "s"),
        ("wait", "wait_share", sums.wait, ""),
        ("asleep", "asleep_share", sums.asleep, ""),
        ("lost", "lost_share", sums.lost, ""),
        ("cost_percent", "cost_percent", cost.percent if cost else None, "%"),
        ("cost_error", "cost_error", cost.error if cost else None, "%"),
        ("saved_percent", "saved", saved.percent if saved else None, "%"),
        ("saved_error", "saved_error", saved.error if saved else None, "%"),
        ("joules", "energy", sums.joules, "J"),
        ("saved_j", "saved_energy", sums.saved_j, "J"),
        ("price", "price", bill.price, many.tariff.currency),
        ("co2_g", "co2", bill.co2_g, "g"),
    ]


def _as_json(many: Many) -> dict[str, Any]:
    spreads = {figure.key: spread_of(figure, many.lines) for figure in FIGURES}
    return {
        "version": 1,
        "jobs": [as_json(line) for line in many.lines],
        "sums": {key: rounded(value) for key, _, value, _ in _sums(many)}
        | {"currency": many.tariff.currency or None},
        "spread": {name: {title: rounded(getattr(spread, title)) for title in ENDS}
                   for name, spread in spreads.items() if spread is not None},
        "odd": [{"job": odd.line.job, "figure": odd.figure.key, "value": rounded(odd.value),
                 "median": rounded(odd.median)} for found in many.odd for odd in found],
        "unknown": list(many.unknown),
        "remarks": list(many.remarks),
    }


Row = tuple[str, str, str, str, "float | int | str | None", str]


def _csv_of_jobs(many: Many) -> Iterator[Row]:
    for line in many.lines:
        yield line.job, "job", "", "state", safe(line.state), ""
        yield line.job, "job", "", "policy", line.policy, ""
        for figure in FIGURES:
            yield line.job, "job", "", figure.measure, figure.of(line), figure.unit
        yield line.job, "job", "", "cost_error", line.cost.error if line.cost else None, "%"
        yield line.job, "job", "", "saved_error", line.saved.error if line.saved else None, "%"
        yield line.job, "job", "", "why", line.why, ""


def _csv_of_all(many: Many) -> Iterator[Row]:
    for _, measure, value, unit in _sums(many):
        yield "", "sum", "", measure, value, unit
    for figure in FIGURES:
        spread = spread_of(figure, many.lines)
        for title in ENDS if spread is not None else ():
            yield "", "spread", title, figure.measure, getattr(spread, title), figure.unit
    for odd in (odd for found in many.odd for odd in found):
        yield odd.line.job, "odd", "", odd.figure.measure, odd.value, odd.figure.unit


def _as_csv(many: Many) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    for rows in (_csv_of_jobs(many), _csv_of_all(many)):
        writer.writerows([cell_of(cell) for cell in row] for row in rows if row[4] is not None and row[4] != "")
    return buffer.getvalue()


def write(arguments: argparse.Namespace, many: Many) -> int:
    if arguments.json:
        print(json.dumps(_as_json(many), indent=2, allow_nan=False))
        return 0
    if arguments.csv:
        sys.stdout.write(_as_csv(many))
        return 0
    try:
        text = show_many(output_width(arguments), wants_colour(arguments), output_is_utf8(), many)
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json and --csv work without") from None
    sys.stdout.write(text)
    return 0
