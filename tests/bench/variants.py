"""The variants that are compared: no library, the MPI's own settings, the library's policies; and how each is
launched."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.bench.engine import Failure
from tests.lib import launches
from tests.lib.libraries import BUILD, HOOKED, LIBRARY, MPIS, ROOT, Mpi, Unavailable, execute
from tests.soak.mpi_matrix.plan import policies

PROGRAMS = Path(__file__).resolve().parent / "programs"
BUILT = BUILD / "tests/bench/programs"
TIMEOUT_S = 60
SEGMENT_SLOTS = 64
CARRIED = ROOT / "carried.json"
"""Written by tests/bench/carry into a directory with all that is needed: nothing is built or installed there."""
BARE = "no library"
LADDER = "ladder"
"""nap as a site's policy without slowdown_percent: nothing is forecast."""
COUNTER = "counting tool"
BY_NAME = {mpi.name: mpi for mpi in MPIS}
WITH_VARIANTS = {mpi.name: mpi for mpi in HOOKED} | BY_NAME
"""Also over UCX and libfabric, and of other releases."""
UCX = ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any")

before_all: tuple[str, ...] = ()  # with --undisturbed: chrt, before every rank
only: tuple[str, ...] = ()  # with --mpi: the only libraries to measure; empty: all


@dataclass(frozen=True)
class Variant:
    """A variant. `options` are the launcher's, `variables` the ranks'."""

    name: str
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict, hash=False)


def yield_option(on: bool) -> tuple[str, ...]:
    """Returns the option that turns yielding on or off. It is always passed: without it Open MPI decides by the number
    of slots."""
    return ("--mca", "mpi_yield_when_idle", "1" if on else "0")


# Each MPI's own setting to burn less CPU time. Debian's MPICH 4.0 has none that works.
KNOBS = {
    "openmpi": Variant("mpi_yield_when_idle", yield_option(True)),
    "openmpi-5": Variant("mpi_yield_when_idle", yield_option(True)),
    "mpich-5": Variant("heavy yield", (), {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}),
    "intel": Variant("I_MPI_WAIT_MODE", (), {"I_MPI_WAIT_MODE": "1", "I_MPI_THREAD_YIELD": "3",
                                                    "I_MPI_SPIN_COUNT": "7"}),
}


def base_options(mpi: Mpi) -> tuple[str, ...]:
    return yield_option(False) if mpi.abi == "openmpi" else ()


def bare(mpi: Mpi) -> Variant:
    return Variant(BARE, base_options(mpi))


def knob(mpi: Mpi) -> list[Variant]:
    return [KNOBS[mpi.name]] if mpi.name in KNOBS else []


def without_account(flat: str) -> str:
    return re.sub(";slowdown_ppm=[0-9]+", "", flat)


def config_of(policy: str, shared: bool = False, profile: bool = False) -> str:
    """Returns a policy's configuration. shared: as slurmstepd writes it for tasks that have fewer cores than tasks."""
    named = policies()["nap" if policy == LADDER else policy]
    flat = (without_account(named) if policy == LADDER else named).replace("shared=0", f"shared={int(shared)}")
    return flat.replace("profile=0", "profile=1") if profile else flat


def policy(mpi: Mpi, name: str, shared: bool = False) -> Variant:
    config = config_of(name, shared, profile=name == "profile")
    return Variant(name, base_options(mpi), {"LD_PRELOAD": str(LIBRARY), "MPI_WAIT_CONFIG": config})


def policy_variants(mpi: Mpi, names: tuple[str, ...], shared: bool = False) -> list[Variant]:
    return [policy(mpi, name, shared) for name in names if name == LADDER or name in policies()]


def counter(mpi: Mpi) -> Variant:
    return Variant(COUNTER, base_options(mpi), {"LD_PRELOAD": str(BUILT / "count.so")})


def source_of(name: str) -> Path:
    if name in ("late-sender", "unbalanced"):
        return ROOT / f"contrib/{name}.c"
    return ROOT / f"tests/lib/programs/{name}.c" if name == "pingpong" else PROGRAMS / f"{name}.c"


@functools.cache
def program(mpi: Mpi, name: str, *options: str) -> Path:
    """Returns a program, built with the library's compiler when first asked for."""
    folder = BUILD / "tests/bench" / mpi.name
    if CARRIED.exists():
        if not (folder / name).exists():
            raise Unavailable(f"{mpi.title}: {name} was not carried here")
        return folder / name
    folder.mkdir(parents=True, exist_ok=True)
    making = folder / f".{name}.{os.getpid()}"  # another process may run the program that is there
    compiler = mpi.tool("mpicc", mpi.compiler_wheel or mpi.wheel)
    command = [compiler, "-O2", "-Wall", *options, "-o", str(making), str(source_of(name)), "-lm", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{mpi.title}: {name} does not compile: {done.stderr.strip()[-300:]}")
    making.replace(folder / name)
    return folder / name


def environment_of(mpi: Mpi) -> dict[str, str]:
    ours = ("LD_PRELOAD", "MPI_WAIT_CONFIG", "MPI_WAIT_POLICY")
    variables = {key: value for key, value in os.environ.items() if key not in ours}
    found = {**variables, **mpi.environment("C")}
    if CARRIED.exists():
        found["LD_LIBRARY_PATH"] += f":{ROOT / 'lib'}"
    return found


def rank_words(variant: Variant, prefix: tuple[str, ...] = ()) -> list[str]:
    """Returns the words before the program: the prefix (taskset), then the variables that only the program must see."""
    return [*before_all, *prefix, "env", *(f"{key}={value}" for key, value in variant.variables.items())]


def launch(mpi: Mpi, variant: Variant, ranks: int, command: list[str], options: tuple[str, ...] = (),
           prefix: tuple[str, ...] = (), timeout_s: float = TIMEOUT_S) -> str:
    """Launches a variant with a segment, as a step has one; returns its output. options: further ones of the launcher.
    prefix: words before each rank."""
    with launches.segment(max(SEGMENT_SLOTS, ranks)) as made:
        told = replace(variant, variables=launches.configured(variant.variables, made))
        words = [*mpi.launcher(), *options, *variant.options, "-n", str(ranks), *rank_words(told, prefix), *command]
        status, output, errors = execute(words, environment_of(mpi), timeout_s)
    if status != 0:
        said = " | ".join(errors.strip().splitlines()[-3:])[:400]
        raise Failure(f"{'hung' if status is None else f'exit status {status}'}: {said}")
    return output


def ucx_options(unavailable: dict[str, str]) -> tuple[str, ...]:
    """Returns Open MPI's options for UCX, empty if UCX must not be used."""
    if before_all:
        unavailable["Open MPI over UCX"] = "--undisturbed: its ranks would wait for threads that they keep from running"
        return ()
    return UCX


def available(names: tuple[str, ...], program_name: str, unavailable: dict[str, str], *options: str) -> list[Mpi]:
    """Returns the libraries that this machine has, with the program built; notes the reason for each of the others."""
    found = []
    for name in names:
        if only and name not in only:
            continue
        try:
            program(WITH_VARIANTS[name], program_name, *options)
            WITH_VARIANTS[name].launcher()
            found.append(WITH_VARIANTS[name])
        except Unavailable as reason:
            unavailable[WITH_VARIANTS[name].title] = str(reason)
    return found
