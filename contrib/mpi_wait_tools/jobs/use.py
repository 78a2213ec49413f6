"""What sacct has of every job and step, with or without a record: elapsed time, CPU time, Slurm's own energy."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from .sacct import TIMEOUT_S, environment

FIELDS = ("JobID", "ElapsedRaw", "TotalCPU", "ConsumedEnergyRaw")
JOULES_MAX = 1e15  # more is sacct's way to say that it knows nothing
_CPU_TIME = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d\d(?:\.\d{1,9})?)")


@dataclass(frozen=True)
class Use:
    """None: not known, which sacct says by 0."""

    elapsed: float | None = None
    cpu_s: float | None = None
    joules: float | None = None


def cpu_seconds(text: str) -> float | None:
    """TotalCPU: [[days-]hours:]minutes:seconds; None where that is nothing, or no such time."""
    match = _CPU_TIME.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds or None


def joules_of(text: str) -> float | None:
    return float(text) if text.isdigit() and len(text) < 20 and 0 < float(text) < JOULES_MAX else None


def _seconds(text: str) -> float | None:
    return float(text) if text.isdigit() and len(text) < 13 else None


def uses_of(output: str) -> dict[str, Use]:
    """By job and step, as sacct names them. Lines of another shape are passed over."""
    uses = {}
    for line in output.splitlines():
        cells = line.split("|")
        if len(cells) == len(FIELDS):
            uses[cells[0]] = Use(_seconds(cells[1]), cpu_seconds(cells[2]), joules_of(cells[3]))
    return uses


def read_uses(jobs: Iterable[str]) -> dict[str, Use]:
    """Of these jobs and their steps. CPU time is summed over the steps, so they are asked for. {}: sacct fails."""
    words = ["sacct", "-P", "-n", "-j", ",".join(jobs), "--delimiter=|", f"--format={','.join(FIELDS)}"]
    try:
        done = subprocess.run(
            words,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return uses_of(done.stdout) if done.returncode == 0 else {}
