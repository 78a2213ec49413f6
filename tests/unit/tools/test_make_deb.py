"""packaging/make-deb on a machine that has next to nothing: it says what to install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ESSENTIAL = ("bash", "cat", "cut", "dirname", "env", "head", "mkdir", "paste", "sed")
"""Of Debian's essential packages; neither a compiler, nor dpkg-dev, nor Slurm's headers."""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ESSENTIAL:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def make_deb(path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "packaging/make-deb"), *map(str, words)]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, timeout=60, check=False)


def test_a_bare_machine_is_told_what_it_needs(bare: Path) -> None:
    done = make_deb(bare, "--needs")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) >= {"build-essential", "gcc", "meson", "libslurm-dev", "debhelper", "dh-python"}


def test_a_build_there_names_them_too(bare: Path, tmp_path: Path) -> None:
    done = make_deb(bare, tmp_path / "debs")
    assert done.returncode == 1
    assert "make-deb: a tool is missing: install build-essential gcc meson" in done.stderr


def test_one_tool_of_many_is_not_enough(bare: Path, tmp_path: Path) -> None:
    (bare / "meson").symlink_to("/bin/true")
    assert "a tool is missing: install " in make_deb(bare, tmp_path / "debs").stderr


def test_without_slurm_s_headers_it_says_so(bare: Path, tmp_path: Path) -> None:
    """With the tools, but a compiler that finds nothing."""
    for name in ("cc", "dpkg-buildpackage", "dpkg-buildflags", "dh", "dh_python3", "meson"):
        (bare / name).write_text(f"#!/bin/sh\n{'exit 1' if name == 'cc' else ''}\n")
        (bare / name).chmod(0o755)
    done = make_deb(bare, tmp_path / "debs")
    assert done.returncode == 1 and "no <slurm/slurm_version.h>: install Slurm's headers" in done.stderr
