"""check: the energy counters."""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from ..site.host import Host
from ..text.units import duration, plural, safe
from .finding import Finding, not_seen, ok, warn

POWERCAP = "/sys/class/powercap"
TAIL = " (simulated)"


def _zones(host: Host) -> list[str]:
    found = [name for name in host.names(POWERCAP) or [] if re.fullmatch(r"intel-rapl(:[0-9]+){1,2}", name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(":")[1:]])


def _counters(host: Host, zones: list[str]) -> Finding:
    names = [safe(host.line(f"{POWERCAP}/{zone}/name") or zone) for zone in zones]
    what = f"{plural(len(zones), 'zone')}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return ok("RAPL", what + (TAIL if host.simulated else ""))


def _modes(host: Host, zones: list[str]) -> list[Finding]:
    """energy_uj is root's alone since Linux 5.10, because its changes tell what other processes compute."""
    open_to_all = []
    for zone in zones:
        try:
            mode = stat.S_IMODE(os.stat(host.at(f"{POWERCAP}/{zone}/energy_uj")).st_mode)
        except OSError:
            continue
        if mode & 0o044:
            open_to_all.append(zone)
    if not open_to_all:
        return [ok("RAPL mode", "root's alone, as it should be")]
    return [
        warn(
            "RAPL mode",
            f"others than root may read {plural(len(open_to_all), 'counter')} ({open_to_all[0]})",
            "a user can learn from it what others compute (CVE-2020-8694); nothing of ours needs it",
            f"chmod 0400 {POWERCAP}/intel-rapl*/energy_uj",
        )
    ]


def _wrap(zones: list[dict[str, Any]]) -> Finding | None:
    seconds = [
        zone["range_uj"] / zone["power_max_uw"] for zone in zones if zone.get("power_max_uw") and zone.get("range_uj")
    ]
    if not seconds:
        return None
    return ok("RAPL range", f"a counter begins anew after {duration(min(seconds))} at full power, at the soonest")


def _mirrored(zones: list[dict[str, Any]]) -> Finding | None:
    """Zones of dies that show one counter of their package."""
    names = [safe(str(zone["name"])) for zone in zones if zone.get("mirror") and zone["kind"] == "package"]
    if not names:
        return None
    shown = f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return ok("RAPL dies", f"{shown} show{'s' if len(names) == 1 else ''} the counter of another die: counted once")


def _reading(host: Host, zones: list[str], probe: dict[str, Any] | None) -> list[Finding]:
    if not host.is_root:
        return [not_seen("RAPL reading", "only root may read the counters", "run 'mpi-wait check' as root")]
    if probe is None:
        return [not_seen("RAPL reading", "mpi-wait-node could not be asked", "see 'helper' below")]
    read = probe["energy"]["zones"]
    if not read:
        return [
            warn(
                "RAPL reading",
                f"no zone can be read ({safe(probe['energy']['why']) or 'the files do not answer'})",
                "records will say that the energy is not known",
                "see whether root can read the files energy_uj below " + POWERCAP,
            )
        ]
    left = len(zones) - len(read)
    wrap = [finding for finding in (_wrap(read), _mirrored(read)) if finding]
    if left > 0:
        return [
            warn(
                "RAPL reading",
                f"{plural(left, 'zone')} of {len(zones)} cannot be read, or libpowercap does not know what it is",
                "its energy is missing in the records",
                "see whether root can read the files energy_uj below " + POWERCAP,
            )
        ] + wrap
    what = f"all {len(read)} were read through libpowercap" + (TAIL if host.simulated else "")
    return [ok("RAPL reading", what), *wrap]


def check_energy(host: Host, probe: dict[str, Any] | None) -> list[Finding]:
    zones = _zones(host)
    if not zones:
        return [
            warn(
                "RAPL",
                "the kernel shows no RAPL zone",
                "records will say that the energy is not known (usual in virtual machines); waits are measured all"
                " the same",
                "modprobe intel_rapl_msr (Intel and AMD), if this is no virtual machine",
            )
        ]
    return [_counters(host, zones), *_modes(host, zones), *_reading(host, zones, probe)]
