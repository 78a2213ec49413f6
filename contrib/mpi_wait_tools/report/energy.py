"""Draws the energy of a job, and the effects of its policy."""

from __future__ import annotations

from ..jobs.sacct import Job
from ..meaning.bill import bill_line
from ..meaning.cost import cost_line, saving_line, too_much_line, unknown_line, unknown_saving_line
from ..meaning.imbalance import ranks_time
from ..meaning.reading import (
    energy_nodes,
    energy_scope,
    gpus_energy,
    gpus_which,
    meters_line,
    nodes_words,
    policy_of,
)
from ..record.energy import Energy
from ..record.record import Grant, Record, Step
from ..record.wait import Cost, Forecast, Wait
from ..site.tariff import Tariff
from ..text.canvas import LABEL_WIDTH, Canvas
from ..text.plot import power_line
from ..text.units import core_time, count, duration, percent, plural, safe, scaled, watt_hours

GRANTS = {"lease": "lease", "file": "lease and ownership"}


def draw_energy(canvas: Canvas, job: Job | None, record: Record, step: Step | None, tariff: Tariff) -> None:
    energy = record.energy
    if energy is None:
        why = safe(record.energy_why) or "no node could read its counters"
        canvas.line("Energy", f"not known: {why}", "yellow")
    elif step is not None and step.joules is None:
        canvas.line("Energy", "not known for this step")
    else:
        _known_energy(canvas, record, energy, step)
        _bill(canvas, record, energy, step, tariff)
    consumed = job.fields["ConsumedEnergyRaw"] if job is not None and step is None else ""
    if consumed.isdigit() and 0 < int(consumed[:19]) < 10**15:
        canvas.line("", f"Slurm's own ConsumedEnergy: {scaled(float(consumed), 'J')}", "dim")


def _known_energy(canvas: Canvas, record: Record, energy: Energy, step: Step | None) -> None:
    joules = energy.joules if step is None or step.joules is None else step.joules
    seconds = record.elapsed if step is None else step.elapsed or 0.0
    power = f", {scaled(joules / seconds, 'W')} on average" if seconds > 0 else ""
    tail = ("simulated, not measured", "bold yellow") if energy.source == "simulated" else None
    canvas.line("Energy", f"{scaled(joules, 'J')} = {watt_hours(joules)}{power}", tail=tail)
    part = energy_nodes(record)
    if part:
        canvas.line("", f"{part}: that of the job is not known", "red")
    else:
        canvas.line("", energy_scope(record) + _whole_nodes(record, energy, step))
    rest = (energy.node_joules or 0.0) - energy.joules
    if step is None and energy.scope == "share" and rest > 0 and not part:
        nodes = "node's" if record.nodes_of == 1 else "nodes'"
        canvas.line("", f"the {nodes} other {scaled(rest, 'J')}: idle, or other jobs'", "dim")
    if step is None and energy.zones:
        canvas.line("", _zones(record, energy))
    if step is None and energy.meters:
        canvas.line("", f"by other counters of the nodes, {meters_line(energy)}", "dim")
    if step is None:
        _of_gpus(canvas, record, energy)
        _over_time(canvas, record, energy)


def _bill(canvas: Canvas, record: Record, energy: Energy, step: Step | None, tariff: Tariff) -> None:
    words = bill_line(tariff, record, step)
    if words:
        tail = ("simulated, not measured", "bold yellow") if energy.source == "simulated" else None
        canvas.line("CO2" if tariff.price_per_kwh is None else "Price", words, tail=tail)


def _of_gpus(canvas: Canvas, record: Record, energy: Energy) -> None:
    """Draws the GPUs' energy, unless all energy is theirs, and which GPUs count, or why none does."""
    if energy.gpus is None:
        return
    used, which = gpus_energy(record, energy) if energy.scope != "gpus" else "", gpus_which(energy)
    if used:
        tail = ("simulated, not measured", "bold yellow") if energy.gpus.source == "simulated" else None
        canvas.line("GPUs", used, tail=tail)
    canvas.line("" if used else "GPUs", which, "" if energy.gpus.counted else "yellow")


def _over_time(canvas: Canvas, record: Record, energy: Energy) -> None:
    curve, words = power_line(energy.power, record.elapsed, canvas.width - LABEL_WIDTH - 2)
    if curve:
        canvas.line("Power", curve)
        canvas.line("", words + (", simulated" if energy.source == "simulated" else ""))


def _whole_nodes(record: Record, energy: Energy, step: Step | None) -> str:
    if energy.scope == "node" or energy.node_joules is None or step is not None:
        return ""
    return f"; {nodes_words(record)}: {scaled(energy.node_joules, 'J')}"


def _zones(record: Record, energy: Energy) -> str:
    def shown(names: tuple[str, ...]) -> list[str]:
        return [f"{name} {scaled(energy.zones[name], 'J')}" for name in names if name in energy.zones]

    inner, outer = shown(("core", "uncore")), shown(("package",))
    if outer and inner:
        outer = [f"{outer[0]} (of it {', '.join(inner)})"]
    elif inner:
        outer = inner
    board = [f"{zone} (the whole board)" for zone in shown(("psys",))]
    of = f" of {nodes_words(record)}" if energy.scope == "share" else ""
    return f"zones{of}: " + " · ".join(outer + shown(("dram",)) + board)


def draw_policy(canvas: Canvas, record: Record) -> None:
    """Draws the effects of the policy: time asleep, frequencies, saving and cost."""
    wait, policy = record.wait, policy_of(record)
    canvas.heading(f"What {policy.used} did" if policy is not None else "What the steps' policies did")
    if wait is not None:
        _asleep(canvas, wait)
        _threads(canvas, wait)
        _lowered(canvas, wait)
    if record.grant is not None:
        _grant(canvas, record.grant)
    _saved(canvas, record)
    if wait is not None:
        _cost_and_delays(canvas, record, wait)


def _saved(canvas: Canvas, record: Record) -> None:
    saved, unknown = saving_line(record), unknown_saving_line(record)
    if saved or unknown:
        canvas.line("Saved", saved or unknown, "" if saved else "dim")


def _cost_and_delays(canvas: Canvas, record: Record, wait: Wait) -> None:
    """Draws the cost of sleeping. If it was measured, late naps are only a detail of it."""
    if wait.cost is not None:
        _cost(canvas, wait.cost)
    elif wait.forecast is not None and wait.forecast.allowed > 0:
        canvas.line("Cost", unknown_line(), "dim")
    if wait.forecast is not None:
        _foreseen(canvas, wait, wait.forecast)
    if wait.cost is not None:
        if wait.late:
            by = f", by {duration(wait.late_seconds)} in all" if wait.late_seconds else ""
            canvas.line("Late", f"{plural(wait.late, 'nap')} ended after what was waited for{by}", "dim")
    elif wait.forecast is not None:
        canvas.line("Late", _late_of_allowed(record, wait, wait.forecast))
    elif wait.late:
        canvas.line("Late", _late(record, wait, wait.late))


def _cost(canvas: Canvas, cost: Cost) -> None:
    canvas.line("Cost", cost_line(cost))
    too_much = too_much_line(cost)
    if too_much:
        canvas.line("", too_much, "yellow")


def _foreseen(canvas: Canvas, wait: Wait, forecast: Forecast) -> None:
    ladder = max(0, wait.naps - forecast.naps)
    canvas.line("Naps", f"{plural(forecast.naps, 'nap')} by forecast, {count(ladder)} by the ladder")
    if forecast.early:
        canvas.line("Early", f"ranks polled for {duration(forecast.early_seconds / forecast.early)} on average "
                             f"after the last nap of {plural(forecast.early, 'wait')}")


def _late_of_allowed(record: Record, wait: Wait, forecast: Forecast) -> str:
    late, time = wait.late_seconds or 0.0, ranks_time(record)
    line = f"late by {duration(late)} in all"
    if time:
        line += f", {100 * late / time:.2f} % of the run; {100 * forecast.allowed / time:.2g} % was allowed"
    return f"{line}; {plural(wait.late or 0, 'nap')} ended after the message"


def _late(record: Record, wait: Wait, late: int) -> str:
    line = f"{plural(late, 'nap')} ended past the budget"
    if not wait.late_seconds:
        return line
    time = ranks_time(record)
    share = f", {percent(min(1.0, wait.late_seconds / time))} of the ranks' time" if time else ""
    return f"{line}, by {duration(wait.late_seconds / late)} on average: {core_time(wait.late_seconds)} in all{share}"


def _part(seconds: float, wait: Wait, how: str = "") -> str:
    share = f" ({percent(min(1.0, seconds / wait.total))} of the waiting)" if wait.total > 0 else ""
    return f"{core_time(seconds)}{how}{share}"


def _asleep(canvas: Canvas, wait: Wait) -> None:
    parts = [_part(wait.asleep, wait)] if wait.asleep is not None else []
    if wait.cpu_share is not None:
        parts.append(f"long waits used {percent(wait.cpu_share)} of a CPU")
    if parts:
        canvas.line("Asleep" if wait.asleep is not None else "CPU", "; ".join(parts))


def _threads(canvas: Canvas, wait: Wait) -> None:
    if wait.threads:
        beside = f", {wait.threads / wait.total:.2g} cores beside each rank that waited" if wait.total > 0 else ""
        canvas.line("Threads", f"{core_time(wait.threads)} of other threads' CPU time meanwhile{beside}")


def _lowered(canvas: Canvas, wait: Wait) -> None:
    if wait.transitions:
        changes = plural(wait.transitions, "change")
        canvas.line("Lowered", f"{_part(wait.low, wait, ' at low frequency')}; {changes}")


def _grant(canvas: Canvas, grant: Grant) -> None:
    canvas.line("Frequency", f"{plural(grant.cores, 'core')} granted by {GRANTS[grant.mode]}")
    for why, cores in sorted(grant.refused.items(), key=lambda item: -item[1])[:4]:
        canvas.line("", f"{plural(cores, 'core')} not granted: {safe(why)}", "yellow")
