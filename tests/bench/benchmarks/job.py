"""Tells by how much a job is longer, not a rank: emulates bulk-synchronous jobs with the real forecast, account and
ladder.

Times are virtual: results do not depend on the machine. Each round is another draw of the same jobs.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Failure, Measured, Row, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number, verdict, worst

NAME = "job"
TITLE = "By how much a job is longer"
ROUNDS = (9, 1)
WAYS = ("ladder", "forecasts", "silent")  # the last: forecasts with a runtime that reports no progress
FIGURES = ("longer_percent", "cpu_percent", "measured_percent")
TIMEOUT_S = 3600
ATONCE = os.cpu_count() or 1
NO_MORE = ("0", "0", "0")  # deep sleeps, hold-ups, cold caches
STEADY = ("one rank always 30 % slow", "the slow rank rotates", "half of the ranks 50 % slower", "drifting")
UNEVEN, HEAVY = ("random, 10 %",), ("random, heavy tail",)
EVERY_LIMIT, APART_LIMIT = 1.2, 3  # per cent, and percentage points
LINE = re.compile(r"(?P<pattern>.{29}\S*?) +(?P<meeting>max|tree|ring) +(?P<figures>[-+\d. ]+)$")


@dataclass(frozen=True)
class Exits:
    """How late sleeps end: `median/99th percentile` in µs. One sleep in `tail` ends 200 µs later."""

    late_us: int
    late_99_us: int
    tail: int = 0

    def __str__(self) -> str:
        return f"{self.late_us}/{self.late_99_us}" + (", late tail" if self.tail else "")

    @property
    def words(self) -> tuple[str, ...]:
        return str(self.late_us), str(self.late_99_us), str(self.tail), *NO_MORE


GOOD, SLOW, TAIL = Exits(5, 12), Exits(16, 36), Exits(5, 12, 1000)


@dataclass(frozen=True)
class Job:
    """`names` selects patterns, meetings and ways. A kind without a name is played whole. `times`: how many times as
    many draws as usual."""

    ranks: int
    steps: int
    names: tuple[str, ...] = ()
    times: int = 1


FORECASTS_ALONE = ("telling", "silent")  # without the ladder: it polls in small steps, for hours with many ranks
MOST_RANKS = ("tree", "always", "rotating", "half", "drifting", "uneven", *FORECASTS_ALONE)
MOST_TIMES = 7
# The start's allowance of 2 ms is half a per cent of 400 steps.
JOBS = (Job(16, 2000), Job(1000, 2000, (*MOST_RANKS, "heavy")), Job(10000, 400, MOST_RANKS),
        # Sleeping hardly pays there: the same draw gives 40 % or 72 % of the CPU time, by little that differs early.
        Job(10000, 400, ("tree", "heavy", *FORECASTS_ALONE), MOST_TIMES))
JOBS_SHORT = (Job(50, 20),)


def group_of(ranks: int, exits: Exits) -> str:
    return f"{ranks} ranks, {exits}"


def lines_read(output: str) -> dict[str, list[Sample]]:
    """Returns, by way, how much longer the job is, the CPU time of the waits, and the accounts' measurements, all in
    %."""
    found: dict[str, list[Sample]] = {way: [] for way in WAYS}
    for line in output.splitlines():
        if not (match := LINE.match(line)):
            continue
        words = match["figures"].split()
        point = {"pattern": match["pattern"].strip(), "meeting": match["meeting"]}
        for way, place in zip(WAYS, range(0, len(words), len(FIGURES))):
            if words[place] != "-":
                figures = zip(FIGURES, map(float, words[place:place + len(FIGURES)]))
                found[way].append((dict(point), dict(figures)))
    return found


@functools.cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ATONCE)


@functools.cache
def started(job: Job, exits: Exits, draw: int) -> Future[subprocess.CompletedProcess[str]]:
    """Starts the emulation, of all ways at once, unless it was started before."""
    words = [variants.BUILT / "job", str(job.ranks), str(job.steps), *exits.words, str(draw), *job.names]
    return pool().submit(subprocess.run, words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def play(job: Job, exits: Exits, way: str, draws: Iterator[int], rounds: int) -> list[Sample]:
    """Returns the next draw's samples. Starts as many of the later draws as there are CPUs."""
    draw = next(draws)
    for later in range(draw + 1, min(draw + ATONCE, rounds)):
        started(job, exits, later)
    done = started(job, exits, draw).result()
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return lines_read(done.stdout)[way]


def ways_of(job: Job) -> tuple[str, ...]:
    return WAYS[1:] if "telling" in job.names else WAYS


def cells(plan: Plan) -> list[Cell]:
    found = []
    for job, exits in itertools.product(JOBS_SHORT if plan.short else JOBS, (GOOD, SLOW, TAIL)):
        rounds = job.times * ROUNDS[plan.short]
        found += [Cell(group_of(job.ranks, exits), way, partial(play, job, exits, way, itertools.count(), rounds),
                       rounds) for way in ways_of(job)]
    return found


def most(measured: Measured, figure: str, patterns: tuple[str, ...] = (), chosen: Callable[[Row], bool] = bool,
         ) -> float | None:
    """Returns the worst figure of the forecasts, over both runtimes."""
    return worst([row.median(figure) for row in measured.rows
                  if row.variant != WAYS[0] and (not patterns or row.point["pattern"] in patterns) and chosen(row)])


def apart(measured: Measured) -> float | None:
    """Returns the greatest difference in CPU time between a silent and a telling runtime, of the means: where sleeping
    hardly pays, draws differ by 20 points, and of such draws the mean tells more than the median."""
    return worst([abs(fmean(row.values["cpu_percent"]) - fmean(other.values["cpu_percent"]))
                  for row in measured.select(variant=WAYS[1])
                  if (other := measured.find(row.group, WAYS[2], **row.point))])


def targets(measured: Measured) -> list[Target]:
    def tree(ranks: int, what: str, limits: dict[str, float], patterns: tuple[str, ...] = (),
             exits: Exits = GOOD) -> list[Target]:
        def chosen(row: Row) -> bool:
            return row.group == group_of(ranks, exits) and row.point["meeting"] == "tree"

        names = {"cpu_percent": "CPU of the waits", "longer_percent": "longer"}
        return [at_most(f"{ranks} ranks, tree, {what}: {names[figure]}", most(measured, figure, patterns, chosen),
                        limit, "%") for figure, limit in limits.items()]

    steady = "one slow rank, a slow half, drifting"
    return [*tree(1000, steady, {"cpu_percent": 30, "longer_percent": 0.1}, STEADY),
            *tree(1000, "random 10 %", {"cpu_percent": 50, "longer_percent": 1}, UNEVEN),
            *tree(1000, "heavy tail", {"longer_percent": 1}, HEAVY),
            *tree(1000, "one sleep in 1 000 ends 200 µs late", {"longer_percent": 1}, exits=TAIL),
            *tree(10000, steady, {"cpu_percent": 45, "longer_percent": 0.6}, STEADY),
            at_most("every size, pattern and collective: longer", most(measured, "longer_percent"), EVERY_LIMIT, "%"),
            at_most("a silent runtime's CPU of the waits beside a telling one's, means", apart(measured), APART_LIMIT,
                    "points")]


def places(results: dict[str, Any]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["point"]["pattern"], row["point"]["meeting"]) for row in results["rows"]))


def figure_of(results: dict[str, Any], group: str, way: str, place: tuple[str, str], figure: str) -> dict | None:
    rows = picture.rows_of(results, group, way, pattern=place[0], meeting=place[1])
    return rows[0]["figures"][figure] if rows else None


def told(results: dict[str, Any], group: str, way: str, place: tuple[str, str]) -> str:
    longer_by, cpu, by_accounts = (figure_of(results, group, way, place, name) for name in FIGURES)
    if not longer_by or not cpu or not by_accounts:
        return "–"
    measured = "" if way == WAYS[0] else f" ({by_accounts['median']:.2f})"
    return f"{longer_by['median']:.2f}{measured}, {cpu['median']:.0f}"


def columns(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the groups and ways that were measured."""
    return [(group, way) for group in picture.groups_of(results) for way in WAYS
            if picture.rows_of(results, group, way)]


def more_draws(results: dict[str, Any]) -> str:
    """Tells where rows have more draws than the others."""
    most = max((len(row["figures"]["cpu_percent"]["values"]) for row in results["rows"]), default=0)
    return f" (of {most} with 10000 ranks and a heavy tail: they differ most)" if most > results["rounds"] else ""


def section_lines(results: dict[str, Any]) -> list[str]:
    found = columns(results)
    sizes = ", ".join(dict.fromkeys(f"{job.ranks} ranks for {job.steps} steps" for job in
                                    (JOBS_SHORT if results["short"] else JOBS)))
    lines = [f"[programs/job.c](programs/job.c) says how: {sizes} of 1 ms. The head of a column says how late sleeps "
             "end, in µs: the median, 99 of 100; \"late tail\": one in 1 000 ends 200 µs later. Forecasts have an "
             "account of 1 %; silent: with a runtime that does not tell of progress (MPICH, Intel MPI), where a "
             "collective is one wait. Times are virtual. Each figure is the median of "
             f"{results['rounds']} draws of work, exits and looks{more_draws(results)}: how much longer the job is "
             "than one that polls, in % (in brackets: what the job's accounts measured); the CPU time of the waits, in "
             "%.", "",
             "| pattern, collective | " + " | ".join(f"{group}: {way}" for group, way in found) + " |",
             "|---|" + "---:|" * len(found)]
    lines += [f"| {', '.join(place)} | " + " | ".join(told(results, *column, place) for column in found) + " |"
              for place in places(results)]
    lines += ["", "| wanted | at most | measured | |", "|---|---:|---:|---|"]
    lines += [f"| {target['text']} | {number(target['limit'])} {target['unit']} | "
              f"{'–' if target['value'] is None else number(target['value']) + ' ' + target['unit']} | "
              f"{verdict(target)} |" for target in results["targets"]]
    longest = max((value for row in results["rows"] if row["variant"] != WAYS[0]
                   for value in row["figures"]["longer_percent"]["values"]), default=0)
    return [*lines, "", f"No draw with forecasts was longer by more than {longest:.2f} %.", ""]


def draw(results: dict[str, Any]) -> Any:
    """Draws one panel for each size, for the sleeps that end soonest."""
    groups, names = [group for group in picture.groups_of(results) if group.endswith(f" {GOOD}")], places(results)
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, len(groups), figsize=(5 * len(groups) + 1.5, 0.8 + 0.34 * len(names)),
                                   squeeze=False, sharey=True)
    for group, axes in zip(groups, panels[0]):
        series = {way: [figure_of(results, group, way, place, "longer_percent") for place in names] for way in WAYS}
        picture.bars(axes, [", ".join(place) for place in names], series, 1, "{:.2g}")
        axes.set_xlabel(f"{group} µs late: job longer by (%)")
        axes.margins(x=0.15)
    picture.legend(figure, [panels[0][0]])
    return figure
