"""Which MPI functions appear to exist: the MPI's, linked or loaded, and no others; and ours stand before them."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lib.launches import NAP, environment_of, napping
from tests.lib.libraries import LIBRARY, MPIS, PROGRAMS, PYTHON, ROOT, Mpi, built, program
from tests.mpi.playing import available, of

TABLE = ROOT / "preload/contract/mpi_calls.def"
SOURCE = PROGRAMS / "names.c"
ALL = ("-Wl,--no-as-needed", f"-DTABLE={hashlib.sha256(TABLE.read_bytes()).hexdigest()[:8]}", "-ldl")
FIXED = ("-no-pie", "-fno-pie")
CTYPES = """
import ctypes, json, sys
mode, path, names = int(sys.argv[1]), sys.argv[2], json.loads(sys.stdin.read())
before = [hasattr(ctypes.CDLL(None), name) for name in names]
library = ctypes.CDLL(path, mode)
print(json.dumps([before, [hasattr(ctypes.CDLL(None), name) for name in names],
                  [hasattr(library, name) for name in names]]))
"""
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


@dataclass(frozen=True)
class Name:
    """How a function is found, by weak reference, dlsym and dlvsym, in which file, and whether dlsym had an error."""

    weak: str
    found: str
    versioned: str
    error: str

    def presence(self) -> tuple[bool, bool, bool, str]:
        return self.weak != "-", self.found != "-", self.versioned != "-", self.error


def variables_of(mpi: Mpi, config: str | None, **more: str) -> dict[str, str]:
    """Of a process with the library (config "": without a configuration), or without it."""
    ours = {} if config is None else napping(config) if config else {"LD_PRELOAD": str(LIBRARY)}
    return {**environment_of(mpi), **ours, **more}


def ask(mpi: Mpi, command: list[str | Path], config: str | None, **more: str) -> dict[str, Name]:
    done = subprocess.run([str(word) for word in command], env=variables_of(mpi, config, **more), capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr or done.stdout
    return {words[0]: Name(*words[1:]) for words in map(str.split, done.stdout.splitlines())}


def compare(mpi: Mpi, command: list[str | Path], **more: str) -> dict[str, set[str]]:
    """The same names with the library as without. Returns whose functions the present ones are, by way of finding."""
    bare = ask(mpi, command, None, **more)
    assert len(bare) > 700 and sum(name.weak != "-" for name in bare.values()) > 300
    owners = {}
    for config in ("", NAP):
        seen = ask(mpi, command, config, **more)
        assert {name: how.presence() for name, how in seen.items()} == {
            name: how.presence() for name, how in bare.items()}
        owners[config] = {owner for how in seen.values() for owner in (how.weak, how.found)} - {"-"}
    return owners


def library(mpi: Mpi) -> Path:
    with available():
        return program(mpi, "names", *ALL, "-shared", "-fPIC", "-DNAMES_LIBRARY")


def host(*options: str) -> Path:
    """A program without MPI."""
    return built("names-host", ["gcc", "-O2", f"-I{ROOT}", *ALL, *options], [SOURCE])


@functools.cache
def libmpi(mpi: Mpi) -> str:
    needed = subprocess.run(["objdump", "-p", library(mpi)], capture_output=True, text=True, check=True).stdout
    return next(line.split()[1] for line in needed.splitlines() if "NEEDED" in line and "libmpi" in line)


@of(*(mpi.name for mpi in MPIS))
@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_program_that_is_linked_to_mpi_sees_what_the_mpi_has(mpi: Mpi, binding: str) -> None:
    with available():
        linked = program(mpi, "names", *ALL, f"-Wl,-z,{binding}")
        fixed = program(mpi, "names", *ALL, f"-Wl,-z,{binding}", *FIXED)
    assert compare(mpi, [linked])[NAP] == {LIBRARY.name}, "newer functions too, whose references were bound past us"
    compare(mpi, [fixed])


@of(*(mpi.name for mpi in MPIS))
def test_a_library_that_is_linked_sees_what_the_mpi_has(mpi: Mpi) -> None:
    """It is bound before ours is."""
    shared = library(mpi)
    caller = built(f"names-caller-{mpi.name}", ["gcc", "-DNAMES_CALLER", f"-Wl,-rpath,{shared.parent}",
                                                "-Wl,--allow-shlib-undefined"], [SOURCE], (str(shared),))
    assert compare(mpi, [caller])[NAP] == {LIBRARY.name}


@of(*(mpi.name for mpi in MPIS))
@pytest.mark.parametrize("binding", ["lazy", "now"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_library_that_is_loaded_sees_what_the_mpi_has(mpi: Mpi, binding: str, scope: str) -> None:
    """Its references are bound in the dlopen that brings MPI. Without a configuration we do not stand before it."""
    owners = compare(mpi, [host(), binding, scope, library(mpi)])
    assert owners[NAP] == {LIBRARY.name} and LIBRARY.name not in owners[""]
    owners = compare(mpi, [host(), binding, scope, library(mpi)], LD_BIND_NOW="1")
    assert owners[NAP] == {LIBRARY.name}


@of(*(mpi.name for mpi in MPIS))
def test_a_library_that_is_loaded_after_mpi_sees_what_it_has(mpi: Mpi) -> None:
    plain = host("-shared", "-fPIC", "-DNAMES_LIBRARY")
    assert compare(mpi, [host(), "lazy", "global", libmpi(mpi), plain])[NAP] == {LIBRARY.name}


def test_without_mpi_there_is_nothing() -> None:
    plain = host("-shared", "-fPIC", "-DNAMES_LIBRARY")
    for command in ([host()], [host(), "now", "global", plain]):
        for config in (None, "", NAP):
            seen = {how.presence() for how in ask(MPIS[0], command, config).values()}
            assert seen == {(False, False, False, "error")}


@of(*(mpi.name for mpi in MPIS))
@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_pythons_ctypes_sees_what_the_mpi_has(mpi: Mpi, scope: str) -> None:
    """Loaded for its user alone, an MPI is seen by all, as far as it goes; what it lacks is seen by nobody."""
    names = list(ask(MPIS[0], [host()], None))
    seen = []
    for config in (None, NAP):
        done = subprocess.run([PYTHON, "-c", CTYPES, "256" if scope == "RTLD_GLOBAL" else "0", libmpi(mpi)],
                              input=json.dumps(names), env=variables_of(mpi, config), capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        seen.append(json.loads(done.stdout))
    (before, everywhere, within), (_, ours, _) = seen
    assert not any(before) and seen[1][0] == before and seen[1][2] == within
    assert ours == (everywhere if scope == "RTLD_GLOBAL" else within) and sum(within) > 300
