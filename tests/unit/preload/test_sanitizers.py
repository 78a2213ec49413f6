"""Programs whose sanitizer wants to be the first library, under ours: they run, and the sanitizer works."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.support import LIBRARY, NAP

# Given an argument, it writes behind the end of a block, or has the sum of two numbers overflow.
PROGRAM = r"""
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments)
{
	char *block = malloc(4);
	int sum = INT_MAX - 1 + count;
	if (count > 1)
		block[count + 3] = 'x';
	printf("ran %d\n", sum > 0);
	free(block);
	return 0;
}
"""
OWN_DEFAULTS = 'const char *__asan_default_options(void) { return "detect_leaks=0"; }\n'
SHARED: dict[str, list[str]] = {"gcc": [], "clang": ["-shared-libsan"]}
COMPILERS = [name for name in SHARED if shutil.which(name)]
KINDS = {"address": "AddressSanitizer: heap-buffer-overflow", "undefined": "signed integer overflow",
         "thread": "", "leak": "", "address,undefined": "AddressSanitizer: heap-buffer-overflow"}


def compiled(folder: Path, compiler: str, kind: str, source: str = PROGRAM) -> Path:
    (folder / "program.c").write_text(source)
    command = [compiler, "-g", f"-fsanitize={kind}", *SHARED[compiler], "-o", folder / "program", folder / "program.c"]
    subprocess.run(command, check=True, timeout=120)
    return folder / "program"


def resources(compiler: str) -> str:
    """Where clang's shared runtimes are: no program finds them by itself."""
    if compiler == "gcc":
        return ""
    asked = [compiler, "-print-runtime-dir"]
    return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def run(command: list[object], compiler: str = "gcc", preload: str = "", **environment: str) -> tuple[int, str, str]:
    full = {"PATH": os.environ["PATH"], "MPI_WAIT_CONFIG": f"v=1;{NAP}", "LD_LIBRARY_PATH": resources(compiler),
            "LD_PRELOAD": f"{preload}{LIBRARY}"} | environment
    done = subprocess.run([str(word) for word in command], env=full, capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", KINDS)
def test_shared_runtimes(tmp_path: Path, compiler: str, kind: str) -> None:
    if kind == "leak":  # clang has no shared one
        compiler = "gcc"
    program = compiled(tmp_path, compiler, kind)
    alone = run([program], compiler, LD_PRELOAD="")
    assert alone == (0, "ran 1\n", "") or kind == "thread", "clang 14's for threads does not start on every kernel"
    assert run([program], compiler) == alone
    assert KINDS[kind] in run([program, "wrong"], compiler)[2]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_script_that_sets_options_anew(tmp_path: Path, compiler: str) -> None:
    """The script replaces ASAN_OPTIONS, and with it what the plugin added."""
    program = compiled(tmp_path, compiler, "address")
    script = f"ASAN_OPTIONS=detect_leaks=0 exec {program}"
    assert run(["sh", "-c", script], compiler) == (0, "ran 1\n", "")


def test_a_program_with_defaults_of_its_own(tmp_path: Path) -> None:
    """The task has the plugin's word in ASAN_OPTIONS."""
    program = compiled(tmp_path, "gcc", "address", PROGRAM + OWN_DEFAULTS)
    assert run([program], ASAN_OPTIONS="verify_asan_link_order=0") == (0, "ran 1\n", "")


def test_the_user_s_own_value_holds(tmp_path: Path) -> None:
    program = compiled(tmp_path, "gcc", "address")
    status, _, said = run([program], ASAN_OPTIONS="verify_asan_link_order=1")
    assert status == 1 and "does not come first" in said


@pytest.mark.parametrize("static", [["-static-libasan"], ["-static-libasan", "-static-libgcc"]])
def test_static_runtimes(tmp_path: Path, static: list[str]) -> None:
    program = compiled(tmp_path, "gcc", "address", PROGRAM)
    subprocess.run(["gcc", "-g", "-fsanitize=address", *static, "-o", program, tmp_path / "program.c"], check=True,
                   timeout=120)
    assert run([program]) == (0, "ran 1\n", "")
    assert "heap-buffer-overflow" in run([program, "wrong"])[2]


@pytest.mark.parametrize("name", ["libasan.so", "libtsan.so", "libubsan.so", "liblsan.so"])
def test_a_runtime_that_the_user_preloads(name: str) -> None:
    """As spank/policy/preload_list.c orders them."""
    asked = ["gcc", f"-print-file-name={name}"]
    runtime = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    assert run(["/bin/echo", "ran"], preload=f"{runtime}:")[:2] == (0, "ran\n")
