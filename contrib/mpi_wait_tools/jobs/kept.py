"""Records that were kept as files (sink=file): SPOOL/done/CLUSTER-JOBID-RESTART.json."""

from __future__ import annotations

import os
import re
import stat

from ..site.host import Host
from ..site.plugstack import read_plugstack
from ..site.slurm import CONFIGURATIONS
from ..text.errors import Refusal
from ..text.units import safe

RECORD_BYTES_MAX = 1 << 20
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


def _latest(folder: str, job: str) -> str:
    """The name of the record of the job's latest run; "" if there is none or the folder may not be read."""
    try:
        names = os.listdir(folder)
    except OSError:
        return ""
    matches = [match for match in map(_NAME.fullmatch, names) if match is not None and match.group(1) == job]
    return max(matches, key=lambda match: int(match.group(2))).group() if matches else ""


def read_kept(spool: str, job: str) -> str | None:
    """The text of the record of a job, by Slurm's number of it; None if the spool keeps none."""
    folder = os.path.join(spool, "done")
    name = _latest(folder, job)
    if not name:
        return None
    path = os.path.join(folder, name)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refusal(f"'{safe(path, 200)}' is no file")
            data = opened.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be read: {error.strerror} (it is its job's group's)") from None
    return data[:RECORD_BYTES_MAX].decode("utf-8", "replace")
