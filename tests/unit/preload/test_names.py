"""Which MPI functions appear to exist beside doubles of MPI; with real ones: tests/mpi/test_mpi_names.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DOUBLES = BUILD / "tests/lib/doubles"
DRIVER = DOUBLES / "preload_driver"
KEPT = DOUBLES / "libprotection-kept.so"
OPENMPI, MPICH = DOUBLES / "libmpi-fake.so", DOUBLES / "libmpi-hookless.so"
ASK = """
from ctypes import CDLL, RTLD_GLOBAL, RTLD_LOCAL, c_void_p, cast
from _ctypes import dlclose
def seen(*names):
    print(*(int(hasattr(CDLL(None), name)) for name in names))
"""


def ask(program: str, config: str | None = NAP, preload: Path | None = None) -> list[str]:
    """What that program says, which can ask by seen() whether names are found."""
    done, _ = run([sys.executable, "-c", ASK + program], config, preload=preload)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("config", [NAP, None], ids=["acting", "inert"])
def test_a_function_that_the_mpi_lacks_appears_not_to_exist(config: str | None) -> None:
    assert values(run([DRIVER, "absent"], config)[0]) == {"missing": -1, "newer": 0}


@pytest.mark.parametrize("config", [NAP, None], ids=["acting", "inert"])
def test_without_mpi_there_are_no_mpi_functions(config: str | None) -> None:
    """Python asks dlerror what was wrong, and would crash of a function that is there and has no address."""
    assert ask("seen('MPI_Init', 'PMPI_Init', 'MPI_Send', 'MPI_Send_c', 'MPI_Session_init')", config) == ["0 0 0 0 0"]


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_newer_function_that_the_mpi_has_is_stood_in_front_of(binding: str) -> None:
    """The loader has bound it past us, or will bind it to us."""
    _, segment = run([DRIVER, "session"], LD_BIND_NOW="1" if binding == "now" else "")
    assert segment["slots"][0]["lane"][0]["calls"]["Session_init"]["calls"] == 1


def test_an_mpi_that_is_loaded_later_is_stood_in_front_of() -> None:
    said = ask(f"""
CDLL('{MPICH}', RTLD_GLOBAL)
seen('MPI_Init', 'PMPI_Recv', 'MPI_Recv_c', 'MPI_Session_finalize')
print(cast(CDLL(None).MPI_Recv, c_void_p).value != cast(CDLL('{MPICH}').MPI_Recv, c_void_p).value)""")
    assert said == [ask(f"CDLL('{MPICH}', RTLD_GLOBAL); seen('MPI_Init', 'PMPI_Recv', 'MPI_Recv_c', "
                        "'MPI_Session_finalize')", None)[0], "True"]


def test_with_two_of_them_neither_is_stood_in_front_of() -> None:
    """Loaded for their users alone: a name may mean the one or the other, and is found where nothing is before it."""
    assert ask(f"CDLL('{MPICH}', RTLD_LOCAL); seen('MPI_Recv')\nCDLL('{OPENMPI}', RTLD_LOCAL); seen('MPI_Recv')") == [
        "1", "0"]


def test_an_mpi_that_was_unloaded_is_gone_with_the_next_that_is_loaded() -> None:
    said = ask(f"""
mpi = CDLL('{MPICH}', RTLD_LOCAL)
seen('MPI_Recv')
dlclose(mpi._handle)
CDLL('{DOUBLES}/libucx-deaf.so', RTLD_LOCAL)
seen('MPI_Recv')
CDLL('{OPENMPI}', RTLD_LOCAL)
seen('MPI_Recv', 'MPI_Session_init')""")
    assert said == ["1", "0", "1 1"]


def test_functions_of_an_mpi_that_is_none_are_its_own(tmp_path: Path) -> None:
    """A library for programs that run on their own: it has MPI_Init, and no PMPI_Init."""
    (tmp_path / "stubs.c").write_text(
        "int MPI_Init(int *a, char ***b) { return 77; }\nint MPI_Finalize(void) { return 78; }\n")
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint MPI_Init(int *, char ***), MPI_Finalize(void);\n"
        "int MPI_Barrier(int) __attribute__((weak));\n"
        'int main(void) { printf("%d %d %d", MPI_Init(0, 0), MPI_Finalize(), MPI_Barrier != 0); return 0; }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libstubs.so", tmp_path / "stubs.c"], check=True)
    for binding in ("lazy", "now"):
        program, sources = tmp_path / binding, (tmp_path / "main.c", tmp_path / "libstubs.so")
        subprocess.run(["cc", f"-Wl,-z,{binding}", "-o", program, *sources], check=True)
        for config in (NAP, None):
            assert run([program], config)[0].stdout == "77 78 0"


def test_where_nothing_can_be_changed_calls_pass_through() -> None:
    """Functions of MPI 3.1 are seen, as in the file, and return an error if the MPI lacks them; newer ones are not."""
    done, segment = run([DRIVER, "absent"], preload=KEPT)
    assert values(done) == {"missing": 16, "newer": 0}
    assert segment["slots"][0]["state"] == 3
    said = ask(f"CDLL('{MPICH}', RTLD_GLOBAL)\nseen('MPI_Session_finalize', 'MPI_Recv_c')\nmpi = CDLL(None)\n"
               "print(mpi.MPI_Init(None, None), mpi.MPI_File_sync(None))", preload=KEPT)
    assert said[1] == "0 15"
