"""The packages that packaging/make-deb makes, and changed copies of them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.lib.site.chroot import ROOT


def build(output: Path, environment: Mapping[str, str] | None = None, tree: Path = ROOT) -> dict[str, Path]:
    """Runs the tree's packaging/make-deb into an empty directory; returns the packages by name."""
    done = subprocess.run([tree / "packaging/make-deb", output], env={**os.environ, **(environment or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    assert not re.search(r"\bwarning:", done.stdout), done.stdout
    return found(output)


def found(folder: Path) -> dict[str, Path]:
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}


def plugin(packages: Mapping[str, Path]) -> Path:
    return next(path for name, path in packages.items() if name.startswith("spank-mpi-wait-slurm"))


def energy(packages: Mapping[str, Path]) -> Path:
    return next(path for name, path in packages.items() if name.startswith("spank-mpi-wait-energy-slurm"))


def field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout.strip()


def files(package: Path) -> set[str]:
    """Returns the paths that a package installs: units below /usr, where later releases have them, and manual pages
    uncompressed."""
    listing = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    paths = {line.split()[5].removeprefix(".") for line in listing.splitlines() if not line.startswith("d")}
    paths = {re.sub(r"^/lib/", "/usr/lib/", path) for path in paths}
    return {re.sub(r"(/man/.*)\.gz$", r"\1", path) for path in paths}


def renumbered(package: Path, output: Path, version: str, also: Path | None = None) -> Path:
    """Returns a copy with another version, also in its own dependencies. also: a package whose files are added."""
    tree = output / "tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    if also:
        subprocess.run(["dpkg-deb", "-x", also, tree], check=True)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    control.write_text(text.replace(field(package, "Version").split("+")[0], version))
    path = output / package.name.replace(field(package, "Version").split("+")[0], version)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, path], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", tree], check=True)
    return path


def before_0_2(packages: Mapping[str, Path], output: Path) -> list[Path]:
    """Returns the packages as 0.1.0 had them: the energy plugin is in the plugin's package."""
    older = [renumbered(packages[name], output, "0.1.0-1") for name in ("libmpiwait", "mpi-wait-tools")]
    return [*older, renumbered(plugin(packages), output, "0.1.0-1", energy(packages))]


def conffiles(package: Path) -> set[str]:
    listed = subprocess.run(["dpkg-deb", "--info", package, "conffiles"], capture_output=True, text=True)
    return set(listed.stdout.split()) if listed.returncode == 0 else set()
