"""By how much a job is longer, not a rank: bulk-synchronous jobs, emulated with the real plan and ladder.

Times are virtual: the machine that it runs on does not matter, and one run says it all.
"""

from __future__ import annotations

import functools
import re
import subprocess
from functools import partial
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Failure, Measured, Row, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, verdict, worst

NAME = "job"
TITLE = "By how much a job is longer"
ROUNDS = (1, 1)
WAYS = ("ladder", "forecasts", "silent")  # the last: forecasts with a runtime that does not tell of progress
JOBS = {1000: 300, 10000: 200}  # ranks, and steps of 1 ms
JOBS_SHORT = {50: 20}
TIMEOUT_S = 900
STEADY = ("one rank always 30 % slow", "the slow rank rotates")
EVERY_LIMIT, STEADY_LIMIT, LADDER_LIMIT = 0.5, 0.05, 0.1  # %, of the largest job; above the ladder, everywhere
LINE = re.compile(r"(?P<pattern>.{29}\S*?) +(?P<meeting>max|tree|ring) +(?P<figures>[-+\d. ]+)$")


def group_of(ranks: int) -> str:
    return f"{ranks} ranks"


def lines_read(output: str) -> dict[str, list[Sample]]:
    """By way: how much longer the job is (%), the CPU time of the waits (%), late naps per 10000 waits."""
    found: dict[str, list[Sample]] = {way: [] for way in WAYS}
    for line in output.splitlines():
        if not (match := LINE.match(line)):
            continue
        figures = [float(word) for word in match["figures"].split()]
        point = {"pattern": match["pattern"].strip(), "meeting": match["meeting"]}
        for number_of, way in enumerate(WAYS):
            longer, cpu, late = figures[3 * number_of:3 * number_of + 3]
            found[way].append((dict(point), {"longer_percent": longer, "cpu_percent": cpu, "late": late}))
    return found


@functools.cache
def played(ranks: int, steps: int) -> dict[str, list[Sample]]:
    done = subprocess.run([variants.BUILT / "job", str(ranks), str(steps)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return lines_read(done.stdout)


def play(ranks: int, steps: int, way: str) -> list[Sample]:
    return played(ranks, steps)[way]


def cells(plan: Plan) -> list[Cell]:
    return [Cell(group_of(ranks), way, partial(play, ranks, steps, way))
            for ranks, steps in (JOBS_SHORT if plan.short else JOBS).items() for way in WAYS]


def longer(rows: list[Row], way: str, group: str = "", patterns: tuple[str, ...] = ()) -> list[Row]:
    return [row for row in rows if row.variant == way and (not group or row.group == group)
            and (not patterns or row.point["pattern"] in patterns)]


def above_ladder(measured: Measured, way: str) -> float | None:
    """The most that forecasts cost more than the ladder, of all patterns, collectives and sizes."""
    return worst([row.median("longer_percent") - ladder.median("longer_percent")
                  for row in measured.select(variant=way)
                  if (ladder := measured.find(row.group, WAYS[0], **row.point))])


def targets(measured: Measured) -> list[Target]:
    largest = max(measured.groups(), key=lambda group: int(group.split()[0]), default="")

    def most(way: str, patterns: tuple[str, ...] = ()) -> float | None:
        return worst([row.median("longer_percent") for row in longer(measured.rows, way, largest, patterns)])

    found = []
    for way, name in zip(WAYS[1:], ("forecasts", "forecasts, silent runtime")):
        found += [at_most(f"{largest}, {name}: longer, every pattern", most(way), EVERY_LIMIT, "%"),
                  at_most(f"{largest}, {name}: longer, the same slow rank or in turn", most(way, STEADY),
                          STEADY_LIMIT, "%"),
                  at_most(f"{name}: longer than by the ladder, every size and pattern", above_ladder(measured, way),
                          LADDER_LIMIT, "%")]
    return found


def places(results: dict[str, Any]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["point"]["pattern"], row["point"]["meeting"]) for row in results["rows"]))


def figure_of(results: dict[str, Any], group: str, way: str, place: tuple[str, str], figure: str) -> dict | None:
    rows = picture.rows_of(results, group, way, pattern=place[0], meeting=place[1])
    return rows[0]["figures"][figure] if rows else None


def both(results: dict[str, Any], group: str, way: str, place: tuple[str, str]) -> str:
    longer_by, cpu = (figure_of(results, group, way, place, name) for name in ("longer_percent", "cpu_percent"))
    return f"{longer_by['median']:.2f}, {cpu['median']:.0f}" if longer_by and cpu else "–"


def section_lines(results: dict[str, Any]) -> list[str]:
    groups = picture.groups_of(results)
    steps = dict(JOBS_SHORT if results["short"] else JOBS)
    sizes = ", ".join(f"{group} for {steps.get(int(group.split()[0]), '?')} steps" for group in groups)
    lines = [f"[programs/job.c](programs/job.c) says how: {sizes} of 1 ms, sleeps end 5 µs late, forecasts have an "
             "account of 1 %; silent: with a runtime that does not tell of progress (MPICH, Intel MPI), where a "
             "collective is one wait. Times are virtual. Each figure: how much longer the job is than one that polls, "
             "in %; the CPU time of the waits, in %.", "",
             "| pattern, collective | " + " | ".join(f"{group}: {way}" for group in groups for way in WAYS) + " |",
             "|---|" + "---:|" * (len(groups) * len(WAYS))]
    for place in places(results):
        found = [both(results, group, way, place) for group in groups for way in WAYS]
        lines.append(f"| {', '.join(place)} | " + " | ".join(found) + " |")
    lines += ["", "| wanted | at most | measured | |", "|---|---:|---:|---|"]
    lines += [f"| {target['text']} | {number(target['limit'])} % | "
              f"{'–' if target['value'] is None else number(target['value']) + ' %'} | {verdict(target)} |"
              for target in results["targets"]]
    return [*lines, ""]


def draw(results: dict[str, Any]) -> Any:
    groups, names = picture.groups_of(results), places(results)
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, len(groups), figsize=(5 * len(groups) + 1.5, 0.8 + 0.34 * len(names)),
                                   squeeze=False, sharey=True)
    for group, axes in zip(groups, panels[0]):
        series = {way: [figure_of(results, group, way, place, "longer_percent") for place in names] for way in WAYS}
        picture.bars(axes, [", ".join(place) for place in names], series, 1, "{:.2g}")
        axes.set_xlabel(f"{group}: job longer by (%)")
        axes.margins(x=0.15)
    picture.legend(figure, [panels[0][0]])
    return figure
