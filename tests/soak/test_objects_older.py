"""The built objects beside a C library that is older than the one that they were built with, in a chroot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lib.site import chroot
from tests.lib.site.tree import NotOffered

BUILD = Path(__file__).resolve().parents[2] / "build"
PRELOAD = BUILD / "preload/libmpiwait.so"
MPI = BUILD / "tests/lib/doubles/libmpi-hookless.so"
SEEN = """
from ctypes import CDLL, RTLD_GLOBAL
def seen(*names): print("seen", *(int(hasattr(CDLL(None), name)) for name in names))
seen("MPI_Init", "MPI_Session_init")
CDLL("/srv/libmpi-hookless.so", RTLD_GLOBAL)
seen("MPI_Init", "MPI_Session_init", "MPI_Recv_c")
"""


@pytest.mark.soak
def test_a_program_of_an_older_glibc_runs_with_the_preload_library() -> None:
    """As in a container of Debian 11, whose glibc is five releases older than the one that this was built with. There,
    too, functions that the MPI lacks appear not to exist."""
    try:
        tree = chroot.fresh_tree(("python3",), "bullseye")
    except NotOffered as reason:
        pytest.skip(str(reason))
    with chroot.site(tree) as older:
        shutil.copy(PRELOAD, older.root / "srv")
        shutil.copy(MPI, older.root / "srv")
        older.write("/srv/seen.py", SEEN)
        done = older.run(f"LD_PRELOAD=/srv/{PRELOAD.name} cat /proc/self/maps; ldd --version | head -1")
        names = [older.run(f"{variables} python3 /srv/seen.py").stdout
                 for variables in ("", f"LD_PRELOAD=/srv/{PRELOAD.name} MPI_WAIT_CONFIG='v=1;rungs=nap'")]
    assert f"/srv/{PRELOAD.name}" in done.stdout and "2.31" in done.stdout.splitlines()[-1]
    assert "cannot be preloaded" not in done.stdout
    assert names[0].splitlines()[0] == "seen 0 0" and names[1] == names[0], names
