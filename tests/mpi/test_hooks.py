"""The idle hooks under real MPI libraries: a rank sleeps in every wait, none where a program polls; same results.

The libraries that Debian does not have come from PyPI, by name, into build/wheels. No time decides here: the partner
comes once the rank has slept, and sleeps and yields are counted. What polls cost in time is for tests/bench.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD
from tests.lib.launches import NAP, Launched
from tests.lib.libraries import BY_NAME, HOOKED, LIBRARY, Mpi
from tests.mpi.playing import (
    NO_YIELD,
    REPETITIONS,
    built,
    expected,
    flags_of,
    late,
    launched,
    of,
    options_of,
    results,
    sleepless,
    yields_counted,
)

OPAL, YIELD, UCP, LOOP, OFI = 1, 2, 4, 8, 16
NO_HOOK, LOCKED = 2, 16
HOOKS = {"openmpi": OPAL, "mpich": UCP, "openmpi-ucx": OPAL, "openmpi-5": OPAL, "mpich-4.3": UCP,
         "mpich-5": YIELD | UCP, "mpich-5-ofi": YIELD | OFI | LOOP, "mpich-5-ofi-tcp": YIELD | OFI | LOOP,
         "mpich-4.3-ofi": OFI | LOOP, "openmpi-5-ofi": OPAL | OFI, "mpich-5-abi": YIELD | UCP,
         "intel": YIELD | LOOP, "intel-ofi": YIELD | LOOP, "intel-abi": YIELD | LOOP}
WAITS = ("Recv", "Ssend", "Sendrecv", "Waitall", "Waitany", "Probe", "Barrier", "Bcast", "Alltoall", "Comm_dup",
         "Allreduce")
UNJUDGED = {"openmpi-5-ofi": ("Probe",)}  # tests/coverage.json has the reason
POLLS = 20000
BLOCKED = ("Recv", "Allreduce", "Waitany")
BINDINGS = [("openmpi", "mpi_f08"), ("openmpi", "mpi4py"), ("mpich", "mpif.h"), ("mpich", "mpi"), ("intel", "mpi4py")]
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {BUILD}")


def hooks_seen(done: Launched) -> int:
    return functools.reduce(lambda hooks, slot: hooks | slot["hooks"], done.segment["slots"], 0)


@of()
def test_every_wait_sleeps_and_no_poll_does(mpi: Mpi) -> None:
    """Polls: 20 000 rounds of Test and Iprobe, in which nothing is slept and no core is given away."""
    done = late(mpi, *WAITS, "Test", preload=yields_counted(mpi))
    seen = done.seen()
    assert results(seen).items() >= expected(WAITS).items()
    assert sleepless(seen, tuple(name for name in WAITS if name not in UNJUDGED.get(mpi.name, ()))) == {}
    assert (seen["Test"].sleeps, seen["Test"].ends) == ([0] * REPETITIONS, "p" * REPETITIONS)
    assert hooks_seen(done) == HOOKS[mpi.name] and not any(flag & (NO_HOOK | LOCKED) for flag in flags_of(done))


def is_locked(mpi: Mpi) -> bool:
    return HOOKS[mpi.name] in (UCP, OFI | LOOP) or mpi.name.startswith("intel")


@of()
def test_a_thread_polls_beside_one_that_waits(mpi: Mpi) -> None:
    """The thread that waits naps unless the runtime's lock is held there; the one that polls never naps. Nor does one
    alone that might have others: of MPICH 5 that switches yields on."""
    locked = is_locked(mpi)
    words = [built(mpi, "polls"), POLLS, -1 if locked else 3, "none", *BLOCKED]
    done = launched(mpi, words, NAP, options=options_of(mpi), preload=yields_counted(mpi))
    rows = [line.split() for line in done.output.splitlines()]
    assert [row[0] for row in rows] == ["none", *BLOCKED] and {row[4] for row in rows} == {"4711"}
    alone, *beside = [(int(row[2]), int(row[3])) for row in rows]
    assert alone == (0, 0)
    assert [polling for polling, _ in beside] == [0] * len(BLOCKED)
    assert bool(flags_of(done)[1] & LOCKED) == locked
    assert max(waiting for _, waiting in beside) == 0 if locked else min(waiting for _, waiting in beside) >= 3


@of()
def test_ranks_that_only_ask_rest_and_serve_each_other(mpi: Mpi) -> None:
    """polls=on, and 60 exchanges of a megabyte in loops of Testall: each needs what the other does in its loop."""
    done = launched(mpi, [built(mpi, "asking"), 60, 1 << 20], f"{NAP};polls=1", options=options_of(mpi))
    assert sorted(done.output.splitlines()) == ["0 good=60", "1 good=60"]
    for slot in done.segment["slots"]:
        lane = slot["lane"][0]
        assert lane["calls"]["Testall"]["waits"] > 0 and lane["naps"]["nap"] > 0
        assert slot["hooks"] & LOOP


@pytest.mark.parametrize(("name", "binding"), BINDINGS)
def test_every_binding_waits_by_the_same_hooks(name: str, binding: str) -> None:
    """One of each with each kind of runtime; the matrix has them all."""
    functions = ("Recv", "Waitany", "Allreduce", "Comm_dup")
    done = late(BY_NAME[name], *functions, binding=binding)
    assert results(done.seen()) == expected(functions, binding)
    assert sleepless(done.seen(), functions) == {}
    assert [slot["rank"] for slot in done.segment["slots"]] == [0, 1]
    for slot in done.segment["slots"]:
        for lane in slot["lane"]:
            waited = sum(call["wait_ns"] for call in lane["calls"].values())
            assert sum(lane["asleep_ns"].values()) <= waited


@of("mpich-5", "intel")
def test_no_child_sees_what_was_switched_on(mpi: Mpi) -> None:
    words = [built(mpi, "environment"), "MPIR_CVAR_CH4_PROGRESS_THROTTLE", "I_MPI_WAIT_MODE"]
    output = launched(mpi, words).output
    assert "is there" not in output and output.count("I_MPI_WAIT_MODE unset") == 2


@pytest.mark.parametrize("by", ["variable", "file"])
@pytest.mark.parametrize("config", [NAP, "rungs=none;profile=1"], ids=["nap", "profile"])
def test_idle_polls_that_sleep_are_not_switched_on(by: str, config: str, tmp_path: Path) -> None:
    """However Open MPI 5 was told: its parameter files count as well."""
    setting = ("threads_pthreads_yield_strategy", "nanosleep")
    parameters = tmp_path / "parameters"
    parameters.write_text(" = ".join(setting) + "\n")
    words = setting if by == "variable" else ("mca_base_param_files", str(parameters))
    done = launched(BY_NAME["openmpi-5"], [built(BY_NAME["openmpi-5"], "pingpong"), "20"], config,
                    options=(*NO_YIELD, "--mca", *words))
    # Calls that burn for long, as on a busy machine, get a loop of the library's own.
    assert all(flag & NO_HOOK for flag in flags_of(done)) and not hooks_seen(done) & ~LOOP


@pytest.mark.parametrize(("name", "setting"), [("intel", "I_MPI_THREAD_YIELD=3"),
                                               ("mpich-5-ofi", "MPICH_ENABLE_HEAVY_YIELD=1")])
def test_a_runtime_that_was_told_to_sleep_is_left_alone(name: str, setting: str) -> None:
    """The runtime sleeps by itself in its idle polls. No hook is said to see them, but for libfabric's."""
    mpi = next(mpi for mpi in HOOKED if mpi.name == name)
    done = launched(mpi, [built(mpi, "pingpong"), "20"], NAP, prefix=("env", setting))
    assert all(bool(flag & NO_HOOK) == (name == "intel") for flag in flags_of(done)) and not hooks_seen(done) & YIELD


@of("openmpi", "mpich", "mpich-5-abi", "intel")
def test_a_barrier_before_collectives_changes_no_result(mpi: Mpi) -> None:
    calls = ("Barrier", "Alltoall", "Allreduce", "Bcast")
    done = late(mpi, *calls, config=f"{NAP};ibarrier=1")
    assert results(done.seen()) == expected(calls) and hooks_seen(done) & LOOP
    assert sleepless(done.seen(), calls) == {}
