"""Whole programs: hpcc as Debian packages it and contrib/unbalanced, or instead of them what --application names.

Wall time, CPU time of all ranks, and energy where RAPL can be read. A command that starts with srun gets its policy by
MPI_WAIT_POLICY, which needs the plugin there; its CPU time is Slurm's to know, and left out.
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

from tests.bench import energy, picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target
from tests.bench.variants import BARE, Variant
from tests.lib.libraries import BUILD, Mpi, Unavailable, execute

NAME = "applications"
TITLE = "Applications"
ROUNDS = (3, 1)
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
HPCC_SIZES = (1500, 300)
UNBALANCED = (("200", "5", "1"), ("10", "5", "1"))  # iterations, milliseconds, imbalance
MOST_S = 300


def hpcc_input(folder: Path, size: int) -> None:
    """The shipped example, made for a 1 x 2 grid."""
    lines = HPCC_INPUT.read_text().splitlines()
    for place, text in ((5, f"{size} Ns"), (7, "64 NBs"), (10, "1 Ps"), (11, "2 Qs")):
        lines[place] = text
    (folder / "hpccinf.txt").write_text("\n".join(lines) + "\n")


def timed(words: list[str], environment: dict[str, str], folder: Path, has_cpu: bool) -> list[Sample]:
    os.chdir(folder)
    joules, used, began = energy.node_joules(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status, _, errors = execute(words, environment, MOST_S)
    wall_s = time.monotonic() - began
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        raise Failure(f"{'hung' if status is None else f'exit status {status}'}: {errors.strip()[-300:]}")
    figures = {"wall_s": wall_s, **energy.joules_between(joules, energy.node_joules())}
    if has_cpu:
        figures["cpu_s"] = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return [({}, figures)]


def in_folder(words: list[str], environment: dict[str, str], prepare: Any, has_cpu: bool) -> list[Sample]:
    """In a directory of its own."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        prepare(Path(folder))
        try:
            return timed(words, environment, Path(folder), has_cpu)
        finally:
            os.chdir(here)


def mpi_cell(group: str, mpi: Mpi, variant: Variant, command: list[str], prepare: Any) -> Cell:
    words = [*mpi.launcher(), *variant.options, "-n", "2", *variants.rank_words(variant), *command]
    return Cell(group, variant.name, partial(in_folder, words, variants.environment_of(mpi), prepare, True))


def nothing(_: Path) -> None:
    pass


def site_cells(name: str, command: str) -> list[Cell]:
    """A site's own: the environment carries the policy, as a user's would."""
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
        found.append(Cell(name, variant, partial(timed, words, environment, Path(here), not by_slurm)))
    return found


def cells(plan: Plan) -> list[Cell]:
    if plan.applications:
        return [cell for name, command in plan.applications.items() for cell in site_cells(name, command)]
    return our_cells(plan)


def our_cells(plan: Plan) -> list[Cell]:
    found = []
    for mpi in variants.available(("openmpi",), "steps", plan.measured.unavailable):
        compared = [variants.bare(mpi), *variants.knob(mpi), *variants.policy_variants(mpi, ("nap",))]
        hpcc = shutil.which("hpcc")
        if hpcc and HPCC_INPUT.exists():
            prepare = partial(hpcc_input, size=HPCC_SIZES[plan.short])
            found += [mpi_cell("hpcc", mpi, variant, [hpcc], prepare) for variant in compared]
        else:
            plan.measured.unavailable["hpcc"] = "not installed (Debian: hpcc)"
        try:
            words = [str(variants.program(mpi, "unbalanced")), *UNBALANCED[plan.short]]
            found += [mpi_cell("unbalanced", mpi, variant, words, nothing) for variant in compared]
        except Unavailable as reason:
            plan.measured.unavailable["unbalanced"] = str(reason)
    return found


def targets(measured: Measured) -> list[Target]:
    """None: what an application saves depends on how much it waits."""
    return []


def draw(results: dict[str, Any]) -> Any:
    groups = picture.groups_of(results)
    names = picture.variants_of(results["rows"])
    figures = [("wall_s", "wall time (s)"), ("cpu_s", "CPU time of all ranks (s)")]
    if any("energy_j" in row["figures"] for row in results["rows"]):
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
