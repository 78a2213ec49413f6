"""What the tests of this folder launch: a machine that lacks an MPI library makes the test a skip with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.lib.launches import NAP, WAIT_MS, Absence, Launched, Seen, late_launch, napping, ranks_launch
from tests.lib.libraries import BY_NAME, HOOKED, LIBRARY, Mpi, Unavailable, program

REPETITIONS = 2
SLEPT = {"n", "s"}
OPENMPI = BY_NAME["openmpi"]
BY_HOOKED = {mpi.name: mpi for mpi in HOOKED}
EVENT = "rungs=pause+nap+event;spin_ns=20000;relative_ppm=62500;absolute_ns=0;max_ns=100000;rma_ns=10000"
SPINS = dict.fromkeys(("intel", "intel-abi", "intel-ofi"), ("Finalize",))  # tests/coverage.json has the reason
NO_YIELD = ("--mca", "mpi_yield_when_idle", "0")  # Open MPI decides by itself where more ranks than cores are asked for


@contextmanager
def available() -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))


def of(*names: str) -> pytest.MarkDecorator:
    """For each of these libraries; none: all."""
    chosen = [mpi for mpi in HOOKED if not names or mpi.name in names]
    assert not names or len(chosen) == len(names)
    return pytest.mark.parametrize("mpi", chosen, ids=lambda mpi: mpi.name)


def built(mpi: Mpi, name: str, *options: str) -> Path:
    with available():
        return program(mpi, name, *options)


def yields_counted(mpi: Mpi) -> str:
    """What to preload to count the yields that reach the kernel too."""
    return f"{LIBRARY}:{built(mpi, 'yields', '-shared', '-fPIC')}"


def options_of(mpi: Mpi) -> tuple[str, ...]:
    return NO_YIELD if mpi.abi == "openmpi" else ()


def launched(mpi: Mpi, command: list, config: str | None = NAP, *, options: tuple[str, ...] = (),
             preload: str | None = None, ends: Absence | None = None, folder: str = "", **how) -> Launched:
    """`preload` instead of the library alone; `folder` for the ranks' page. Fails with what it said, if it does."""
    variables = {**(napping(config) if config else {}), **(ends or Absence()).variables()}
    if folder:
        variables["LATE_FOLDER"] = folder
    if preload is not None:
        variables["LD_PRELOAD"] = preload
    with available():
        done = ranks_launch(mpi, command, variables, options=options, **how)
    assert done.status == 0, done.errors or done.output
    return done


def late(mpi: Mpi, *functions: str, binding: str = "C", config: str | None = NAP, repetitions: int = REPETITIONS,
         ends: Absence | None = None, options: tuple[str, ...] = (), preload: str | None = None) -> Launched:
    """Each of these functions, to which rank 0 comes once rank 1 has slept. Without config it comes 1 ms late."""
    ends = ends or Absence(spins=SPINS.get(mpi.name, ()))
    arguments = [str(WAIT_MS if config else 1), str(repetitions), *functions]
    variables = {**napping(config), "LD_PRELOAD": preload or str(LIBRARY)} if config else {}
    with available():
        done = late_launch(mpi, binding, arguments, variables, 100, ends=ends if config else None,
                           options=(*options_of(mpi), *options))
    assert done.status == 0, done.errors or done.output
    assert set(done.seen()) == {*functions, "Finalize"}
    return done


@cache
def expected(functions: tuple[str, ...], binding: str = "C", repetitions: int = REPETITIONS) -> dict[str, str]:
    """What they give without the library under Open MPI: it is the same everywhere."""
    return results(late(OPENMPI, *functions, binding=binding, config=None, repetitions=repetitions).seen())


def results(seen: dict[str, Seen]) -> dict[str, str]:
    return {name: each.result for name, each in seen.items()}


def sleepless(seen: dict[str, Seen], functions: tuple[str, ...]) -> dict[str, Seen]:
    """Those of the functions in which a wait had no sleep."""
    return {name: seen[name] for name in functions if not set(seen[name].ends) <= SLEPT or min(seen[name].sleeps) < 1}


def flags_of(done: Launched) -> list[int]:
    return [slot["flags"] for slot in done.segment["slots"]]


def summed(done: Launched, what: Callable[[dict], int]) -> int:
    return sum(what(lane) for slot in done.segment["slots"] for lane in slot["lane"])
