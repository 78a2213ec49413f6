"""Ranks that have lost the step's memory, and MPI that is run past the library: what is found, and what is noted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lib.doubles.notes_page import KEY, NotesPage
from tests.lib.doubles.support import BUILD, NAP, VIRTUAL, run, segment_tool
from tests.unit.preload.test_corners import FAKE, compiled

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
SPARE = segment_tool.FD + 1000
TASK = 'export MPI_WAIT_CONFIG="${MPI_WAIT_CONFIG%task=*}task=$$"'
"""The shell is the task."""


@pytest.fixture
def notes() -> Iterator[NotesPage]:
    with NotesPage() as page:
        yield page


def in_task(notes: NotesPage, script: str) -> tuple[Any, dict[str, Any]]:
    """A task, which holds both descriptors, runs the script. MPI_WAIT_CONFIG ends with the task."""
    words = ["bash", "-c", f"{TASK}; {script}", "bash", DRIVER, "short"]
    try:
        return run(words, f"{notes.field};{NAP}", made=lambda fd: os.dup2(fd, SPARE, inheritable=True), fds=(SPARE,))
    finally:
        os.close(SPARE)


CLOSES_ALL = "/usr/bin/python3 -c 'import subprocess as s, sys; sys.exit(s.call(sys.argv[1:]))' \"$@\""
LOST = {
    "script-opens-it": "exec 210>/dev/null; \"$@\"",
    "script-locks-by-it": "exec 210>lock; flock -n 210 || exit 1; \"$@\"",
    "task-closes-it": "exec 210>&-; exec \"$@\"",
    "task-closes-up-to-its-limit": "ulimit -Sn 1024; for fd in {3..1023}; do eval \"exec $fd>&-\"; done; exec \"$@\"",
    "rank-closes-all": "\"$@\" 210",
    "launcher-closes-all": CLOSES_ALL,
    "both": f"exec 210>lock; {CLOSES_ALL}",
}


@pytest.mark.parametrize("way", LOST)
def test_the_segment_is_found_whatever_a_script_does_to_its_number(way: str, notes: NotesPage, tmp_path: Path) -> None:
    done, segment = in_task(notes, f"cd {tmp_path}; {LOST[way]}")
    assert done.returncode == 0, done.stderr
    assert [slot["lane"][0]["calls"]["Barrier"]["calls"] for slot in segment["slots"]] == [1000]
    assert notes.counts() == {}


def test_another_file_at_both_numbers_is_not_taken_for_the_segment(notes: NotesPage, tmp_path: Path) -> None:
    done, segment = in_task(notes, f"cd {tmp_path}; exec 210>a 1210>b; \"$@\"")
    assert done.returncode == 0 and segment["claimed"] == 0
    assert [(tmp_path / name).stat().st_size for name in "ab"] == [0, 0]
    assert notes.counts() == {"lost": 1}


def test_a_rank_whose_task_has_closed_all_is_noted(notes: NotesPage) -> None:
    """The process works as ever, and root is told why it is not among the ranks."""
    done, segment = in_task(notes, "exec 210>&- 1210>&-; \"$@\" && exec \"$@\"")
    assert done.returncode == 0 and segment["claimed"] == 0
    assert notes.counts() == {"lost": 2}


def test_a_segment_of_another_layout_is_left_alone_and_noted(notes: NotesPage) -> None:
    """The library is of another release than the plugin: its version of the layout alone differs."""
    done, segment = run([DRIVER, "short"], f"{notes.field};{NAP}", segment={"version": 4711})
    assert done.returncode == 0, done.stderr
    assert segment["claimed"] == 0 and notes.counts() == {"unfit": 1}


def test_a_page_of_another_ipc_namespace_is_left_alone() -> None:
    """The same id may be anybody's memory there."""
    with NotesPage(key=KEY + 1) as other:
        done, segment = in_task(other, "exec 210>&- 1210>&-; exec \"$@\"")
        assert done.returncode == 0 and segment["claimed"] == 0 and other.counts() == {}


def test_a_page_that_is_gone_costs_nothing() -> None:
    with NotesPage() as page:
        pass
    done, _ = in_task(page, "exec 210>&- 1210>&-; exec \"$@\"")
    assert done.returncode == 0 and done.stderr == ""


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls MPI by the library's own handle, as Julia and ctypes do: past LIBRARY WHAT."""
    folder = tmp_path_factory.mktemp("past")
    source = folder / "past.c"
    source.write_text("""
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char **words)
        {
            void *mpi = dlopen(words[1], RTLD_LAZY | RTLD_GLOBAL);
            int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(mpi, "MPI_Init");
            if (count < 3 || (strcmp(words[2], "loads") != 0 && init(NULL, NULL)))
                return 1;
            if (strcmp(words[2], "forks") == 0 && fork() == 0)
                exit(0);
            wait(NULL);
            return 0;
        }
    """)
    return compiled(folder, "past", source)


@pytest.mark.parametrize(("what", "noted"), [("inits", 1), ("forks", 1), ("loads", 0)])
def test_an_mpi_that_is_initialised_past_the_library_is_noted(past: Path, notes: NotesPage, what: str,
                                                              noted: int) -> None:
    """By the process that did it, and not by a child of its; not where MPI was merely loaded."""
    done, segment = run([past, FAKE, what], f"{notes.field};{NAP}")
    assert done.returncode == 0 and segment["claimed"] == 0, done.stderr
    assert notes.counts() == ({"unreached": noted} if noted else {})


def test_the_handle_s_functions_from_python(notes: NotesPage) -> None:
    script = f"import ctypes; ctypes.CDLL({str(FAKE)!r}).MPI_Init(None, None)"
    done, _ = run(["/usr/bin/python3", "-c", script], f"{notes.field};{NAP}")
    assert done.returncode == 0 and notes.counts() == {"unreached": 1}


REPLACED = {
    "set": ("export LD_PRELOAD={tool}; \"$@\"", 1),
    "unset": ("unset LD_PRELOAD; \"$@\"", 1),
    "added-to": ("export LD_PRELOAD={tool}:$LD_PRELOAD; \"$@\"", 0),
    "for-one-command": ("LD_PRELOAD={tool} true; \"$@\"", 0),
    "put-back": ("before=$LD_PRELOAD; export LD_PRELOAD={tool}; true; export LD_PRELOAD=$before; \"$@\"", 0),
}


@pytest.mark.parametrize("way", REPLACED)
def test_a_script_that_takes_the_library_out_of_ld_preload_is_noted(way: str, notes: NotesPage) -> None:
    """Its ranks run without the library then; nothing else could tell root."""
    script, noted = REPLACED[way]
    words = ["bash", "-c", f"{script.format(tool=VIRTUAL)}; exit", "bash", DRIVER, "short"]
    done, segment = run(words, f"{notes.field};{NAP}")
    assert done.returncode == 0 and len(segment["slots"]) == 1 - noted, done.stderr
    assert notes.counts() == ({"replaced": noted} if noted else {})


def test_a_program_that_takes_the_library_out_of_its_environment_is_noted(notes: NotesPage) -> None:
    done, _ = run(["/usr/bin/python3", "-c", "import os; del os.environ['LD_PRELOAD']"], f"{notes.field};{NAP}")
    assert done.returncode == 0 and notes.counts() == {"replaced": 1}


def test_a_rank_and_programs_without_mpi_leave_no_note(notes: NotesPage) -> None:
    for words in ([DRIVER, "short"], ["bash", "-c", "true"], ["/usr/bin/python3", "-c", "pass"]):
        done, _ = run(words, f"{notes.field};{NAP}")
        assert done.returncode == 0
    assert notes.counts() == {}
