"""The pictures of one job, for its page and its sheet."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs.found import Found
from ..meaning.advice import ending_of
from ..meaning.imbalance import Imbalance, imbalance_of, scale_of
from ..meaning.nodes import FIGURES, MARK_MEANS, NodeMap, NodeRow, node_map, rest_line
from ..meaning.reading import (
    Rank,
    energy_nodes,
    gpus_tail,
    incomplete_line,
    policy_line,
    rank_name,
    ranks_of,
    whole_words,
)
from ..meaning.worlds import are_apart, ranks_words
from ..record.energy import Energy
from ..record.record import Record, Step
from ..record.wait import NONE, OTHER, RankWait, Wait
from ..text.plot import gather, quantile
from ..text.units import core_time, count, duration, percent, plural, safe, scaled
from .page import Sheet
from .shapes import Bar, Cell, Column, Part, Picture, bars, columns, heat, time_axis, value_axis

RANKS_AS_BARS = 16  # more ranks than these are drawn as standing columns
COLUMNS = 128  # more ranks than twice these are gathered, several into one column
NODES_SHOWN, CALLS_SHOWN, STEPS_SHOWN, BINS = 64, 12, 12, 40
NO_PHASES = {NONE: "in no phase", OTHER: "other phases"}
OF_RANKS = ((0.0, "0 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 % of the ranks"))
ZONES = {
    "package": ("packages", "power"),
    "core": ("  of it cores", "part"),
    "uncore": ("  of it uncore", "part"),
    "dram": ("DRAM", "power"),
    "psys": ("whole board", "transfer"),
}


def _parts(seconds: float, asleep: float | None, run: float) -> tuple[Part, ...]:
    """Returns the parts of a rank's bar. run is the seconds that the rank ran, 0 if the run is not shown."""
    rest = (Part(max(0.0, run - seconds), "rest"),) if run > 0 else ()
    if asleep is None:
        return (Part(seconds, "waiting"), *rest)
    slept = min(seconds, asleep)
    return (Part(slept, "asleep"), Part(seconds - slept, "awake"), *rest)


def _said(rank: Rank, run: float) -> str:
    node = f" on {safe(rank.node)}" if rank.node else ""
    told = f", {duration(min(rank.seconds, rank.asleep))} of it asleep" if rank.asleep is not None else ""
    return f"{rank.name}{node}: {duration(rank.seconds)} waiting{told}" + (f", of {duration(run)}" if run > 0 else "")


def _gathered(ranks: Sequence[Rank], run: float) -> list[Column]:
    """Returns a column for each rank; if there are very many, one for several neighbours."""
    if len(ranks) <= 2 * COLUMNS:
        return [Column(_parts(rank.seconds, rank.asleep, run), _said(rank, run), rank.label) for rank in ranks]
    size = -(-len(ranks) // COLUMNS)
    means = gather([rank.seconds for rank in ranks], COLUMNS)
    known = all(rank.asleep is not None for rank in ranks)
    slept = gather([rank.asleep or 0.0 for rank in ranks], COLUMNS)
    shown = []
    for place, (one, asleep) in enumerate(zip(means, slept)):
        first, last = ranks[place * size], ranks[min(len(ranks), (place + 1) * size) - 1]
        said = f"{first.name} to {last.label}: {duration(one.mean)} waiting on average, {duration(one.most)} at most"
        shown.append(Column(_parts(one.mean, asleep.mean if known else None, run), said, first.label))
    return shown


def ranks_picture(record: Record, ranks: Sequence[Rank], step: Step | None) -> Picture:
    """Draws the ranks in their order, their waiting split in asleep and polling. If the waiting is a visible part of
    the run, a bar shows the whole run."""
    scale = scale_of(record, step, len(ranks), max(rank.seconds for rank in ranks))
    mean = sum(rank.seconds for rank in ranks) / len(ranks)
    known = any(rank.asleep is not None for rank in ranks)
    legend = [("asleep", "asleep"), ("awake", "polling")] if known else [("waiting", "waiting")]
    legend += [("rest", f"the rest of {duration(scale.run)}: computing, transferring")] if scale.run else []
    if len(ranks) <= RANKS_AS_BARS:
        rows = [Bar(f"{rank.name} {safe(rank.node, 12)}".rstrip(), _parts(rank.seconds, rank.asleep, scale.run),
                    duration(rank.seconds), _said(rank, scale.run)) for rank in ranks]
        return bars("Waiting by rank", rows, scale.top or 1.0, [*legend, ("", f"mean {duration(mean)}")])
    return columns("Waiting by rank", _gathered(ranks, scale.run), time_axis(scale.top), mean=mean,
                   legend=[*legend, ("", f"- - -  mean {duration(mean)}")])


def _lost_words(record: Record, wait: Wait, step: Step | None, imbalance: Imbalance | None) -> tuple[str, bool]:
    """Names the waiting above that of the least waiting rank, and tells if that is lost: only if all ranks are of one
    world, and more than a few wait as little as the least."""
    several = bool(wait.worlds) and are_apart(record, step)
    if imbalance is None or imbalance.lone or several:
        return "more than the one that waits least" + (", be it of another world" if wait.worlds else ""), False
    share = f", {percent(imbalance.share)} of their time" if imbalance.share is not None else ""
    return f"lost to the imbalance: {core_time(imbalance.lost_s)}{share}", True


def order_picture(record: Record, wait: Wait, ranks: Sequence[Rank], step: Step | None,
                  imbalance: Imbalance | None) -> Picture:
    """Draws the ranks in the order of their waiting. The waiting beyond that of the least one has its own colour."""
    values = sorted(rank.seconds for rank in ranks) if ranks else wait.quantiles
    words, is_lost = _lost_words(record, wait, step, imbalance)
    above = "lost" if is_lost else "above"
    shown = gather(values, COLUMNS)
    drawn = []
    for place, one in enumerate(shown):
        said = f"{percent(place / len(shown))} of the ranks wait less than {duration(one.most)}"
        least = min(values[0], one.mean)
        drawn.append(Column((Part(least, "waiting"), Part(one.mean - least, above)), said))
    title = f"{plural(len(ranks) or wait.ranks, 'rank')} in the order of their waiting"
    note = "" if wait.worlds and are_apart(record, step) else "the flatter, the better balanced"
    return columns(title, drawn, time_axis(values[-1]), OF_RANKS, legend=[(above, words), ("", note)][:1 + bool(note)])


def _distribution(record: Record, wait: Wait) -> Picture:
    """Draws how many ranks wait how long, from the quantiles. Between two quantiles ranks are assumed to be spread
    evenly."""
    least, most = wait.quantiles[0], wait.quantiles[-1]
    bins = [0] * BINS
    for place in range(5000):
        value = quantile(wait.quantiles, (place + 0.5) / 5000)
        bins[min(BINS - 1, int((value - least) / (most - least) * BINS)) if most > least else 0] += 1
    width = (most - least) / BINS
    drawn = []
    for place, number in enumerate(bins):
        ranks, low = number * wait.ranks / 5000, least + place * width
        said = f"{duration(low)} to {duration(low + width)}: {plural(round(ranks), 'rank')}"
        drawn.append(Column((Part(ranks, "waiting"),), said))
    axis = value_axis(max(bins) * wait.ranks / 5000, lambda value: count(round(value)))
    ends = f"{_place(record, wait.least)} least, {_place(record, wait.most)} most; mean {duration(wait.mean)}"
    return columns("How many ranks wait how long", drawn, axis, ((0.0, duration(least)), (1.0, duration(most))),
                   legend=[("", ends)])


def _place(record: Record, one: RankWait) -> str:
    return rank_name(record, one) + (f" ({safe(one.node, 20)})" if one.node else "")


def waiting_pictures(found: Found) -> list[Picture]:
    """Returns the pictures of the waiting: by rank, and in order."""
    record, step, wait = found.record, found.step, found.record.wait
    ranks = ranks_of(record, step)
    imbalance = imbalance_of(record, step) if not ending_of(found.job).is_broken else None
    if wait is not None and ranks:
        return [ranks_picture(record, ranks, step), order_picture(record, wait, ranks, step, imbalance)]
    if wait is not None and len(wait.quantiles) > 1 and step is None:
        return [_distribution(record, wait), order_picture(record, wait, ranks, step, imbalance)]
    why = "no MPI rank was seen" if wait is None else "the record does not tell these ranks apart"
    return [Picture("Waiting by rank", note=why)]


def _node_cell(nodes: NodeMap, row: NodeRow, place: int) -> Cell:
    value, most = row.values[place], nodes.most(place)
    figure = FIGURES[place]
    shown = "–" if value is None else figure.shown(value)
    is_marked = nodes.stands_out(row, place)
    remark = f" ({row.remark})" if row.remark else ""
    said = f"{safe(row.name)}{remark}, {plural(row.ranks, 'rank')}: {figure.name} {shown} {figure.said}"
    part = value / most if value is not None and most > 0 else value
    return Cell(part, shown + "!" * is_marked, said + (", stands out" if is_marked else ""), is_marked)


def nodes_pictures(record: Record, step: Step | None) -> list[Picture]:
    nodes = node_map(record, step)
    if nodes is None:
        return []
    shown, rest = nodes.unusual(NODES_SHOWN)
    places = [place for place in range(len(FIGURES)) if nodes.is_known(place)]
    rows = [(row.name, [_node_cell(nodes, row, place) for place in places]) for row in shown]
    said = [f"… {rest_line(rest)}; shown are the most unusual ones."] * bool(rest)
    said += [f"{safe(row.name)}: {row.remark}." for row in shown if row.remark]
    said += [f"The stronger the colour, the nearer to the most of the column. {nodes.means()}"]
    if any(nodes.stands_out(row, place) for row in shown for place in places):
        said.append(f"!: {MARK_MEANS}")
    return [heat("Waiting by node", [FIGURES[place].name for place in places], rows, "waiting", " ".join(said))]


def calls_picture(wait: Wait | None) -> Picture:
    if wait is None or not wait.calls:
        return Picture("Waiting by call", note="no call waited")
    rows = []
    for call in wait.calls[:CALLS_SHOWN]:
        longest = f", the longest {duration(call.longest)}" if call.longest is not None else ""
        said = f"{call.name}: {count(call.calls)} calls, {count(call.waits)} of them waited{longest}"
        share = f" · {percent(min(1.0, call.seconds / wait.total))}" if wait.total > 0 else ""
        rows.append(Bar(call.name, (Part(call.seconds, "waiting"),), core_time(call.seconds) + share, said))
    return bars("Waiting by call", rows, max(call.seconds for call in wait.calls) or 1.0,
                [("waiting", "waiting, all ranks together")], _more(len(wait.calls)))


def _more(number: int) -> str:
    return f"{number - CALLS_SHOWN} more." if number > CALLS_SHOWN else ""


def profile_picture(wait: Wait | None) -> Picture | None:
    """Draws waiting against transfer; None if calls were not timed."""
    timed = [call for call in wait.profile if call.time > 0] if wait is not None else []
    if not timed:
        return None
    rows = []
    for call in timed[:CALLS_SHOWN]:
        waited = min(call.wait, call.time)
        said = f"{call.name}: {core_time(call.time)}, {percent(waited / call.time)} of it waiting, " \
               f"{scaled(call.bytes, 'B')}"
        parts = (Part(waited, "waiting"), Part(call.time - waited, "transfer"))
        rows.append(Bar(call.name, parts, core_time(call.time), said))
    return bars("Time in MPI calls", rows, max(call.time for call in timed),
                [("waiting", "waiting"), ("transfer", "transfer and the MPI's own work")], _more(len(timed)))


def phases_pictures(wait: Wait | None) -> list[Picture]:
    phases = wait.phases if wait is not None else []
    if not phases:
        return []
    rows = []
    for phase in phases:
        waited = min(phase.seconds, phase.time)
        name = NO_PHASES.get(phase.name, f"phase {phase.name}")
        said = f"{name}: {core_time(phase.time)}, {count(phase.waits)} waits of {core_time(phase.seconds)} in all"
        parts = (Part(waited, "waiting"), Part(phase.time - waited, "rest"))
        rows.append(Bar(name, parts, core_time(phase.seconds), said))
    return [bars("Waiting by phase", rows, max(phase.time for phase in phases) or 1.0,
                 [("waiting", "waiting"), ("rest", "computing, transferring")])]


def power_picture(record: Record) -> Picture:
    """Draws the power over time, if it was sampled; else the power of the steps; else the energy of the zones."""
    energy = record.energy
    steps = [step for step in record.steps if step.joules is not None and step.elapsed]
    if energy is not None and any(watts is not None for watts in energy.power):
        return _power_over_time(record, energy)
    if len(steps) > 1:
        return _power_of_steps(steps)
    if energy is not None and energy.zones:
        return _energy_of_zones(record, energy.zones)
    return Picture("Energy", note="not known: " + (safe(record.energy_why) or "no counters could be read"))


def _power_over_time(record: Record, energy: Energy) -> Picture:
    """Draws the power over time. A column is the mean of its part of the time, so that the area is the energy."""
    known = [watts for watts in energy.power if watts is not None]
    each, mean = record.elapsed / len(energy.power), energy.joules / record.elapsed if record.elapsed > 0 else 0.0
    drawn = []
    for place, watts in enumerate(energy.power):
        said = f"from {duration(place * each)}: {'not known' if watts is None else scaled(watts, 'W')}"
        drawn.append(Column(() if watts is None else (Part(watts, "power"),), said))
    simulated = ", simulated, not measured" if energy.source == "simulated" else ""
    ends = ((0.0, "0 s"), (1.0, duration(record.elapsed)))
    axis = value_axis(max(mean, *known), lambda watts: scaled(watts, "W"))
    return columns("Power over time", drawn, axis, ends, mean,
                   [("power", f"{scaled(min(known), 'W')} to {scaled(max(known), 'W')}"),
                    ("", f"- - -  mean {scaled(mean, 'W')}{simulated}")])


def _power_of_steps(steps: Sequence[Step]) -> Picture:
    rows, most = [], 0.0
    for step in steps:
        joules, seconds = step.joules or 0.0, step.elapsed or 1.0
        watts = joules / seconds
        said = f"step {step.id}: {scaled(watts, 'W')} for {duration(seconds)}, {scaled(joules, 'J')}"
        rows.append(Bar(f"step {step.id}", (Part(watts, "power"),), scaled(watts, "W"), said))
        most = max(most, watts)
    return bars("Mean power of each step", rows[:STEPS_SHOWN], most or 1.0, note=_more(len(steps)))


def _energy_of_zones(record: Record, zones: dict[str, float]) -> Picture:
    rows = [Bar(name, (Part(zones[key], kind),), scaled(zones[key], "J"), f"{name.strip()}: {scaled(zones[key], 'J')}")
            for key, (name, kind) in ZONES.items() if key in zones]
    return bars("Energy by part", rows, max(zones.values()) or 1.0, note=f"of {whole_words(record)}, by their counters")


def _title(found: Found) -> str:
    name = f"Job {safe(found.job.id)}" if found.job else safe(found.source) or "A record without its job"
    if found.step is not None:
        return f"{name}, step {found.step.id}"
    return f"{name}  {safe(found.job.fields['JobName'], 28)}" if found.job and found.job.fields["JobName"] else name


def _subtitle(found: Found) -> str:
    record, step = found.record, found.step
    ranks = step.ranks if step else record.wait.ranks if record.wait else 0
    policy = policy_line(step.policy if step and step.policy else record.policy)
    seen = ranks_words(record, step, ranks, "rank") if ranks or not policy.startswith("off") else "ranks not watched"
    seen += "" if record.is_complete else " seen"
    return f"{safe(policy, 90)} · {plural(record.nodes_of, 'node')}, {seen}"


def _tiles(found: Found) -> list[tuple[str, str, str]]:
    """Returns the tiles of a sheet, the most important figures first."""
    record, step, wait = found.record, found.step, found.record.wait
    imbalance = imbalance_of(record, step) if not ending_of(found.job).is_broken else None
    elapsed = step.elapsed if step else record.elapsed
    joules = step.joules if step else record.energy.joules if record.energy else None
    tiles = [(duration(elapsed), "time", "")] if elapsed is not None else []
    if joules is not None:
        simulated = record.energy is not None and record.energy.source == "simulated"
        name = energy_nodes(record) or "energy"
        tiles.append((scaled(joules, "J"), f"{name}, simulated" if simulated else name, ""))
    if wait is not None and step is None and wait.share is not None:
        tiles.append((percent(wait.share), "of ranks' time waiting", ""))
        if wait.asleep is not None and wait.total > 0:
            tiles.append((percent(min(1.0, wait.asleep / wait.total)), "of the waiting asleep", ""))
    if imbalance is not None and imbalance.share is not None and not imbalance.lone:
        tiles.append((percent(imbalance.share), "lost to imbalance", "lost"))
    return tiles


def _footer(record: Record) -> str:
    said = ["Waiting times are the ranks' own figures"]
    if record.energy is not None:
        simulated = record.energy.source == "simulated"
        said.append("energy is simulated, not measured" if simulated else "energy was read by root from the counters")
        of = {"node": whole_words(record), "gpus": "the job's GPUs alone"}
        said.append(of.get(record.energy.scope, "the job's share of its nodes"))
        said += filter(None, [gpus_tail(record.energy)])
    return "; ".join(said) + "."


def job_sheet(found: Found) -> Sheet:
    record, wait = found.record, found.record.wait
    pictures = [*waiting_pictures(found), profile_picture(wait) or calls_picture(wait), power_picture(record)]
    missing = "" if record.is_complete else incomplete_line(record)
    return Sheet(_title(found), _subtitle(found), pictures, [_footer(record)], missing, _tiles(found))
