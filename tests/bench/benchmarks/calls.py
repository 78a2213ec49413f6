"""Measures the cost of calls that hardly wait: instructions and nanoseconds, one-way latency, messages per second."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import binding, picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample, difference, quantile, ratio
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_least, at_most, least, number, worst
from tests.bench.variants import BARE, COUNTER, Variant
from tests.lib.libraries import BUILD, LIBRARY, Mpi

NAME = "calls"
TITLE = "Calls that do not wait"
ROUNDS = (5, 1)
INSTRUCTIONS = "instructions"
DRIVER = BUILD / "tests/lib/doubles/preload_driver"
SCENES = {"short": "MPI_Barrier", "sends": "MPI_Send"}
SCENE_CALLS = 10000  # calls that scene_more makes beyond those of scene
REPETITIONS = (31, 5)
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel")
TSC = ";tsc_khz=2000000"  # any rate will do: only instructions are counted
NOISE = 1.02  # tolerance of "not slower"


def rates_read(output: str) -> list[Sample]:
    lines = [line.split() for line in output.splitlines() if len(line.split()) == 2]
    return [({}, {name: quantile([float(value) for value in values.split(",")], 0.5) for name, values in lines})]


def play(mpi: Mpi, variant: Variant, repetitions: int) -> list[Sample]:
    clock = "tsc" if "tsc_khz=" in variant.variables.get("MPI_WAIT_CONFIG", "") else "clock"
    command = [str(variants.program(mpi, "rates")), clock, str(repetitions)]
    return rates_read(binding.launch(mpi, variant, 2, command))


def counted(scene: str, environment: dict[str, str]) -> int:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(DRIVER), scene]
        done = subprocess.run(command, env=dict(os.environ, **environment), capture_output=True, text=True,
                              timeout=variants.TIMEOUT_S, check=False)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M) if out.exists() else None
        if done.returncode or not found:
            raise Failure(f"callgrind: {done.stderr.strip()[-200:]}")
        return int(found[1])


@functools.cache
def instructions(library: str, config: str) -> list[Sample]:
    """Returns the instructions per call of the fake MPI. The count is always the same, so it is taken once."""
    environment = {"LD_PRELOAD": library, "MPI_WAIT_CONFIG": config} if config else {"LD_PRELOAD": library}
    return [({"call": call}, {"instructions": (counted(scene + "_more", environment) - counted(scene, environment))
                              / SCENE_CALLS}) for scene, call in SCENES.items()]


def instruction_cells(plan: Plan) -> list[Cell]:
    if not shutil.which("valgrind"):
        plan.measured.unavailable["instructions per call"] = "no valgrind"
        return []
    clock = "" if "tsc_khz=" in variants.config_of("nap") else TSC
    library = str(LIBRARY)
    kinds = {BARE: ("", ""), COUNTER: (str(variants.BUILT / "count.so"), ""),
             "nap": (library, variants.config_of("nap")),
             "profile": (library, variants.config_of("nap", profile=True) + clock)}
    return [Cell(INSTRUCTIONS, name, partial(instructions, *kind)) for name, kind in kinds.items()]


def cells(plan: Plan) -> list[Cell]:
    found = instruction_cells(plan)
    names = ("openmpi", "mpich") if plan.short else MPI_NAMES
    for mpi in variants.available(names, "rates", plan.measured.unavailable):
        compared = [variants.bare(mpi), variants.counter(mpi), *variants.policy_variants(mpi, ("nap", "profile"))]
        found += [Cell(mpi.name, variant.name, partial(play, mpi, variant, REPETITIONS[plan.short]))
                  for variant in compared]
    return found


def named(values: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in values.items() if value is not None)


def added_instructions(measured: Measured, variant: str) -> dict[str, float | None]:
    return {call: difference(measured.find(INSTRUCTIONS, variant, call=call),
                             measured.find(INSTRUCTIONS, BARE, call=call), "instructions")
            for call in SCENES.values()}


def libraries(measured: Measured) -> list[str]:
    return [group for group in measured.groups() if group != INSTRUCTIONS]


def added_ns(measured: Measured, variant: str, less_clock: bool = False) -> dict[str, float | None]:
    found = {}
    for group in libraries(measured):
        row, bare = measured.find(group, variant), measured.find(group, BARE)
        added = difference(row, bare, "call_ns")
        found[group] = added - row.median("clock_ns") if row and added is not None and less_clock else added
    return found


def ratios(measured: Measured, figure: str, only: str = "") -> dict[str, float | None]:
    return {group: ratio(measured.find(group, "nap"), measured.find(group, BARE), figure)
            for group in libraries(measured) if group.startswith(only)}


def targets(measured: Measured) -> list[Target]:
    nap, profile = added_instructions(measured, "nap"), added_instructions(measured, "profile")
    nap_ns, profile_ns = added_ns(measured, "nap"), added_ns(measured, "profile", less_clock=True)
    floor = named(added_ns(measured, COUNTER))
    rate, oneway = ratios(measured, "messages"), ratios(measured, "oneway_us")
    mpich_rate, mpich_oneway = ratios(measured, "messages", "mpich"), ratios(measured, "oneway_us", "mpich")
    return [
        at_most("instructions added to a call", worst([*nap.values()]), 60, "", named(nap)),
        at_most("instructions added to a call, profile", worst([*profile.values()]), 120, "", named(profile)),
        at_most("time added to a call", worst([*nap_ns.values()]), 10, "ns",
                f"{named(nap_ns)}; a tool that only counts: {floor}"),
        at_most("time added to a call, profile, less two reads of the clock", worst([*profile_ns.values()]), 10, "ns",
                named(profile_ns)),
        at_least("messages per second, of those without the library", least([*rate.values()]), 0.95, "", named(rate)),
        at_most("8 B one-way latency, times that without the library", worst([*oneway.values()]), 1.05, "",
                named(oneway)),
        at_most("MPICH: 8 B one-way latency, times that without the library (2 % for noise)",
                worst([*mpich_oneway.values()]), NOISE, "", named(mpich_oneway)),
        at_least("MPICH: messages per second, of those without the library (2 % for noise)",
                 least([*mpich_rate.values()]), 1 / NOISE, "", named(mpich_rate)),
    ]


def series_of(results: dict[str, Any], groups: list[str], figure: str) -> dict[str, list[dict[str, float] | None]]:
    series = {}
    for variant in (BARE, COUNTER, "nap", "profile"):
        rows = [picture.rows_of(results, group, variant) for group in groups]
        series[variant] = [row[0]["figures"].get(figure) if row else None for row in rows]
    return series


def draw(results: dict[str, Any]) -> Any:
    groups = [group for group in picture.groups_of(results) if group != INSTRUCTIONS]
    plot = picture.pyplot()
    figure, panels = plot.subplots(2, 2, figsize=(9.4, 6.2))
    calls = [row["point"]["call"] for row in picture.rows_of(results, INSTRUCTIONS, BARE)]
    series: dict[str, list[dict[str, float] | None]] = {}
    for variant in (COUNTER, "nap", "profile"):
        series[variant] = [added(results, variant, call) for call in calls]
    picture.bars(panels[0][0], calls, series, text="{:.0f}")
    panels[0][0].set_xlabel("instructions added per call (callgrind, fake MPI)")
    for axes, name, factor, text, label in (
            (panels[0][1], "call_ns", 1, "{:.1f}", "time of a call that has nothing to do (ns)"),
            (panels[1][0], "oneway_us", 1, "{:.2f}", "8 B one-way latency (µs)"),
            (panels[1][1], "messages", 1e-6, "{:.2f}", "8 B messages (million per second)")):
        picture.bars(axes, groups, series_of(results, groups, name), factor, text)
        axes.set_xlabel(label)
    for axes in panels.flat:
        axes.margins(x=0.15)
    picture.legend(figure, [panels[0][1]])
    return figure


def added(results: dict[str, Any], variant: str, call: str) -> dict[str, float] | None:
    mine = picture.rows_of(results, INSTRUCTIONS, variant, call=call)
    bare = picture.rows_of(results, INSTRUCTIONS, BARE, call=call)
    if not mine or not bare:
        return None
    base = bare[0]["figures"]["instructions"]["median"]
    return {key: mine[0]["figures"]["instructions"][key] - base for key in ("median", "low", "high")}
