"""Measures whole programs: those of codes.py, or those that --application names.

Measures wall time, CPU time of all ranks, energy if RAPL can be read, and how long ranks waited and slept. The CPU time
of the work alone is the CPU time under the policy profile, which polls, less the ranks' waiting. The cost of a sleep is
measured too, to tell the least that the waits could take. A command that starts with srun gets its policy by
MPI_WAIT_POLICY, which needs the plugin there. Its CPU time is left out, since only Slurm knows it.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import best, energy, engine, forecasts, picture, unmet, variants
from tests.bench.benchmarks import foresight, threads
from tests.bench.codes import BARE_PASSIVE, BOUNDED, CODES, HPCC_INPUT, HPCC_SIZES, INPUTS, POLLS, Code, hpcc_input
from tests.bench.engine import Cell, Failure, Measured, Row, Sample, quantile
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, verdict
from tests.bench.variants import BARE, Variant
from tests.lib import launches
from tests.lib.doubles import segment_tool
from tests.lib.libraries import BUILD, Mpi, Unavailable, execute

NAME = "applications"
TITLE = "Applications"
ROUNDS = (7, 1)
MPI_NAME = "openmpi"
OURS = ("unbalanced", "kernels")
MOST_S = 300
SLEEPS = "what a sleep costs"  # name of the group
NAPS = {200: 300, 1000: 100, 5000: 20}
MUCH = 0.1  # least part of the ranks' time that they wait, for CPU time to be judged
ABOVE, LONGER = 10, 1  # limits of the targets, in per cent
COLUMNS = {"wall_s": "{:.2f}", "cpu_s": "{:.2f}", "waited_s": "{:.2f}", "asleep_s": "{:.2f}"}


def timed(words: list[str], environment: dict[str, str], folder: Path, has_cpu: bool) -> dict[str, float]:
    joules, used, began = energy.node_joules(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status, output, errors = execute(words, environment, MOST_S, folder)
    wall_s = time.monotonic() - began
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        said = (errors.strip() or output.strip())[-300:]
        raise Failure(f"{'hung' if status is None else f'exit status {status}'}: {said}")
    figures = {"wall_s": wall_s, **energy.joules_between(joules, energy.node_joules())}
    if has_cpu:
        figures["cpu_s"] = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return figures


def waits_of(segment: dict[str, Any]) -> dict[str, float]:
    """Returns, for all ranks, the time waited, the time asleep, and the number of waits of 100 us or more."""
    lanes = [lane for slot in segment["slots"] for lane in slot["lane"]]
    waited = sum(call["wait_ns"] for lane in lanes for call in lane["calls"].values())
    return {"waited_s": waited / 1e9, "asleep_s": sum(sum(lane["asleep_ns"].values()) for lane in lanes) / 1e9,
            "long_waits": sum(lane["foreseen"] + lane["unforeseen"] for lane in lanes)}


def play(mpi: Mpi, code: Code, words: tuple[str, ...], variant: Variant) -> list[Sample]:
    """Runs the program in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as name, launches.segment() as made:
        folder = Path(name)
        prepare(code, folder, short=words != code.words)
        told = {**code.variables, **launches.configured(variant.variables, made)}
        rank = variants.rank_words(Variant(variant.name, variables=told))
        command = [*mpi.launcher(), *variant.options, "-n", "2", *rank, *words]
        figures = timed(command, variants.environment_of(mpi), folder, has_cpu=True)
        if "LD_PRELOAD" in variant.variables:
            figures |= waits_of(segment_tool.segment_read(made))
        return [({}, figures)]


def prepare(code: Code, folder: Path, short: bool) -> None:
    for name in code.inputs:
        shutil.copy(INPUTS / name, folder)
    if code.words[0] == "hpcc":
        hpcc_input(folder, HPCC_SIZES[short])
    if code.before:
        script = f"{shlex.join(code.before)} <{shlex.quote(code.standard_input)}"
        status, output, errors = execute(["sh", "-c", script], dict(os.environ), MOST_S, folder)
        if status != 0:
            raise Failure(f"{script}: {(errors or output).strip()[-200:]}")


def variant_of(mpi: Mpi, name: str) -> Variant:
    if name == POLLS:
        nap = variants.policy(mpi, "nap")
        told = {"MPI_WAIT_CONFIG": nap.variables["MPI_WAIT_CONFIG"] + ";polls=1"}
    elif name == BARE_PASSIVE:
        return Variant(name, variants.bare(mpi).options, threads.told(threads.PASSIVE))
    elif name == BOUNDED:  # the plugin makes it passive: the code has more threads than its ranks have CPUs
        nap, told = variants.policy(mpi, "nap"), threads.told(threads.PASSIVE)
    else:
        return variants.policy(mpi, name)
    return Variant(name, nap.options, {**nap.variables, **told})


def site_cells(name: str, command: str) -> list[Cell]:
    """Returns the cells of a site's own command. The environment carries the policy, as a user's would."""
    words = shlex.split(command)
    by_slurm = Path(words[0]).name == "srun"
    here = os.getcwd()
    found = []
    for variant in (BARE, "nap"):
        environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "MPI_WAIT_CONFIG")}
        if by_slurm:
            environment["MPI_WAIT_POLICY"] = "off" if variant == BARE else variant
        elif variant != BARE:
            environment.update(LD_PRELOAD=str(variants.LIBRARY), MPI_WAIT_CONFIG=variants.config_of(variant))

        def sample(environment: dict[str, str] = environment) -> list[Sample]:
            return [({}, timed(words, environment, Path(here), not by_slurm))]

        found.append(Cell(name, variant, sample))
    return found


def cells(plan: Plan) -> list[Cell]:
    if plan.applications:
        return [cell for name, command in plan.applications.items() for cell in site_cells(name, command)]
    found = []
    for mpi in variants.available((MPI_NAME,), "steps", plan.measured.unavailable):
        found.append(Cell(SLEEPS, forecasts.SLEEP, partial(foresight.play_naps, NAPS)))
        for code in (code for code in CODES if code.short or not plan.short):
            found += code_cells(mpi, code, plan)
    return found


def code_cells(mpi: Mpi, code: Code, plan: Plan) -> list[Cell]:
    words = code.short if plan.short else code.words
    try:
        if words[0] in OURS:
            words = (str(variants.program(mpi, words[0])), *words[1:])
        elif not shutil.which(words[0]) or (words[0] == "hpcc" and not HPCC_INPUT.exists()):
            raise Unavailable(f"not installed (Debian: {code.package})")
    except Unavailable as reason:
        plan.measured.unavailable[code.name] = str(reason)
        return []
    compared = [variants.bare(mpi), *variants.knob(mpi), *(variant_of(mpi, name) for name in code.policies)]
    return [Cell(code.name, variant.name, partial(play, mpi, code, words, variant)) for variant in compared]


def works_s(measured: Measured, group: str) -> list[float]:
    """Returns the CPU time of the work alone, by round; an empty list if ranks wait for less than MUCH of it."""
    row = measured.find(group, "profile")
    if not row or "cpu_s" not in row.values or row.median("waited_s") < MUCH * row.median("cpu_s"):
        return []
    return [used - waited for used, waited in zip(row.values["cpu_s"], row.values["waited_s"])]


def least_s(measured: Measured, nap: Row) -> float | None:
    """Returns the CPU time of the waits of 100 us and more, if each were one sleep that ends in time. Shorter waits
    count as nothing."""
    waits = nap.median("long_waits")
    length_us = 1e6 * nap.median("waited_s") / waits if waits else 0
    sleep = forecasts.Figures(measured.rows).sleep(SLEEPS, length_us) if waits else None
    return waits * best.wait_cpu_us(length_us, sleep) / 1e6 if sleep else None


def cpu_target(measured: Measured, group: str, nap: Row | None) -> Target | None:
    works = works_s(measured, group)
    if not works or not nap or "cpu_s" not in nap.values:
        return None
    work, least = quantile(works, 0.5), least_s(measured, nap)
    above = quantile([100 * (used / alone - 1) for used, alone in zip(nap.values["cpu_s"], works)], 0.5)
    why = f"the work takes {number(work)} s" + ("" if least is None else f"; at least {number(100 * least / work)} %")
    return at_most(f"{group}, nap: CPU time above the work alone", above, ABOVE, "%", why)


def longer(measured: Measured, group: str, variant: str) -> list[float]:
    """Returns by how much the wall time was longer than without the library, in per cent, by round."""
    row, bare = measured.find(group, variant), measured.find(group, BARE)
    if not row or not bare:
        return []
    return engine.paired(row, bare, "wall_s", lambda mine, other: 100 * (mine / other - 1))


def wall_target(measured: Measured, group: str) -> Target | None:
    bare, percents = measured.find(group, BARE), longer(measured, group, "nap")
    if not bare or not percents:
        return None
    told = [f"{number(bare.median('wall_s'))} s without"]
    for name in ("nap", "profile", variants.KNOBS[MPI_NAME].name, BOUNDED, BARE_PASSIVE):
        if values := longer(measured, group, name):
            low, high, _ = engine.interval(values)
            told.append(f"{name} {quantile(values, 0.5):+.1f} % ({low:+.1f} to {high:+.1f})")
    return at_most(f"{group}, nap: wall time above that without the library", quantile(percents, 0.5), LONGER, "%",
                   "; ".join(told))


def targets(measured: Measured) -> list[Target]:
    found = []
    for group in (group for group in measured.groups() if group != SLEEPS):
        found += [cpu_target(measured, group, measured.find(group, "nap")), wall_target(measured, group)]
    return [target for target in found if target]


def groups_of(results: dict[str, Any]) -> list[str]:
    """Returns the programs' groups."""
    return [group for group in picture.groups_of(results) if group != SLEEPS]


def section_lines(results: dict[str, Any]) -> list[str]:
    lines = ["Two ranks of Open MPI 4.1 on two CPUs. CPU time is that of all processes; waited and asleep: of the "
             "ranks' time in all. The work alone is what `profile`, which polls, used less what its ranks waited. The "
             "inputs are in [inputs](inputs), the two that do as NAS's benchmarks do in "
             "[kernels.c](programs/kernels.c). A difference in wall time is the median of the rounds' pairs. Brackets "
             "have the interval that holds the true median with a probability of "
             f"{engine.interval([0.0] * results['rounds'])[2]:.0%}.", "",
             "| program | | wall s | CPU s | waited s | asleep s |", "|---|---|---:|---:|---:|---:|"]
    for group in groups_of(results):
        for row in picture.rows_of(results, group):
            figures = [(row["figures"].get(name), form) for name, form in COLUMNS.items()]
            cells_of = ["–" if figure is None else form.format(figure["median"]) for figure, form in figures]
            lines.append(f"| {group} | {row['variant']} | {' | '.join(cells_of)} |")
    lines += ["", "| wanted | at most | measured | |", "|---|---:|---:|---|"]
    lines += [f"| {target['text']} ({target['why']}) | {number(target['limit'])} % | "
              f"{'–' if target['value'] is None else number(target['value']) + ' %'} | {verdict(target)} |"
              for target in results["targets"]]
    return [*lines, "", *unmet.lines(results["targets"], unmet.APPLICATIONS)]


def draw(results: dict[str, Any]) -> Any:
    groups = groups_of(results)
    rows = [row for group in groups for row in picture.rows_of(results, group)]
    names = [name for name in picture.variants_of(rows) if name != "profile"]
    figures = [("wall_s", "wall time (s)"), ("cpu_s", "CPU time of all ranks (s)")]
    if any("energy_j" in row["figures"] for row in rows):
        figures.append(("energy_j", "energy of the packages (J)"))
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, len(figures), figsize=(4.8 * len(figures), 1 + 1.1 * len(groups)), sharey=True)
    for axes, (name, label) in zip(panels, figures):
        series = {variant: [one(results, group, variant, name) for group in groups] for variant in names}
        picture.bars(axes, groups, series, text="{:.2f}")
        axes.set_xlabel(label)
        axes.margins(x=0.15)
    picture.legend(figure, panels)
    return figure


def one(results: dict[str, Any], group: str, variant: str, figure: str) -> dict[str, float] | None:
    rows = picture.rows_of(results, group, variant)
    return rows[0]["figures"].get(figure) if rows else None
