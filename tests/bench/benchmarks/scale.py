"""Measures many ranks, each on a core of its own: six patterns of unequal work before an Allreduce, and whole programs.

programs/meet.c says what is measured, and how. A machine with fewer than four cores measures nothing unless --pick
ranks=N asks for it. Results of fewer than four ranks are never published.
"""

from __future__ import annotations

import math
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import binding, codes, engine, machine, picture, variants
from tests.bench.benchmarks import applications
from tests.bench.engine import Cell, Failure, Measured, Row, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, verdict, worst
from tests.bench.variants import BARE, Variant
from tests.lib import launches
from tests.lib.doubles import segment_tool
from tests.lib.libraries import BUILD, Mpi, Unavailable

NAME = "scale"
TITLE = "Many ranks on cores of their own"
ROUNDS = (5, 3)
CODE_ROUNDS = 7
SHORT_IS_A_PART = True  # its short form proves what it measures; those of the other benchmarks prove nothing
MPI_NAMES, MPI_NAMES_SHORT = ("openmpi-5", "mpich-5"), ("openmpi-5",)
PATTERNS = {
    "always": "one rank always 30 % slow",
    "rotate": "the slow rank rotates",
    "half": "half of the ranks 50 % slower",
    "random": "random, 10 %",
    "drift": "drifting field",
    "heavy": "heavy tail",
}
POLICIES = ("nap", "profile")
STEPS_MS, STEPS_MS_SHORT = (0.3, 1, 3, 10), (1,)
STEPS = (700, 5000)
LEAST_CORES, WANTED_CORES = 4, 16
LAUNCH_S, CODE_S, LONGER = 1.2, 10, 1.25  # time of a launch beside its steps, of a program; a step's length by its work
LONGER_LIMIT, CPU_LIMIT = 1, 50  # per cent, for the policy nap
PROGRAMS = "programs"  # title of the programs' panel
NOT_MEASURED = "Not measured on a machine of 16 cores yet."
HOW = ("`tests/bench/run scale --short` measures it there in ten minutes, with Open MPI and steps of 1 ms; without "
       "`--short` in hours. `tests/bench/carry DIR` makes a directory that does so on a machine without packages.")
DEBIAN = "openmpi"
CODES = {  # MPI library that the program runs with, by the names of codes.py
    "HPC Challenge": "openmpi-5",
    "LAMMPS, atoms in 0.4 of the box": "openmpi-5",
    codes.EXAML.name: "openmpi-5",
    "as NPB's LU": "openmpi-5",
    "as NPB's CG": "openmpi-5",
    "Quantum ESPRESSO, silicon": DEBIAN,  # a Fortran program: it needs the library that it was built with
    "CP2K, water": DEBIAN,
}
PLAYED = tuple(code for code in (*codes.CODES, codes.EXAML) if code.name in CODES)
CG_ITERATIONS = 60000  # iterations of all ranks: each sends to all others
HPCC_SIZE = 2100  # size for one rank; the memory of a rank stays the same
SITES = 2000  # sites of an alignment, for one rank
LIQUID, LIQUID_STEPS = "liquid.in", 1500  # steps for one rank: the number of atoms stays the same


def rank_counts(plan: Plan, cores: int, cpus: int) -> list[int]:
    """Returns 4, 8, 16 … and the number of cores; in the short form that number alone; or what --pick asks for.

    Only --pick takes more ranks than cores, up to the CPUs.
    """
    if "ranks" not in plan.picked.numbers and cores < LEAST_CORES:
        plan.measured.unavailable["ranks on cores of their own"] = (
            f"this machine has {cores} cores and {LEAST_CORES} are needed; --pick ranks=N plays with fewer")
        return []
    usual = {cores, *(2 ** power for power in range(2, 20) if 2 ** power <= cores)}
    counts = [int(count) for count in plan.picked.number("ranks", [cores] if plan.short else sorted(usual))]
    for count in (count for count in counts if count > cpus):
        plan.measured.unavailable[f"{count} ranks"] = f"this machine has {cpus} CPUs"
    return [count for count in counts if count <= cpus]


def bound(ranks: int) -> tuple[str, ...]:
    """Returns a prefix for a rank's program that gives each rank a core, or at least a CPU, of its own."""
    return binding.prefix(machine.cpus()[:ranks])


def sample_read(output: str, point: dict[str, Any]) -> list[Sample]:
    words = next((line.split() for line in output.splitlines() if line.startswith("meet ")), [])
    if len(words) != 8 or words[1:4] != [point["pattern"], str(point["ranks"]), str(point["steps"])]:
        raise Failure(f"no figures of {point['pattern']}: {output.strip()[-200:]}")
    names = ("step_wall_us", "ideal_us", "wait_us", "wait_cpu_percent")
    return [(point, dict(zip(names, map(float, words[4:]))))]


def play(mpi: Mpi, variant: Variant, point: dict[str, Any]) -> list[Sample]:
    step_us = f"{1000 * point['step_ms']:g}"
    command = [str(variants.program(mpi, "meet")), point["pattern"], step_us, str(point["steps"])]
    output = variants.launch(mpi, variant, point["ranks"], command, binding.options_of(mpi), bound(point["ranks"]),
                             timeout_s=60 + 10 * steps_s(point))
    return sample_read(output, point)


def steps_s(point: dict[str, Any]) -> float:
    return point["steps"] * point["step_ms"] / 1000


def compared(mpi: Mpi) -> list[Variant]:
    return [variants.bare(mpi), *variants.policy_variants(mpi, POLICIES)]


def group_of(mpi: Mpi, point: dict[str, Any]) -> str:
    return (f"{mpi.name}, {point['ranks']} ranks, {point['pattern']}, {point['step_ms']:g} ms, "
            f"{point['steps']} steps")


def pattern_cells(plan: Plan, mpi: Mpi, ranks: int) -> list[Cell]:
    picked = plan.picked
    points = [{"pattern": pattern, "ranks": ranks, "step_ms": step_ms, "steps": int(steps)}
              for step_ms in picked.number("step_ms", STEPS_MS_SHORT if plan.short else STEPS_MS)
              for steps in picked.number("steps", STEPS)
              for pattern in PATTERNS if picked.has("pattern", pattern)]
    return [Cell(group_of(mpi, point), variant.name, partial(play, mpi, variant, point),
                 seconds=LAUNCH_S + LONGER * steps_s(point))
            for point in points for variant in compared(mpi)]


def grid(ranks: int) -> tuple[int, int]:
    """Returns the rows and columns of the grid of that many ranks that is closest to a square."""
    rows = max(row for row in range(1, math.isqrt(ranks) + 1) if ranks % row == 0)
    return rows, ranks // rows


def code_prepare(code: codes.Code, folder: Path, ranks: int) -> None:
    if code == codes.EXAML:
        codes.alignment_make(folder, SITES * ranks)
    applications.prepare(code, folder, short=False)
    if LIQUID in code.inputs:
        text = (folder / LIQUID).read_text()
        (folder / LIQUID).write_text(re.sub(r"^run \d+$", f"run {LIQUID_STEPS * ranks}", text, flags=re.M))
    if code.words[0] == "hpcc":
        size = int(HPCC_SIZE * math.sqrt(ranks)) // 100 * 100
        codes.hpcc_input(folder, size, *grid(ranks))


def code_play(mpi: Mpi, code: codes.Code, words: tuple[str, ...], variant: Variant, ranks: int) -> list[Sample]:
    slots = max(variants.SEGMENT_SLOTS, ranks)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as name, launches.segment(slots) as made:
        folder = Path(name)
        code_prepare(code, folder, ranks)
        told = {"OPENBLAS_NUM_THREADS": "1", **codes.ONE_THREAD, **code.variables,
                **launches.configured(variant.variables, made)}
        rank = variants.rank_words(Variant(variant.name, variables=told), bound(ranks))
        command = [*mpi.launcher(), *binding.options_of(mpi), *variant.options, "-n", str(ranks), *rank, *words]
        figures = applications.timed(command, variants.environment_of(mpi), folder, has_cpu=True)
        if "LD_PRELOAD" in variant.variables:
            figures |= applications.waits_of(segment_tool.segment_read(made))
        return [({"code": code.name, "ranks": ranks}, figures)]


def code_words(mpi: Mpi, code: codes.Code, ranks: int) -> tuple[str, ...]:
    """Returns the program's command. Raises Unavailable if the program is not installed."""
    if code.words[0] not in applications.OURS:
        program = codes.executable(code)
        if not program or (code.words[0] == "hpcc" and not codes.HPCC_INPUT.exists()):
            raise Unavailable(f"not installed (Debian: {code.package})")
        return (program, *code.words[1:])
    words = (str(variants.program(mpi, code.words[0])), *code.words[1:])
    return (*words[:-1], str(max(CG_ITERATIONS // ranks, 1))) if "cg" in words else words


def code_cells(plan: Plan, ranks: int) -> list[Cell]:
    found = []
    for code in (code for code in PLAYED if plan.picked.has("code", code.name)):
        mpi = variants.BY_NAME[CODES[code.name]]
        try:
            if variants.only and mpi.name not in variants.only:
                continue
            mpi.launcher()
            words = code_words(mpi, code, ranks)
        except Unavailable as reason:
            plan.measured.unavailable[code.name] = str(reason)
            continue
        found += [Cell(f"{code.name}, {ranks} ranks", variant.name,
                       partial(code_play, mpi, code, words, variant, ranks), CODE_ROUNDS, CODE_S)
                  for variant in compared(mpi)]
    return found


def picks_check(plan: Plan) -> None:
    """Notes what --pick asks for and does not exist."""
    known = {"part": ("patterns", "codes"), "pattern": tuple(PATTERNS), "code": tuple(CODES)}
    for key, words in plan.picked.words.items():
        for word in words:
            if not any(name.startswith(word) for name in known[key]):
                plan.measured.unavailable[f"{key} {word}"] = f"there are: {'; '.join(known[key])}"


def has_part(plan: Plan, part: str) -> bool:
    """Returns true if the part is measured. The short form has no programs unless --pick names them."""
    picked = plan.picked
    if part == "codes" and "code" not in picked.words and "part" not in picked.words:
        return not plan.short and "pattern" not in picked.words
    return picked.has("part", part) and (part == "codes" or "part" in picked.words or "code" not in picked.words)


def cells(plan: Plan) -> list[Cell]:
    picks_check(plan)
    counts = rank_counts(plan, len(machine.cores()), len(machine.cpus()))
    found: list[Cell] = []
    if counts and has_part(plan, "patterns"):
        for mpi in variants.available(MPI_NAMES_SHORT if plan.short and not variants.only else MPI_NAMES, "meet",
                                      plan.measured.unavailable):
            for ranks in counts:
                found += pattern_cells(plan, mpi, ranks)
    if counts and has_part(plan, "codes"):
        found += code_cells(plan, max(counts))
    return found


def longer(row: Row, reference: Row, figure: str) -> list[float]:
    """Returns by how many per cent the figure is larger than the reference's, for each round."""
    return engine.paired(row, reference, figure, lambda mine, other: 100 * (mine / other - 1) if other else 0)


def median_longer(measured: Measured, row: Row, figure: str) -> float | None:
    bare = measured.find(row.group, BARE, **row.point)
    values = longer(row, bare, figure) if bare and figure in row.values and figure in bare.values else []
    return engine.quantile(values, 0.5) if values else None


def pattern_targets(measured: Measured, ranks: int) -> list[Target]:
    found = []
    lengths = {(row.point["step_ms"], row.point["steps"]) for row in measured.select(variant="nap", ranks=ranks)
               if "pattern" in row.point}
    for step_ms, steps in sorted(lengths):
        rows = measured.select(variant="nap", ranks=ranks, step_ms=step_ms, steps=steps)
        walls = {row.group: median_longer(measured, row, "step_wall_us") for row in rows}
        most = max((row for row in rows if walls[row.group] is not None), key=lambda row: walls[row.group],
                   default=None)
        where = f"{ranks} ranks on cores of their own, {steps} steps of {step_ms:g} ms, nap"
        found.append(at_most(f"{where}: wall time above that without the library", worst([*walls.values()]),
                             LONGER_LIMIT, "%", f"worst: {most.point['pattern']}" if most else ""))
        found.append(at_most(f"{where}: CPU time of the waits, median of the patterns",
                             engine.quantile([row.median("wait_cpu_percent") for row in rows], 0.5), CPU_LIMIT, "%"))
    return found


def targets(measured: Measured) -> list[Target]:
    ranks = max((row.point["ranks"] for row in measured.rows), default=0)
    found = pattern_targets(measured, ranks)
    for row in (row for row in measured.select(variant="nap") if "code" in row.point):
        found.append(at_most(f"{row.group}, nap: wall time above that without the library",
                             median_longer(measured, row, "wall_s"), LONGER_LIMIT, "%"))
    return found


def published(results: dict[str, Any]) -> dict[str, Any]:
    """Returns the results that may be shown: none of fewer than four ranks."""
    rows = [row for row in results["rows"] if row["point"]["ranks"] >= LEAST_CORES]
    return results if len(rows) == len(results["rows"]) else {**results, "rows": rows, "targets": []}


def rows_by_variant(rows: list[dict[str, Any]], point: dict[str, Any], group: str) -> dict[str, Row]:
    return {row["variant"]: Row(group, row["variant"], point,
                                {name: figure["values"] for name, figure in row["figures"].items()})
            for row in rows if row["point"] == point and row["group"] == group}


def difference(found: dict[str, Row], variant: str, figure: str) -> str:
    """Returns the median of the rounds' differences to no library in per cent, and its interval."""
    if variant not in found or BARE not in found or figure not in found[variant].values:
        return "–"
    low, high, _ = engine.interval(values := longer(found[variant], found[BARE], figure))
    return f"{engine.quantile(values, 0.5):+.1f} ({low:+.1f} to {high:+.1f})"


def median_of(found: dict[str, Row], variant: str, figure: str, form: str = "{:.0f}") -> str:
    has = variant in found and figure in found[variant].values
    return form.format(found[variant].median(figure)) if has else "–"


def interval_of(found: dict[str, Row], variant: str, figure: str) -> str:
    if variant not in found or figure not in found[variant].values:
        return "–"
    low, high, _ = engine.interval(found[variant].values[figure])
    return f"{found[variant].median(figure):.0f} ({low:.0f} to {high:.0f})"


def points_of(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the groups and their points, each once, in the order of measuring."""
    return [(row["group"], row["point"]) for row in rows if row["variant"] == BARE]


def pattern_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| library, ranks, step | pattern | steps | wall µs a step | nap: wall % | profile: wall % "
             "| waits' CPU %: no library | nap | profile |", "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for group, point in (pair for pair in points_of(rows) if "pattern" in pair[1]):
        found = rows_by_variant(rows, point, group)
        what = f"{picture.title_of(group.split(',')[0])}, {point['ranks']}, {point['step_ms']:g} ms"
        cells_of = [median_of(found, BARE, "step_wall_us"),
                    *(difference(found, name, "step_wall_us") for name in POLICIES),
                    *(interval_of(found, name, "wait_cpu_percent") for name in (BARE, *POLICIES))]
        lines.append(f"| {what} | {PATTERNS.get(point['pattern'], point['pattern'])} | {point['steps']} "
                     f"| {' | '.join(cells_of)} |")
    return lines if len(lines) > 2 else []


def code_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| program, ranks | rounds | wall s | nap: wall % | profile: wall % | CPU s | nap: CPU % "
             "| of the ranks' time: waited % | nap: slept % |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for group, point in (pair for pair in points_of(rows) if "code" in pair[1]):
        found = rows_by_variant(rows, point, group)
        cells_of = [str(len(found[BARE].values["wall_s"])), median_of(found, BARE, "wall_s", "{:.2f}"),
                    *(difference(found, name, "wall_s") for name in POLICIES),
                    median_of(found, BARE, "cpu_s", "{:.1f}"), difference(found, "nap", "cpu_s"),
                    share_of(found, "profile", "waited_s"), share_of(found, "nap", "asleep_s")]
        lines.append(f"| {group} | {' | '.join(cells_of)} |")
    return lines if len(lines) > 2 else []


def share_of(found: dict[str, Row], variant: str, figure: str) -> str:
    row = found.get(variant)
    if not row or figure not in row.values:
        return "–"
    return f"{100 * row.median(figure) / row.median('wall_s') / row.point['ranks']:.0f}"


def rounds_text(rows: list[dict[str, Any]]) -> str:
    counts = sorted({len(figure["values"]) for row in rows for figure in row["figures"].values()})
    return ", ".join(f"{count} round{'s' * (count > 1)}: {100 * engine.interval([0.0] * count)[2]:.0f} %"
                     for count in counts)


def table_lines(results: dict[str, Any]) -> list[str]:
    """Returns the two tables as Markdown; a terminal shows the same."""
    rows = results["rows"]
    if not rows:
        return ["Nothing was measured.", ""]
    head = ["Differences are to no library, in per cent: medians of the rounds' pairs. In brackets: the interval that "
            f"has the true median in it, with a probability of ({rounds_text(rows)}).", ""]
    cores, most = results["machine"].get("cores", 0), max(row["point"]["ranks"] for row in rows)
    if most > cores > 0:
        head = [f"**{most} ranks share {cores} cores: a hardware thread is no core of its own.**", "", *head]
    blocks = [block for block in (pattern_lines(rows), code_lines(rows)) if block]
    return [*head, *(line for block in blocks for line in [*block, ""])]


def section_lines(results: dict[str, Any]) -> list[str]:
    if not results["rows"]:
        return [NOT_MEASURED, "", HOW, ""]
    lines = []
    if max(row["point"]["ranks"] for row in results["rows"]) < WANTED_CORES:
        lines = [NOT_MEASURED, ""]
    lines += ["Ranks compute for a step, unequally, and meet in an Allreduce; each has a core of its own. "
              "[programs/meet.c](programs/meet.c) has the patterns, and defines what is measured.", "",
              *table_lines(results), "| wanted | at most | measured | |", "|---|---:|---:|---|"]
    lines += [f"| {target['text']}{' (' + target['why'] + ')' if target['why'] else ''} | {number(target['limit'])} % "
              f"| {'–' if target['value'] is None else number(target['value']) + ' %'} | {verdict(target)} |"
              for target in results["targets"]]
    return [*lines, ""]


def panels_of(results: dict[str, Any]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Returns the groups and points of each panel by its title: patterns by library, ranks and step; the programs."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    longest = max((row["point"].get("steps", 0) for row in results["rows"]), default=0)
    for group, point in points_of(results["rows"]):
        if "code" in point:
            found.setdefault(PROGRAMS, []).append((group, point))
        elif point["steps"] == longest:
            title = f"{picture.title_of(group.split(',')[0])}, {point['ranks']} ranks, {point['step_ms']:g} ms"
            found.setdefault(title, []).append((group, point))
    return found


def panel_draw(axes: Any, results: dict[str, Any], title: str, where: list[tuple[str, dict[str, Any]]]) -> None:
    name, label = ("wait_cpu_percent", "CPU time of the waits (%)")
    if title == PROGRAMS:
        name, label = ("cpu_s", "CPU time (s)")
    series = {variant: [next((row["figures"].get(name) for row in picture.rows_of(results, group, variant, **point)),
                             None) for group, point in where] for variant in (BARE, "nap")}
    names = [point.get("code") or PATTERNS.get(point["pattern"], point["pattern"]) for _, point in where]
    picture.bars(axes, names, {key: found for key, found in series.items() if any(found)}, 1, "{:.0f}")
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.margins(x=0.15)


def draw(results: dict[str, Any]) -> Any:
    found = panels_of(results)
    plot = picture.pyplot()
    columns = min(len(found), 3)
    rows = -(-len(found) // columns)
    figure, panels = plot.subplots(rows, columns, figsize=(5 * columns + 1, 3.2 * rows + 0.6), squeeze=False)
    flat = [axes for row in panels for axes in row]
    for axes in flat[len(found):]:
        axes.set_visible(False)
    for axes, (title, where) in zip(flat, found.items()):
        panel_draw(axes, results, title, where)
    picture.legend(figure, flat[:1])
    return figure
