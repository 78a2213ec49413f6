"""Turns a record into a table of one figure per line: job, kind, name, measure, value, unit. Pure.

All figures have this one shape, so that a spreadsheet or a data frame needs no knowledge of the record: filter by kind.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ..jobs.found import Found, Use
from ..jobs.source_lines import NO_LINES, Lines
from ..meaning.bill import job_bill
from ..meaning.imbalance import imbalance_of
from ..meaning.reading import incomplete_line, rank_name, ranks_of
from ..record.fields import figures_of
from ..record.wait import Wait
from ..site.tariff import NO_TARIFF, Tariff
from ..text.units import rounded, safe

FORMULA = ("=", "+", "-", "@", "\t", "\r")
HEADER = ("job", "kind", "name", "measure", "value", "unit")
Row = tuple[str, str, str, "float | int | str | None", str]


def _of_job(found: Found) -> Iterator[Row]:
    record, wait, energy = found.record, found.record.wait, found.record.energy
    step = found.step
    if not record.is_complete:
        yield "job", "", "incomplete", incomplete_line(record), ""
        yield "job", "", "nodes_reported", record.nodes_reported, ""
        yield "job", "", "nodes", record.nodes_of, ""
    yield "job", "", "policy", (step.policy if step and step.policy else record.policy).used, ""
    yield "job", "", "elapsed", step.elapsed if step else record.elapsed, "s"
    if energy is not None:
        yield "job", "", "energy", step.joules if step else energy.joules, "J"
        yield "job", "", "energy_source", energy.source, ""
        yield "job", "", "energy_scope", energy.scope, ""
        if energy.lacks_gpus:
            yield "job", "", "energy_not_counted", "gpus", ""
        for meter in energy.meters if step is None else []:
            yield "meter", f"{safe(meter.source)}/{safe(meter.scope)}", "energy", meter.joules, "J"
        if step is None and energy.gpus is not None:
            yield "job", "", "gpu_energy", energy.gpu_joules, "J"
            yield "job", "", "gpus_counted", energy.gpus.counted, ""
            yield "job", "", "gpus_given", energy.gpus.given, ""
            for device in energy.gpus.devices:
                yield "gpu", f"{safe(device.node)}/{device.number}", "energy", device.joules, "J"
        if step is None and energy.saved is not None:
            yield "job", "", "saved", energy.saved.percent, "%"
            yield "job", "", "saved_error", energy.saved.error, "%"
            yield "job", "", "saved_looks", energy.saved.looks, ""
        for use in record.by_node if step is None else []:
            yield "node", safe(use.name), "energy", use.joules, "J"
        if step is None and energy.power:
            part = record.elapsed / len(energy.power)
            for index, watts in enumerate(energy.power):
                yield "power", f"{index * part:.3f}", "power", watts, "W"
    for use in record.by_node if step is None else []:
        yield "node", safe(use.name), "slowed", use.slowed, ""
    if step is not None:
        yield "job", "", "ranks", step.ranks, ""
        yield "job", "", "wait", step.wait, "s"
    elif wait is not None:
        yield from _of_waiting(wait)
    imbalance = imbalance_of(record, step)
    if imbalance is not None:
        yield "job", "", "max_over_mean", imbalance.ratio, ""
        yield "job", "", "lost_to_imbalance", imbalance.lost_s, "s"
        yield "job", "", "lost_share", imbalance.share, ""
        yield "job", "", "lost_is_a_bound", 1 if imbalance.lone else None, ""


def _of_bill(found: Found, tariff: Tariff) -> Iterator[Row]:
    bill = job_bill(tariff, found.record, found.step)
    if bill is not None:
        yield "job", "", "price", bill.used.price, tariff.currency
        yield "job", "", "co2", bill.used.co2_g, "g"
    if bill is not None and bill.saved is not None:
        yield "job", "", "saved_price", bill.saved.price, tariff.currency
        yield "job", "", "saved_co2", bill.saved.co2_g, "g"


def _of_waiting(wait: Wait) -> Iterator[Row]:
    for figure in figures_of("wait"):
        if figure.csv:
            yield "job", "", figure.csv, wait.figures.get(figure.name), figure.unit
    if wait.forecast is not None:
        yield "job", "", "late_allowed", wait.forecast.allowed, "s"
        yield "job", "", "naps_forecast", wait.forecast.naps, ""
        yield "job", "", "waits_foreseen", wait.forecast.foreseen, ""
        yield "job", "", "waits_unforeseen", wait.forecast.unforeseen, ""
    if wait.cost is not None:
        known = wait.cost.is_known
        yield "job", "", "cost_percent", wait.cost.percent if known else None, "%"
        yield "job", "", "cost_error", wait.cost.error if known else None, "%"
        yield "job", "", "cost_windows", wait.cost.windows, ""


def _of_calls(wait: Wait, lines: Lines) -> Iterator[Row]:
    for call in wait.calls:
        yield "call", call.name, "calls", call.calls, ""
        yield "call", call.name, "waits", call.waits, ""
        yield "call", call.name, "wait", call.seconds, "s"
        yield "call", call.name, "longest", call.longest, "s"
    for profiled in wait.profile:
        yield "profile", profiled.name, "calls", profiled.calls, ""
        yield "profile", profiled.name, "time", profiled.time, "s"
        yield "profile", profiled.name, "wait", profiled.wait, "s"
        yield "profile", profiled.name, "bytes", profiled.bytes, "B"
        for least, number in profiled.sizes.items():
            yield "profile", profiled.name, f"calls_from_{least}_bytes", number, ""
    for phase in wait.phases:
        yield "phase", phase.name, "time", phase.time, "s"
        yield "phase", phase.name, "waits", phase.waits, ""
        yield "phase", phase.name, "wait", phase.seconds, "s"
        yield "phase", phase.name, "most", phase.most.seconds if phase.most else None, "s"
        yield "phase", phase.name, "most_rank", phase.most.rank if phase.most else None, ""
    for site in wait.sites:
        name = f"{lines.place(site)} {site.call}"
        yield "site", name, "waits", site.waits, ""
        yield "site", name, "wait", site.seconds, "s"
        yield "site", name, "most", site.most.seconds if site.most else None, "s"
        yield "site", name, "most_rank", site.most.rank if site.most else None, ""
    if wait.point_to_point is not None:
        yield "profile", "point_to_point", "within_nodes", wait.point_to_point.within, "B"
        yield "profile", "point_to_point", "between_nodes", wait.point_to_point.between, "B"


def _of_ranks(found: Found) -> Iterator[Row]:
    for rank in ranks_of(found.record, found.step):
        label = rank.label if rank.noun == "rank" else rank.name
        yield "rank", label, "wait", rank.seconds, "s"
        yield "rank", label, "asleep", rank.asleep, "s"
        yield "rank", label, "node", safe(rank.node), ""
    wait = found.record.wait
    if wait is None or found.step is not None:
        return
    for index, world in enumerate(wait.worlds):
        yield "world", str(index + 1), "kind", world.kind, ""
        yield "world", str(index + 1), "ranks", world.ranks, ""
        yield "world", str(index + 1), "size", world.size or None, ""
    last = len(wait.quantiles) - 1
    for index, value in enumerate(wait.quantiles):
        yield "quantile", f"{index / last:.4g}", "wait", value, "s"
    for kind, ends in (("least", wait.least_ranks), ("most", wait.most_ranks)):
        for one in ends:
            name = rank_name(found.record, one) if one.world else str(one.rank)
            yield kind, name, "wait", one.seconds, "s"
            yield kind, name, "node", safe(one.node), ""


def _of_use(use: Use) -> Iterator[Row]:
    yield "sacct", "", "elapsed", use.elapsed, "s"
    yield "sacct", "", "cpu_time", use.cpu_s, "s"
    yield "sacct", "", "consumed_energy", use.joules, "J"


def _rows(found: Found, lines: Lines, tariff: Tariff) -> Iterator[Row]:
    yield from _of_use(found.use)
    if not found.has_record:
        yield "job", "", "elapsed", found.step.elapsed if found.step else found.record.elapsed, "s"
        return
    yield from _of_job(found)
    yield from _of_bill(found, tariff)
    if found.step is None:
        if found.record.wait is not None:
            yield from _of_calls(found.record.wait, lines)
        for step in found.record.steps:
            yield "step", step.id, "elapsed", step.elapsed, "s"
            yield "step", step.id, "wait", step.wait, "s"
            yield "step", step.id, "energy", step.joules, "J"
    yield from _of_ranks(found)


def cell_of(value: object) -> object:
    """Returns a value for CSV. A text that a spreadsheet would take for a formula gets a leading quote."""
    if isinstance(value, float):
        return rounded(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def csv_text(founds: Sequence[Found], lines: Lines = NO_LINES, tariff: Tariff = NO_TARIFF) -> str:
    """Returns the table of all records. Leaves out figures that a record does not have. lines are the source lines of
    all call sites, tariff has the site's prices."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    for found in founds:
        for kind, name, measure, value, unit in _rows(found, lines, tariff):
            if value is not None and value != "":
                writer.writerow([cell_of(cell) for cell in (found.name, kind, name, measure, value, unit)])
    return buffer.getvalue()
