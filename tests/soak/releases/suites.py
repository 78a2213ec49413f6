"""The Debian suites of the release matrix, each with another Slurm, and a root directory of each.

The machine's own suite is the machine itself. The others are chroots, made once and kept in build/matrix.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.lib.site.tree import make_tree, own_suite

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
ENTER = Path(__file__).with_name("enter")


@dataclass(frozen=True)
class Suite:
    """A suite of Debian, and the release of Slurm that it is in the matrix for."""

    name: str
    slurm: str

    @property
    def own(self) -> bool:
        """Whether it is this machine's, so that nothing has to be made."""
        return self.name == own_suite()

    @property
    def folder(self) -> Path:
        return BUILD / "matrix" / self.name

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def command(self, argv: list[str]) -> list[str]:
        """What runs argv in the tree as that suite sees it."""
        if self.own:
            stage = f"MPI_WAIT_STAGE={BUILD}/stage/opt/mpi-wait"
            return ["env", "-C", str(ROOT), stage, "PYTHONDONTWRITEBYTECODE=1", *argv]
        build = self.folder / "build"
        build.mkdir(parents=True, exist_ok=True)
        return [str(ENTER), str(self.root), str(ROOT), str(build), *argv]


SUITES = (Suite("bookworm", "22.05"), Suite("trixie", "24.11"), Suite("sid", "26.05"))


def make(suite: Suite) -> bool:
    """The suite's chroot, without the packages of contrib/packages.txt. Returns whether it had to be made."""
    if suite.own or suite.root.exists():
        return False
    make_tree(suite.root, suite.name)
    return True
