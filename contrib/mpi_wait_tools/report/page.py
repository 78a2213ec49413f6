"""mpi-wait report --html: the report of one job as one page, which loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Iterable

from ..jobs.found import Found
from ..jobs.source_lines import Lines
from ..meaning.advice import advice, ending_of
from ..meaning.by_node import FIGURES, MARK_MEANS, NodeMap, NodeRow, node_map, rest_line
from ..meaning.cost import cost_line, too_much_line
from ..meaning.imbalance import imbalance_of
from ..meaning.judged import LOOK, judged
from ..meaning.parts import gpus_energy, gpus_which
from ..meaning.reading import (
    Rank,
    balance_of,
    energy_nodes,
    energy_scope,
    incomplete_line,
    no_ranks,
    notes,
    policy_line,
    rank_name,
    ranks_of,
)
from ..meaning.saving import saving_line, unknown_saving_line
from ..meaning.worlds import are_apart, ranks_words
from ..pictures.sheet import document
from ..pictures.svg import Bar, Cell, Part, bars, columns, heat, text_of
from ..record.phases import NONE, OTHER
from ..record.record import Record
from ..text.chart import gather
from ..text.units import core_time, count, duration, percent, plural, safe, scaled, watt_hours

RANKS_AS_BARS = 32
NODES_SHOWN = 64
COLUMNS = 128
CALLS_SHOWN = 12
STEPS_SHOWN = 64
NO_PHASES = {NONE: "in no phase", OTHER: "other phases"}

def _list(kind: str, items: Iterable[str]) -> str:
    lines = [f"<li>{text_of(item, 1000)}</li>" for item in items]
    return f'<ul class="{kind}">{"".join(lines)}</ul>' if lines else ""


def _section(title: str, *parts: str) -> str:
    content = "".join(part for part in parts if part)
    return f"<section><h2>{text_of(title)}</h2>{content}</section>\n" if content else ""


def _table(titles: Iterable[str], rows: Iterable[list[str]]) -> str:
    head = "".join(f'<th scope="col">{text_of(title)}</th>' for title in titles)
    body = ["<tr>" + "".join(f"<td>{text_of(cell)}</td>" for cell in cells) + "</tr>" for cells in rows]
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _legend(*entries: tuple[str, str]) -> str:
    swatches = [f'<span class="{kind}">■</span> {text_of(words)}' for kind, words in entries]
    return f'<p class="quiet">{" &nbsp; ".join(swatches)}</p>'


def _title(found: Found) -> str:
    name = f"Job {safe(found.job.id)}" if found.job else safe(found.source, 64) or "A record without its job"
    return name if found.step is None else f"{name}, step {found.step.id}"


def _verdict(found: Found) -> str:
    ending, state = ending_of(found.job), found.job.state if found.job else ""
    tiles = [
        f'<li class="{one.level}"><span class="level">{one.level}</span> {text_of(one.what)}'
        f'<b>{text_of(one.value)}</b><span class="rule">{text_of(one.rule)}</span></li>'
        for one in judged(found.record, found.step, state, ending.is_broken)
    ]
    worst = judged(found.record, found.step, state, ending.is_broken)[:1]
    if not worst:
        return '<p class="quiet">There is nothing to judge: no MPI rank was seen.</p>'
    words = {"bad": "Something is bad.", LOOK: "Something is worth a look."}.get(worst[0].level, "All is good.")
    return f'<p><strong>{words}</strong></p><ul class="verdict">{"".join(tiles)}</ul>'


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


def _facts(found: Found) -> str:
    record, step, job = found.record, found.step, found.job
    ranks = step.ranks if step else record.wait.ranks if record.wait else 0
    none = no_ranks(record, step, found.policy)
    facts = []
    if job is not None:
        facts.append(("State", f"{safe(job.fields['State'], 24)} after {safe(job.fields['Elapsed'], 16)}"))
    facts.append(("Policy", policy_line(found.policy)))
    seen = ranks_words(record, step, ranks) if ranks else none
    facts.append(("Ran on", f"{plural(record.nodes_of, 'node')}, {seen}"))
    facts.append(("Energy", _energy(record, found)))
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
    rows = [f"<dt>{text_of(name)}</dt><dd>{text_of(value, 400)}</dd>" for name, value in facts]
    return f"<dl>{''.join(rows)}</dl>"


def _rank_bar(rank: Rank, run: float) -> Bar:
    asleep = min(rank.seconds, rank.asleep or 0.0)
    parts = [Part(asleep, "asleep"), Part(rank.seconds - asleep, "awake")]
    if rank.asleep is None:
        parts = [Part(rank.seconds, "waiting")]
    if run > 0:
        parts.append(Part(max(0.0, run - rank.seconds), "rest"))
    node = f" on {safe(rank.node)}" if rank.node else ""
    told = f", {duration(asleep)} of it asleep" if rank.asleep is not None else ""
    of = f", of {duration(run)}" if run > 0 else ""
    return Bar(f"{rank.name}{' ' + safe(rank.node, 12) if rank.node else ''}", tuple(parts),
               duration(rank.seconds), f"{rank.name}{node}: {duration(rank.seconds)} waiting{told}{of}")


def _ranks(found: Found) -> str:
    record, wait = found.record, found.record.wait
    if wait is None:
        return ""
    ranks = ranks_of(record, found.step)
    elapsed = found.step.elapsed if found.step else record.elapsed
    run = elapsed or 0.0
    if 0 < len(ranks) <= RANKS_AS_BARS:
        top = max([run, *(rank.seconds for rank in ranks)]) or 1.0
        drawn = bars("waiting by rank", [_rank_bar(rank, run) for rank in ranks], top)
        known = any(rank.asleep is not None for rank in ranks)
        entries = [("asleep", "asleep"), ("awake", "polling")] if known else [("waiting", "waiting")]
        return drawn + _legend(*entries, ("rest", "computing, transferring"))
    values = sorted(rank.seconds for rank in ranks) if ranks else wait.quantiles if found.step is None else []
    if len(values) < 2:
        return '<p class="quiet">The record does not tell these ranks apart.</p>'
    shown = gather(values, COLUMNS)
    said = [(one.mean, f"{percent(index / len(shown))} of the ranks wait less than {duration(one.most)}")
            for index, one in enumerate(shown)]
    drawn = columns("ranks in the order of their waiting", said, "waiting", ("waits least", "waits most"),
                    duration(max(values)))
    several = wait.worlds and are_apart(record, found.step)
    flat = ", of several worlds" if several else ": the flatter, the better balanced"
    return drawn + f'<p class="quiet">Ranks in the order of their waiting{flat}.</p>'


def _node_cell(nodes: NodeMap, row: NodeRow, place: int) -> Cell:
    value, most = row.values[place], nodes.most(place)
    figure = FIGURES[place]
    shown = "–" if value is None else figure.shown(value)
    is_marked = nodes.stands_out(row, place)
    remark = f" ({row.remark})" if row.remark else ""
    said = f"{safe(row.name)}{remark}, {plural(row.ranks, 'rank')}: {figure.name} {shown} {figure.said}"
    part = value / most if value is not None and most > 0 else value
    return Cell(part, shown + "!" * is_marked, said + (", stands out" if is_marked else ""), is_marked)


def _nodes(found: Found) -> str:
    nodes = node_map(found.record, found.step)
    if nodes is None:
        return ""
    shown, rest = nodes.unusual(NODES_SHOWN)
    places = [place for place in range(len(FIGURES)) if nodes.is_known(place)]
    rows = [(row.name, [_node_cell(nodes, row, place) for place in places]) for row in shown]
    drawn = heat("waiting by node", [FIGURES[place].name for place in places], rows, "waiting")
    more = f'<p class="quiet">… {text_of(rest_line(rest))}; shown are the most unusual ones</p>' if rest else ""
    remarks = _list("notes", (f"{safe(row.name)}: {row.remark}" for row in shown if row.remark))
    marked = any(nodes.stands_out(row, place) for row in shown for place in places)
    said = f"The stronger the colour, the nearer to the most of the column. {nodes.means()}"
    said += f" !: {MARK_MEANS}" * marked
    return f'{drawn}{more}{remarks}<p class="quiet">{text_of(said, 400)}</p>'


def _calls(record: Record) -> str:
    wait = record.wait
    if wait is None or not wait.calls:
        return ""
    most = max(call.seconds for call in wait.calls) or 1.0
    rows = []
    for call in wait.calls[:CALLS_SHOWN]:
        longest = f", the longest {duration(call.longest)}" if call.longest is not None else ""
        said = f"{call.name}: {count(call.calls)} calls, {count(call.waits)} of them waited{longest}"
        rows.append(Bar(call.name, (Part(call.seconds, "waiting"),), core_time(call.seconds), said))
    left = len(wait.calls) - len(rows)
    return bars("waiting by call", rows, most) + (f'<p class="quiet">{left} more.</p>' if left > 0 else "")


def _profile(record: Record) -> str:
    wait = record.wait
    timed = [call for call in wait.profile if call.time] if wait is not None else []
    if not timed:
        return ""
    rows = []
    for call in timed[:CALLS_SHOWN]:
        waited = min(call.wait, call.time)
        of = f"{percent(waited / call.time)} of it waiting, {scaled(call.bytes, 'B')}"
        said = f"{call.name}: {core_time(call.time)}, {of}"
        parts = (Part(waited, "waiting"), Part(call.time - waited, "transfer"))
        rows.append(Bar(call.name, parts, core_time(call.time), said))
    drawn = bars("time by call", rows, max(call.time for call in timed) or 1.0)
    return drawn + _legend(("waiting", "waiting"), ("transfer", "transfer and the MPI's own work"))


def _phases(record: Record) -> str:
    phases = record.wait.phases if record.wait is not None else []
    if not phases:
        return ""
    rows = []
    for phase in phases:
        waited = min(phase.seconds, phase.time)
        name = NO_PHASES.get(phase.name, f"phase {phase.name}")
        said = f"{name}: {core_time(phase.time)}, {count(phase.waits)} waits of {core_time(phase.seconds)} in all"
        parts = (Part(waited, "waiting"), Part(phase.time - waited, "rest"))
        rows.append(Bar(name, parts, core_time(phase.seconds), said))
    drawn = bars("waiting by phase", rows, max(phase.time for phase in phases) or 1.0)
    return drawn + _legend(("waiting", "waiting"), ("rest", "computing, transferring"))


def _sites(record: Record, lines: Lines) -> str:
    sites = record.wait.sites if record.wait is not None else []
    if not sites:
        return ""
    rows = []
    for site in sites[:CALLS_SHOWN]:
        most = f"{rank_name(record, site.most)}, {duration(site.most.seconds)}" if site.most else "–"
        rows.append([lines.place(site), site.call, count(site.waits), core_time(site.seconds), most])
    left = len(sites) - len(rows)
    drawn = _table(("place", "call", "waits", "waited", "waits most"), rows)
    return drawn + (f'<p class="quiet">{left} more.</p>' if left > 0 else "")


def _power(found: Found) -> str:
    energy = found.record.energy
    if energy is None or found.step is not None:
        return ""
    known = [watts for watts in energy.power if watts is not None]
    if not known:
        return ""
    each = found.record.elapsed / len(energy.power)
    said = [(watts, f"from {duration(index * each)}: {'not known' if watts is None else scaled(watts, 'W')}")
            for index, watts in enumerate(energy.power)]
    drawn = columns("power over time", said, "power", ("0 s", duration(found.record.elapsed)), scaled(max(known), "W"))
    simulated = ", simulated, not measured" if energy.source == "simulated" else ""
    return f'{drawn}<p class="quiet">{scaled(min(known), "W")} to {scaled(max(known), "W")}{simulated}</p>'


def _steps(record: Record) -> str:
    if len(record.steps) < 2:
        return ""
    rows = []
    for step in record.steps[:STEPS_SHOWN]:
        rows.append([step.id, count(step.ranks) if step.ranks else "–",
                     duration(step.elapsed) if step.elapsed else "–",
                     core_time(step.wait), scaled(step.joules, "J") if step.joules is not None else "–",
                     step.policy.used if step.policy else record.policy.used])
    return _table(("step", "ranks", "time", "waited", "energy", "policy"), rows)


def page_of(found: Found, lines: Lines) -> str:
    record = found.record
    whole = found.step is None
    name = safe(found.job.fields["JobName"], 64) if found.job else ""
    remarks = notes(record, found.field) + lines.remarks
    missing = incomplete_line(record)
    stamp = f'<p class="stamp">{text_of(missing)}; all figures are theirs</p>' if missing else ""
    imbalance = imbalance_of(record, found.step)
    lost = f"Lost to the imbalance: {core_time(imbalance.lost_s)}." if imbalance and imbalance.lost_s > 0 and not (
        imbalance.lone or ending_of(found.job).is_broken) else ""
    parts = [
        f"<header><h1>{text_of(_title(found))}</h1><p>{text_of(name)}</p></header>\n",
        stamp, _verdict(found),
        _list("advice", [f"→ {line}" for line in advice(record, ending_of(found.job))] if whole else []),
        _section("The job", _facts(found)),
        _section("Waiting by rank", _ranks(found), f'<p class="quiet">{lost}</p>' if lost else ""),
        _section("Waiting by node", _nodes(found)),
        _section("Waiting by call", _calls(record)) if whole else "",
        _section("Time by call", _profile(record)) if whole else "",
        _section("Waiting by phase", _phases(record)) if whole else "",
        _section("Waiting by call site", _sites(record, lines)) if whole else "",
        _section("Power over time", _power(found)),
        _section("Steps", _steps(record)) if whole else "",
        _section("Mind", _list("notes", remarks)),
        "<footer><p class=\"quiet\">mpi-wait report. Waiting times are the ranks' own figures.</p></footer>",
    ]
    return document(_title(found), parts)
