"""Computes energy from CPU time: the RAPL zones of a simulated node. Pure; the caller passes the time.

    joules = idle watts * seconds + busy watts * CPU seconds * (kHz / maximum kHz)

A zone's counter shows the total modulo (max_energy_range_uj + 1), as the kernel's does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

DEFAULT_RANGE_UJ = 262_143_328_850


@dataclass(frozen=True)
class Options:
    """The settings of a simulated node, all with defaults; `Cluster(model={...})` sets them.

    speed: model seconds (and CPU seconds) per real second. start_uj: first value of the counters. domain_size: CPUs per
    frequency domain; 0 means all in one. domains: the CPUs of each domain, if they are not neighbours, or not this
    machine's. strict_limits: minimum and maximum as before Linux 5.4. gpus: number of NVIDIA GPUs, shown by
    gpu_library, a double of the driver's library, with counters that run at gpu_w watts (mounts.show_gpus).
    """

    driver: str = "acpi-cpufreq"
    domain_size: int = 1
    domains: tuple[tuple[int, ...], ...] = ()
    strict_limits: bool = False
    packages: int = 2
    range_uj: int = DEFAULT_RANGE_UJ
    start_uj: int = 0
    speed: float = 1.0
    package_idle_w: float = 20.0
    package_busy_w: float = 30.0
    core_share: float = 0.7
    dram_idle_w: float = 3.0
    dram_busy_w: float = 2.0
    platform_idle_w: float = 15.0
    gpus: int = 0
    gpu_w: float = 100.0
    gpu_library: str = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Options:
        known = {entry.name for entry in fields(cls)}
        if unknown := set(values) - known:
            raise ValueError(f"no such knob: {', '.join(sorted(unknown))} "
                             f"(there are {', '.join(sorted(known))})")
        return cls(**values)


@dataclass
class Zone:
    """One counter: its watts, its total so far, and the offset of the shown value."""

    name: str
    idle_w: float
    busy_w: float
    package: int | None
    total_uj: float = 0.0
    shown_from_uj: float = 0.0
    settings: dict[str, int] = field(default_factory=dict)

    def shown_uj(self, range_uj: int) -> int:
        return (int(self.total_uj) - int(self.shown_from_uj)) % (range_uj + 1)


class Model:
    """All zones of a node by their sysfs names ("intel-rapl:0", "intel-rapl:0:1", ...)."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.speed = options.speed
        self.held = False
        self.model_s = 0.0
        self.cpu_s = [0.0] * options.packages
        self.zones: dict[str, Zone] = {}
        for package in range(options.packages):
            self._add_package(package)
        psys = f"intel-rapl:{options.packages}"
        self.zones[psys] = Zone("psys", 0, 0, None)
        self.platform = psys
        for zone in self.zones.values():
            zone.shown_from_uj = -options.start_uj

    def _add_package(self, package: int) -> None:
        options, top = self.options, f"intel-rapl:{package}"
        self.zones[top] = Zone(f"package-{package}", options.package_idle_w,
                               options.package_busy_w, package)
        self.zones[f"{top}:0"] = Zone("core", 0.25 * options.package_idle_w,
                                      options.core_share * options.package_busy_w, package)
        self.zones[f"{top}:1"] = Zone("dram", options.dram_idle_w, options.dram_busy_w, package)

    def advance(self, real_s: float, busy: dict[int, tuple[float, float]]) -> None:
        """Lets time pass. busy: (real CPU seconds used, its clock / its maximum clock) by CPU."""
        if self.held:
            return
        elapsed = real_s * self.speed
        weighted = [0.0] * self.options.packages
        for cpu, (cpu_s, clock) in busy.items():
            package = cpu % self.options.packages
            self.cpu_s[package] += cpu_s * self.speed
            weighted[package] += cpu_s * self.speed * clock
        self.model_s += elapsed
        platform_uj = self.options.platform_idle_w * elapsed * 1e6
        for zone in self.zones.values():
            if zone.package is None:
                continue
            joules = zone.idle_w * elapsed + zone.busy_w * weighted[zone.package]
            zone.total_uj += joules * 1e6
            if zone.name != "core":
                platform_uj += joules * 1e6
        if self.platform in self.zones:
            self.zones[self.platform].total_uj += platform_uj

    def reset(self, zone: str) -> None:
        """Restarts the counter at zero, as a reload of the driver does."""
        self.zones[zone].shown_from_uj = self.zones[zone].total_uj

    def remove(self, zone: str) -> None:
        """Removes the zone and those below it, as unloading a module does."""
        for name in [name for name in self.zones if (name + ":").startswith(zone + ":")]:
            del self.zones[name]

    def truth(self) -> dict[str, Any]:
        """Returns the energy really used, unwrapped and from zero, beside the counters' values."""
        zones = {name: {"name": zone.name, "total_uj": int(zone.total_uj),
                        "energy_uj": zone.shown_uj(self.options.range_uj)}
                 for name, zone in self.zones.items()}
        return {"simulated": True, "model_s": self.model_s, "cpu_s": self.cpu_s,
                "range_uj": self.options.range_uj, "zones": zones}
