"""The built objects beside a C library that is older than the one that they were built with, in a chroot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lib.site import chroot
from tests.lib.site.tree import NotOffered

PRELOAD = Path(__file__).resolve().parents[2] / "build/preload/libmpiwait.so"


@pytest.mark.soak
def test_a_program_of_an_older_glibc_runs_with_the_preload_library() -> None:
    """As in a container of Debian 11, whose glibc is five releases older than the one that this was built with."""
    try:
        tree = chroot.fresh_tree((), "bullseye")
    except NotOffered as reason:
        pytest.skip(str(reason))
    with chroot.site(tree) as older:
        shutil.copy(PRELOAD, older.root / "srv")
        done = older.run(f"LD_PRELOAD=/srv/{PRELOAD.name} cat /proc/self/maps; ldd --version | head -1")
    assert f"/srv/{PRELOAD.name}" in done.stdout and "2.31" in done.stdout.splitlines()[-1]
    assert "cannot be preloaded" not in done.stdout
