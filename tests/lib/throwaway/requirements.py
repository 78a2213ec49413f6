"""The requirements of the throw-away cluster, and which of them this machine lacks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.lib.throwaway.inside import ENTER

PROGRAMS = {
    "munged": "munge", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server",
    "slurmctld": "slurmctld", "slurmd": "slurmd", "slurmdbd": "slurmdbd", "srun": "slurm-client",
}
NAMESPACES = ("mnt", "uts", "ipc", "pid", "net")
DEBIAN_PYTHON = "/usr/bin/python3"


def plugin_folders() -> list[Path]:
    return [folder for folder in Path("/usr/lib").glob("*/slurm*") if folder.is_dir()] + [
        folder for folder in (Path("/usr/lib64/slurm"), Path("/usr/lib/slurm")) if folder.is_dir()]


def has_plugin(name: str) -> bool:
    """Returns true if this machine's Slurm has the plugin (not every release of Debian has mpi_pmix)."""
    return any((folder / f"{name}.so").exists() for folder in plugin_folders())


def missing_requirements(simulated: bool = True) -> list[str]:
    """Returns one line per missing requirement, which says how to install it; empty if a cluster can run."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: namespaces and mounts need it (use sudo)")
    if not ENTER.exists():
        missing.append(f"{ENTER}: build the project (meson setup build && ninja -C build)")
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
            missing.append(f"{program}: install the package {package}")
    for plugin in ("accounting_storage_mysql", "accounting_storage_slurmdbd"):
        if not has_plugin(plugin):
            missing.append(f"Slurm's plugin {plugin}.so: install slurm-wlm-basic-plugins and "
                           "slurm-wlm-mysql-plugin")
    missing += [f"{name} namespaces in the kernel" for name in NAMESPACES
                if not Path(f"/proc/self/ns/{name}").exists()]
    filesystems = Path("/proc/filesystems").read_text().split()
    if "overlay" not in filesystems:
        missing.append("overlayfs in the kernel (modprobe overlay)")
    if not Path("/srv").is_dir():
        missing.append("the directory /srv (an empty one will do)")
    return missing + (missing_for_simulation(filesystems) if simulated else [])


def missing_for_simulation(filesystems: list[str]) -> list[str]:
    missing = []
    if "fuse" not in filesystems or not Path("/dev/fuse").exists():
        missing.append("FUSE in the kernel (modprobe fuse)")
    if not any(Path("/usr/lib/python3/dist-packages").glob("pyfuse3*")):
        missing.append(f"pyfuse3 for {DEBIAN_PYTHON}: install the package python3-pyfuse3")
    return missing
