"""A cluster's own cgroup (v1) directories: the keeper makes and removes them, init mounts them.

One directory per hierarchy, below the maker's own cgroup. Inside the cluster's cgroup namespace
each is the root of its hierarchy, so two clusters never meet in `/slurm_c1`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.lib.throwaway import kernel

NEEDED = ("cpuset", "cpuacct", "devices", "freezer", "memory")
MOUNT_POINT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Hierarchy:
    """One mounted v1 hierarchy: its controllers as the kernel joins them, and this process's path in it."""

    controllers: str
    mount_point: Path
    own_path: str

    def folder(self, name: str) -> Path:
        return Path(f"{self.mount_point}{self.own_path.rstrip('/')}/{name}")


def hierarchies() -> list[Hierarchy]:
    """Returns the mounted v1 hierarchies of the controllers that Slurm uses."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    found: dict[str, Hierarchy] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ", 1)
        root, mount_point = before.split()[3:5]
        filesystem, _, options = after.split()[:3]
        if filesystem != "cgroup" or root != "/":
            continue
        for controllers, path in own.items():
            if controllers and set(controllers.split(",")) <= set(options.split(",")):
                found[controllers] = Hierarchy(controllers, Path(mount_point), path)
    return [entry for entry in found.values() if set(entry.controllers.split(",")) & set(NEEDED)]


def unavailable_reason() -> str:
    """Returns why this machine cannot run the cgroup profile; "" if it can."""
    present = {name for entry in hierarchies() for name in entry.controllers.split(",")}
    missing = [name for name in ("cpuset", "freezer", "devices", "memory") if name not in present]
    if missing:
        return f"no cgroup v1 hierarchy of {', '.join(missing)} is mounted"
    if not Path("/proc/self/ns/cgroup").exists():
        return "the kernel has no cgroup namespaces"
    blocked = [entry.controllers for entry in hierarchies()
               if not os.access(entry.folder("."), os.W_OK)]
    return f"the cgroup hierarchies of {', '.join(blocked)} are not writable" if blocked else ""


def create(name: str) -> list[Path]:
    """Makes the directories, ready to take processes. After a failure, `remove` removes what was made."""
    folders = []
    for entry in hierarchies():
        folder = entry.folder(name)
        folder.mkdir()
        folders.append(folder)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (folder / setting).exists():
                (folder / setting).write_text((folder.parent / setting).read_text())
    return folders


def remove(name: str, timeout_s: float = 10.0) -> list[Path]:
    """Removes the directories and all below; returns those that still hold a process."""
    return remove_trees([entry.folder(name) for entry in hierarchies()], timeout_s)


def remove_trees(left: list[Path], timeout_s: float) -> list[Path]:
    deadline = time.monotonic() + timeout_s
    while True:
        left = [folder for folder in left if not _remove_tree(folder)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _remove_tree(folder: Path) -> bool:
    """Tries to remove a directory and all below. Returns true if it is gone."""
    for path, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(path)
    return not folder.exists()


def mount_own(found: list[Hierarchy]) -> None:
    """Shows only the cluster's part of every hierarchy. Runs in init, in its new cgroup namespace.

    found: `hierarchies()` from before that namespace, since paths read inside it are relative to its root.
    """
    kernel.tmpfs(MOUNT_POINT)
    for controllers in (entry.controllers for entry in found):
        target = MOUNT_POINT / controllers
        target.mkdir()
        kernel.mount("cgroup", target, "cgroup", 0, controllers)
        for single in controllers.split(",") if "," in controllers else []:
            (MOUNT_POINT / single).symlink_to(controllers)
