"""check: energy counters beside powercap, as mpi-wait-node reads them for jobs."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any

from ..site.host import Host
from ..text.units import duration, plural, safe
from .finding import Finding, not_seen, ok, warn

BOARD = "/sys/cray/pm_counters"
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
STALE_S = 10
TITLES = {"nvml": "NVML", "cray": "Cray's counters", "hwmon": "hwmon"}
PRECISION = {
    "nvml": "to the millijoule, brought up to date every 0.02 to 0.1 s",
    "cray": "to the joule, brought up to date ten times a second",
    "hwmon": "to the microjoule, brought up to date by its driver",
}
SCOPES = {"node": "the board", "cpu": "processors", "memory": "memory", "gpu": "GPUs"}
STANDARD = "powercap+hwmon+cray+nvml"


def _answer(host: Host, helper: str, site: dict[str, str]) -> dict[str, Any] | None:
    """As prologs and epilogs ask: with nobody's environment. None: no answer that is understood."""
    words = [f"energy={site['energy']}"] if "energy" in site else []
    ran = host.run(["/usr/bin/env", "-i", PATH, host.at(helper), "meters", "--", *words])
    try:
        answer = json.loads(ran.out) if ran.done else None
    except ValueError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("meters"), list):
        return None
    return answer


def _is_meter(row: Any) -> bool:
    kinds = (str, str, int, bool, str, int, int)
    return isinstance(row, list) and len(row) == len(kinds) and all(map(isinstance, row, kinds))


def _told(source: str, rows: list[list[Any]]) -> str:
    """ "2 counters of GPUs (NVIDIA H100), to the millijoule, ..." """
    scopes = list(dict.fromkeys(SCOPES.get(row[1], safe(row[1])) for row in rows))
    names = list(dict.fromkeys(safe(row[4]) for row in rows if row[4]))[:2]
    named = f" ({', '.join(names)})" if names else ""
    return f"{plural(len(rows), 'counter')} of {', '.join(scopes)}{named}, {PRECISION[source]}"


def _age(rows: list[list[Any]]) -> Finding | None:
    """Cray's counters bear a time since the epoch in microseconds; those of older releases count updates instead."""
    ages = [time.time() - row[6] / 1e6 for row in rows if row[6] > 10**15]
    if not ages:
        return None
    if max(ages) > STALE_S:
        return warn("Cray's counters' age", f"brought up to date {duration(max(ages))} ago",
                    "a counter that stands still does not count", "see whether the node controller works")
    return ok("Cray's counters' age", f"{duration(max(0.0, max(ages)))}")


def _readers(host: Host) -> Finding | None:
    try:
        mode = stat.S_IMODE(os.stat(host.at(f"{BOARD}/energy")).st_mode)
    except OSError:
        return None
    return ok("Cray's counters' mode", f"{mode:04o}: {'everybody' if mode & 0o004 else 'not everybody'} may read them")


def _split(rows: list[list[Any]]) -> list[Finding]:
    split = sum(row[3] for row in rows)
    if not split:
        return []
    return [warn("MIG", f"{plural(split, 'GPU')} of {len(rows)} are divided", "records say 'GPUs not counted' of them",
                 "compare the energy of their jobs by other means")]


def _source(host: Host, source: str, rows: list[list[Any]]) -> list[Finding]:
    found: list[Finding | None] = [ok(TITLES[source], _told(source, rows))]
    if source == "cray":
        found += [_age(rows), _readers(host)]
    return [finding for finding in found if finding] + (_split(rows) if source == "nvml" else [])


def _gpus(probe: dict[str, Any] | None, counted: int, why: str) -> list[Finding]:
    if counted or not (probe or {}).get("energy", {}).get("gpus"):
        return []
    return [
        warn(
            "GPUs",
            f"this node has some, and their energy is not counted{f' ({why})' if why else ''}",
            "records say 'GPUs not counted': their figures are of processors and memory alone",
            "compare the energy of jobs with GPUs by other means; spank-mpi-wait(8), ENERGY, says what counts",
        )
    ]


def check_meters(host: Host, helper: str, probe: dict[str, Any] | None, site: dict[str, str]) -> list[Finding]:
    if probe is None or not helper:
        return []
    if not host.is_root:
        seen = [not_seen("other counters", "only root reads them as jobs do", "run 'mpi-wait check' as root")]
        return (seen if probe["energy"].get("gpus") else []) + _gpus(probe, 0, "")
    answer = _answer(host, helper, site)
    if answer is None:
        return _gpus(probe, 0, "their reader does not answer")
    rows = [row for row in answer["meters"] if _is_meter(row)]
    why = safe(str(answer.get("why", "")))
    found = []
    for source in TITLES:
        if of_source := [row for row in rows if row[0] == source]:
            found += _source(host, source, of_source)
    if rows:
        order = site.get("energy", STANDARD).replace("+", ", ")
        found.append(ok("energy=", f"joules are of the first that has counted a job: {safe(order)}"))
    if why and rows:
        found.append(warn("other counters", why, "some are missing in records", "see spank-mpi-wait(8), ENERGY"))
    return found + _gpus(probe, sum(row[1] == "gpu" for row in rows), why)
