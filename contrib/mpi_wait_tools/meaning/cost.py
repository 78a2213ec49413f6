"""Puts the cost of sleeping, and its saving, into words; sums both over several jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..record.energy import Saved
from ..record.record import Record
from ..record.wait import WINDOWS_LEAST, Cost
from ..text.units import plural, safe, scaled

TOO_LITTLE = "too little was seen to tell"


def _size_and_error(percent: float, error: float) -> tuple[float, str]:
    """Returns percent, rounded as its interval allows, and both in words, without a sign: "0.3 % ± 0.1"."""
    decimals = 1 if error >= 0.05 else 2
    size = round(percent, decimals)
    return size, f"{abs(size):.{decimals}f} % ± {max(error, 0.01):.{decimals}f}"


def interval_words(percent: float, error: float) -> str:
    """Returns percent with its interval: "0.3 % ± 0.1", "−0.3 % ± 0.1"."""
    size, words = _size_and_error(percent, error)
    return f"−{words}" if size < 0 else words


def cost_words(cost: Cost) -> str:
    return interval_words(cost.percent, cost.error)


def cost_line(cost: Cost) -> str:
    """Returns the report's words on the cost, as the end of a sentence."""
    looks = plural(cost.windows, "look")
    if not cost.is_known:
        lacking = f"; {WINDOWS_LEAST} are needed" if cost.windows < WINDOWS_LEAST else ", but the periods vary too much"
        return f"{TOO_LITTLE} what sleeping cost ({looks}{lacking})"
    size, words = _size_and_error(cost.percent, cost.error)
    how = "less time" if size < 0 else "longer"
    return f"periods slept in took {words} {how} than those in looks ({looks})"


def unknown_line() -> str:
    """Returns the report's words for ranks that had an account, but no periods to compare."""
    return f"{TOO_LITTLE} what sleeping cost (no periods were compared)"


def too_much_line(cost: Cost) -> str:
    """Returns the words on a cost above the allowed one; "" if it is not above."""
    if not cost.is_too_much:
        return ""
    return (
        f"more than the {cost.slowdown:g} % allowed: while the account is spent the ranks do not sleep. Usual causes "
        "are other work on the nodes and a very short run"
    )


def cost_together(costs: Iterable[Cost]) -> Cost | None:
    """Returns the mean cost of several jobs, weighted by their time. The errors of the jobs are independent."""
    known = [cost for cost in costs if cost.seconds > 0]
    seconds = sum(cost.seconds for cost in known)
    if not known:
        return None
    allowed = [cost.slowdown for cost in known if cost.slowdown is not None]
    return Cost(
        percent=sum(cost.percent * (cost.seconds / seconds) for cost in known),
        error=math.hypot(*(cost.error * (cost.seconds / seconds) for cost in known)),
        windows=sum(cost.windows for cost in known),
        seconds=seconds,
        slowdown=max(allowed) if allowed else None,
    )


def saved_words(saved: Saved) -> str:
    return interval_words(saved.percent, saved.error)


def _periods_took(record: Record) -> str:
    """Says by how much longer the periods were, from the measured cost; "" if there is none."""
    cost = record.wait.cost if record.wait is not None else None
    if cost is None:
        return ""
    size = round(cost.percent, 1)
    return f" while periods took {abs(size):.1f} % {'less time' if size < 0 else 'longer'}"


def _of_what(record: Record, saved: Saved) -> str:
    nodes = f", {saved.nodes} of {plural(record.nodes_reported, 'node')}" if saved.nodes is not None else ""
    simulated = record.energy is not None and record.energy.source == "simulated"
    return f" ({plural(saved.looks, 'look')}{nodes})" + ("; simulated, not measured" if simulated else "")


def _energy_words(record: Record) -> str:
    """Names the energy that is compared: looks read packages and memory, never GPUs."""
    has_gpus = record.energy is not None and record.energy.has_gpus
    return "of the energy of a period" + (" without GPUs" if has_gpus else "")


def saving_of(record: Record) -> Saved | None:
    """Returns the job's saving; None if it is not known, or if nodes are missing and it would be that of the others."""
    return record.energy.saved if record.energy is not None and record.is_complete else None


def unknown_saving_line(record: Record) -> str:
    """Says why the saving is not known; "" if it is, or if the job gave no reason to ask."""
    energy = record.energy
    if energy is None or not record.is_complete or energy.saved is not None or not energy.saved_why:
        return ""
    return f"not known: {safe(energy.saved_why)}"


def saving_line(record: Record) -> str:
    """Returns the report's words on the saving; "" if it is not known."""
    saved = saving_of(record)
    if saved is None:
        return ""
    words, of = f"{saved_words(saved)} {_energy_words(record)}", _of_what(record, saved)
    if not saved.is_seen:
        return f"no saving is seen: {words}{of}"
    power = f"{scaled(saved.beside_w, 'W')} instead of {scaled(saved.look_w, 'W')}{_periods_took(record)}"
    if saved.percent < 0:
        return f"nothing: {words}, {power}{of}"
    return f"{'at least ' if saved.at_least else ''}{words}: {power}{of}"


def _whole(saved: Saved, joules: float) -> float:
    """Returns the joules that the job would have used without sleep."""
    return joules / (1 - saved.percent / 100) if saved.percent < 100 else 0.0


def saved_together(savings: Iterable[tuple[Saved, float]]) -> tuple[Saved | None, float]:
    """Returns the mean saving of several jobs, weighted by their joules, and the joules saved in all. The errors of the
    jobs are independent."""
    known = [(saved, whole) for saved, joules in savings if (whole := _whole(saved, joules)) > 0]
    joules = sum(whole for _, whole in known)
    if joules <= 0:
        return None, 0.0
    saved_j = sum(saved.percent / 100 * whole for saved, whole in known)
    error = math.hypot(*(saved.error * whole / joules for saved, whole in known))
    looks = sum(saved.looks for saved, _ in known)
    at_least = any(saved.at_least for saved, _ in known)
    return Saved(100 * saved_j / joules, error, looks, at_least=at_least), saved_j
