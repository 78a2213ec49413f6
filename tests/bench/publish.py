"""Writes results into the tree: RESULTS.md beside this file, the pictures in results/, README's section."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from tests.bench import forecasts, targets
from tests.bench.benchmarks import applications, foresight, job, late_sender, launches, scale
from tests.lib import results as sections

HERE = Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
PICTURES = HERE / "results"
README = HERE.parents[1] / "README.md"
SECTION = "benchmark"  # section of the README
SHOWN = (  # targets in the README: what a user asks first
    "1 ms late, nap: CPU share of the wait",
    "1 ms late, nap: median overshoot",
    "time added to a call",
    "wall time above that without the library, steps of 500 µs and more, median of the imbalances",
)
OWN = {applications.NAME: applications, foresight.NAME: forecasts, job.NAME: job,
       launches.NAME: launches, scale.NAME: scale}
"""These benchmarks have a section of their own, with tables, and are published alone."""
QUIET = 0.7
HALF, SHARE, LONGEST_US = 2, 16, 100  # budget by the lateness covered; wait by budget; a usual nap
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


def limit_lines(documents: list[dict[str, Any]]) -> list[str]:
    """Returns the section on the limits that no target can beat, on this machine and under this law."""
    nap = documents[0]["machine"]["nap"]
    woken = [target["value"] for results in documents for target in results["targets"]
             if target["text"] == late_sender.EVENT_OVERSHOOT and target["value"] is not None]
    waking = f", {targets.number(woken[0])} µs here" if woken else ""
    begin_ms = nap["late_most_us"] * HALF * SHARE / 1000
    least = 100 * nap["cpu_us"] / (LONGEST_US + nap["late_us"])
    return [
        "## Where the limits lie", "",
        f"A sleep of {LONGEST_US} µs ends {nap['late_us']:.0f} µs late on this machine, one in ten "
        f"{nap['late_most_us']:.0f} µs or more, and takes {nap['cpu_us']:.0f} µs of CPU time. In a wait that is not "
        f"forecast, `nap` delays no step by more than 1/{SHARE} of it and sleeps only where half of that covers the "
        f"lateness: from {begin_ms:.1f} ms of a wait on. Sleeping so, a rank uses {least:.0f} % of its core. Less "
        "takes a forecast, and so waits that repeat: the first ones of a program, or of a benchmark, do not.", "",
        f"`event` sleeps in every wait of more than 20 µs or so and is late by its waking{waking}: the CPU time wanted "
        "of waits of 1 ms and the wall time wanted of steps of 100 and 200 µs exclude each other there. It is no "
        "policy for steps of less than a millisecond.", ""]


def readme_lines(documents: list[dict[str, Any]]) -> list[str]:
    """Returns the figures of SHOWN, and where to find the others."""
    machine = documents[0]["machine"]
    kind = "a virtual machine" if machine["virtual"] else "a machine"
    lines = [f"On {kind} with {machine['cpus']} CPUs, the worst of five MPI libraries:", "",
             "| | wanted | measured |", "|---|---|---:|"]
    for target in (target for results in documents for target in results["targets"] if target["text"] in SHOWN):
        missed = "" if targets.verdict(target) == "met" else f", **{targets.verdict(target)}**"
        lines.append(f"| {cell(target['text'])} | {target['sense']} {shown(target['limit'], target['unit'])} "
                     f"| {shown(target['value'], target['unit'])}{missed} |")
    return [*lines, "", "[All figures](tests/bench/RESULTS.md), how they were made, and where the limits lie."]


def quiet_lines(documents: list[dict[str, Any]]) -> list[str]:
    """Returns a warning if the load was high before the first benchmark. Later ones start with the load of their
    predecessors."""
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
    lines = [*quiet_lines(documents), *machine_lines(documents[0]), *target_lines(documents), *limit_lines(documents)]
    if any(results["short"] for results in documents):
        lines = ["**Short form: these figures show that the benchmarks run, and nothing else.**", "", *lines]
    for results in documents:
        lines += benchmark_lines(results, pictures / f"{results['benchmark']}.png")
    return HEAD + "\n".join(lines).rstrip() + "\n"


def own_lines(results: dict[str, Any], picture: Path) -> list[str]:
    """Returns a section of a benchmark of OWN: the machine, and its tables."""
    head = benchmark_lines(results, picture)
    if not results["rows"]:
        return [head[0], "", *OWN[results["benchmark"]].section_lines(results)]
    stolen = f"{results.get('stolen_percent', 0):g} % of the CPU time stolen meanwhile"
    made = head[2].replace(", load before", f", {stolen}, load before")
    short = ["**Short form: it shows that the benchmark runs, and nothing else.**", ""] if results["short"] else []
    return [head[0], "", *short, *quiet_lines([results]), *machine_lines(results)[:1], "", made, *head[3:],
            *OWN[results["benchmark"]].section_lines(results)]


def own_readme_lines(results: dict[str, Any]) -> list[str]:
    """Returns how many of the targets of forecasts are met."""
    verdicts = [targets.verdict(target) for target in results["targets"]]
    return [f"`nap`'s forecasts meet {verdicts.count('met')} of {len(verdicts)} targets "
            "([table](tests/bench/RESULTS.md#waits-by-forecast))."]


def row_replace(text: str, row: str) -> str:
    """Replaces the row of a table that begins with the same cell. Raises ValueError if there is none."""
    begin = row[:row.index(" | ") + 3]
    text, found = re.subn(rf"^{re.escape(begin)}.*$", lambda _: row, text, count=1, flags=re.M)
    if not found:
        raise ValueError(f"no such row yet: {begin}(publish all benchmarks together)")
    return text


def is_part(path: Path, documents: list[dict[str, Any]]) -> bool:
    """Returns true if the page has targets of other benchmarks too."""
    have = re.findall(r"`tests/bench/run ([\w-]+)` \|$", path.read_text() if path.exists() else "", re.M)
    return not {results["benchmark"] for results in documents}.issuperset(have)


def parts_write(path: Path, documents: list[dict[str, Any]], pictures: Path) -> None:
    """Replaces the targets and the sections of these benchmarks in the page, and leaves the others."""
    text = path.read_text()
    for results in documents:
        for row in (line for line in target_lines([results]) if line.endswith(f"`{results['command']}` |")):
            text = row_replace(text, row)
        before, found, rest = text.partition(f"\n## {results['title']}\n")
        _, *after = re.split(r"^(?=## |<!-- )", rest, maxsplit=1, flags=re.M)
        if found:
            section = benchmark_lines(results, pictures / f"{results['benchmark']}.png")
            text = "\n".join([before, *section, *after])
    words = {"met": "| met |", "not met": "| **not met** |", "not measured": "| not measured |"}
    rows = re.findall(r"^\|.*`tests/bench/run [\w-]+` \|$", text, re.M)
    counts = ", ".join(f"{sum(mark in row for row in rows)} {word}" for word, mark in words.items())
    path.write_text(re.sub(r"^Of \d+ targets: .*$", f"Of {len(rows)} targets: {counts}.", text, flags=re.M))


def readme_rows_write(readme: Path, documents: list[dict[str, Any]]) -> None:
    """Replaces the rows of the README's section that these benchmarks have measured."""
    section = sections.section_read(readme, SECTION)
    for row in (line for line in readme_lines(documents) if line.startswith(tuple(f"| {text} |" for text in SHOWN))):
        section = row_replace(section, row)
    sections.section_replace(readme, SECTION, section)


def page_write(path: Path, text: str) -> None:
    """Writes the page anew, but keeps the sections that other runs have made."""
    kept = {name: section for name in OWN if (section := sections.section_read(path, name))}
    path.write_text(text)
    for name, section in kept.items():
        sections.section_replace(path, name, section)


def write(documents: list[dict[str, Any]], folder: Path, target: Path = HERE, readme: Path = README) -> None:
    """Writes the page, or the parts of it that these benchmarks are. Copies the pictures first, because the page shows
    those that exist."""
    documents = [scale.published(results) if results["benchmark"] == scale.NAME else results for results in documents]
    pictures = target / PICTURES.name
    pictures.mkdir(exist_ok=True)
    for results in documents:
        source = folder / f"{results['benchmark']}.png"
        if source.exists() and results["rows"]:
            shutil.copy(source, pictures / source.name)
    whole = [results for results in documents if results["benchmark"] not in OWN]
    if whole and is_part(target / PAGE.name, whole):
        parts_write(target / PAGE.name, whole, pictures)
        readme_rows_write(readme, whole)
    elif whole:
        page_write(target / PAGE.name, page(whole, pictures))
        sections.section_replace(readme, SECTION, "\n".join(readme_lines(whole)))
    for results in documents:
        name = results["benchmark"]
        if name in OWN:
            lines = own_lines(results, pictures / f"{name}.png")
            sections.section_replace(target / PAGE.name, name, "\n".join(lines))
        if name == foresight.NAME:
            sections.section_replace(readme, name, "\n".join(own_readme_lines(results)))
