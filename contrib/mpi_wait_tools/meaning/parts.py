"""Parts of a node that joules are of. Energies of different parts are neither compared nor added up. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..record.record import Energy, Record
from ..text.units import plural, safe, scaled, watt_hours

NO_GPUS = "GPUs not counted"
NAMES_SHOWN = 2


def _parts(energy: Energy) -> str:
    """As spank/energy adds up: packages and memory, or the board where there is no package zone."""
    if "package" in energy.zones:
        return "processors and memory" if "dram" in energy.zones else "processors"
    return "memory" if "dram" in energy.zones else "whole boards" if "psys" in energy.zones else "unnamed parts"


def energy_of(record: Record) -> str:
    """ "processors and memory", "processors without GPUs", "processors of some nodes"; "" where no energy is known."""
    energy = record.energy
    if energy is None:
        return ""
    words = "GPUs" if energy.scope == "gpus" else _parts(energy) + (" without GPUs" if energy.has_gpus else "")
    return words + (" of some nodes" if energy.nodes is not None and energy.nodes < record.nodes_of else "")


def kinds_of(each: Iterable[str]) -> dict[str, int]:
    """The different parts that energies are of, and of how many; energies that are not known are none."""
    found: dict[str, int] = {}
    for kind in each:
        if kind:
            found[kind] = found.get(kind, 0) + 1
    return found


def kinds_words(kinds: dict[str, int], noun: str) -> str:
    """ "processors and memory of 3 runs, processors of 1 run" """
    return ", ".join(f"{kind} of {plural(number, noun)}" for kind, number in kinds.items())


def gpus_tail(energy: Energy) -> str:
    """What is missing of them: "GPUs not counted", "1 of 2 GPUs counted", "" where nothing is."""
    if not energy.lacks_gpus:
        return ""
    gpus = energy.gpus
    return f"{gpus.counted} of {plural(gpus.given, 'GPU')} counted" if gpus and gpus.counted else NO_GPUS


SCOPES = {"node": "whole boards", "cpu": "processors", "memory": "memory", "gpu": "GPUs"}


def meters_line(energy: Energy) -> str:
    """ "cray: whole boards 9.00 kJ, memory 1.00 kJ", of whole nodes; "" where there is no other source."""
    found: dict[str, list[str]] = {}
    for meter in energy.meters:
        what = SCOPES.get(meter.scope, safe(meter.scope))
        found.setdefault(safe(meter.source), []).append(f"{what} {scaled(meter.joules, 'J')}")
    return "; ".join(f"{source}: {', '.join(told)}" for source, told in found.items())


def gpus_energy(record: Record, energy: Energy) -> str:
    """ "5.00 kJ = 1.39 Wh, 500 W on average"; "" where none was counted."""
    if energy.gpu_joules is None:
        return ""
    joules = energy.gpu_joules
    power = f", {scaled(joules / record.elapsed, 'W')} on average" if record.elapsed > 0 else ""
    return f"{scaled(joules, 'J')} = {watt_hours(joules)}{power}"


def gpus_which(energy: Energy) -> str:
    """ "1 of 2 that Slurm gave the job (NVIDIA H100), by their own counters; a GPU is split between jobs" """
    gpus = energy.gpus
    if gpus is None:
        return ""
    why = f"; {safe(gpus.why)}" if gpus.why else ""
    if not gpus.counted:
        return f"not counted: {safe(gpus.why) or 'no reason is known'}"
    names = list(dict.fromkeys(safe(device.name) for device in gpus.devices))
    shown = f" ({', '.join(names[:NAMES_SHOWN])}{', ...' if len(names) > NAMES_SHOWN else ''})" if names else ""
    which = f"all {gpus.given}" if gpus.counted == gpus.given > 1 else f"{gpus.counted} of {gpus.given}"
    which = "the one" if gpus.given == 1 else which
    return f"{which} that Slurm gave the job{shown}, by their own counters{why}"
