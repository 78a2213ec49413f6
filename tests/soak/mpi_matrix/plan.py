"""What the matrix runs: functions x MPI libraries x bindings x policies, all of it or a pairwise cover."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lib.emulate import emulation
from tests.lib.libraries import BINDINGS, BUILD, LIBRARY, MPIS, OVER_OFI, ROOT, Mpi, Unavailable

PLAYED = (*MPIS, *OVER_OFI)
COVERAGE = ROOT / "tests/coverage.json"
FLAT = BUILD / "tests/lib/doubles/policy_flat"
EMULATOR = BUILD / "tests/lib/emulate/libmpiwait-emulate.so"
JUDGED = "nap"  # the policy by which cells are judged: it runs everywhere
SPAWN = "Comm_spawn"  # leaves processes behind, and is launched alone
LAST = "Finalize"  # part of every launch
EVERY = 4  # in a cover, a policy that is not judged plays every so many functions of a library and binding
EMULATED = {"umwait": "waitpkg", "mwaitx": "monitorx"}


@dataclass(frozen=True)
class Row:
    """One launch: some functions of one library and binding under one policy."""

    mpi: Mpi
    binding: str
    policy: str
    functions: tuple[str, ...]


@functools.cache
def coverage() -> dict:
    return json.loads(COVERAGE.read_text())


@functools.cache
def policies(features: str = "") -> dict[str, str]:
    """Flat string by name, for every shipped policy that can run here; with features, on an emulated processor."""
    environment = dict(os.environ)
    if features:
        environment.update(emulation.environment(features, "/dev/null", [FLAT]), LD_PRELOAD=str(EMULATOR))
    done = subprocess.run([FLAT, ROOT / "policies"], capture_output=True, text=True, check=True, env=environment,
                          timeout=30)
    lines = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {name: flat for name, flat in lines if flat.startswith("v=")}


@functools.cache
def policy_reasons() -> dict[str, str]:
    """Why the others cannot."""
    done = subprocess.run([FLAT, ROOT / "policies"], capture_output=True, text=True, check=True, timeout=30)
    lines = (line.split(" - ", 1) for line in done.stdout.splitlines() if " - " in line)
    return dict(lines)


def policy_variables(policy: str, counters: Path) -> dict[str, str]:
    """What a rank needs for a policy; "none": not even our library."""
    if policy == "none":
        return {}
    if policy not in EMULATED or policy in policies():
        return {"LD_PRELOAD": str(LIBRARY), "MPI_WAIT_CONFIG": policies()[policy]}
    if emulation.clock_reason() or not EMULATOR.exists():
        raise Unavailable(emulation.clock_reason() or "the emulator is not built")
    features = EMULATED[policy]
    counters.mkdir(parents=True, exist_ok=True)
    return {"LD_PRELOAD": f"{LIBRARY}:{EMULATOR}", "MPI_WAIT_CONFIG": policies(features)[policy],
            **emulation.environment(features, counters, [LIBRARY])}


def lists(kind: str, function: str, mpi: str, binding: str) -> str | None:
    """The reason for which a cell is in that list of coverage.json, if it is."""
    for entry in coverage()[kind]:
        wanted = (("functions", function), ("mpis", mpi), ("bindings", binding))
        if all(key not in entry or value in entry[key] for key, value in wanted):
            return entry["reason"]
    return None


def functions_of(mpi: Mpi, binding: str) -> tuple[str, ...]:
    return tuple(name for name in coverage()["functions"] if not lists("absent", name, mpi.name, binding))


def pairs(mpis: Iterable[str]) -> Iterator[tuple[Mpi, str]]:
    """Over libfabric, the bindings are those of the same library."""
    for mpi in PLAYED:
        for binding in BINDINGS if mpi in MPIS else ("C",):
            if mpi.name in mpis and (binding in ("C", "mpi4py") or binding in mpi.fortran):
                yield mpi, binding


def is_in_cover(number: int, mpi: Mpi, binding: str, policy: int) -> bool:
    """What only few can play is played by the first library that can."""
    name = coverage()["functions"][number]
    if name in ("recv", SPAWN):
        return mpi == next(other for other in PLAYED if name in functions_of(other, binding))
    return (number + PLAYED.index(mpi) + BINDINGS.index(binding) + policy) % EVERY == 0


def rows(mpis: Iterable[str], names: Iterable[str], complete: bool) -> Iterator[Row]:
    """The judged policy plays every function everywhere, the others all too, or their share of a pairwise cover."""
    chosen = [name for name in ("none", *policies(), *EMULATED) if name in names]
    for mpi, binding in pairs(mpis):
        functions = functions_of(mpi, binding)
        for policy in dict.fromkeys(chosen):
            if policy == "none" or (policy in EMULATED and policy not in policies() and binding != "C"):
                continue
            played = tuple(
                name for number, name in enumerate(coverage()["functions"])
                if name in functions
                and (complete or policy == JUDGED or is_in_cover(number, mpi, binding, chosen.index(policy))))
            yield from split(Row(mpi, binding, policy, played))


def spawning(mpi: Mpi) -> Mpi:
    """By UCX, MPICH 5 does not reach what it spawned in one launch of twenty or so, without the library too."""
    return replace(mpi, variables={**mpi.variables, "MPIR_CVAR_CH4_NETMOD": "ofi"}) if mpi.name == "mpich-5" else mpi


def split(row: Row) -> Iterator[Row]:
    """Comm_spawn by itself, and only in C."""
    together = tuple(name for name in row.functions if name != SPAWN)
    if together:
        yield Row(row.mpi, row.binding, row.policy, together)
    if SPAWN in row.functions and row.binding == "C":
        yield Row(spawning(row.mpi), row.binding, row.policy, (SPAWN,))
