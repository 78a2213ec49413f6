"""Parts of a node that joules are of. Energies of different parts are neither compared nor added up. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..record.record import Energy, Record
from ..text.units import plural


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
    words = _parts(energy) + (" without GPUs" if energy.lacks_gpus else "")
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
