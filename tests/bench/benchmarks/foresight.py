"""Compares waits that repeat, and others, under nap with its forecasts, under nap without forecasts, and with no
library."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

from tests.bench import binding, forecasts, machine, picture, variants
from tests.bench.benchmarks import calls
from tests.bench.engine import Cell, Failure, Measured, Sample, quantile
from tests.bench.forecasts import CALLS, INSTRUCTIONS, POLICIES, SCENE_US, SLEEP, Figures
from tests.bench.plan import Plan
from tests.bench.targets import Target
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import LIBRARY, Mpi

NAME = "foresight"
TITLE = "Waits by forecast"
ROUNDS = (2, 1)  # all scenes take three minutes for each MPI
MPI_NAMES = ("openmpi", "openmpi-5", "mpich", "mpich-5", "intel")
LATE = {200: 1000, 500: 600, 1000: 400, 2000: 200, 5000: 80, 100000: 12}
LATE_SHORT = {200: 50, 1000: 40}
STEPS = {500: 400, 1000: 300, 2000: 200, 5000: 120}  # so many that the first, from which it learns, hardly count
STEPS_SHORT = {1000: 40}
IMBALANCES, IMBALANCES_SHORT = (20, 40, 80), (80,)
WHO = ("fixed", "turn", "third")
SCENES = {"coin": 1200, "change": 1800, "uniform": 1200, "exponential": 1200, "adversary": 1200}
SCENES_SHORT = {"coin": 50, "adversary": 50}
NAPS = {100: 500, 200: 500, 500: 400, 1000: 300, 2000: 200, 5000: 100, 100000: 10}
NAPS_SHORT = {200: 50, 1000: 50}


def waits_read(output: str) -> list[Sample]:
    """Reads the output of programs/waits.c. delay_percent needs the row without the library for the run's delay."""
    samples = []
    for words in (line.split() for line in output.splitlines() if line.startswith("waits ")):
        after = [float(value) for value in words[6].split(",")]
        samples.append(({"scene": words[1], "late_us": float(words[2])},
                        {"cpu_share": float(words[4]), "median_us": quantile(after, 0.5),
                         "p99_us": quantile(after, 0.99), "after_us": sum(after), "run_us": float(words[5]),
                         "count": float(words[3])}))
    return samples


def steps_read(output: str, imbalance: int) -> list[Sample]:
    samples = []
    for words in (line.split() for line in output.splitlines() if line.startswith("steps ")):
        step_us, count, wall_s, cpu_s, compute_s = (float(words[place]) for place in (1, 2, 4, 5, 6))
        samples.append(({"who": words[7], "imbalance": imbalance, "step_us": step_us},
                        {"step_wall_us": wall_s / count * 1e6, "cpu_over_work": cpu_s / compute_s}))
    return samples


def naps_read(output: str) -> list[Sample]:
    return [({"nap_us": float(words[1])},
             {"late_us": float(words[2]), "late_99_us": float(words[3]), "cpu_us": float(words[4]),
              "mean_us": float(words[5])})
            for words in (line.split() for line in output.splitlines() if line.startswith("nap "))]


def play_waits(mpi: Mpi, variant: Variant, words: list[str]) -> list[Sample]:
    return waits_read(binding.launch(mpi, variant, 2, [str(variants.program(mpi, "waits")), *words]))


def play_steps(mpi: Mpi, variant: Variant, who: str, imbalance: int, steps: dict[int, int]) -> list[Sample]:
    words = [f"{step}:{count}:{who}" for step, count in steps.items()]
    command = [str(variants.program(mpi, "steps")), str(imbalance), *words]
    return steps_read(binding.launch(mpi, variant, 2, command), imbalance)


def play_calls(mpi: Mpi, variant: Variant, repetitions: int) -> list[Sample]:
    return [(dict(CALLS), figures) for _, figures in calls.play(mpi, variant, repetitions)]


def play_naps(naps: dict[int, int]) -> list[Sample]:
    words = [f"{length}:{count}" for length, count in naps.items()]
    output = machine.command_line([str(variants.BUILT / "nap_cost"), *words])
    if not output:
        raise Failure("nap_cost failed")
    return naps_read(output)


def instruction_cells(plan: Plan) -> list[Cell]:
    """Returns the cells that count the library's instructions, once for all MPIs."""
    if not shutil.which("valgrind"):
        plan.measured.unavailable["instructions per call"] = "no valgrind"
        return []
    kinds = {BARE: ("", ""), **{name: (str(LIBRARY), variants.config_of(name)) for name in POLICIES}}
    return [Cell(INSTRUCTIONS, name, partial(calls.instructions, *kind)) for name, kind in kinds.items()]


def cells(plan: Plan) -> list[Cell]:
    """Returns the cells of each MPI library, with those to be compared next to each other. Each round of each library
    measures a sleep too."""
    short = plan.short
    late, steps, scenes = ((LATE_SHORT, STEPS_SHORT, SCENES_SHORT) if short else (LATE, STEPS, SCENES))
    found = instruction_cells(plan)
    for mpi in variants.available(MPI_NAMES, "waits", plan.measured.unavailable):
        compared = [variants.bare(mpi), *variants.policy_variants(mpi, POLICIES)]
        words = [f"near:{delay}:{count}" for delay, count in late.items()]
        found.append(Cell(mpi.name, SLEEP, partial(play_naps, NAPS_SHORT if short else NAPS)))
        found += [Cell(mpi.name, variant.name, partial(play_waits, mpi, variant, words)) for variant in compared]
        for who in WHO[1:2] if short else WHO:
            for imbalance in IMBALANCES_SHORT if short else IMBALANCES:
                found += [Cell(mpi.name, variant.name, partial(play_steps, mpi, variant, who, imbalance, steps))
                          for variant in compared]
        for scene, count in scenes.items():
            found += [Cell(mpi.name, variant.name,
                           partial(play_waits, mpi, variant, [f"{scene}:{SCENE_US}:{count}"]))
                      for variant in compared]
        found += [Cell(mpi.name, variant.name, partial(play_calls, mpi, variant, calls.REPETITIONS[short]))
                  for variant in compared]
    return found


def targets(measured: Measured) -> list[Target]:
    return forecasts.every_target(Figures(measured.rows))


def draw(results: dict[str, Any]) -> Any:
    """Draws a column per library: above the CPU of a late partner's wait, below the CPU above the work of unequal
    steps."""
    figures = Figures(forecasts.rows_kept(results))
    mpis = figures.mpis()
    plot = picture.pyplot()
    figure, panels = plot.subplots(2, len(mpis), figsize=(max(2.3 * len(mpis), 4.6) + 0.9, 5.2), squeeze=False,
                                   sharey="row")
    for mpi, top, bottom in zip(mpis, *panels):
        late, steps = figures.points("late_us", scene="near"), figures.points("step_us")
        for variant in (BARE, *POLICIES):
            rows = [row for row in picture.rows_of(results, mpi, variant) if row["point"].get("scene") == "near"]
            if rows:
                picture.line(top, rows, "late_us", "cpu_share", variant, 100)
            cells_of = [forecasts.step_values(figures, mpi, variant, step) for step in steps]
            worst = [max((cpu for cpu, _, _ in step), default=float("nan")) for step in cells_of]
            bottom.plot(steps, worst, label=variant, color=picture.colour(variant),
                        marker=picture.MARKERS.get(variant, "o"))
        top.plot(late, [forecasts.best_of_wait(figures, mpi, wait) for wait in late], ":", color="#888888",
                 label="best possible")
        bottom.plot(steps, [forecasts.best_of_steps(figures, mpi, step) for step in steps], ":", color="#888888")
        picture.duration_ticks(top, late)
        picture.duration_ticks(bottom, steps)
        top.set_title(picture.title_of(mpi))
        top.set_xlabel("partner late by")
        bottom.set_xlabel("steps of")
        top.set_ylim(0, 108)
        top.tick_params(axis="x", labelrotation=45)
    panels[0][0].set_ylabel("CPU share of the wait (%)")
    panels[1][0].set_ylabel("CPU time above the work,\nworst cell (%)")
    picture.legend(figure, panels[0])
    return figure
