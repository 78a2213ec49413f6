"""Measures OpenMP's threads while their rank waits: their CPU time, and how soon the next parallel region begins."""

from __future__ import annotations

import subprocess
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Measured, Sample, difference
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, worst
from tests.bench.variants import BARE, BUILT, Variant
from tests.lib.libraries import Mpi, Unavailable, wheel_file

NAME = "threads"
TITLE = "Ranks with OpenMP threads"
ROUNDS = (5, 1)
MPI_NAMES = ("openmpi",)
WAITS = {1: 200, 20: 30, 200: 4}  # milliseconds
WAITS_SHORT = {20: 5}
GAPS = {0: 2000, 10: 2000, 100: 1000, 1000: 200, 5000: 60}  # microseconds
GAPS_SHORT = {100: 50}
THREADS = (2, 8)
KEEP, BOUNDED, PASSIVE = "nap", "nap, bounded", "nap, passive"
INTEL = "intel-openmp==2026.2.0"
LLVM = ("/usr/lib/x86_64-linux-gnu/libomp.so.5", "/usr/lib/llvm-*/lib/libomp.so*", "/usr/lib64/libomp.so",
        "/usr/lib/aarch64-linux-gnu/libomp.so.5")


def llvm_runtime() -> Path | None:
    return next((found for pattern in LLVM for found in sorted(Path("/").glob(pattern[1:]))), None)


def runtimes_found(plan: Plan) -> dict[str, Path | None]:
    """Returns, by name, the OpenMP runtime to preload in place of GNU's, for which the program was built; None for
    GNU's."""
    found: dict[str, Path | None] = {"GNU": None}
    if llvm := llvm_runtime():
        found["LLVM"] = llvm
    else:
        plan.measured.unavailable["LLVM's OpenMP"] = "no libomp.so on this host (libomp-dev)"
    if not plan.short:
        try:
            found["Intel"] = wheel_file(INTEL, "**/libiomp5.so")
        except Unavailable as reason:
            plan.measured.unavailable["Intel's OpenMP"] = str(reason)
    return found


@cache
def spins() -> str:
    return subprocess.run([BUILT / "spins"], capture_output=True, text=True, check=True).stdout.strip()


def told(policy: str) -> dict[str, str]:
    """Returns the variables that a task gets: spank/policy/openmp.c."""
    if policy == BOUNDED:
        return {"GOMP_SPINCOUNT": spins(), "KMP_BLOCKTIME": "1"}
    return {"OMP_WAIT_POLICY": "passive"} if policy == PASSIVE else {}


def samples_read(output: str) -> list[Sample]:
    samples: list[Sample] = []
    for words in (line.split() for line in output.splitlines()):
        if len(words) == 4 and words[0] == "wait":
            figures = {"cpu_share": float(words[2]), "region_us": float(words[3])}
            samples.append(({"wait_ms": float(words[1])}, figures))
        elif len(words) == 3 and words[0] == "gap":
            samples.append(({"gap_us": float(words[1])}, {"region_us": float(words[2])}))
    return samples


def play(mpi: Mpi, variant: Variant, short: bool) -> list[Sample]:
    waits, gaps = (WAITS_SHORT, GAPS_SHORT) if short else (WAITS, GAPS)
    words = [f"{length}:{count}" for length, count in waits.items()]
    words += ["gap", *(f"{length}:{count}" for length, count in gaps.items())]
    return samples_read(variants.launch(mpi, variant, 2, [str(variants.program(mpi, "threads", "-fopenmp")), *words]))


def variant_of(mpi: Mpi, policy: str, runtime: Path | None, threads: int) -> Variant:
    base = variants.bare(mpi) if policy == BARE else variants.policy(mpi, "nap")
    preload = [word for word in (base.variables.get("LD_PRELOAD", ""), str(runtime or "")) if word]
    more = {"OMP_NUM_THREADS": str(threads), **({"LD_PRELOAD": ":".join(preload)} if preload else {}), **told(policy)}
    return Variant(policy, base.options, {**base.variables, **more})


def cells(plan: Plan) -> list[Cell]:
    runtimes = runtimes_found(plan)
    found = []
    for mpi in variants.available(MPI_NAMES, "threads", plan.measured.unavailable, "-fopenmp"):
        for name, runtime in runtimes.items():
            for threads in THREADS[:1] if plan.short else THREADS:
                found += [Cell(f"{name}, {threads} threads", policy,
                               partial(play, mpi, variant_of(mpi, policy, runtime, threads), plan.short))
                          for policy in (BARE, KEEP, BOUNDED, PASSIVE)]
    return found


def burned(measured: Measured, wait_ms: float) -> dict[str, float | None]:
    rows = {group: measured.find(group, BOUNDED, wait_ms=wait_ms) for group in measured.groups()}
    return {group: 100 * row.median("cpu_share") if row else None for group, row in rows.items()}


def added(measured: Measured, gap_us: float) -> dict[str, float | None]:
    """Returns the time that `bounded` adds to the gap and the region after it, in per cent of the gap."""
    found = {}
    for group in (group for group in measured.groups() if group.endswith(" 2 threads")):
        more = difference(measured.find(group, BOUNDED, gap_us=gap_us), measured.find(group, KEEP, gap_us=gap_us),
                          "region_us")
        found[group] = None if more is None else 100 * more / gap_us
    return found


def judged(text: str, limit: float, by_group: dict[str, float | None]) -> Target:
    why = ", ".join(f"{group} {number(value)}" for group, value in by_group.items() if value is not None)
    return at_most(text, worst([*by_group.values()]), limit, "%", why)


def targets(measured: Measured) -> list[Target]:
    return [judged("waits of 20 ms, bounded: CPU time of all threads, of their cores", 8, burned(measured, 20.0)),
            judged("waits of 200 ms, bounded: CPU time of all threads, of their cores", 8, burned(measured, 200.0)),
            judged("100 µs of serial work, bounded: what it adds to that", 1, added(measured, 100.0)),
            judged("5 ms of serial work, bounded: what it adds to that", 2, added(measured, 5000.0))]


def draw(results: dict[str, Any]) -> Any:
    groups, names = picture.groups_of(results), picture.variants_of(results["rows"])
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 2, figsize=(10, 1.2 + 0.8 * len(groups)), sharey=True)
    for axes, point, measure, factor, title in (
        (panels[0], {"wait_ms": 20.0}, "cpu_share", 100, "all threads' CPU time in waits of 20 ms,\n% of their cores"),
        (panels[1], {"gap_us": 100.0}, "region_us", 1, "a parallel region after 100 µs of serial work, µs"),
    ):
        series = {name: [figure_of(results, group, name, point, measure) for group in groups] for name in names}
        picture.bars(axes, groups, series, factor, "{:.2g}")
        axes.set_xlabel(title)
    picture.legend(figure, [panels[0]])
    return figure


def figure_of(results: dict[str, Any], group: str, variant: str, point: dict[str, float],
              measure: str) -> dict[str, float] | None:
    rows = picture.rows_of(results, group, variant, **point)
    return rows[0]["figures"].get(measure) if rows else None
