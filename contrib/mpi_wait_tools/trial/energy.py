"""The joules of this node around a run, by the counters that whoever runs 'mpi-wait try' may read.

mpi-wait-node reads them, as it does for jobs: GPUs and boards for everybody, where the driver lets everybody read;
packages and memory for root. They are of one node and count all that runs there, so an experiment on several nodes has
the energy of records alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..site.host import Host

HELPER = "mpi-wait-node"
PLACES = ("/usr/sbin", "/opt/mpi-wait/sbin")  # of the packages, and of a build by hand
NO_ENVIRONMENT = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
SHORT_S = 1.0  # GPUs and boards bring their counters up to date about ten times a second
PACKAGE_MOST_UW = 1_000_000_000  # of a package that does not tell: a counter that may have wrapped unseen says nothing
SCOPES = ("node", "cpu", "memory", "gpu")
ORDER = ("powercap", "hwmon", "cray")
ZONES = {"package": "cpu", "dram": "memory"}

Key = tuple[str, str, int]  # source, scope, number


@dataclass(frozen=True)
class Counter:
    energy_uj: int
    range_uj: int = 0  # 0: it never wraps
    most_uw: int = 0


@dataclass(frozen=True)
class Reading:
    """lacks_gpus: the node has some, of which one or more have no counter that was read."""

    at_s: float
    counters: dict[Key, Counter]
    lacks_gpus: bool
    is_simulated: bool


@dataclass(frozen=True)
class Joules:
    """of: joules by scope, as SCOPES has them; empty: not known."""

    of: dict[str, float] = field(default_factory=dict)
    lacks_gpus: bool = False
    is_simulated: bool = False


def find_helper() -> str:
    """Returns the path of mpi-wait-node, "" if it is nowhere."""
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0]))), "sbin")
    path = os.pathsep.join([os.environ.get("PATH", "/usr/bin"), beside, *PLACES])
    return shutil.which(HELPER, path=path) or ""


def _is_one_node(environment: Mapping[str, str]) -> bool:
    """Returns true unless this is a part of a job on several nodes."""
    return environment.get("SLURM_JOB_NUM_NODES", environment.get("SLURM_NNODES", "1")) == "1"


def _numbers(text: str) -> set[int] | None:
    """Slurm's list of the job's GPUs; None: it gave no such list."""
    words = [word for word in text.split(",") if word]
    return {int(word) for word in words} if words and all(word.isdigit() for word in words) else None


class Node:
    """The counters of this node. A reader that fails or hangs once is not asked again."""

    def __init__(self, host: Host, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.host = host
        self.helper = find_helper() if _is_one_node(environment) else ""
        self.gpus = _numbers(environment.get("SLURM_JOB_GPUS", ""))

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
        """Counters beside powercap, and whether a GPU of the job has none of its own."""
        answer, found = self._ask("meters"), {}
        lacks = "GPU" in answer["why"] or "NVML" in answer["why"]
        for source, scope, number, is_split, _, energy_uj, _ in answer["meters"]:
            is_job = scope != "gpu" or source == "cray" or self.gpus is None or number in self.gpus
            lacks |= is_job and is_split
            if is_job and not is_split:
                found[str(source), str(scope), int(number)] = Counter(int(energy_uj))
        return found, lacks

    def read(self) -> Reading | None:
        """Returns None where nothing can be read."""
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
    """Returns None where the counter began anew, or may have wrapped unseen."""
    used = after.energy_uj - before.energy_uj
    if not after.range_uj:
        return used if used >= 0 else None
    if seconds * after.most_uw >= after.range_uj:
        return None
    return used % after.range_uj


def _keys_of(scope: str, keys: Iterable[Key]) -> list[Key]:
    """Returns the counters to add up in a scope: of processors, memory and boards those of one source, since others are
    of the same parts. A board's counters of accelerators are of the GPUs that others count one by one."""
    found = [key for key in keys if key[1] == scope]
    if scope == "gpu":
        return [key for key in found if key[0] != "cray"] or found
    best = next((source for source in ORDER if any(key[0] == source for key in found)), "")
    return [key for key in found if key[0] == best]


def joules_of(before: Reading | None, after: Reading | None) -> Joules:
    """Returns what was used between two readings, of the scopes in which every counter of the first went on."""
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
