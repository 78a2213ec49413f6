"""Where the joules went, and what slowed the processors down, in sentences. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..record.record import Reader, Record
from ..text.errors import Refusal
from ..text.units import digits, plural, safe, scaled

LARGEST = 1e18
STATES = ("asleep", "spinning", "computing")


@dataclass(frozen=True)
class Estimate:
    """A figure and the half width of its interval."""

    value: float
    interval: float

    def watts(self) -> str:
        return f"{digits(self.value)} ± {digits(self.interval)}"

    def joules(self) -> str:
        return f"{scaled(self.value, 'J')} ± {scaled(self.interval, 'J')}"


def _estimate(reader: Reader, key: str) -> Estimate | None:
    if key not in reader.value:
        return None
    pair = reader.value[key]
    if (
        not isinstance(pair, list)
        or len(pair) != 2
        or not all(isinstance(number, (int, float)) for number in pair)
        or not all(math.isfinite(number) and abs(number) < LARGEST for number in pair)
    ):
        raise Refusal(f"the record is damaged: {reader.path(key)} is not a value with its interval")
    return Estimate(float(pair[0]), float(pair[1]))


def _says_something(states: list[Estimate | None]) -> bool:
    """Whether at least the state that draws most is known better than to its own size."""
    known = [state for state in states if state]
    if not known:
        return False
    most = max(known, key=lambda state: abs(state.value))
    return most.interval < abs(most.value)


def power_lines(record: Record) -> list[str]:
    """One line each; none where the record has no such model, or one that knows nothing (--json says why)."""
    if not isinstance(record.raw.get("watts"), dict):
        return []
    reader = Reader(record.raw["watts"], "mpi_wait.watts")
    packages, known = reader.integer("packages", 1), reader.integer("known")
    if known == 0:
        return []
    states = [(name, _estimate(reader, name)) for name in STATES]
    if not _says_something([value for _, value in states]):
        return []
    drawn = ", ".join(f"{name} {value.watts()}" for name, value in states if value)
    waiting = _estimate(reader, "waiting_j")
    took = f"waiting took {waiting.joules()}" if waiting else "waiting took an unknown part"
    of = f"{known} of {plural(packages, 'package')}" if known < packages else plural(packages, "package")
    simulated = record.energy is not None and record.energy.source == "simulated"
    model = f"a fitted model of {of}, not measured; 95 % intervals"
    return [f"W per rank: {drawn}", took, model + ("; simulated" if simulated else "")]


def watts_of(record: Record) -> list[Estimate | None]:
    """Of one rank in each of STATES; empty where the record has no model that knows something."""
    if not isinstance(record.raw.get("watts"), dict):
        return []
    reader = Reader(record.raw["watts"], "mpi_wait.watts")
    found = [_estimate(reader, name) for name in STATES] if reader.integer("known") else []
    return found if _says_something(found) else []


@dataclass(frozen=True)
class Saving:
    """By the model: what all waiting took, what sleeping saved of it, and what more sleep could. None: not known."""

    waiting: Estimate | None
    saved: Estimate | None
    could: Estimate | None


def saving_of(record: Record) -> Saving | None:
    """None where the record has no model, or one that knows nothing."""
    if not isinstance(record.raw.get("watts"), dict):
        return None
    reader = Reader(record.raw["watts"], "mpi_wait.watts")
    states = [_estimate(reader, name) for name in STATES]
    if reader.integer("known") == 0 or (any(states) and not _says_something(states)):
        return None
    return Saving(*(_estimate(reader, key) for key in ("waiting_j", "saved_j", "could_save_j")))


def saving_line(record: Record) -> str:
    """ "400 J ± 80.0 J by sleeping, by the model above; ..."; "" where that is not known."""
    saving = saving_of(record)
    if saving is None or (saving.saved is None and saving.could is None):
        return ""
    saved = f"{saving.saved.joules()} by sleeping, by the model above" if saving.saved is not None else ""
    could = f"more sleep could save {saving.could.joules()}" if saving.could is not None else ""
    return "; ".join(part for part in (saved, could) if part)


def throttle_notes(record: Record) -> list[str]:
    """A warning where processors were slowed down: a slow node explains ranks that wait."""
    if not isinstance(record.raw.get("throttle"), dict):
        return []
    reader = Reader(record.raw["throttle"], "mpi_wait.throttle")
    heat = reader.integer("core_throttle") + reader.integer("package_throttle")
    power = reader.integer("core_power_limit") + reader.integer("package_power_limit")
    if not heat and not power:
        return []
    node = safe(reader.text("most"))
    most = f", most on {node}" if node else ""
    times = plural(heat if heat else power, "time")
    how = f"{times} by heat, {power} by a power limit" if heat and power else f"{times} by heat"
    how = how if heat else f"{times} by a power limit"
    return [f"Processors were slowed down: {how}{most}. Others may wait for the ranks there."]
