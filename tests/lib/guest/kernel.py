"""Debian's kernel for virtual machines, unpacked below build/. It is not installed: this machine would then boot it.

    python3 -m tests.lib.guest.kernel     fetches it, if it is not there yet
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
FOLDER = BUILD / "guest"
PACKAGE = "linux-image-cloud-amd64"


class GuestError(Exception):
    """The guest cannot be started, or did not report as it should."""


@dataclass(frozen=True)
class Kernel:
    image: Path
    modules: Path


def run(argv: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GuestError(f"'{' '.join(argv)}' ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def package_with_files(folder: Path) -> str:
    """Returns the name of the package that holds the kernel's files; Debian's general package only depends on it."""
    shown = run(["apt-cache", "depends", "--important", PACKAGE], folder)
    if found := re.search(r"Depends: (linux-image-\S+)", shown):
        return found[1]
    raise GuestError(f"the machine's source of packages has no {PACKAGE}")


def unpack(target: Path) -> None:
    making = target.with_name(f"{target.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package_with_files(making)], making)
    (package,) = making.glob("*.deb")
    run(["dpkg-deb", "-x", package.name, "."], making)
    package.unlink()
    making.rename(target)


def kernel() -> Kernel:
    """Returns the kernel's files; apt fetches them the first time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / "kernel"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unpack(target)
    (image,) = (target / "boot").glob("vmlinuz-*")
    (modules,) = (target / "lib/modules").iterdir()
    return Kernel(image, modules)


if __name__ == "__main__":
    try:
        print(kernel().image)
    except GuestError as error:
        sys.exit(f"mpi-wait: no kernel for the guest: {error}")
