"""A cluster's own part of the unified cgroup hierarchy (v2): the counterpart of cgroup_v1.py.

One directory below the root of the hierarchy. Inside the cluster's cgroup namespace it looks like that root, as on a
machine that has nothing but cgroup v2: the cluster's processes are in /init.scope, Slurm makes its scopes in
/system.slice. A namespace's root is no real one in one respect: a process may not be put into it, as slurmstepd does
with itself at its end. Its cgroup.procs is therefore the one of /init.scope.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.lib.throwaway import kernel
from tests.lib.throwaway.cgroup_v1 import MOUNT_POINT, remove_trees

NEEDED = ("cpuset", "cpu", "memory", "pids")
PROCESSES = "init.scope"


def unavailable_reason() -> str:
    """Returns why this machine cannot run the cgroup2 profile; "" if it can."""
    if not Path("/proc/self/ns/cgroup").exists():
        return "the kernel has no cgroup namespaces"
    if not (MOUNT_POINT / "cgroup.controllers").exists():
        return f"no unified cgroup hierarchy is mounted at {MOUNT_POINT}"
    if (MOUNT_POINT / "cgroup.type").exists():
        return f"{MOUNT_POINT} shows a part of the cgroup hierarchy only"
    present = (MOUNT_POINT / "cgroup.controllers").read_text().split()
    if missing := [name for name in NEEDED if name not in present]:
        return f"the unified cgroup hierarchy has no {', '.join(missing)}: cgroup v1 has them"
    if len(Path("/proc/self/cgroup").read_text().splitlines()) > 1:
        return "cgroup v1 hierarchies are mounted too, which Slurm refuses"
    return "" if os.access(MOUNT_POINT / "cgroup.procs", os.W_OK) else f"{MOUNT_POINT} is not writable"


def create(name: str) -> list[Path]:
    """Makes the directory, with the controllers that Slurm uses, ready to take processes."""
    enable(MOUNT_POINT)
    folder = MOUNT_POINT / name
    folder.mkdir()
    return [folder]


def enable(folder: Path) -> None:
    for controller in NEEDED:
        (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def remove(name: str, timeout_s: float = 10.0) -> list[Path]:
    """Removes the directory and all below; returns it if it still holds a process."""
    folder = MOUNT_POINT / name
    with suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    return remove_trees([folder], timeout_s)


def hierarchies() -> None:
    """Returns nothing: mount_own needs no paths from outside the namespace."""


def mount_own(_found: None) -> None:
    """Shows only the cluster's part, and moves init out of its root. Runs in init, in its new cgroup namespace."""
    kernel.tmpfs(MOUNT_POINT)  # a file system cannot be mounted on itself
    kernel.mount("cgroup2", MOUNT_POINT, "cgroup2")
    for folder in (PROCESSES, "system.slice"):
        (MOUNT_POINT / folder).mkdir()
    (MOUNT_POINT / PROCESSES / "cgroup.procs").write_text("0")
    # Enables controllers as systemd does. Slurm 22.05 overlooks the last one in the list, so that must be one that it
    # does not need.
    for folder in (MOUNT_POINT, MOUNT_POINT / "system.slice"):
        enable(folder)
    kernel.bind(MOUNT_POINT / PROCESSES / "cgroup.procs", MOUNT_POINT / "cgroup.procs")
