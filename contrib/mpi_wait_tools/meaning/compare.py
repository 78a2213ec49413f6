"""Compares jobs: the same figures of each, and their differences from the first job's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..jobs.found import Found
from ..text.units import core_time, count, duration, percent, scaled
from .imbalance import imbalance_of, ranks_time
from .reading import energy_of, incomplete_line, kinds_of


@dataclass(frozen=True)
class Measure:
    """One figure of every job."""

    name: str
    values: list[float | None]  # None if the job's record does not have it
    shown: Callable[[float], str]
    of_interest: bool = False  # drawn as bars
    incomplete: frozenset[int] = frozenset()  # jobs that lack nodes: their figures are compared with no other's
    apart: frozenset[int] = frozenset()  # jobs whose figure measures something else than the first job's

    def difference(self, index: int) -> str:
        """Returns the difference of a job's figure from the first job's; "" if the two cannot be compared.

        Shares differ in points: a relative change would make much of 1 % against 2 %.
        """
        value, first = self.values[index], self.values[0]
        if self.incomplete & {0, index} or index in self.apart:
            return ""
        if self.shown is not percent:
            return difference(value, first)
        if value is None or first is None:
            return ""
        points = (value - first) * 100
        return f"{points:+.1f} pt".replace("-", "−")


def _elapsed(found: Found) -> float | None:
    return found.step.elapsed if found.step else found.record.elapsed


def _cpu(found: Found) -> float | None:
    return found.use.cpu_s


def _consumed(found: Found) -> float | None:
    return found.use.joules


def _joules(found: Found) -> float | None:
    if found.step is not None:
        return found.step.joules
    return found.record.energy.joules if found.record.energy else None


def _power(found: Found) -> float | None:
    joules, elapsed = _joules(found), _elapsed(found)
    return joules / elapsed if joules is not None and elapsed else None


def _waited(found: Found) -> float | None:
    if found.step is not None:
        return found.step.wait if found.step.ranks else None
    return found.record.wait.total if found.record.wait else None


def _share(found: Found) -> float | None:
    time, waited = ranks_time(found.record, found.step), _waited(found)
    return min(1.0, waited / time) if time and waited is not None else None


def _of_wait(name: str) -> Callable[[Found], float | None]:
    def get(found: Found) -> float | None:
        wait = found.record.wait
        value = getattr(wait, name) if wait is not None and found.step is None else None
        return None if value is None else float(value)

    return get


def _threads(found: Found) -> float | None:
    wait = found.record.wait
    return wait.threads or None if wait is not None and found.step is None else None


def _asleep(found: Found) -> float | None:
    wait = found.record.wait
    if wait is None or wait.asleep is None or wait.total <= 0 or found.step is not None:
        return None
    return min(1.0, wait.asleep / wait.total)


def _ratio(found: Found) -> float | None:
    imbalance = imbalance_of(found.record, found.step)
    return imbalance.ratio or None if imbalance is not None else None


def _lost(found: Found) -> float | None:
    imbalance = imbalance_of(found.record, found.step)
    return imbalance.share if imbalance is not None else None


def _cost(found: Found) -> float | None:
    """Returns the measured cost of sleeping as a share of 1; None if too little was seen to tell."""
    wait = found.record.wait
    cost = wait.cost if wait is not None and found.step is None else None
    return cost.percent / 100 if cost is not None and cost.is_known else None


def _saved(found: Found) -> float | None:
    """Returns the saving as a share of a period's energy; None if no saving is seen."""
    energy = found.record.energy if found.step is None and found.record.is_complete else None
    saved = energy.saved if energy is not None else None
    return saved.percent / 100 if saved is not None and saved.is_seen else None


FIGURES: tuple[tuple[str, Callable[[Found], float | None], Callable[[float], str], bool], ...] = (
    ("Time", _elapsed, duration, True),
    ("CPU time", _cpu, core_time, True),
    ("Energy", _joules, lambda value: scaled(value, "J"), True),
    ("Slurm's ConsumedEnergy", _consumed, lambda value: scaled(value, "J"), False),
    ("Waiting", _waited, core_time, True),
    ("mean power", _power, lambda value: scaled(value, "W"), False),
    ("share waiting", _share, percent, False),
    ("asleep of it", _asleep, percent, False),
    ("CPU in long waits", _of_wait("cpu_share"), percent, False),
    ("threads beside", _threads, core_time, False),
    ("max/mean", _ratio, lambda value: f"{value:.2f}", False),
    ("lost to imbalance", _lost, percent, False),
    ("sleeping costs", _cost, percent, False),
    ("sleeping saves", _saved, percent, False),
    ("late naps", _of_wait("late"), lambda value: count(round(value)), False),
    ("late, in all", _of_wait("late_seconds"), duration, False),
)
ENERGY_FIGURES = (_joules, _power, _saved)


def _is_simulated(founds: Sequence[Found]) -> bool:
    return any(found.record.energy is not None and found.record.energy.source == "simulated" for found in founds)


def _energies_are_alike(one: Found, other: Found) -> bool:
    """Returns True if both energies have the same parts, scope and source."""
    first, second = one.record.energy, other.record.energy
    if first is None or second is None:
        return False
    return energy_of(one.record) == energy_of(other.record) and (first.scope, first.source) == (
        second.scope, second.source)


def measures(founds: Sequence[Found]) -> list[Measure]:
    """Returns the figures that at least one of the jobs has. Energy of a simulated node is named "simulated"."""
    of_model = ENERGY_FIGURES if _is_simulated(founds) else ()
    incomplete = frozenset(index for index, one in enumerate(founds) if not one.record.is_complete)
    bare = not all(found.has_record for found in founds)
    apart = frozenset(index for index, one in enumerate(founds) if not _energies_are_alike(founds[0], one))
    found = []
    for name, get, shown, bars in FIGURES:
        title = f"{name}, simulated" if get in of_model else name
        of_interest = bars or (get is _consumed and bare)
        of_other_parts = apart if get in ENERGY_FIGURES else frozenset()
        found.append(Measure(title, [get(one) for one in founds], shown, of_interest, incomplete, of_other_parts))
    return [measure for measure in found if any(value is not None for value in measure.values)]


def difference(value: float | None, first: float | None) -> str:
    """Returns the change from first to value: "+1.2 %", "−13 %", "±0 %"; "" if one is not known or first is 0."""
    if value is None or not first:
        return ""
    change = (value - first) / first
    if abs(change) < 0.0005:
        return "±0 %"
    if change >= 10:
        return f"×{value / first:.0f}"
    return ("+" if change > 0 else "−") + percent(abs(change))


def _kind(found: Found, with_ranks: bool) -> tuple[int, int]:
    if not with_ranks:
        return found.record.nodes_of, 0
    ranks = found.step.ranks if found.step else found.record.wait.ranks if found.record.wait else 0
    nodes = found.step.nodes if found.step and found.step.nodes else found.record.nodes_of
    return nodes, ranks


def remarks(founds: Sequence[Found]) -> list[str]:
    """Returns the reasons why the differences may mean less than they seem to."""
    said = []
    bare = [found.name for found in founds if not found.has_record]
    watched = all(found.is_watched for found in founds)
    if len({_kind(found, watched) for found in founds}) > 1:
        said.append("The jobs differ in nodes or ranks: times and energy are not of the same run.")
    if bare:
        one = len(bare) == 1
        said.append(
            f"{', '.join(bare)} left no record: of {'it' if one else 'them'} there is what sacct has, "
            "the time, the CPU time and Slurm's own ConsumedEnergy, if it counts them."
        )
    energies = [found.record.energy for found in founds if found.record.energy]
    if len({energy.scope for energy in energies} - {"gpus"}) > 1:
        said.append("Energy is of all cores for some jobs and of a share for others: do not compare it.")
    if any(energy.has_gpus and energy.scope != "gpus" for energy in energies):
        said.append("Energy is without that of the nodes' GPUs.")
    if len(kinds_of(energy_of(found.record) for found in founds)) > 1:
        kinds = [f"{found.name} of {energy_of(found.record)}" for found in founds if found.record.energy]
        said.append(f"Energy is not of the same parts ({', '.join(kinds)}): it is not compared.")
    if _is_simulated(founds):
        said.append("Energy is simulated for at least one job, not measured.")
    missing = [f"{found.name} {incomplete_line(found.record)}" for found in founds if not found.record.is_complete]
    if missing:
        said.append(f"{'; '.join(missing)}: its figures are compared with none.")
    said.append("One run each: how much such runs differ by themselves is not known from this.")
    return said


def verdict(founds: Sequence[Found]) -> list[str]:
    """Returns one sentence per job after the first; none for jobs that lack nodes."""
    said: list[str] = []
    for found in founds[1:]:
        parts = []
        if not found.record.is_complete or not founds[0].record.is_complete:
            continue
        time = difference(_elapsed(found), _elapsed(founds[0]))
        cpu = difference(_cpu(found), _cpu(founds[0]))
        energy, source = "", " (simulated)" if _is_simulated([found, founds[0]]) else ""
        if _energies_are_alike(founds[0], found):
            energy = difference(_joules(found), _joules(founds[0]))
        elif found.record.energy is None or founds[0].record.energy is None:
            energy, source = difference(_consumed(found), _consumed(founds[0])), " (ConsumedEnergy)"
        if time:
            parts.append(f"took {_words(time, 'longer', 'less time')}")
        if cpu:
            parts.append(f"used {_words(cpu, 'more CPU time', 'less CPU time')}")
        if energy:
            parts.append(f"used {_words(energy, 'more energy', 'less energy')}{source}")
        if parts:
            words = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
            said.append(f"{label(found)} {words} than {label(founds[0])}.")
    return said


def _words(change: str, more: str, less: str) -> str:
    if change.startswith("±"):
        return {"longer": "as long"}.get(more, more.replace("more", "as much")) + " (within 0.05 %)"
    if change.startswith("×"):
        return f"{change[1:]} times {more}"
    return f"{change[1:]} {more if change[0] == '+' else less}"


def label(found: Found) -> str:
    """Returns the job's name and policy: "102 (nap)", "9 (no record)"."""
    if not found.has_record:
        return f"{found.name} (no record)"
    return f"{found.name} ({found.policy.used}{'' if found.record.is_complete else ', incomplete'})"
