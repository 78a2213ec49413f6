"""check: whether programs in containers get the library: the order of SPANK plugins, and what runtimes bind."""

from __future__ import annotations

import os
import re

from ..site.host import Host
from ..site.plugstack import Plugstack
from ..text.units import safe
from .finding import Finding, not_seen, warn

MOVERS = re.compile("pyxis|enroot|shifter|singularity|apptainer|charliecloud|sarus|podman|container", re.I)
CONFIGURATIONS = tuple(f"{place}/{name}/{name}.conf" for place in ("/etc", "/usr/local/etc")
                       for name in ("apptainer", "singularity"))


def check_order(stack: Plugstack) -> list[Finding]:
    """Container plugins whose line stands behind ours: their tasks move when the library has been named."""
    movers = [line for line in stack.behind if MOVERS.search(os.path.basename(line.path))]
    if not movers:
        return []
    shown = ", ".join(f"{safe(os.path.basename(line.path), 100)} ({safe(line.place, 200)})" for line in movers[:4])
    return [
        warn(
            "plugstack order",
            f"our line stands before {shown}",
            "tasks enter their container after the plugin has named the library: each task is handed a descriptor of it"
            " instead of the path, whether it enters one or not",
            "put our line behind it; of included files, zz-mpi-wait.conf comes late",
        )
    ]


def _binds(text: str, folder: str) -> bool:
    """Whether a line of a configuration shows the folder, or one above it, in containers at its own place."""
    for source, _, rest in (path.partition(":") for path in re.findall(r"^\s*bind path\s*=\s*(\S+)", text, re.M)):
        target = rest.partition(":")[0] or source
        if source == target and f"{folder}/".startswith(f"{source.rstrip('/')}/"):
            return True
    return False


def check_runtimes(host: Host, library: str) -> list[Finding]:
    """Runtimes on this host that hand LD_PRELOAD on and do not show what it names."""
    folder, found = os.path.dirname(library), []
    for file in CONFIGURATIONS:
        try:
            text = host.text(file)
        except PermissionError:
            found.append(not_seen("containers", f"'{file}' is not readable", "run 'mpi-wait check' as root"))
            continue
        if text is not None and not _binds(text, folder):
            found.append(
                warn(
                    "containers",
                    f"'{file}' has no 'bind path = {safe(folder, 400)}'",
                    "programs in containers that a script starts run without the policy, and ld.so prints a line for"
                    " each",
                    f"add 'bind path = {safe(folder, 400)}' to it",
                )
            )
    return found
