"""Records that were kept as files (sink=file): SPOOL/done/CLUSTER-JOBID-RESTART.json."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping

from ..site.host import Host
from ..site.plugstack import read_plugstack
from ..site.slurm import CONFIGURATIONS
from ..text.errors import Refusal
from ..text.units import safe
from .runs import span_of
from .sacct import LAST

RECORD_BYTES_MAX = 1 << 20
CLOCKS_S = 30  # a node's record begins and ends a little beside slurmctld's times
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-([1-9][0-9]{0,9})-([0-9]{1,10})\.json")


def site_spool() -> str:
    """The spool of the plugin's line in plugstack.conf beside slurm.conf; "" where there is none."""
    for configuration in (os.environ.get("SLURM_CONF", ""), *CONFIGURATIONS):
        path = os.path.join(os.path.dirname(configuration), "plugstack.conf")
        if configuration and os.path.isfile(path):
            for line in read_plugstack(Host(), path).lines:
                for word in line.words:
                    if word.startswith("spool=/"):
                        return word[len("spool=") :]
    return ""


def _names(folder: str, job: str) -> list[str]:
    """The files of the records of a job's number, by the number of the run; [] also if the folder may not be read."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    matches = [match for match in map(_NAME.fullmatch, names) if match is not None and match.group(1) == job]
    return [match.group() for match in sorted(matches, key=lambda match: int(match.group(2)))]


def _read(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refusal(f"'{safe(path, 200)}' is no file")
            data = opened.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be read: {error.strerror} (it is its job's group's)") from None
    return data[:RECORD_BYTES_MAX].decode("utf-8", "replace")


def _run_of(text: str) -> tuple[float, float] | None:
    """From when to when the run was; None in files that do not say so, as those of older releases."""
    try:
        run = json.loads(text)["run"]
        start, end = float(run["start_s"]), float(run["end_s"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (start, end) if start <= end < float("inf") else None


def read_kept(spool: str, job: str, span: tuple[float, float] | None = None) -> str | None:
    """
    The text of the record of a job, by Slurm's number of it; None if the spool ("": there is none) keeps none. span:
    when its run was, which tells it from another job that had the number; None: the latest.
    """
    if not spool:
        return None
    folder = os.path.join(spool, "done")
    best, best_fit = None, float("-inf")
    for name in _names(folder, job):
        text = _read(os.path.join(folder, name))
        run = _run_of(text)
        if run is None:
            fit = float("-inf")
        elif span is None:
            fit = run[1]
        else:
            fit = min(span[1], run[1]) - max(span[0], run[0])
            if fit < -CLOCKS_S:
                continue
        if fit >= best_fit:
            best, best_fit = text, fit
    return best


def read_kept_of(spool: str, row: Mapping[str, str]) -> str | None:
    """The same of sacct's row; None also where its run has not begun."""
    span = span_of(row)
    return read_kept(spool, row[LAST], span) if span is not None else None
