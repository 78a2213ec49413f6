"""The Debian suites of the release matrix, each with another Slurm, and a root directory of each.

The machine's own suite is the machine itself. The others are chroots, made once by debootstrap from the source of
packages that the machine itself is configured to use, with that configuration, and kept in build/matrix.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
ENTER = Path(__file__).with_name("enter")
APT_HELPER = "/usr/lib/apt/apt-helper"
COPIED = ("auth.conf.d", "keyrings", "trusted.gpg.d", "apt.conf.d")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


class NotOffered(Exception):
    """The machine's source of packages does not have the suite; the text says what it was asked."""


class Failed(Exception):
    """Something else went wrong; the text is the end of what was printed."""


@dataclass(frozen=True)
class Suite:
    """A suite of Debian, and the release of Slurm that it is in the matrix for."""

    name: str
    slurm: str

    @property
    def own(self) -> bool:
        """Whether it is this machine's, so that nothing has to be made."""
        return f"VERSION_CODENAME={self.name}\n" in Path("/etc/os-release").read_text()

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


def output(argv: list[str]) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Failed(f"'{' '.join(argv)}' ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def machine_source() -> tuple[str, str]:
    """Address and components of the source from which this machine's own suite comes, however apt was told of it."""
    own = next(line.strip().partition("=")[2] for line in Path("/etc/os-release").read_text().splitlines()
               if line.startswith("VERSION_CODENAME="))
    shown = output(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
                    "Created-By: Packages"])
    rows = [line.split() for line in shown.splitlines()]
    found = [(row[0], row[2]) for row in rows if len(row) == 3 and row[1] == own]
    if not found:
        raise Failed(f"apt has no source for '{own}', this machine's own suite (run apt-get update)")
    address = found[0][0]
    return address, " ".join(sorted({component for other, component in found if other == address}))


def assert_offered(suite: Suite, address: str) -> None:
    """Raises NotOffered where the answer is that there is no such suite, Failed where there is no answer."""
    place = f"{address.rstrip('/')}/dists/{suite.name}/InRelease"
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.run([APT_HELPER, "download-file", place, f"{folder}/InRelease"], capture_output=True,
                               text=True, check=False)
    if "404" in asked.stdout + asked.stderr:
        raise NotOffered(f"the machine's source of packages has no suite '{suite.name}'")
    if asked.returncode:
        raise Failed(f"the machine's source of packages does not answer: {asked.stderr.strip()[-500:]}")


def configure_apt(suite: Suite, root: Path, address: str, components: str) -> None:
    """The machine's own configuration, with the suite replaced; a Release file may have expired."""
    for name in COPIED:
        if (Path("/etc/apt") / name).is_dir():
            shutil.copytree(Path("/etc/apt") / name, root / "etc/apt" / name, dirs_exist_ok=True)
    (root / "etc/apt/apt.conf.d/zz-matrix").write_text(
        'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\nAPT::Install-Recommends "false";\n')
    (root / "etc/dpkg/dpkg.cfg.d/matrix").write_text("force-unsafe-io\npath-exclude=/usr/share/locale/*\n")
    (root / "etc/apt/sources.list").write_text(f"deb {address} {suite.name} {components}\n")
    for path in (CERTIFICATES, Path("/etc/resolv.conf")):
        if path.exists() and not (root / path.relative_to("/")).exists():
            (root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.relative_to("/"))


def make(suite: Suite) -> bool:
    """The suite's chroot, without the packages of contrib/packages.txt. Returns whether it had to be made."""
    if suite.own or (suite.folder / "made").exists():
        return False
    address, components = machine_source()
    assert_offered(suite, address)
    if not shutil.which("debootstrap"):
        raise Failed("no debootstrap: contrib/setup installs it")
    shutil.rmtree(suite.root, ignore_errors=True)
    suite.root.mkdir(parents=True)
    output(["debootstrap", "--variant=minbase", suite.name, str(suite.root), address])
    configure_apt(suite, suite.root, address, components)
    (suite.folder / "made").touch()
    return True
