"""The files of a simulated node and the clockwork behind them.

Layout of the file system, whose parts `mounts` shows under /sys: `powercap` (the devices),
`class` (/sys/class/powercap), `cpufreq` (policyN), `cpu` (cpuN/thermal_throttle), and for tests
`truth` (JSON, see Model.truth), `writes` (JSON: what was written to cpufreq files since it was last
read, [seconds, policy, file, text] each) and `control` (write JSON, see Node.control).
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.lib.simnode.cpufreq import DRIVERS, Policy
from tests.lib.simnode.cputime import CpuTime
from tests.lib.simnode.model import Model, Options, Zone
from tests.lib.simnode.tree import Directory, File, Link, constant, variable

THROTTLE_COUNTERS = ("core_throttle_count", "package_throttle_count", "core_power_limit_count",
                     "package_power_limit_count")
CONSTRAINTS = {"long_term": (125_000_000, 27_983_872), "short_term": (150_000_000, 2_440)}
WRITES_MAX = 10000
FRESH_S = 0.005
"""A counter advanced less than this ago is shown unchanged."""
CLOCK_FRESH_S = 0.1
"""The same before a clock changes: time until then counts at the old clock."""


class Node:
    """State, files and controls of one node. The ticker and reads call `advance`."""

    def __init__(self, options: Options, cpus: list[int]) -> None:
        if options.driver not in DRIVERS:
            raise ValueError(f"no driver '{options.driver}' (there are {', '.join(DRIVERS)})")
        self.model = Model(options)
        size = options.domain_size or len(cpus)
        domains = options.domains or [cpus[first:first + size] for first in range(0, len(cpus), size)]
        self.policies = [Policy(DRIVERS[options.driver], tuple(domain), strict=options.strict_limits)
                         for domain in domains]
        self.policy_of = {cpu: policy for policy in self.policies for cpu in policy.cpus}
        self.cpus = sorted(self.policy_of)
        self.throttle = {cpu: dict.fromkeys(THROTTLE_COUNTERS, 0) for cpu in self.cpus}
        self._denied: set[str] = set()
        self._stuck: set[str] = set()
        self._shown: dict[str, str] = {}
        self._writes: deque[tuple[float, str, str, str]] = deque(maxlen=WRITES_MAX)
        self._cpu_time = CpuTime({os.getpid()})
        self._advanced_at = time.monotonic()
        self.root = self._files()

    def advance(self, fresh_s: float = FRESH_S) -> None:
        """Brings the counters up to now, unless that was done less than fresh_s ago."""
        now = time.monotonic()
        if now - self._advanced_at < fresh_s:
            return
        busy = {}
        for cpu, seconds in self._cpu_time.seconds().items():
            policy = self.policy_of.get(cpu)
            clock = policy.current_khz / policy.driver.max_khz if policy else 1.0
            busy[cpu] = (seconds, clock)
        self.model.advance(now - self._advanced_at, busy)
        self._advanced_at = now

    def control(self, text: str) -> None:
        """Obeys a command, or raises EINVAL: {"speed": X} {"hold": true} {"reset": ZONE} {"remove": ZONE} {"throttle":
        {"cpu0": {"core_throttle_count": 3}}} {"cap": {"0": KHZ}} {"firmware": {"0": KHZ}} {"deny": [FILE]} {"stuck":
        [FILE]} {"show": {FILE: TEXT}}.

        cap, firmware: by the domain's first CPU, 0 for none. deny: writes to these cpufreq files, and changes of
        their owner, return EIO. stuck: writes to them wait. show: reads return that text instead. Each of these three
        lasts until its next command.
        """
        try:
            for name, value in json.loads(text).items():
                self._apply(name, value)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise OSError(errno.EINVAL, f"control: {error}") from error

    def _apply(self, name: str, value: Any) -> None:
        self.advance()
        if name == "speed":
            self.model.speed = float(value)
        elif name == "hold":
            self.model.held = bool(value)
        elif name == "reset":
            self.model.reset(value)
        elif name == "remove":
            self._remove(value)
        elif name == "throttle":
            for cpu, counters in value.items():
                self.throttle[int(cpu.removeprefix("cpu"))].update(counters)
        elif name in ("cap", "firmware"):
            for cpu, khz in value.items():
                setattr(self.policy_of[int(cpu)], f"{name}_khz", int(khz))
        elif name == "deny":
            self._denied = set(value)
        elif name == "stuck":
            self._stuck = set(value)
        elif name == "show":
            self._shown = dict(value)
        else:
            raise ValueError(f"no control '{name}'")

    def _remove(self, zone: str) -> None:
        if zone not in self.model.zones:
            raise KeyError(zone)
        top = ":".join(zone.split(":")[:2])
        parent = self.root.directory("powercap/intel-rapl")
        if zone != top:
            parent = parent.directory(top)
        del parent.entries[zone]
        self.model.remove(zone)
        links = self.root.directory("class").entries
        for name in [name for name in links if (name + ":").startswith(zone + ":")]:
            del links[name]

    def _truth(self) -> str:
        self.advance()
        return json.dumps(self.model.truth())

    def _files(self) -> Directory:
        root = Directory()
        root.entries["truth"] = File(self._truth)
        root.entries["control"] = File(lambda: json.dumps(
            {"speed": self.model.speed, "hold": self.model.held}), self.control, 0o600)
        self._add_powercap(root)
        for policy in self.policies:
            name = f"policy{policy.cpus[0]}"
            self._watch(name, policy.entries)
            root.directory("cpufreq").entries[name] = policy.entries
        root.entries["writes"] = File(self._take_writes, mode=0o400)
        for cpu, counters in self.throttle.items():
            folder = root.directory(f"cpu/cpu{cpu}/thermal_throttle")
            folder.entries.update({name: variable(counters, name, 0o444) for name in counters})
        return root

    def _watch(self, policy: str, entries: Directory) -> None:
        """Wraps a domain's files: notes writes, and applies what `control` has asked for."""
        def give(name: str) -> None:
            if name in self._denied:
                raise OSError(errno.EIO, "denied")

        def watched_write(name: str, write: Callable[[str], None]) -> Callable[[str], None]:
            def write_and_note(text: str) -> None:
                if name in self._stuck:
                    raise BlockingIOError(errno.EAGAIN, "stuck")
                give(name)
                self.advance(CLOCK_FRESH_S)
                write(text)
                self._writes.append((time.monotonic(), policy, name, text))
            return write_and_note

        def watched_read(name: str, read: Callable[[], object]) -> Callable[[], object]:
            return lambda: self._shown[name] if name in self._shown else read()
        for name, entry in entries.entries.items():
            if isinstance(entry, File):
                entry.read = watched_read(name, entry.read)
                entry.write = entry.write and watched_write(name, entry.write)
                entry.give = partial(give, name)

    def _take_writes(self) -> str:
        taken = list(self._writes)
        self._writes.clear()
        return json.dumps(taken)

    def _add_powercap(self, root: Directory) -> None:
        control_type = root.directory("powercap/intel-rapl")
        control_type.entries["enabled"] = variable({"enabled": 1}, "enabled")
        links = root.directory("class").entries
        devices = "../../devices/virtual/powercap/intel-rapl"
        links["SIMULATED"] = constant("simulated by tests/lib/simnode")
        links["intel-rapl"] = Link(devices)
        for name, zone in self.model.zones.items():
            top = ":".join(name.split(":")[:2])
            path = name if name == top else f"{top}/{name}"
            folder = control_type.directory(path)
            folder.entries.update(self._zone_files(zone))
            folder.can_go = True
            links[name] = Link(f"{devices}/{path}", can_go=True)

    def _zone_files(self, zone: Zone) -> dict[str, Directory | Link | File]:
        range_uj = self.model.options.range_uj

        def energy() -> int:
            self.advance()
            return zone.shown_uj(range_uj)
        zone.settings = {"enabled": 1}
        files: dict[str, Directory | Link | File] = {
            "name": constant(zone.name), "energy_uj": File(energy, mode=0o400),
            "max_energy_range_uj": constant(range_uj),
            "enabled": variable(zone.settings, "enabled"),
        }
        for number, (name, (limit_uw, window_us)) in enumerate(CONSTRAINTS.items()):
            if number and not zone.name.startswith(("package", "psys")):
                continue
            prefix = f"constraint_{number}"
            zone.settings[f"{prefix}_power_limit_uw"] = limit_uw
            zone.settings[f"{prefix}_time_window_us"] = window_us
            files[f"{prefix}_name"] = constant(name)
            files[f"{prefix}_max_power_uw"] = File(
                lambda limit_uw=limit_uw: int(limit_uw * max(1.0, self.model.speed)))
            for setting in ("power_limit_uw", "time_window_us"):
                files[f"{prefix}_{setting}"] = variable(zone.settings, f"{prefix}_{setting}")
        return files
