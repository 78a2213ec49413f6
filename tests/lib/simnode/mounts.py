"""Shows the simulated files under /sys of this mount namespace, and nowhere else.

Small overlays make room for the directories that the machine lacks; the file system's parts are
bound there. The rest of /sys, the topology above all, stays the machine's own.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from tests.lib.throwaway import kernel

HOME = Path("/run/simnode")
FILES = HOME / "fs"
"""The mount point of the whole simulated file system, with `truth` and `control`."""

DRIVERS = Path("/proc/driver")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")

CPU = Path("/sys/devices/system/cpu")
OVERLAID = {"class": Path("/sys/class"), "virtual": Path("/sys/devices/virtual"), "cpu": CPU}


def in_own_namespace() -> bool:
    """Returns true if this process is in another mount namespace than kthreadd, or than process 1 where kthreadd is
    hidden."""
    for pid, name in ((2, "kthreadd"), (1, "")):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip().startswith(name):
                return os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        except OSError:
            continue
    return True


def prepare() -> None:
    """Makes a mount point for the file system, private to this mount namespace. Must run before the file system is
    mounted."""
    kernel.make_mounts_private()
    HOME.mkdir(exist_ok=True)
    kernel.tmpfs(HOME)
    FILES.mkdir()


def show(policies: dict[int, int]) -> None:
    """Mounts the parts below /sys. The file system must answer already. policies: the first CPU of its frequency
    domain, by CPU.

    The class directory comes last: its marker says that all the rest is in place.
    """
    for name, target in OVERLAID.items():
        kernel.overlay(target, HOME / "overlay" / name)
    bind("powercap", Path("/sys/devices/virtual/powercap"))
    bind("cpufreq", CPU / "cpufreq")
    for cpu, first in policies.items():
        (CPU / f"cpu{cpu}").mkdir(exist_ok=True)
        bind(f"cpu/cpu{cpu}/thermal_throttle", CPU / f"cpu{cpu}/thermal_throttle")
        link(CPU / f"cpu{cpu}/cpufreq", f"../cpufreq/policy{first}")
    bind("class", Path("/sys/class/powercap"))


def show_gpus(count: int, watts: float, library: str) -> None:
    """Shows devices of NVIDIA, as the driver does, and puts a double of its library where the loader finds it."""
    kernel.tmpfs(DRIVERS)
    for number in range(count):
        (DRIVERS / f"nvidia/gpus/0000:{number:02x}:00.0").mkdir(parents=True)
        os.mknod(HOME / f"nvidia{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))  # gres.conf requires a device file
    kernel.overlay(LIBRARIES, HOME / "overlay/libraries")
    shutil.copy(library, LIBRARIES)
    devices = (f"{number} run {watts * 1000:.0f} 0 Simulated GPU" for number in range(count))
    (LIBRARIES / "nvml").write_text("\n".join(devices) + "\n")


def bind(part: str, target: Path) -> None:
    target.mkdir(exist_ok=True)
    kernel.bind(FILES / part, target)


def link(path: Path, target: str) -> None:
    """Puts a symbolic link in place of whatever the machine has there."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
    os.symlink(target, path)
