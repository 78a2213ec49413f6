"""Beside others: another PMPI tool, another thread of the rank, and other ranks on the same core."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, NAP, ROOT, run
from tests.lib.libraries import MPIS, Mpi, Unavailable, execute

PAIRS, PAIRS_MOST = 3, 9
# The aims are 50 % of the rate, and 1.25 times the time. The bounds leave room for a small virtual machine that does
# other things too; a nap in the wrong place, or a pause where a yield belongs, shows as a few hundredths, or tenfold.
THREAD_RATE, YIELD_RATE, YIELD_TIME = 0.10, 0.30, 2.5
OPENMPI = MPIS[0]
every_mpi = pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not LIBRARY.exists(), reason=f"not built: {LIBRARY}"),
]


@cache
def built(mpi: Mpi, name: str, *options: str) -> Path:
    folder = BUILD / "tests/beside" / mpi.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        compiler = mpi.tool("mpicc", mpi.compiler_wheel or mpi.wheel)
    except Unavailable as reason:
        pytest.skip(str(reason))
    source = ROOT / f"tests/lib/programs/{name}.c"
    command = [compiler, "-O2", "-Wall", "-pthread", *options, "-o", folder / name, source]
    subprocess.run(command, check=True, timeout=60)
    return folder / name


def launched(mpi: Mpi, words: list, variables: dict[str, str], ranks: int = 2, prefix: tuple[str, ...] = ()) -> str:
    try:
        environment = dict(os.environ, **mpi.environment("C"))
        set_by = [f"{name}={value}" for name, value in variables.items()]
        command = [*prefix, *mpi.launcher(), "-n", str(ranks), "env", *set_by, *words]
    except Unavailable as reason:
        pytest.skip(str(reason))
    status, output, errors = execute([str(word) for word in command], environment, 120)
    assert status == 0, errors
    return output + errors


def napping(more: str = "") -> dict[str, str]:
    return {"LD_PRELOAD": str(LIBRARY), "MPI_WAIT_CONFIG": f"v=1;{NAP}{more}"}


def median_until(pair: Callable[[], float], fine: Callable[[float], bool]) -> list[float]:
    """Of an odd number of pairs the median counts; if it does not do, more of them."""
    ratios = [pair() for _ in range(PAIRS)]
    while not fine(statistics.median(ratios)) and len(ratios) < PAIRS_MOST:
        ratios += [pair(), pair()]
    return ratios


@every_mpi
@pytest.mark.parametrize("order", ["before", "after"])
def test_another_tool_counts_every_call(mpi: Mpi, order: str) -> None:
    tool, program = built(mpi, "tool", "-shared", "-fPIC"), built(mpi, "late_calls")
    words = [program, "2", "3", "Recv", "Allreduce", "Sendrecv"]
    alone = launched(mpi, words, {"LD_PRELOAD": str(tool)})
    both = (tool, LIBRARY) if order == "before" else (LIBRARY, tool)
    beside = launched(mpi, words, {**napping(), "LD_PRELOAD": ":".join(map(str, both))})
    counts = sorted(re.findall(r"tool \d Send.*", beside))
    assert len(counts) == 2 and counts == sorted(re.findall(r"tool \d Send.*", alone))
    assert "Recv 3" in beside and "Allreduce 3" in beside


def test_both_tools_count_the_same() -> None:
    """Ours from the segment."""
    tool, program = built(OPENMPI, "tool", "-shared", "-fPIC"), built(OPENMPI, "late_calls")
    done, segment = run([*OPENMPI.launcher(), "-n", "2", program, "2", "3", "Recv", "Allreduce"], NAP, preload=tool)
    assert done.returncode == 0, done.stderr
    for slot in segment["slots"]:
        calls = slot["lane"][0]["calls"]
        counted = re.search(rf"tool {slot['rank']} Send (\d+) Recv (\d+) Allreduce (\d+) Barrier (\d+)", done.stderr)
        ours = [calls.get(name, {}).get("calls", 0) for name in ("Send", "Recv", "Allreduce", "Barrier")]
        assert ours == [int(number) for number in counted.groups()]


def rate(mpi: Mpi, call: str, variables: dict[str, str]) -> float:
    words = launched(mpi, [built(mpi, "poll_rate"), "thread", call], variables).split()
    assert words[words.index("words") + 1:][:2] == ["4711", "4711"]
    return float(words[words.index("rate") + 1])


@every_mpi
@pytest.mark.parametrize(
    "call",
    ["Recv", pytest.param("Allreduce", marks=pytest.mark.long), pytest.param("Waitany", marks=pytest.mark.long)],
)
def test_a_thread_that_polls_keeps_its_rate(mpi: Mpi, call: str) -> None:
    def pair() -> float:
        return rate(mpi, call, napping()) / rate(mpi, call, {})

    ratios = median_until(pair, lambda median: median >= THREAD_RATE)
    print(f"{mpi.name}: poll rate beside a thread in {call}", [f"{ratio:.2f}" for ratio in ratios])
    assert statistics.median(ratios) >= THREAD_RATE


SHARED = [pytest.param(2, 1, id="2 ranks on a core"), pytest.param(4, 2, id="4 ranks on 2 cores")]


def figure(ranks: int, cores: int, variables: dict[str, str], *words: str) -> float:
    """By Open MPI, which is not told that the cores are shared: with more ranks than slots it would yield by itself."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < cores:
        pytest.skip(f"less than {cores} cores")
    prefix = ("taskset", "-c", ",".join(map(str, available[:cores])))
    flags = ["--bind-to", "none"]
    mpi = Mpi(OPENMPI.name, OPENMPI.title, OPENMPI.abi, suffix=OPENMPI.suffix, options=(*OPENMPI.options, *flags))
    yields = {"OMPI_MCA_mpi_yield_when_idle": "0", **variables}
    output = launched(mpi, [built(OPENMPI, "pingpong"), *words], yields, ranks, prefix).split()
    assert output[0] in ("rate", "wall_s") and output[2] == "sum"
    return float(output[1])


YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}


@pytest.mark.parametrize(("ranks", "cores"), SHARED)
def test_ranks_that_share_cores_bounce_as_fast_as_with_yields(ranks: int, cores: int) -> None:
    def pair() -> float:
        return figure(ranks, cores, napping(";shared=1"), "5000") / figure(ranks, cores, YIELDING, "5000")

    ratios = median_until(pair, lambda median: median >= YIELD_RATE)
    print("ping-pong rate against yield_when_idle", [f"{ratio:.2f}" for ratio in ratios])
    assert statistics.median(ratios) >= YIELD_RATE


@pytest.mark.parametrize(("ranks", "cores"), SHARED)
def test_unbalanced_ranks_that_share_cores_take_as_long_as_with_yields(ranks: int, cores: int) -> None:
    words = ("unbalanced", "300", "500")

    def pair() -> float:
        return figure(ranks, cores, napping(";shared=1"), *words) / figure(ranks, cores, YIELDING, *words)

    ratios = median_until(pair, lambda median: median <= YIELD_TIME)
    print("time of unbalanced steps against yield_when_idle", [f"{ratio:.2f}" for ratio in ratios])
    assert statistics.median(ratios) <= YIELD_TIME
