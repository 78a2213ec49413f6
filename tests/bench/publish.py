"""Writes what was measured into the tree: RESULTS.md beside this file, and the pictures, small, in results/."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.bench import targets

HERE = Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
PICTURES = HERE / "results"
QUIET = 0.7
HEAD = """\
# What it costs, what it saves, beside the alternatives

Written by `tests/bench/run --publish`; every figure is made again by the command beside it. A target that was not met
says so. A figure is the median of the rounds, in which the variants took turns; where several MPI libraries were
measured, the worst of them counts.

"""


def machine_lines(results: dict[str, Any]) -> list[str]:
    machine, versions = results["machine"], results["versions"]
    kind = "a virtual machine" if machine["virtual"] else "a machine"
    listed = ", ".join(f"{name} {version}" for name, version in versions.items() if name in ("slurm", "python"))
    mpis = "; ".join(version for name, version in versions.items() if name not in ("slurm", "python", "spank-mpi-wait"))
    return [f"On {kind} with {machine['cpus']} CPUs ({machine['processor']}), {machine['memory_gib']} GiB, Linux "
            f"{machine['kernel']}, clock {machine['clocksource']}, governor {machine['governor']}; {listed}; {mpis}.",
            "", f"**Energy: {machine['energy']}.** No saving is claimed.", ""]


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{targets.number(value)} {unit}".strip()


def target_lines(documents: list[dict[str, Any]]) -> list[str]:
    lines = ["## Targets", "", "| target | wanted | measured | | where | command |", "|---|---|---:|---|---|---|"]
    for results in documents:
        for target in results["targets"]:
            verdict = {"met": "met", "not met": "**not met**", "not measured": "not measured"}[targets.verdict(target)]
            lines.append(f"| {cell(target['text'])} | {target['sense']} {shown(target['limit'], target['unit'])} "
                         f"| {shown(target['value'], target['unit'])} | {verdict} | {cell(target['why'])} "
                         f"| `{results['command']}` |")
    every = [targets.verdict(target) for results in documents for target in results["targets"]]
    counts = ", ".join(f"{every.count(word)} {word}" for word in ("met", "not met", "not measured"))
    return [*lines, "", f"Of {len(every)} targets: {counts}.", ""]


def quiet_lines(documents: list[dict[str, Any]]) -> list[str]:
    """By the load before the first of them: the others' is their predecessors' own."""
    first = min(documents, key=lambda results: results["began"])
    load = first["load"]["before"][0]
    if load <= QUIET:
        return []
    return [f"**The machine was not quiet: its load was {load:g} before the first benchmark.**", ""]


def benchmark_lines(results: dict[str, Any], picture: Path) -> list[str]:
    lines = [f"## {results['title']}", "", f"`{results['command']}`, {results['seconds']:.0f} s, load before "
             f"{results['load']['before'][0]:g}{', ranks undisturbed' if results['undisturbed'] else ''}.", ""]
    if picture.exists():
        lines += [f"![{results['title']}](results/{picture.name})", ""]
    for what, reason in results["unavailable"].items():
        lines += [f"Not measured: {what}: {reason}.", ""]
    for problem in results["problems"]:
        lines += [f"Failed: {problem}.", ""]
    return lines


def page(documents: list[dict[str, Any]], pictures: Path) -> str:
    lines = [*quiet_lines(documents), *machine_lines(documents[0]), *target_lines(documents)]
    if any(results["short"] for results in documents):
        lines = ["**Short form: these figures show that the benchmarks run, and nothing else.**", "", *lines]
    for results in documents:
        lines += benchmark_lines(results, pictures / f"{results['benchmark']}.png")
    return HEAD + "\n".join(lines).rstrip() + "\n"


def write(documents: list[dict[str, Any]], folder: Path, target: Path = HERE) -> None:
    """Copies the pictures first: the page shows those that there are."""
    pictures = target / PICTURES.name
    pictures.mkdir(exist_ok=True)
    for results in documents:
        source = folder / f"{results['benchmark']}.png"
        if source.exists():
            shutil.copy(source, pictures / source.name)
    (target / PAGE.name).write_text(page(documents, pictures))
