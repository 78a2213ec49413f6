"""The release tarball that packaging/dist makes of the working tree, and the RPMs that rpmbuild makes of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.lib.site.chroot import ROOT


def _run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def version() -> str:
    return re.findall(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[0]


def tarball(folder: Path) -> Path:
    """Commits the working tree as it is in a new repository, because packaging/dist takes committed files only. Returns
    the tarball."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    tree = folder / "tree"
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
        (tree / name).chmod((ROOT / name).stat().st_mode)
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    _run(["git", "init", "-q", "."], tree)
    _run(["git", "add", "-A"], tree)
    _run(["git", *author, "commit", "-q", "-m", "release"], tree)
    return Path(_run([tree / "packaging/dist", folder], tree).strip())


def unpacked(source: Path, folder: Path) -> Path:
    _run(["tar", "-C", folder, "-xf", source], folder)
    return folder / source.name.removesuffix(".tar.gz")


def build(source: Path, folder: Path) -> list[Path]:
    """Runs rpmbuild -ta without a network; returns the packages. --nodeps: rpm does not know Debian's packages."""
    command = ["unshare", "-n", "rpmbuild", "-ta", "--nodeps", "--define", f"_topdir {folder}", source]
    said = _run(command, folder)
    assert not re.search(r"\bwarning:", said), said
    return sorted((folder / "RPMS").glob("*/*.rpm"))


def _listed(package: Path) -> list[tuple[bool, str]]:
    """Returns for each entry of a package: whether it is a directory, and its path."""
    lines = query(package, "--queryformat=[%{FILEMODES:perms} %{FILENAMES}\n]")
    return [(mode.startswith("d"), path) for mode, path in (line.split(" ", 1) for line in lines)]


def files(package: Path) -> set[str]:
    return {re.sub(r"(/man/.*)\.gz$", r"\1", path) for is_directory, path in _listed(package) if not is_directory}


def directories(package: Path) -> set[str]:
    return {path for is_directory, path in _listed(package) if is_directory}


def query(package: Path, what: str) -> list[str]:
    words = ["rpm", "-qp", what, "--nosignature", package]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
