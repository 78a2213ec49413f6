"""The watts of the node that this runs on: the packages' energy counters between two looks, where a user may read them.

Since Linux 5.10 they are root's alone, unless the site has opened them. What they count is the whole node's, not the
job's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..site.host import SIMULATED, Host

POWERCAP = "/sys/class/powercap"
PARTS = ("package", "dram")  # the rest lies within a package, or around everything


def _zones(host: Host) -> Iterator[str]:
    for name in host.names(POWERCAP) or []:
        if re.fullmatch(r"intel-rapl(:[0-9]+){1,2}", name):
            path = f"{POWERCAP}/{name}"
            if (host.line(f"{path}/name") or "").startswith(PARTS):
                yield path


class Counters:
    """Told the time at each look, in nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.before_ns = 0
        self.before: dict[str, int] = {}
        try:
            self.zones = list(_zones(host))
        except OSError:
            self.zones = []
        self.simulated = bool(self.zones) and host.status(SIMULATED) is not None

    def _read(self) -> dict[str, int]:
        values = {}
        for zone in self.zones:
            value = self.host.number(f"{zone}/energy_uj")
            if value is not None:
                values[zone] = value
        return values

    def _used_uj(self, zone: str, now: int) -> int:
        used = now - self.before[zone]
        if used < 0:  # the counter has begun anew
            used += self.host.number(f"{zone}/max_energy_range_uj") or 0
        return max(0, used)

    def watts(self, now_ns: int) -> float | None:
        """None at the first look, and where one of the counters cannot be read."""
        try:
            values = self._read()
            whole = bool(self.zones) and values.keys() == self.before.keys() == set(self.zones)
            used_uj = sum(self._used_uj(zone, value) for zone, value in values.items()) if whole else 0
        except OSError:
            self.zones = []
            return None
        passed_ns, self.before, self.before_ns = now_ns - self.before_ns, values, now_ns
        return used_uj * 1000 / passed_ns if whole and passed_ns > 0 else None
