"""mpi-wait report --html: writes the report of one job as a page that loads nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from ..jobs.found import Found
from ..jobs.source_lines import Lines
from ..meaning.advice import LOOK, Judgement, advice, ending_of, judged
from ..meaning.bill import bill_line
from ..meaning.cost import cost_line, saving_line, too_much_line, unknown_saving_line
from ..meaning.reading import (
    balance_of,
    energy_nodes,
    energy_scope,
    gpus_energy,
    gpus_which,
    incomplete_line,
    no_ranks,
    notes,
    policy_line,
    rank_name,
    ranks_of,
)
from ..meaning.worlds import ranks_words
from ..pictures import job as of_job
from ..pictures.page import rendered
from ..pictures.shapes import Picture
from ..record.record import Record
from ..site.tariff import NO_TARIFF, Tariff
from ..text.units import core_time, count, duration, percent, plural, safe, scaled, watt_hours

SITES_SHOWN, STEPS_SHOWN = 12, 64


def _title(found: Found) -> str:
    name = f"Job {safe(found.job.id)}" if found.job else safe(found.source, 64) or "A record without its job"
    return name if found.step is None else f"{name}, step {found.step.id}"


def _energy(record: Record, found: Found) -> str:
    energy = record.energy
    joules = found.step.joules if found.step else energy.joules if energy else None
    if energy is None or joules is None:
        return f"not known: {record.energy_why or 'no node could read its counters'}"
    seconds = (found.step.elapsed if found.step else record.elapsed) or 0.0
    power = f", {scaled(joules / seconds, 'W')} on average" if seconds > 0 else ""
    simulated = "; simulated, not measured" if energy.source == "simulated" else ""
    scope = energy_nodes(record) or energy_scope(record)
    return f"{scaled(joules, 'J')} = {watt_hours(joules)}{power}; {scope}{simulated}"


def _facts(found: Found, tariff: Tariff) -> list[tuple[str, str]]:
    record, step, job = found.record, found.step, found.job
    ranks = step.ranks if step else record.wait.ranks if record.wait else 0
    none = no_ranks(record, step, found.policy)
    facts: list[tuple[str, str]] = []
    if job is not None:
        facts.append(("State", f"{safe(job.fields['State'], 24)} after {safe(job.fields['Elapsed'], 16)}"))
    facts.append(("Policy", policy_line(found.policy)))
    seen = ranks_words(record, step, ranks) if ranks else none
    facts.append(("Ran on", f"{plural(record.nodes_of, 'node')}, {seen}"))
    facts.append(("Energy", _energy(record, found)))
    bill = bill_line(tariff, record, step)
    if bill and record.energy is not None:
        simulated = "; simulated, not measured" if record.energy.source == "simulated" else ""
        facts.append(("CO2" if tariff.price_per_kwh is None else "Price", bill + simulated))
    if step is None and record.energy is not None and record.energy.gpus is not None:
        used = gpus_energy(record, record.energy) if record.energy.scope != "gpus" else ""
        facts.append(("GPUs", "; ".join(filter(None, (used, gpus_which(record.energy))))))
    balance = balance_of(record, ranks_of(record, step), step, ending_of(job).is_broken)
    if record.wait is not None and step is None:
        share = f", {percent(record.wait.share)} of the ranks' time" if record.wait.share is not None else ""
        facts.append(("Waiting", f"{core_time(record.wait.total)}{share}"))
    if balance:
        facts.append(("Balance", balance))
    cost = record.wait.cost if record.wait is not None and step is None else None
    if cost is not None:
        facts.append(("Cost", "; ".join(filter(None, (cost_line(cost), too_much_line(cost))))))
    saved = saving_line(record) or unknown_saving_line(record) if step is None else ""
    if saved:
        facts.append(("Saved", saved))
    return facts


def _verdict(tiles: list[Judgement]) -> str:
    """Returns the overall verdict; "" if there are no figures to judge."""
    words = {"bad": "Something is bad.", LOOK: "Something is worth a look."}
    return words.get(tiles[0].level, "All is good.") if tiles else ""


def _pictures(found: Found) -> list[Picture]:
    record, wait, step = found.record, found.record.wait, found.step
    pictures = [*of_job.waiting_pictures(found), *of_job.nodes_pictures(record, step)]
    if step is None:
        profile = of_job.profile_picture(wait)
        pictures += [of_job.calls_picture(wait), *([profile] if profile else []), *of_job.phases_pictures(wait)]
        pictures.append(of_job.power_picture(record))
    return [picture for picture in pictures if picture.groups or picture.title == "Waiting by rank"]


def _table(title: str, heads: tuple[str, ...], rows: list[list[str]], number: int) -> list[dict[str, Any]]:
    """Returns a table as a list of one, or [] without rows. number counts all rows, also those that are not shown."""
    return [{"title": title, "heads": heads, "rows": rows, "left": number - len(rows)}] if rows else []


def _sites(record: Record, lines: Lines) -> list[dict[str, Any]]:
    sites = record.wait.sites if record.wait is not None else []
    rows: list[list[str]] = []
    for site in sites[:SITES_SHOWN]:
        most = f"{rank_name(record, site.most)}, {duration(site.most.seconds)}" if site.most else "–"
        rows.append([lines.place(site), site.call, count(site.waits), core_time(site.seconds), most])
    return _table("Waiting by call site", ("place", "call", "waits", "waited", "waits most"), rows, len(sites))


def _steps(record: Record) -> list[dict[str, Any]]:
    if len(record.steps) < 2:
        return []
    rows = [[step.id, count(step.ranks) if step.ranks else "–", duration(step.elapsed) if step.elapsed else "–",
             core_time(step.wait), scaled(step.joules, "J") if step.joules is not None else "–",
             step.policy.used if step.policy else record.policy.used] for step in record.steps[:STEPS_SHOWN]]
    return _table("Steps", ("step", "ranks", "time", "waited", "energy", "policy"), rows, len(record.steps))


def page_of(found: Found, lines: Lines, tariff: Tariff = NO_TARIFF) -> str:
    record, ending, is_whole = found.record, ending_of(found.job), found.step is None
    tiles = judged(record, found.step, found.job.state if found.job else "", ending.is_broken)
    return rendered(
        "report.html", title=_title(found), name=safe(found.job.fields["JobName"]) if found.job else "",
        missing=incomplete_line(record), verdict=_verdict(tiles), judged=tiles,
        advice=advice(record, ending) if is_whole else [], facts=_facts(found, tariff), pictures=_pictures(found),
        tables=[*_sites(record, lines), *_steps(record)] if is_whole else [],
        remarks=notes(record, found.field) + lines.remarks,
        footer="mpi-wait report. Waiting times are the ranks' own figures.",
    )
