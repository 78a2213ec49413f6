"""What the plugin adds to the start of a step and to the end of a job, on the throw-away cluster.

Two clusters run side by side, one without the plugin; steps and jobs alternate between them. A third one has a plugin
before ours and one behind it that note the time: what lies between them is our callback.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from functools import partial
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample, difference, quantile
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most, number
from tests.cluster import Cluster, ClusterError, MissingRequirements, project_cluster_arguments

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


def boot(plan: Plan, plugstack: str | None) -> Cluster:
    """One node. plugstack None: the project's own; "": no plugin."""
    arguments = project_cluster_arguments()
    if plugstack is not None:
        arguments["plugstack"] = plugstack
    arguments["binds"] = {**arguments["binds"], FOLDER: variants.BUILT}
    # slurmctld says at debug2 when a node's epilog was reported; commands of different clusters need no ports
    cluster = Cluster(nodes=1, slurm_conf={"SlurmctldDebug": "debug2"}, **arguments)
    return plan.stack.enter_context(cluster)


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
    done = cluster.run([STAMP, "srun", *words, "-N1", f"-n{tasks}", "--overcommit", STAMP], timeout=MOST_S)
    found = stamps(done.stdout)
    if done.returncode or len(found["task"]) != tasks:
        raise Failure(f"srun -n{tasks}: {done.stderr.strip()[-300:]}")
    return found


def step_play(cluster: Cluster, job: str, policy: str, sizes: tuple[int, ...]) -> list[Sample]:
    """One step of each size in a job that is there already, so that no scheduling is in it."""
    samples: list[Sample] = []
    for tasks in sizes:
        words = [f"--jobid={job}", "--overlap", *srun_words(policy)]
        found = run_stamped(cluster, words, tasks)
        began = found["began"][0]
        samples.append(({"tasks": tasks}, {
            "first_exec_ms": (min(found["task"]) - began) * 1e-6, "last_exec_ms": (max(found["task"]) - began) * 1e-6,
            "srun_ms": (found["ended"][0] - began) * 1e-6}))
    return samples


def job_start(cluster: Cluster) -> str:
    """An allocation that lasts."""
    done = cluster.run(["salloc", "--no-shell", "-N1", "-n2"], timeout=MOST_S)
    found = re.search(r"Granted job allocation (\d+)", done.stderr)
    if not found:
        raise Failure(f"salloc: {done.stderr.strip()[-300:]}")
    return found[1]


def moment(text: str) -> float:
    """Seconds of a log's time stamp, within a day."""
    hours, minutes, seconds = text.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def epilog_times(log: str, job: str) -> dict[str, float]:
    """From the job's end to the report that its epilog has run, by slurmctld's log."""
    over = re.search(rf"T([\d:.]+)\] (?:_job_complete|job_complete): JobId={job} done", log)
    freed = re.search(rf"T([\d:.]+)\] debug2: _slurm_rpc_epilog_complete: JobId={job} ", log)
    if not over or not freed:
        return {}
    return {"epilog_ms": (moment(freed[1]) - moment(over[1])) % 86400 * 1e3}


def job_play(cluster: Cluster, policy: str) -> list[Sample]:
    name = f"bench{time.monotonic_ns()}"
    run_stamped(cluster, [f"--job-name={name}", *srun_words(policy)], 2)
    listed = cluster.run(["scontrol", "-o", "show", "job"]).stdout
    found = re.search(rf"JobId=(\d+) JobName={name} ", listed)
    if not found:
        raise Failure(f"the controller knows no job of the name {name}")
    deadline = time.monotonic() + MOST_S
    while not (times := epilog_times(cluster.logs("slurmctld"), found[1])):
        if time.monotonic() > deadline:
            raise Failure(f"no end of job {found[1]} in slurmctld's log")
        time.sleep(0.05)
    return [({}, times)]


def traced(text: str) -> dict[tuple[str, str], float]:
    """Milliseconds by callback and context: of each process one call after another, as they were noted."""
    began: dict[tuple[str, int], int] = {}
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in text.splitlines():
        who, callback, context, pid, time_ns = line.split()
        key = (callback, int(pid))
        if who == "before":
            began[key] = int(time_ns)
        elif key in began:
            spent[callback, CONTEXTS.get(int(context), "slurmd")].append((int(time_ns) - began.pop(key)) * 1e-6)
    return {key: quantile(values, 0.5) for key, values in spent.items()}


def callback_play(cluster: Cluster, trace: str, tasks: int) -> list[Sample]:
    """A job of one step; the median of what each callback took."""
    file = cluster.inside.path(trace)
    file.write_text("")
    run_stamped(cluster, srun_words(NAP), tasks)
    deadline = time.monotonic() + MOST_S
    while "after job_epilog" not in file.read_text():
        if time.monotonic() > deadline:
            raise Failure("the epilog was not traced")
        time.sleep(0.05)
    return [({"tasks": tasks, "callback": f"{callback} ({context})"}, {"callback_ms": spent})
            for (callback, context), spent in traced(file.read_text()).items()]


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
    pairs = [(NO_PLUGIN, plain), (OFF, ours), (NAP, ours)]
    jobs = {id(cluster): job_start(cluster) for cluster in (plain, ours)}
    found = [Cell(STEPS, policy, partial(step_play, cluster, jobs[id(cluster)], policy, sizes))
             for policy, cluster in pairs]
    for cluster in (plain, ours):
        plan.stack.callback(cluster.run, ["scancel", jobs[id(cluster)]])
    found += [Cell(JOBS, policy, partial(job_play, cluster, policy)) for policy, cluster in pairs]
    return found + [Cell(CALLBACKS, NAP, partial(callback_play, tracing, trace, tasks)) for tasks in sizes]


def added_ms(measured: Measured, policy: str, tasks: int) -> float | None:
    return difference(measured.find(STEPS, policy, tasks=tasks), measured.find(STEPS, NO_PLUGIN, tasks=tasks),
                      "srun_ms")


def slope_ms(measured: Measured, policy: str) -> tuple[float | None, str]:
    """Per further task: from 2 tasks to the most."""
    sizes = sorted({row.point["tasks"] for row in measured.select(STEPS)})
    added = {tasks: found for tasks in sizes if (found := added_ms(measured, policy, tasks)) is not None}
    why = "added at " + ", ".join(f"{tasks}: {number(found)} ms" for tasks, found in added.items())
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
    panels[0].set_yscale("log")
    picture.plain_ticks(panels[0], sorted({row["point"]["tasks"] for row in rows}))
    panels[0].set_xlabel("tasks of the step (srun -n)")
    panels[0].set_ylabel("srun of a program that ends at once (ms)")
    panels[0].legend(fontsize=8)
    jobs = picture.rows_of(results, JOBS)
    series = {row["variant"]: [row["figures"]["epilog_ms"]] for row in jobs}
    picture.bars(panels[1], [""], series, text="{:.0f}")
    panels[1].set_xlabel("from the job's end until its\nepilog has freed the node (ms)")
    panels[1].margins(x=0.2)
    panels[1].legend(fontsize=8, loc="lower right")
    callbacks_draw(panels[2], results)
    return figure


def callbacks_draw(axes: Any, results: dict[str, Any]) -> None:
    rows = picture.rows_of(results, CALLBACKS)
    sizes = sorted({row["point"]["tasks"] for row in rows})
    names = list(dict.fromkeys(row["point"]["callback"] for row in rows))
    for place, tasks in enumerate(sizes):
        found = {row["point"]["callback"]: row["figures"]["callback_ms"] for row in rows
                 if row["point"]["tasks"] == tasks}
        axes.plot([found[name]["median"] if name in found else None for name in names], range(len(names)), "os^Dv"[place % 5],
                  color=picture.SPARE[place % len(picture.SPARE)], label=f"{tasks} tasks", markersize=5, linestyle="")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xlabel("time in our callback, each time (ms)")
    axes.legend(fontsize=8)
