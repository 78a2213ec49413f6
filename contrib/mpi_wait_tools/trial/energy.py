"""Measures the joules of this node during a run, by the counters that the user of 'mpi-wait try' may read.

mpi-wait-node reads the counters, as it does for jobs. Any user can read GPUs and boards, if their driver permits; only
root can read packages and memory. The counters cover this node and all programs on it. So an experiment on several
nodes uses only the energy of records.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..site.host import Host, find_installed

HELPER = "mpi-wait-node"
NO_ENVIRONMENT = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
SHORT_S = 1.0  # GPUs and boards bring their counters up to date about ten times a second
PACKAGE_MOST_UW = 1_000_000_000  # assumed for a package that does not tell its maximum, to detect unseen wraps
GPU_RANGES_UJ = {"intel": 262_144_000_000}  # the driver extends this range, if it is read before the counter wraps
GPU_MOST_UW = 1_050_000_000
SCOPES = ("node", "cpu", "memory", "gpu")
ORDER = ("powercap", "hwmon", "cray")
ZONES = {"package": "cpu", "dram": "memory"}

Key = tuple[str, str, int]  # source, scope, number


@dataclass(frozen=True)
class Counter:
    energy_uj: int
    range_uj: int = 0  # value at which the counter wraps, 0 if it never does
    most_uw: int = 0


@dataclass(frozen=True)
class Reading:
    """All counters at one moment."""

    at_s: float
    counters: dict[Key, Counter]
    lacks_gpus: bool  # the counter of one or more of the node's GPUs was not read
    is_simulated: bool


@dataclass(frozen=True)
class Joules:
    """The joules used between two readings."""

    of: dict[str, float] = field(default_factory=dict)  # joules by scope (SCOPES), empty if not known
    lacks_gpus: bool = False
    is_simulated: bool = False


def _is_here(environment: Mapping[str, str], host: Host) -> bool:
    """Returns True unless this process is part of a job on several nodes, or on another host: salloc runs its command
    on the host where it was called, unless the site starts a step for it."""
    if environment.get("SLURM_JOB_NUM_NODES", environment.get("SLURM_NNODES", "1")) != "1":
        return False
    node = environment.get("SLURM_JOB_NODELIST", "")
    return not node or "SLURMD_NODENAME" in environment or node == host.name.split(".")[0]


def _numbers(text: str) -> set[int] | None:
    """Returns the numbers in Slurm's list of the job's GPUs; None if it is no list of numbers."""
    words = [word for word in text.split(",") if word]
    return {int(word) for word in words} if words and all(word.isdigit() for word in words) else None


def _numbers_of(row: list[Any]) -> tuple[int, int]:
    """Returns Slurm's number of a GPU, if Slurm lists the GPUs in the order of their files, and in that of the bus."""
    return int(row[2]), int(row[7] if len(row) > 7 else row[2])


def _is_behind(numbers: tuple[int, int], part: tuple[int, int]) -> bool:
    """Returns True if Slurm's list may have a GPU's parts before another GPU, whose number is not known then."""
    return part[0] < numbers[0] or part[1] < numbers[1]


class Node:
    """Reads the counters of this node. If mpi-wait-node fails or hangs once, it is not asked again."""

    def __init__(self, host: Host, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.host = host
        here = _is_here(environment, host)
        self.helper = (shutil.which(HELPER) or find_installed(f"sbin/{HELPER}")) if here else ""
        # a shard is a part of a GPU, whose counter is of all who have parts of it
        is_part = "SLURM_SHARDS_ON_NODE" in environment
        self.gpus = set() if is_part else _numbers(environment.get("SLURM_JOB_GPUS", ""))

    def _ask(self, verb: str) -> dict[str, Any]:
        ran = self.host.run([*NO_ENVIRONMENT, self.helper, verb, "--"])
        try:
            answer = json.loads(ran.out) if ran.done else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ValueError(verb)
        return answer

    def _meters(self) -> tuple[dict[Key, Counter], bool]:
        """Returns the counters outside of powercap, and True if a GPU of the job has none of its own."""
        answer, found = self._ask("meters"), {}
        lacks = "GPU" in answer["why"] or "NVML" in answer["why"]
        parts = [_numbers_of(row) for row in answer["meters"] if row[0] == "nvml" and row[3]]
        for row in answer["meters"]:
            source, scope, number, is_split, _, energy_uj, _ = row[:7]
            by_both = {True}
            if scope == "gpu" and source != "cray" and self.gpus is not None:
                by_both = {each in self.gpus for each in _numbers_of(row)}
                is_split |= source == "nvml" and any(_is_behind(_numbers_of(row), part) for part in parts)
            lacks |= True in by_both and (is_split or False in by_both)
            if by_both == {True} and not is_split:
                counter = Counter(int(energy_uj), GPU_RANGES_UJ.get(source, 0), GPU_MOST_UW)
                found[str(source), str(scope), int(number)] = counter
        return found, lacks

    def read(self) -> Reading | None:
        """Reads all counters; None if none can be read."""
        if not self.helper:
            return None
        try:
            energy = self._ask("probe")["energy"]
            counters, lacks = self._meters()
            zones = [zone for zone in energy["zones"] if zone["kind"] in ZONES and not zone["mirror"]]
            for number, zone in enumerate(zones):
                most_uw = int(zone["power_max_uw"]) or PACKAGE_MOST_UW
                counter = Counter(int(zone["energy_uj"]), int(zone["range_uj"]), most_uw)
                counters["powercap", ZONES[zone["kind"]], number] = counter
            counted = any(scope == "gpu" for _, scope, _ in counters)
            lacks = bool(energy["gpus"]) and (lacks or not counted)
            return Reading(time.monotonic(), counters, lacks, energy["source"] == "simulated")
        except (ValueError, KeyError, TypeError):
            self.helper = ""
            return None


def _used_uj(before: Counter, after: Counter, seconds: float) -> int | None:
    """Returns by how much the counter advanced; None if it began anew, or may have wrapped unseen."""
    used = after.energy_uj - before.energy_uj
    if not after.range_uj:
        return used if used >= 0 else None
    if seconds * after.most_uw >= after.range_uj:
        return None
    return used % after.range_uj


def _keys_of(scope: str, keys: Iterable[Key]) -> list[Key]:
    """Returns the counters to add up in a scope. No part is counted twice.

    For processors, memory and boards these are the counters of one source, since other sources count the same parts.
    A board's counters of accelerators are left out if other sources count the GPUs one by one.
    """
    found = [key for key in keys if key[1] == scope]
    if scope == "gpu":
        return [key for key in found if key[0] != "cray"] or found
    best = next((source for source in ORDER if any(key[0] == source for key in found)), "")
    return [key for key in found if key[0] == best]


def joules_of(before: Reading | None, after: Reading | None) -> Joules:
    """Returns the joules used between two readings. Leaves out a scope if one of its counters did not go on."""
    if before is None or after is None or after.at_s - before.at_s < SHORT_S:
        return Joules()
    seconds, found = after.at_s - before.at_s, {}
    for scope in SCOPES:
        keys = _keys_of(scope, before.counters)
        used = [_used_uj(before.counters[key], after.counters[key], seconds) if key in after.counters else None
                for key in keys]
        known = [value for value in used if value is not None]
        if used and len(known) == len(used) and sum(known) > 0:
            found[scope] = sum(known) / 1e6
    lost_gpus = bool(_keys_of("gpu", before.counters)) and "gpu" not in found
    return Joules(found, before.lacks_gpus or after.lacks_gpus or lost_gpus, before.is_simulated or after.is_simulated)
