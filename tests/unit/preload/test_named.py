"""The library named by a descriptor in LD_PRELOAD: by its path for the programs below, where that is the same file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.doubles.notes_page import NotesPage
from tests.lib.doubles.support import LIBRARY

CONFIG = "v=1;rungs=nap"
LONG = "x" * 4096


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return Path(shutil.copy(LIBRARY, tmp_path / "libmpiwait.so"))


def preload_seen(library: Path, *, config: str = f"{CONFIG};path=1", before: str = "", after: str = "",
                 command: tuple[str, ...] = ("printenv", "LD_PRELOAD"), replaced: bool = False) -> tuple[str, str, str]:
    """Returns LD_PRELOAD as the command saw it, and its standard output and error."""
    fd = os.open(library, os.O_RDONLY)
    if replaced:  # as in a container that has a library of its own there
        shutil.copy(LIBRARY, library.with_suffix(".new"))
        library.with_suffix(".new").rename(library)
    value = f"{before}/proc/self/fd/{fd}{after}"
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": value, "MPI_WAIT_CONFIG": config}
    done = subprocess.run(command, env=environment, pass_fds=[fd], capture_output=True, text=True, timeout=60,
                          check=False)
    os.close(fd)
    return value, done.stdout.strip(), done.stderr


def test_the_path_takes_the_descriptor_s_place(library: Path) -> None:
    assert preload_seen(library)[1] == str(library)
    _, seen, _ = preload_seen(library, before="libm.so.6 ", after=":libdl.so.2")
    assert seen == f"libm.so.6 {library}:libdl.so.2"


@pytest.mark.parametrize("config", [CONFIG, f"{CONFIG};path=0", "v=1;rungs=unheard-of;path=1"])
def test_only_where_root_s_side_says_so(library: Path, config: str) -> None:
    value, seen, _ = preload_seen(library, config=config)
    assert seen == value


@pytest.mark.parametrize("config", [CONFIG, f"{CONFIG};path=1"])
def test_a_path_that_leads_elsewhere_is_not_taken(library: Path, config: str) -> None:
    """In another root: the descriptor is named through the process, whose children may close theirs."""
    value, seen, _ = preload_seen(library, config=config, after=" libm.so.6", replaced=True)
    number = value.removeprefix("/proc/self/fd/").split()[0]
    assert re.fullmatch(rf"/proc/[0-9]+/fd/{number} libm\.so\.6", seen)


def test_a_library_named_through_the_process_has_not_been_taken_away(library: Path) -> None:
    """The process tells root of a library that is gone from LD_PRELOAD, not of one that has another name there."""
    with NotesPage() as page:
        _, seen, _ = preload_seen(library, config=f"{CONFIG};path=1;{page.field}", replaced=True)
        assert re.fullmatch(r"/proc/[0-9]+/fd/[0-9]+", seen) and page.counts() == {}


def test_another_file_of_that_path_is_not_taken(library: Path, tmp_path: Path) -> None:
    """As in a container that has a release of its own there."""
    other = shutil.copy(LIBRARY, tmp_path / "other.so")
    fd = os.open(library, os.O_RDONLY)
    script = f"mount --bind {other} {library} && LD_PRELOAD=/proc/self/fd/{fd} exec printenv LD_PRELOAD"
    environment = {"PATH": os.environ["PATH"], "MPI_WAIT_CONFIG": f"{CONFIG};path=1"}
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script], env=environment, pass_fds=[fd],
                          capture_output=True, text=True, timeout=60, check=False)
    os.close(fd)
    if "unshare failed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert re.fullmatch(f"/proc/[0-9]+/fd/{fd}\n", done.stdout), done.stderr


def test_a_list_cannot_have_a_blank_in_a_path(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    _, seen, _ = preload_seen(Path(shutil.copy(LIBRARY, tmp_path / "a b" / "libmpiwait.so")))
    assert re.fullmatch("/proc/[0-9]+/fd/[0-9]+", seen)


def test_a_list_that_is_too_long_stays(library: Path) -> None:
    value, seen, _ = preload_seen(library, after=f":/{LONG}")
    assert seen == value


def test_programs_that_close_descriptors_start_others_in_silence(library: Path) -> None:
    """Python's subprocess closes what it does not know."""
    source = "import subprocess; subprocess.run(['/bin/true'], close_fds=True)"
    python = (sys.executable, "-c", source)
    assert "cannot be preloaded" in preload_seen(library, config=CONFIG, command=python)[2]
    assert preload_seen(library, command=python)[2] == ""
    assert preload_seen(library, config=CONFIG, command=python, replaced=True)[2] == ""
