"""Measures what the plugin adds to the start of a step and to the end of a job, on the throw-away cluster.

Two clusters run side by side, one without the plugin; steps and jobs alternate between them. A third one has a plugin
before the project's and one behind it that note the time: the difference is the callback's time. The nodes' energy
counters are plain files, as quick to read as the kernel's.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import picture, variants
from tests.bench.benchmarks import sampler
from tests.bench.engine import Cell, Failure, Measured, Sample, difference, quantile
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number
from tests.lib.libraries import BUILD
from tests.lib.throwaway import Cluster, ClusterError, MissingRequirements, project_cluster_arguments

NAME = "launch"
TITLE = "Start of a step and end of a job"
ROUNDS = (12, 2)
STEPS, JOBS, CALLBACKS = "steps", "jobs", "callbacks"
NO_PLUGIN, OFF, NAP = "no plugin", "off", "nap"
TASKS, TASKS_SHORT = (1, 2, 16, 64), (1, 2, 16)
FOLDER = "/opt/bench"
STAMP = f"{FOLDER}/stamp"
CONTEXTS = {1: "srun", 2: "slurmstepd", 5: "prolog, epilog"}  # enum spank_context
MOST_S = 60
ZONES = 4
COUNTERS = "/opt/bench-counters"
# The counters of the simulated node are too slow for measurements: a program answers each read of its files.
SHOW_COUNTERS = f"""\
mkdir /run/counters
mount -t tmpfs none /run/counters
mkdir /run/counters/upper /run/counters/work
mount -t overlay -o lowerdir=/sys/class,upperdir=/run/counters/upper,workdir=/run/counters/work none /sys/class
mkdir -p /sys/class/powercap
cp -r {COUNTERS}/powercap/. /sys/class/powercap
"""


@dataclass
class Place:
    """A cluster, and the allocation in which steps are measured, if there is one."""

    cluster: Cluster
    job: str = ""


def boot(plan: Plan, plugstack: str | None) -> Cluster:
    """Boots a cluster of one node. plugstack None: the project's own; "": no plugin."""
    arguments = project_cluster_arguments()
    if plugstack is not None:
        arguments["plugstack"] = plugstack
    counters = Path(plan.stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD)))
    counters.chmod(0o755)
    sampler.tree_write(counters / "powercap", ZONES, interval_s=1000)
    arguments["binds"] = {**arguments["binds"], FOLDER: variants.BUILT, COUNTERS: counters}
    # slurmctld logs at debug2 when a node has reported its epilog
    cluster = Cluster(nodes=1, simulated=False, slurm_conf={"SlurmctldDebug": "debug2"}, **arguments)
    plan.stack.enter_context(cluster)
    cluster.node_run(cluster.nodes[0], ["sh", "-ec", SHOW_COUNTERS], check=True)
    return cluster


def stamps(output: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in ("began", "task", "ended"):
            found[words[0]].append(int(words[1]))
    return found


def srun_words(policy: str) -> list[str]:
    return [] if policy == NO_PLUGIN else [f"--mpi-wait-policy={policy}"]


def run_stamped(cluster: Cluster, words: list[str], tasks: int) -> dict[str, list[int]]:
    command = [STAMP, "srun", *words, "-N1", f"-n{tasks}", "--overcommit", STAMP]
    try:
        done = cluster.run(command, timeout=MOST_S)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"srun -n{tasks} did not end within {MOST_S} s") from error
    found = stamps(done.stdout)
    if done.returncode or len(found["task"]) != tasks:
        raise Failure(f"srun -n{tasks}: {done.stderr.strip()[-300:]}")
    return found


def step_play(place: Place, policy: str, sizes: tuple[int, ...]) -> list[Sample]:
    """Runs one step of each size in an existing job, so that no scheduling is measured."""
    samples: list[Sample] = []
    if not place.job:
        place.job = job_start(place.cluster)
    for tasks in sizes:
        words = [f"--jobid={place.job}", "--overlap", *srun_words(policy)]
        found = run_stamped(place.cluster, words, tasks)
        began = found["began"][0]
        samples.append(({"tasks": tasks}, {
            "first_exec_ms": (min(found["task"]) - began) * 1e-6, "last_exec_ms": (max(found["task"]) - began) * 1e-6,
            "srun_ms": (found["ended"][0] - began) * 1e-6}))
    return samples


def job_start(cluster: Cluster) -> str:
    """Makes an allocation that stays; returns the job's id."""
    done = cluster.run(["salloc", "--no-shell", "-N1", "-n2"], timeout=MOST_S)
    found = re.search(r"Granted job allocation (\d+)", done.stderr)
    if not found:
        raise Failure(f"salloc: {done.stderr.strip()[-300:]}")
    return found[1]


def moment(text: str) -> float:
    """Returns the seconds within a day of a log's time stamp."""
    hours, minutes, seconds = text.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def epilog_times(log: str, job: str) -> dict[str, float]:
    """Returns the time from the job's end until the node is free, by slurmctld's log. The node is free when slurmctld
    hears that the epilog has run, or, without any epilog, when it finds nothing to do."""
    over = re.search(rf"T([\d:.]+)\] (?:_job_complete|job_complete): JobId={job} done", log)
    if not over:
        return {}
    rest = log[over.end():]
    freed = (re.search(rf"T([\d:.]+)\] debug2: _slurm_rpc_epilog_complete: JobId={job} ", rest)
             or re.search(r"T([\d:.]+)\] debug2: node_did_resp ", rest))
    return {"epilog_ms": (moment(freed[1]) - moment(over[1])) % 86400 * 1e3} if freed else {}


def job_play(place: Place, policy: str) -> list[Sample]:
    cluster = place.cluster
    if place.job:  # the allocation has the whole node
        cluster.run(["scancel", place.job])
        cluster.wait_job(place.job)
        place.job = ""
    name = f"bench{time.monotonic_ns()}"
    run_stamped(cluster, [f"--job-name={name}", *srun_words(policy)], 2)
    listed = cluster.run(["scontrol", "-o", "show", "job"]).stdout
    found = re.search(rf"JobId=(\d+) JobName={name} ", listed)
    if not found:
        raise Failure(f"the controller knows no job of the name {name}")
    cluster.wait_job(found[1])
    deadline = time.monotonic() + MOST_S
    while not (times := epilog_times(cluster.logs("slurmctld"), found[1])):
        if time.monotonic() > deadline:
            raise Failure(f"no end of job {found[1]} in slurmctld's log")
        time.sleep(0.05)
    return [({}, times)]


def traced(text: str) -> dict[tuple[str, str], dict[str, float]]:
    """Returns milliseconds by callback and context. Each process notes one call after another."""
    began: dict[tuple[str, str], list[int]] = {}
    spent: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for line in text.splitlines():
        who, callback, context, pid, *clocks = line.split()
        now = [int(clock) for clock in clocks]
        if who == "before":
            began[callback, pid] = now
        elif (callback, pid) in began:
            before = began.pop((callback, pid))
            spent[callback, CONTEXTS.get(int(context), "slurmd")].append(
                [(after - earlier) * 1e-6 for earlier, after in zip(before, now)])
    return {key: {"callback_ms": quantile([wall for wall, _ in values], 0.5),
                  "cpu_ms": quantile([cpu for _, cpu in values], 0.5)} for key, values in spent.items()}


def callback_play(cluster: Cluster, trace: str, tasks: int) -> list[Sample]:
    """Runs a job of one step; returns the median time of each callback."""
    file = cluster.inside.path(trace)
    file.write_text("")
    run_stamped(cluster, srun_words(NAP), tasks)
    deadline = time.monotonic() + MOST_S
    while "after job_epilog" not in file.read_text():
        if time.monotonic() > deadline:
            raise Failure("the epilog was not traced")
        time.sleep(0.05)
    return [({"tasks": tasks, "callback": f"{callback} ({context})"}, figures)
            for (callback, context), figures in traced(file.read_text()).items()]


def traced_cluster(plan: Plan) -> tuple[Cluster, str]:
    trace = f"{Cluster.share}/trace"
    ours = project_cluster_arguments()["plugstack"]
    lines = [f"optional {FOLDER}/bench_before.so {trace}\n", ours, f"optional {FOLDER}/bench_after.so {trace}\n"]
    cluster = boot(plan, "".join(lines))
    file = cluster.inside.path(trace)
    file.touch()
    file.chmod(0o666)
    return cluster, trace


def cells(plan: Plan) -> list[Cell]:
    sizes = TASKS_SHORT if plan.short else TASKS
    if not project_cluster_arguments()["plugstack"]:
        plan.measured.unavailable["launch"] = "the plugin is not staged (build/stage)"
        return []
    try:
        plain, ours = boot(plan, ""), boot(plan, None)
        tracing, trace = traced_cluster(plan)
    except (MissingRequirements, ClusterError) as reason:
        plan.measured.unavailable["launch"] = str(reason)
        return []
    without, with_plugin = Place(plain), Place(ours)
    pairs = [(NO_PLUGIN, without), (OFF, with_plugin), (NAP, with_plugin)]
    found = [Cell(STEPS, policy, partial(step_play, place, policy, sizes)) for policy, place in pairs]
    found += [Cell(JOBS, policy, partial(job_play, place, policy)) for policy, place in pairs]
    return found + [Cell(CALLBACKS, NAP, partial(callback_play, tracing, trace, tasks)) for tasks in sizes]


def added_ms(measured: Measured, policy: str, tasks: int) -> float | None:
    return difference(measured.find(STEPS, policy, tasks=tasks), measured.find(STEPS, NO_PLUGIN, tasks=tasks),
                      "srun_ms")


def task_cpu_ms(measured: Measured) -> float | None:
    """Returns the CPU time of the plugin's callbacks for one task, in the largest step."""
    rows = [row for row in measured.select(CALLBACKS) if row.point["callback"].startswith("task_")]
    most = max((row.point["tasks"] for row in rows), default=0)
    return sum(row.median("cpu_ms") for row in rows if row.point["tasks"] == most) if rows else None


def slope_ms(measured: Measured, policy: str) -> tuple[float | None, str]:
    """Returns the time added for each further task, from 2 tasks to the most; and the reason."""
    sizes = sorted({row.point["tasks"] for row in measured.select(STEPS)})
    added = {tasks: found for tasks in sizes if (found := added_ms(measured, policy, tasks)) is not None}
    why = "added at " + ", ".join(f"{tasks}: {number(found)} ms" for tasks, found in added.items())
    callbacks = task_cpu_ms(measured)
    if callbacks is not None:
        why += f"; CPU time of our callbacks for a task: {number(callbacks)} ms"
    if len(added) < 2 or 2 not in added or sizes[-1] == 2:
        return None, why
    return (added[sizes[-1]] - added[2]) / (sizes[-1] - 2), why


def targets(measured: Measured) -> list[Target]:
    slope, why = slope_ms(measured, NAP)
    off = added_ms(measured, OFF, 2)
    epilog = difference(measured.find(JOBS, NAP), measured.find(JOBS, NO_PLUGIN), "epilog_ms")
    rows = [measured.find(JOBS, policy) for policy in (NO_PLUGIN, NAP)]
    took = ", ".join(f"{row.variant} {number(row.median('epilog_ms'))} ms" for row in rows if row)
    return [
        at_most("added to a step of 2 tasks on a node", added_ms(measured, NAP, 2), 10, "ms",
                f"off: {number(off)} ms" if off is not None else ""),
        at_most("added per further task", slope, 0.1, "ms", why),
        at_most("added until the epilog has freed the node", epilog, 30, "ms", took),
    ]


def draw(results: dict[str, Any]) -> Any:
    plot = picture.pyplot()
    figure, panels = plot.subplots(1, 3, figsize=(12, 4.2), gridspec_kw={"width_ratios": [1.1, 0.8, 1.3]})
    rows = picture.rows_of(results, STEPS)
    for variant in picture.variants_of(rows):
        mine = [row for row in rows if row["variant"] == variant]
        picture.line(panels[0], mine, "tasks", "srun_ms", variant)
    panels[0].set_xscale("log", base=2)
    picture.plain_ticks(panels[0], sorted({row["point"]["tasks"] for row in rows}))
    panels[0].set_xlabel("tasks of the step (srun -n)")
    panels[0].set_ylabel("srun of a program that ends at once (ms)")
    panels[0].set_ylim(bottom=0)
    jobs = picture.rows_of(results, JOBS)
    series = {row["variant"]: [row["figures"]["epilog_ms"]] for row in jobs}
    picture.bars(panels[1], [""], series, text="{:.0f}")
    panels[1].set_xlabel("from the job's end until its\nepilog has freed the node (ms)")
    panels[1].margins(x=0.2)
    callbacks_draw(panels[2], results)
    picture.legend(figure, panels[:1])
    return figure


def callbacks_draw(axes: Any, results: dict[str, Any]) -> None:
    rows = picture.rows_of(results, CALLBACKS)
    sizes = sorted({row["point"]["tasks"] for row in rows})
    names = list(dict.fromkeys(row["point"]["callback"] for row in rows))
    for place, tasks in enumerate(sizes):
        found = {row["point"]["callback"]: row["figures"]["callback_ms"] for row in rows
                 if row["point"]["tasks"] == tasks}
        values = [found[name]["median"] if name in found else None for name in names]
        axes.plot(values, range(len(names)), "os^Dv"[place % 5], color=picture.SPARE[place % len(picture.SPARE)],
                  label=f"{tasks} task{'s' if tasks > 1 else ''}", markersize=5, linestyle="")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    picture.plain_log(axes, "x")
    axes.set_xlabel("time in our callback, each time (ms);\nsome 0.02 ms are the tracing's own")
    axes.legend(fontsize=8)
