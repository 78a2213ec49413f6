"""Compares the measurements of waits by forecast with the targets and the best possible; makes their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench import best, picture, unmet
from tests.bench import targets as aims
from tests.bench.benchmarks import calls
from tests.bench.engine import Row, quantile
from tests.bench.targets import Target, at_least, at_most, number
from tests.bench.variants import BARE, LADDER

BEFORE, JUDGED = LADDER, "nap"
POLICIES = (BEFORE, JUDGED)
CALLS = {"calls": "that do not wait"}
SLEEP = "sleep"  # name of the group of the cost of a sleep
INSTRUCTIONS = calls.INSTRUCTIONS
LATE_CPU = {200: 25, 500: 12, 1000: 8, 2000: 6, 5000: 4, 100000: 2}  # greatest CPU share in %, by us late
JITTER = 0.02  # jitter of programs/waits.c
STEP_CPU = {500: 12, 1000: 8, 2000: 6, 5000: 5}  # greatest CPU time above the work in %, by step length in us
STEP_WALL_MEDIAN, STEP_WALL_WORST = 0.5, 1.0  # greatest wall time above no library's, in %
SCENE_US = 1000
SCENE_CPU = {"coin": 40, "change": 40}  # greatest CPU share in %; the other scenes may take what they need
SCENE_DELAY = 1.0  # greatest delay, in % of the run
TITLES = {"coin": "0.1 or 1.9 ms by coin", "change": "0.3 ↔ 1 ms, each 100 waits", "uniform": "uniform, 0 to 2 ms",
          "exponential": "exponential, mean 1 ms", "adversary": "1 ms, or as soon as the rank sleeps"}


class Figures:
    """The measurements, by library."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def mpis(self) -> list[str]:
        return [group for group in dict.fromkeys(row.group for row in self.rows) if group != INSTRUCTIONS]

    def row(self, mpi: str, variant: str, **point: Any) -> Row | None:
        return next((row for row in self.rows if row.group == mpi and row.variant == variant
                     and all(row.point.get(key) == value for key, value in point.items())), None)

    def value(self, mpi: str, variant: str, figure: str, **point: Any) -> float | None:
        row = self.row(mpi, variant, **point)
        return row.median(figure) if row and figure in row.values else None

    def against(self, mpi: str, variant: str, figure: str, how: Callable[[float, float], float],
                **point: Any) -> float | None:
        """Returns the median over the rounds' pairs; None if one was not measured."""
        row, bare = self.row(mpi, variant, **point), self.row(mpi, BARE, **point)
        if not row or not bare or figure not in row.values or figure not in bare.values:
            return None
        return quantile([how(mine, other) for mine, other in zip(row.values[figure], bare.values[figure])], 0.5)

    def points(self, key: str, **point: Any) -> list[float]:
        rows = [row for row in self.rows if key in row.point
                and all(row.point.get(name) == value for name, value in point.items())]
        return sorted({row.point[key] for row in rows})

    def sleep(self, mpi: str, length_us: float) -> best.Sleep | None:
        sleeps = [best.Sleep(row.point["nap_us"], row.median("late_us"), row.median("late_99_us"),
                             row.median("cpu_us"))
                  for row in self.rows if row.group == mpi and row.variant == SLEEP]
        return best.nearest(sleeps, length_us) if sleeps else None


def delay_percent(figures: Figures, mpi: str, variant: str, scene: str) -> float | None:
    """Returns how much later all waits together ended than without the library, in per cent of the run."""
    row, bare = figures.row(mpi, variant, scene=scene), figures.row(mpi, BARE, scene=scene)
    if not row or not bare:
        return None
    usual_us = bare.median("median_us")
    return quantile([100 * (after - count * usual_us) / run for after, count, run in
                     zip(row.values["after_us"], row.values["count"], row.values["run_us"])], 0.5)


def lateness_limit_us(wait_us: float) -> float:
    return 2 + 0.001 * wait_us


def late_targets(figures: Figures, mpi: str, variant: str, wait_us: float) -> dict[str, Target]:
    point = {"scene": "near", "late_us": wait_us}
    sleep, where = figures.sleep(mpi, wait_us), f"{picture.title_of(mpi)}, {picture.duration(wait_us)} late"
    cpu = figures.value(mpi, variant, "cpu_share", **point)
    bare_us, p99_us = figures.value(mpi, BARE, "median_us", **point), figures.value(mpi, variant, "p99_us", **point)
    tail_us = None if p99_us is None or bare_us is None else p99_us - bare_us
    return {"cpu": at_most(f"{where}: CPU of the wait", None if cpu is None else 100 * cpu,
                           LATE_CPU.get(int(wait_us), 100), "%"),
            "median": at_most(f"{where}: median lateness",
                              figures.against(mpi, variant, "median_us", lambda mine, other: mine - other, **point),
                              lateness_limit_us(wait_us), "µs"),
            "p99": at_most(f"{where}: 99th percentile of the lateness, that of a sleep at most",
                           tail_us if sleep else None, sleep.late_99_us if sleep else 0, "µs")}


def step_values(figures: Figures, mpi: str, variant: str, step_us: float) -> list[tuple[float, float, Row]]:
    """Returns, for each cell of that step, CPU time above the work and wall time above that without the library, in per
    cent."""
    found = []
    for row in figures.rows:
        if row.group != mpi or row.variant != variant or row.point.get("step_us") != step_us:
            continue
        wall = figures.against(mpi, variant, "step_wall_us", lambda mine, other: 100 * (mine / other - 1), **row.point)
        if wall is not None:
            found.append((100 * (row.median("cpu_over_work") - 1), wall, row))
    return found


def step_targets(figures: Figures, mpi: str, variant: str, step_us: float) -> dict[str, Target]:
    cells_of = step_values(figures, mpi, variant, step_us)
    where = f"{picture.title_of(mpi)}, steps of {picture.duration(step_us)}"
    walls = [wall for _, wall, _ in cells_of]
    return {"cpu": at_most(f"{where}: CPU time above the work, worst of {len(cells_of)}",
                           max((cpu for cpu, _, _ in cells_of), default=None), STEP_CPU.get(int(step_us), 5), "%"),
            "median": at_most(f"{where}: wall time above no library's, median",
                              quantile(walls, 0.5) if walls else None, STEP_WALL_MEDIAN, "%"),
            "worst": at_most(f"{where}: wall time above no library's, worst of {len(cells_of)}",
                             max(walls, default=None), STEP_WALL_WORST, "%")}


def scene_targets(figures: Figures, mpi: str, variant: str, scene: str) -> dict[str, Target]:
    where = f"{picture.title_of(mpi)}, {TITLES[scene]}"
    found = {"delay": at_most(f"{where}: delay, of the run", delay_percent(figures, mpi, variant, scene), SCENE_DELAY,
                              "%")}
    if scene in SCENE_CPU:
        cpu = figures.value(mpi, variant, "cpu_share", scene=scene)
        found["cpu"] = at_most(f"{where}: CPU of the wait", None if cpu is None else 100 * cpu, SCENE_CPU[scene], "%")
    return found


def call_targets(figures: Figures, mpi: str, variant: str) -> dict[str, Target]:
    where = picture.title_of(mpi)

    def ratio(figure: str) -> float | None:
        return figures.against(mpi, variant, figure, lambda mine, other: mine / other, **CALLS)

    return {"ns": at_most(f"{where}: time added to a call",
                          figures.against(mpi, variant, "call_ns", lambda mine, other: mine - other, **CALLS), 10,
                          "ns"),
            "rate": at_least(f"{where}: messages per second, of those without the library", ratio("messages"), 0.98,
                             ""),
            "oneway": at_most(f"{where}: 8 B one-way latency, times that without the library", ratio("oneway_us"),
                              1.05, "")}


def instructions_target(figures: Figures, variant: str) -> Target:
    added = {call: figures.against(INSTRUCTIONS, variant, "instructions", lambda mine, other: mine - other, call=call)
             for call in calls.SCENES.values()}
    return at_most("instructions added to a call", aims.worst([*added.values()]), 60, "", calls.named(added))


def best_of_steps(figures: Figures, mpi: str, step_us: float) -> float | None:
    """Returns the best possible CPU time above the work in per cent, at the imbalance where it is greatest."""
    found = []
    for imbalance in figures.points("imbalance", step_us=step_us):
        waited_us = step_us * imbalance / 100
        if waited_us > 0 and (sleep := figures.sleep(mpi, waited_us)):
            found.append(100 * best.step_cpu_over_work(step_us, imbalance / 100, sleep))
    return max(found, default=None)


def best_of_wait(figures: Figures, mpi: str, wait_us: float) -> float | None:
    sleep = figures.sleep(mpi, wait_us)
    return 100 * best.wait_cpu_share(wait_us, sleep, JITTER) if sleep else None


def best_of_scene(figures: Figures, mpi: str, scene: str) -> float | None:
    sleep = figures.sleep(mpi, SCENE_US)
    if not sleep or scene not in SCENE_CPU:
        return None
    if scene == "coin":
        return 100 * best.coin_cpu_share(0.1 * SCENE_US, 1.9 * SCENE_US, sleep)
    return 100 * best.change_cpu_share((0.3 * SCENE_US, SCENE_US), sleep)


def every_target(figures: Figures) -> list[Target]:
    found = []
    for mpi in figures.mpis():
        for wait_us in figures.points("late_us", scene="near"):
            found += late_targets(figures, mpi, JUDGED, wait_us).values()
        for step_us in figures.points("step_us"):
            found += step_targets(figures, mpi, JUDGED, step_us).values()
        for scene in TITLES:
            if figures.row(mpi, JUDGED, scene=scene):
                found += scene_targets(figures, mpi, JUDGED, scene).values()
        found += call_targets(figures, mpi, JUDGED).values()
    return [*found, instructions_target(figures, JUDGED)]


def rows_kept(results: dict[str, Any]) -> list[Row]:
    """Returns the rows of a document as they were measured."""
    return [Row(row["group"], row["variant"], row["point"],
                {name: figure["values"] for name, figure in row["figures"].items()}) for row in results["rows"]]


def shown(value: float | None) -> str:
    return "–" if value is None else number(value)


def judged(target: Target) -> str:
    """Returns the target's value, marked if the target is not met."""
    verdict = aims.verdict(target.as_dict())
    return f"{shown(target.value)} {verdict if verdict == 'met' else f'**{verdict}**'}".strip()


def above(value: float | None, least: float | None) -> str:
    return "–" if value is None or least is None else number(value - least)


def late_lines(figures: Figures, mpi: str) -> list[str]:
    lines = ["| late by | CPU, no library % | ladder | nap | wanted | best | above it | later, ladder µs | nap | "
             "wanted | p99, ladder µs | nap | a sleep's |", "|---|" + "---:|" * 12]
    for wait_us in figures.points("late_us", scene="near"):
        before, mine = (late_targets(figures, mpi, variant, wait_us) for variant in POLICIES)
        bare = figures.value(mpi, BARE, "cpu_share", scene="near", late_us=wait_us)
        least = best_of_wait(figures, mpi, wait_us)
        cells_of = [picture.duration(wait_us), shown(None if bare is None else 100 * bare), shown(before["cpu"].value),
                    judged(mine["cpu"]), number(mine["cpu"].limit), shown(least), above(mine["cpu"].value, least),
                    shown(before["median"].value), judged(mine["median"]), number(mine["median"].limit),
                    shown(before["p99"].value), judged(mine["p99"]), number(mine["p99"].limit)]
        lines.append("| " + " | ".join(cells_of) + " |")
    return lines


def step_lines(figures: Figures, mpi: str) -> list[str]:
    lines = ["| steps of | CPU above the work, no library % | ladder | nap | wanted | best | above it | wall, ladder "
             "median, worst % | nap, median | worst |", "|---|" + "---:|" * 9]
    for step_us in figures.points("step_us"):
        before, mine = (step_targets(figures, mpi, variant, step_us) for variant in POLICIES)
        bare = max((cpu for cpu, _, _ in step_values(figures, mpi, BARE, step_us)), default=None)
        least = best_of_steps(figures, mpi, step_us)
        cells_of = [picture.duration(step_us), shown(bare), shown(before["cpu"].value), judged(mine["cpu"]),
                    number(mine["cpu"].limit), shown(least), above(mine["cpu"].value, least),
                    f"{shown(before['median'].value)}, {shown(before['worst'].value)}", judged(mine["median"]),
                    judged(mine["worst"])]
        lines.append("| " + " | ".join(cells_of) + " |")
    return lines


def scene_lines(figures: Figures, mpi: str) -> list[str]:
    lines = ["| waits | CPU, ladder % | nap | wanted | best | above it | delay of the run, ladder % | nap | "
             "wanted |", "|---|" + "---:|" * 8]
    for scene, title in TITLES.items():
        if not figures.row(mpi, JUDGED, scene=scene):
            continue
        cpu = {variant: figures.value(mpi, variant, "cpu_share", scene=scene) for variant in POLICIES}
        percent = {variant: None if value is None else 100 * value for variant, value in cpu.items()}
        mine, least = scene_targets(figures, mpi, JUDGED, scene), best_of_scene(figures, mpi, scene)
        cells_of = [title, shown(percent[BEFORE]), judged(mine["cpu"]) if "cpu" in mine else shown(percent[JUDGED]),
                    number(mine["cpu"].limit) if "cpu" in mine else "any", shown(least),
                    above(percent[JUDGED], least), shown(delay_percent(figures, mpi, BEFORE, scene)),
                    judged(mine["delay"]), number(SCENE_DELAY)]
        lines.append("| " + " | ".join(cells_of) + " |")
    return lines


def call_lines(figures: Figures) -> list[str]:
    """Returns the table of calls that do not wait, for all libraries."""
    lines = ["| | ns added, ladder | nap | messages, ladder | nap | latency, ladder | nap |",
             "|---|" + "---:|" * 6]
    for mpi in figures.mpis():
        before, mine = (call_targets(figures, mpi, variant) for variant in POLICIES)
        cells_of = [picture.title_of(mpi)]
        for key in ("ns", "rate", "oneway"):
            cells_of += [shown(before[key].value), judged(mine[key])]
        lines.append("| " + " | ".join(cells_of) + " |")
    added = {variant: instructions_target(figures, variant) for variant in POLICIES}
    return [*lines, "", f"Instructions added to a call: ladder {shown(added[BEFORE].value)}, nap "
            f"{judged(added[JUDGED])} (at most 60). Wanted: at most 10 ns, at least 0.98 of the messages per second, "
            "at most 1.05 times the 8 B latency."]


def sleep_line(figures: Figures, mpi: str) -> str:
    found = [figures.sleep(mpi, length) for length in figures.points("nap_us")]
    listed = ", ".join(f"{picture.duration(sleep.length_us)}: {number(sleep.late_us)} µs, {number(sleep.late_99_us)} "
                       f"µs, {number(sleep.cpu_us)} µs" for sleep in found if sleep)
    return f"Sleeps end late by (median, 99 of 100, and their CPU time): {listed}."


def section_lines(results: dict[str, Any]) -> list[str]:
    """Returns the whole section for RESULTS.md, library by library."""
    figures = Figures(rows_kept(results))
    verdicts = [aims.verdict(target) for target in results["targets"]]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("met", "not met", "not measured"))
    lines = [f"Of {len(verdicts)} figures that something is wanted of: {counts}. The best possible: a rank that knows "
             "how its waits are spread sleeps once, so that 99 of 100 of the sleeps measured beside end before the "
             "message, and polls then ([best.py](best.py)). Late partners vary by 2 %. Of unequal work the worst is "
             "shown of the imbalances of 20, 40 and 80 % and of who is slow: the same rank, each in turn, another in "
             "every third step.", "", *unmet.lines(results["targets"])]
    for mpi in figures.mpis():
        lines += [f"### {picture.title_of(mpi)}", "", sleep_line(figures, mpi), "", *late_lines(figures, mpi), "",
                  *step_lines(figures, mpi), "", *scene_lines(figures, mpi), ""]
    return [*lines, "### Calls that do not wait", "", *call_lines(figures), ""]
