"""What sleeping saved a job, in words; and that of several jobs together. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..record.cost import Saved
from ..record.record import Record
from ..text.units import plural, safe, scaled


def saved_words(saved: Saved) -> str:
    """ "9.1 % ± 0.6", "−0.3 % ± 0.1"; rounded to what the interval is worth."""
    decimals = 1 if saved.error >= 0.05 else 2
    size = round(saved.percent, decimals)
    sign = "−" if size < 0 else ""
    return f"{sign}{abs(size):.{decimals}f} % ± {max(saved.error, 0.01):.{decimals}f}"


def _steps_took(record: Record) -> str:
    """By how much longer the steps were, as cost has it."""
    cost = record.wait.cost if record.wait is not None else None
    if cost is None:
        return ""
    size = round(cost.percent, 1)
    return f" while steps took {abs(size):.1f} % {'less time' if size < 0 else 'longer'}"


def _of_what(record: Record, saved: Saved) -> str:
    nodes = f", {saved.nodes} of {plural(record.nodes_reported, 'node')}" if saved.nodes is not None else ""
    simulated = record.energy is not None and record.energy.source == "simulated"
    return f" ({plural(saved.looks, 'look')}{nodes})" + ("; simulated, not measured" if simulated else "")


def _energy_words(record: Record) -> str:
    """What looks read: packages and memory, never GPUs."""
    has_gpus = record.energy is not None and record.energy.has_gpus
    return "of the energy of a step" + (" without GPUs" if has_gpus else "")


def saving_of(record: Record) -> Saved | None:
    """Returns None if it is not known, or if nodes are missing: it would be that of some nodes."""
    return record.energy.saved if record.energy is not None and record.is_complete else None


def unknown_saving_line(record: Record) -> str:
    """Says why the saving is not known; "" if it is, or if the job gave no reason to ask."""
    energy = record.energy
    if energy is None or not record.is_complete or energy.saved is not None or not energy.saved_why:
        return ""
    return f"not known: {safe(energy.saved_why)}"


def saving_line(record: Record) -> str:
    """What the report says; "" where nothing is known."""
    saved = saving_of(record)
    if saved is None:
        return ""
    words, of = f"{saved_words(saved)} {_energy_words(record)}", _of_what(record, saved)
    if not saved.is_seen:
        return f"no saving is seen: {words}{of}"
    power = f"{scaled(saved.beside_w, 'W')} instead of {scaled(saved.look_w, 'W')}{_steps_took(record)}"
    if saved.percent < 0:
        return f"nothing: {words}, {power}{of}"
    return f"{'at least ' if saved.at_least else ''}{words}: {power}{of}"


def _whole(saved: Saved, joules: float) -> float:
    """What the job would have used, had nobody slept."""
    return joules / (1 - saved.percent / 100) if saved.percent < 100 else 0.0


def saved_together(savings: Iterable[tuple[Saved, float]]) -> tuple[Saved | None, float]:
    """That of several jobs, by the joules of each, and the joules that were saved; their errors have nothing to do with
    one another."""
    known = [(saved, whole) for saved, joules in savings if (whole := _whole(saved, joules)) > 0]
    joules = sum(whole for _, whole in known)
    if joules <= 0:
        return None, 0.0
    saved_j = sum(saved.percent / 100 * whole for saved, whole in known)
    error = math.hypot(*(saved.error * whole / joules for saved, whole in known))
    looks = sum(saved.looks for saved, _ in known)
    at_least = any(saved.at_least for saved, _ in known)
    return Saved(100 * saved_j / joules, error, looks, at_least=at_least), saved_j
