"""Beside others: another PMPI tool, other ranks on the same core, a partner with more work, and one that dies."""

from __future__ import annotations

import os
import re

import pytest

from tests.lib.launches import NAP, Launched, napping, ranks_launch
from tests.lib.libraries import LIBRARY, Mpi
from tests.mpi.playing import NO_YIELD, OPENMPI, available, built, late, launched, of, summed, yields_counted

CALLS = ("Recv", "Allreduce", "Sendrecv")
COUNTED = ("Send", "Recv", "Allreduce", "Barrier")
ROUNDS = 2000
UNBOUND = ("--bind-to", "none")
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}")


def counts_of(done: Launched) -> list[tuple[int, ...]]:
    """Of each rank, by the tool."""
    found = re.findall(r"tool (\d) Send (\d+) Recv (\d+) Allreduce (\d+) Barrier (\d+)", done.errors)
    return sorted(tuple(map(int, words)) for words in found)


@of("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")
def test_both_tools_count_every_call(mpi: Mpi) -> None:
    """Whichever is first. The program's own calls are the same everywhere; ours are in the segment."""
    tool = built(mpi, "tool", "-shared", "-fPIC")
    seen = []
    for preload in (f"{tool}:{LIBRARY}", f"{LIBRARY}:{tool}"):
        done = late(mpi, *CALLS, preload=preload)
        seen.append(counts_of(done))
        assert len(seen[-1]) == 2 and min(sum(counts) for counts in seen[-1]) > len(CALLS)
        for slot, (rank, *counts) in zip(done.segment["slots"], seen[-1]):
            calls = slot["lane"][0]["calls"]
            assert (slot["rank"], [calls.get(name, {}).get("calls", 0) for name in COUNTED]) == (rank, counts)
    assert seen[0] == seen[1]


@of("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")
@pytest.mark.parametrize("beside", ["", "tool"], ids=["alone", "before a tool"])
def test_the_time_in_finalize_counts(mpi: Mpi, beside: str) -> None:
    """The tool's MPI_Finalize calls PMPI_Finalize, after which the library only forwards."""
    behind = f":{built(mpi, beside, '-shared', '-fPIC')}" if beside else ""
    done = late(mpi, "Barrier", config=f"{NAP};profile=1", preload=f"{LIBRARY}{behind}")
    ends = [slot["lane"][0]["calls"]["Finalize"] for slot in done.segment["slots"]]
    assert len(ends) == 2 and min(end["time_ns"] for end in ends) > 0


@of("openmpi", "mpich")
@pytest.mark.parametrize("kind", ["address", "undefined"])
def test_ranks_with_a_sanitizer_nap(mpi: Mpi, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AddressSanitizer's runtime would end a program in which another library comes first. MPI leaks a little."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    done = launched(mpi, [built(mpi, "unbalanced", f"-fsanitize={kind}"), "5", "10", "1"], NAP)
    assert len(done.segment["slots"]) == 2
    assert summed(done, lambda lane: lane["naps"].get("nap", 0)) > 0


SHARED = [pytest.param(2, 1, id="2 ranks on a core"), pytest.param(4, 2, id="4 ranks on 2 cores")]
WORK = [pytest.param((str(ROUNDS),), ROUNDS, id="ping-pong"),
        pytest.param(("unbalanced", "50", "500"), 10, id="unbalanced")]  # the core may be taken from who computes


@pytest.mark.parametrize(("ranks", "cores"), SHARED)
@pytest.mark.parametrize(("words", "messages"), WORK)
def test_ranks_that_share_cores_give_them_away(ranks: int, cores: int, words: tuple[str, ...], messages: int) -> None:
    """
    By Open MPI, which is not told that the cores are shared: with more ranks than slots it would yield by itself. No
    wait holds its core by a pause, and the kernel gets a yield for every message at least.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < cores:
        pytest.skip(f"less than {cores} cores")
    how = {"ranks": ranks, "prefix": ("taskset", "-c", ",".join(map(str, cpus[:cores])))}
    command = [built(OPENMPI, "pingpong"), *words]
    bare = launched(OPENMPI, command, None, options=("--mca", "mpi_yield_when_idle", "1", *UNBOUND), **how)
    done = launched(OPENMPI, command, f"{NAP};shared=1", options=(*NO_YIELD, *UNBOUND),
                    preload=yields_counted(OPENMPI), **how)
    yields = [int(number) for number in re.findall(r"^yields (\d+)$", done.errors, re.M)]
    assert done.output.split()[2:] == bare.output.split()[2:]
    assert summed(done, lambda lane: lane["naps"].get("pause", 0)) == 0
    assert len(yields) == ranks and sum(yields) > messages
    waits = summed(done, lambda lane: sum(call["waits"] for call in lane["calls"].values()))
    print(f"{waits} waits, yields {yields}")
    if messages == ROUNDS:
        assert waits < ROUNDS / 4, "the very first polls of a call give the core away, or each message is waited for"


def test_an_unbalanced_job() -> None:
    """The rank that has less to do sleeps, and the results are the same to the bit."""
    outputs = set()
    for config in (None, NAP, "rungs=none;profile=1"):
        done = launched(OPENMPI, [built(OPENMPI, "unbalanced"), "10", "10", "1"], config)
        outputs.add(done.output)
        if not config:
            continue
        calls = done.segment["slots"][0]["lane"][0]["calls"]
        assert calls["Allreduce"]["waits"] > 0
        assert bool(summed(done, lambda lane: lane["naps"].get("nap", 0))) == (config == NAP)
    assert len(outputs) == 1


def test_a_crashed_rank_leaves_the_wait_for_it_open() -> None:
    with available():
        done = ranks_launch(OPENMPI, [built(OPENMPI, "crash"), "500"], napping())
    assert done.status not in (0, None)
    waits = [lane for slot in done.segment["slots"] for lane in slot["lane"] if lane["open_call"] == "Barrier"]
    assert len(waits) == 1 and waits[0]["open_last_ns"] > waits[0]["open_since_ns"] and waits[0]["naps"]["nap"] > 0
