"""The energy of this node's packages, if RAPL can be read: otherwise nothing, and no model instead."""

from __future__ import annotations

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
NOT_MEASURED = "not measured: this machine shows no RAPL counters"


def package_zones() -> list[Path]:
    zones = [zone for zone in POWERCAP.glob("intel-rapl:*") if zone.name.count(":") == 1]
    return [zone for zone in zones if (zone / "name").read_text().startswith("package")]


def node_joules() -> float | None:
    """Returns the joules since an arbitrary moment, None if they cannot be read."""
    try:
        counters = [int((zone / "energy_uj").read_text()) for zone in package_zones()]
    except (OSError, ValueError):
        return None
    return sum(counters) * 1e-6 if counters else None


def joules_between(before: float | None, after: float | None) -> dict[str, float]:
    """Returns a figure for a sample, or none; none too if a counter has wrapped."""
    if before is None or after is None or after < before:
        return {}
    return {"energy_j": after - before}


def described() -> str:
    if (POWERCAP / "SIMULATED").exists():
        return "simulated, not measured"
    return NOT_MEASURED if node_joules() is None else "measured: RAPL, whole packages"
