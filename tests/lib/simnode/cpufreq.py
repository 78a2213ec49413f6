"""A frequency domain as the kernel's cpufreq presents it. Pure state and rules.

The rules are those of drivers/cpufreq/cpufreq.c since Linux 5.4: a write to scaling_min_freq or scaling_max_freq is a
request that always succeeds, and the effective range is clamped, min to max, when it is used. With `strict` they are
those before 5.4: a minimum above the maximum is EINVAL, and the other way round. A cap (thermal, or the firmware's,
which bios_limit shows) lowers the effective maximum only.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from tests.lib.simnode.tree import Directory, File, constant, parse_number

UNSUPPORTED = "<unsupported>"


@dataclass(frozen=True)
class Driver:
    """The differences between the cpufreq drivers."""

    name: str
    governors: tuple[str, ...]
    default_governor: str
    frequencies_khz: tuple[int, ...] = ()
    limits_khz: tuple[int, int] = (0, 0)
    preferences: tuple[str, ...] = ()

    @property
    def min_khz(self) -> int:
        return min(self.frequencies_khz) if self.frequencies_khz else self.limits_khz[0]

    @property
    def max_khz(self) -> int:
        return max(self.frequencies_khz) if self.frequencies_khz else self.limits_khz[1]


PREFERENCES = ("default", "performance", "balance_performance", "balance_power", "power")
DRIVERS = {driver.name: driver for driver in (
    Driver("acpi-cpufreq",
           ("conservative", "ondemand", "userspace", "powersave", "performance", "schedutil"),
           "schedutil", tuple(range(2_400_000, 999_999, -200_000))),
    Driver("intel_cpufreq",
           ("conservative", "ondemand", "userspace", "powersave", "performance", "schedutil"),
           "schedutil", (), (800_000, 3_500_000)),
    Driver("intel_pstate", ("performance", "powersave"), "powersave", (), (800_000, 3_500_000),
           PREFERENCES),
    Driver("amd-pstate-epp", ("performance", "powersave"), "powersave", (), (400_000, 3_700_000),
           PREFERENCES),
)}


@dataclass
class Policy:
    """One domain: the CPUs that share a clock, and its four settings."""

    driver: Driver
    cpus: tuple[int, ...]
    governor: str = ""
    preference: str = "balance_performance"
    min_request_khz: int = 0
    max_request_khz: int = 0
    speed_khz: int = 0
    strict: bool = False
    cap_khz: int = 0
    firmware_khz: int = 0
    entries: Directory = field(default_factory=Directory)

    def __post_init__(self) -> None:
        self.governor = self.driver.default_governor
        self.min_request_khz = self.driver.min_khz
        self.max_request_khz = self.driver.max_khz
        self.entries = self._files()

    @property
    def max_khz(self) -> int:
        caps = [cap for cap in (self.cap_khz, self.firmware_khz) if cap]
        return max(min([self.driver.max_khz, self.max_request_khz, *caps]), self.driver.min_khz)

    @property
    def min_khz(self) -> int:
        low = min(max(self.min_request_khz, self.driver.min_khz), self.driver.max_khz)
        return min(low, self.max_khz)

    @property
    def current_khz(self) -> int:
        """Returns the clock of a busy CPU of the domain."""
        if self.governor == "userspace":
            return self._supported(min(max(self.speed_khz, self.min_khz), self.max_khz))
        if self.governor == "powersave" and not self.driver.preferences:
            return self.min_khz
        return self.max_khz

    def _supported(self, khz: int) -> int:
        """Returns the lowest table entry at or above the target within the range (RELATION_L)."""
        allowed = [entry for entry in self.driver.frequencies_khz
                   if self.min_khz <= entry <= self.max_khz]
        if not allowed:
            return khz
        return min((entry for entry in allowed if entry >= khz), default=max(allowed))

    def set_governor(self, name: str) -> None:
        if name not in self.driver.governors:
            raise OSError(errno.EINVAL, f"no governor '{name}'")
        if name == "userspace" and self.governor != name:
            self.speed_khz = self.current_khz
        self.governor = name

    def set_speed(self, text: str) -> None:
        if self.governor != "userspace":
            raise OSError(errno.EINVAL, "the governor is not userspace")
        self.speed_khz = min(max(parse_number(text), self.min_khz), self.max_khz)

    def set_min(self, text: str) -> None:
        khz = parse_number(text)
        if self.strict and khz > self.max_request_khz:
            raise OSError(errno.EINVAL, "above scaling_max_freq")
        self.min_request_khz = khz

    def set_max(self, text: str) -> None:
        khz = parse_number(text)
        if self.strict and khz < self.min_request_khz:
            raise OSError(errno.EINVAL, "below scaling_min_freq")
        self.max_request_khz = khz

    def set_preference(self, name: str) -> None:
        if name not in self.driver.preferences:
            raise OSError(errno.EINVAL, f"no preference '{name}'")
        if self.governor == "performance" and name not in ("performance", "default"):
            raise OSError(errno.EBUSY, "the governor is performance")
        self.preference = name

    def _speed_text(self) -> object:
        return self.current_khz if self.governor == "userspace" else UNSUPPORTED

    def _files(self) -> Directory:
        driver, cpus = self.driver, " ".join(map(str, self.cpus))
        files = {
            "affected_cpus": constant(cpus), "related_cpus": constant(cpus),
            "cpuinfo_min_freq": constant(driver.min_khz),
            "cpuinfo_max_freq": constant(driver.max_khz),
            "cpuinfo_transition_latency": constant(10000),
            "scaling_driver": constant(driver.name),
            "scaling_available_governors": constant(" ".join(driver.governors)),
            "scaling_cur_freq": File(lambda: self.current_khz),
            "scaling_governor": File(lambda: self.governor, self.set_governor),
            "scaling_min_freq": File(lambda: self.min_khz, self.set_min),
            "scaling_max_freq": File(lambda: self.max_khz, self.set_max),
            "scaling_setspeed": File(self._speed_text, self.set_speed),
        }
        if driver.frequencies_khz:
            files["bios_limit"] = File(lambda: self.firmware_khz or driver.max_khz)
            files["scaling_available_frequencies"] = constant(
                " ".join(map(str, driver.frequencies_khz)) + " ")
        if driver.preferences:
            files["energy_performance_available_preferences"] = constant(
                " ".join(driver.preferences) + " ")
            files["energy_performance_preference"] = File(
                lambda: self.preference, self.set_preference)
        return Directory(dict(files))
