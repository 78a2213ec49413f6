"""mpi-wait try: the command."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..site.host import Host, own_command
from ..text.output import (
    Refusal,
    add_output_arguments,
    output_is_utf8,
    output_width,
    page_path,
    picture_path,
    wants_colour,
)
from ..text.units import duration, plural, rounded, safe
from .energy import Node, joules_of
from .experiment import BASELINE, NAME, Experiment, Run, Store, is_policy
from .run import (
    Ending,
    Preload,
    Steps,
    command_with,
    environment_with,
    find_preload,
    index_of_srun,
    run_once,
    summed,
    with_records,
)
from .verdict import Ratio, baseline, ended, energy_of, enough, next_round, order_of, round_s, verdicts

SUMMARY = "which policy fits a program, measured: runs it in turn without and with each of them"
SHORTEST = "--sb"  # shortest word that argparse takes for --sbatch
ROUNDS_MAX, MINUTES_MAX, POLICIES_MAX, ALLOW_MAX = 1000, 100_000, 16, 100.0


def _policies(text: str) -> list[str]:
    """Parses a list of policies. A word with = belongs to the policy before it: "nap,slowdown=2,event" is two."""
    found: list[str] = []
    for word in text.split(","):
        if "=" in word and found:
            found[-1] += f",{word}"
        else:
            found.append(word)
    if not all(map(is_policy, found)) or len(found) > POLICIES_MAX or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no list of policies (nap,event or nap,slowdown=2,event)")
    if BASELINE in found:
        raise argparse.ArgumentTypeError(f"'{BASELINE}' is what all others are compared with, and runs anyway")
    return found


def _whole(least: int, most: int) -> Any:
    def read(text: str) -> int:
        if not text.isdigit() or not least <= int(text[:9]) <= most:
            raise argparse.ArgumentTypeError(f"'{safe(text)}' is not a number from {least} to {most}")
        return int(text)

    return read


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no regular expression: {error}") from None
    if groups < 1:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' has no group (...) around the number")
    return text


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= ALLOW_MAX:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is not a number of percent from 0 to {ALLOW_MAX:g}")
    return value


def _options(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no list of options: {error}") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policies", metavar="NAME,...", type=_policies, default=["nap"],
                        help="the candidates, with their keys: nap,slowdown=2,event (default: nap)")
    parser.add_argument("--rounds", metavar="N", type=_whole(0, ROUNDS_MAX),
                        help="how often each runs (default: 6 to 30 times, until the intervals are narrow)")
    parser.add_argument("--budget", metavar="MINUTES", type=_whole(1, MINUTES_MAX),
                        help="begin no round that would end later")
    parser.add_argument("--figure", metavar="REGEX", type=_pattern,
                        help=r"the program's own figure of merit: 'Performance: ([\d.]+) ns/day'")
    parser.add_argument("--more-is-better", action="store_true", help="a larger figure is better (default: smaller)")
    parser.add_argument("--allow", metavar="PERCENT", type=_percent, default=1.0,
                        help="by how much a policy without slowdown= may be slower (default: 1)")
    parser.add_argument("--launcher", metavar="NAME", help="what starts the ranks (default: the command's first word)")
    parser.add_argument("--sbatch", metavar="OPTIONS", type=_options,
                        help="submit all this as a batch job: --sbatch '-N2 -n8 -t 60'")
    parser.add_argument("--show", action="store_true", help="run nothing: show the results so far, with the energy")
    parser.add_argument("--new", action="store_true", help="forget what was run here before")
    parser.add_argument("--state", metavar="FILE", default=NAME, help=f"where the runs are kept (default: {NAME})")
    parser.add_argument("--plot", metavar="FILE", type=picture_path, help="draw the intervals too (.png, .svg or .pdf)")
    parser.add_argument("--html", metavar="FILE", type=page_path, help="write a page too (.html), which loads nothing")
    add_output_arguments(parser, "all figures as JSON")
    parser.add_argument("words", metavar="COMMAND", nargs=argparse.REMAINDER,
                        help="after --: how the program is started, srun -n4 ./app")


def _command(arguments: argparse.Namespace) -> tuple[str, ...]:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if bool(words) == arguments.show:
        arguments.refuse_usage("--show runs nothing: no command" if words else "which program? -- srun -n4 ./app")
    if any("--mpi-wait-policy" in word for word in words):
        arguments.refuse_usage("the command names a policy itself: --policies names those to try")
    if arguments.more_is_better and not arguments.figure:
        arguments.refuse_usage("--more-is-better needs --figure")
    if arguments.sbatch is not None and arguments.show:
        arguments.refuse_usage("--sbatch and --show exclude each other")
    return tuple(words)


def _begun(arguments: argparse.Namespace, command: tuple[str, ...], store: Store) -> Experiment:
    """Returns the experiment kept in the working directory, or a new one."""
    launcher = arguments.launcher or os.path.basename(command[0])
    asked = Experiment(command, tuple(arguments.policies), launcher, arguments.figure or "", arguments.more_is_better,
                       arguments.allow / 100, random.SystemRandom().randrange(1 << 31))
    if arguments.new:
        store.forget()
        return asked
    kept = store.load()
    if kept is None:
        return asked
    if not kept.is_same(asked):
        raise Refusal(f"'{safe(store.path, 200)}' has an experiment of '{safe(shlex.join(kept.command), 80)}' under "
                      f"{safe(', '.join(kept.policies))}: --new forgets it, --state FILE keeps another beside it")
    return replace(kept, more_is_better=asked.more_is_better, allow=asked.allow)


def _last_words(tail: str) -> str:
    """Returns the last line that the program itself printed, before srun's remarks on its end."""
    lines = tail.split("\n")
    own = [line for line in lines if not line.startswith(("srun: ", "slurmstepd: "))]
    return (own or lines)[-1]


class Trial:
    """Runs one experiment."""

    def __init__(self, arguments: argparse.Namespace, experiment: Experiment, store: Store, ending: Ending) -> None:
        self.experiment, self.store, self.rounds, self.ending = experiment, store, arguments.rounds, ending
        by_srun = index_of_srun(experiment.command, experiment.launcher) is not None
        job = os.environ.get("SLURM_JOB_ID", "")
        if by_srun and not job:
            raise Refusal("this is no allocation, in which runs follow one another on the same nodes: salloc, a batch "
                          "script, or --sbatch '-N2 -n8'")
        self.preload: Preload | None = None if by_srun else find_preload()
        for policy in experiment.policies:  # before the first run, which may take hours
            environment_with({}, policy, self.preload)
        self.pattern = re.compile(experiment.figure) if experiment.figure else None
        self.job, self.steps = job, Steps(job if job.isdigit() else "", by_srun)
        self.node = Node(Host())
        self.began = time.monotonic()
        self.budget_s = arguments.budget * 60.0 if arguments.budget else None

    def _run(self, policy: str, number: int) -> Run:
        experiment = self.experiment
        environment = environment_with(os.environ, policy, self.preload)
        before = self.node.read()
        outcome = run_once(command_with(experiment.command, experiment.launcher, policy), environment, self.pattern,
                           self.ending)
        joules = joules_of(before, self.node.read())
        mine = self.steps.new(outcome.status != 0)
        of_steps = summed(step.cpu_s for step in mine.values())
        # The CPU time of ranks that are children of this process counts; that of srun itself does not.
        cpu_s = of_steps if self.preload is None else outcome.cpu_s + (of_steps or 0.0)
        run = Run(number, policy, outcome.status, outcome.wall_s, cpu_s or None, outcome.figure,
                  summed(step.joules for step in mine.values()), job=self.job if mine else "", steps=tuple(mine),
                  local=joules.of, lacks_gpus=joules.lacks_gpus, is_simulated=joules.is_simulated)
        if outcome.status:
            said = f": {last}" if (last := _last_words(outcome.tail)) else ", and said nothing"
            _say(f"{safe(policy)} ended with {ended(outcome.status)}{said}")
            if number == 0:
                how = ended(outcome.status)
                raise Refusal(f"the program ends with {how} without a policy{said}: nothing was measured")
            self.experiment = experiment.noted(f"Under {safe(policy)} it ended with {ended(outcome.status)}{said}.")
        return run

    def _has_time(self) -> bool:
        return self.budget_s is None or time.monotonic() - self.began + round_s(self.experiment) <= self.budget_s

    def _round(self) -> None:
        number = next_round(self.experiment)
        for policy in order_of(self.experiment, number):
            run = self._run(policy, number)
            self.experiment = self.experiment.with_run(run)
            self.store.save(self.experiment)
            of = f" of {self.rounds}" if self.rounds else ""
            _say(f"round {number}{of}: {safe(policy)} {duration(run.wall_s)}")

    def run(self) -> str:
        """Runs the experiment to its end; returns why it ended. An interrupted run leaves the earlier runs as they
        were."""
        problem = enough(self.experiment, self.rounds)
        if not problem:
            self.experiment = self.experiment.with_run(self._run(BASELINE, 0))
            _say(f"first run, thrown away: {duration(self.experiment.runs[-1].wall_s)}")
        while not problem:
            if not self._has_time():
                of = plural(self.experiment.done(), "round")
                takes = duration(round_s(self.experiment))
                return f"the budget is spent after {of}: another takes {takes}"
            self._round()
            problem = enough(self.experiment, self.rounds)
        if self.steps.problem:
            self.experiment = self.experiment.noted(f"{self.steps.problem[0].upper()}{self.steps.problem[1:]}.")
        return problem


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _as_json(experiment: Experiment, why: str) -> dict[str, Any]:
    def of(ratio: Ratio) -> dict[str, Any]:
        known = {"ratio": ratio.ratio, "low": ratio.low, "high": ratio.high, "noise": ratio.noise}
        other = [rounded(value) for value in ratio.bootstrap] if ratio.bootstrap else None
        return {**{key: rounded(value) for key, value in known.items()}, "rounds": ratio.rounds, "bootstrap": other}

    return {
        "version": 1, "command": list(experiment.command), "rounds": experiment.done(), "ended": why,
        "energy": energy_of(experiment).name if energy_of(experiment).measure else None,
        "energy_scope": energy_of(experiment).scope or None,
        "energy_is_measured": energy_of(experiment).is_measured,
        "off": {name: rounded(value) for name, value in baseline(experiment).items()},
        "policies": [
            {"policy": one.policy, "verdict": one.kind, "sentence": one.sentence,
             "measures": {name: of(ratio) for name, ratio in one.measures.items()}}
            for one in verdicts(experiment)
        ],
        "notes": list(experiment.notes),
        "runs": len(experiment.runs),
    }


@contextlib.contextmanager
def _rich_needed() -> Iterator[None]:
    """Raises Refusal if an import within the block fails because the package rich is missing."""
    try:
        yield
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None


def _print(arguments: argparse.Namespace, experiment: Experiment, why: str) -> None:
    if arguments.json:
        print(json.dumps(_as_json(experiment, why), indent=2, allow_nan=False))
        return
    with _rich_needed():
        from .show import show_experiment
    width, colour, utf8 = output_width(arguments), wants_colour(arguments), output_is_utf8()
    sys.stdout.write(show_experiment(width, colour, utf8, experiment, why))


def _show(arguments: argparse.Namespace, experiment: Experiment, why: str) -> None:
    """Prints the answer first: the runs took hours, and a page may fail for want of a package or of permission."""
    _print(arguments, experiment, why)
    if arguments.plot or arguments.html:
        from ..pictures.page import write_page, write_sheet
        with _rich_needed():
            from .show import page_of, sheet_of
    if arguments.plot:
        write_sheet(arguments.plot, sheet_of(experiment))
    if arguments.html:
        write_page(arguments.html, page_of(experiment, why))


def _submit(arguments: argparse.Namespace, command: tuple[str, ...]) -> int:
    """Submits this command line, without --sbatch, as a batch job in this directory."""
    place = index_of_srun(command, arguments.launcher or os.path.basename(command[0]))
    words = sys.argv[1:] if sys.argv[1:2] == ["try"] else ["try", *sys.argv[1:]]
    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    skip = False
    for word in words[:end]:
        name, has_value, _ = word.partition("=")
        is_ours = len(name) >= len(SHORTEST) and "--sbatch".startswith(name)  # else the job would submit itself again
        if skip or is_ours:
            skip = is_ours and not skip and not has_value
        else:
            kept.append(word)
    program = shlex.join([*own_command(), *kept, *words[end:]])
    asked = ["sbatch", "--parsable", "--job-name=mpi-wait-try", "--output=mpi-wait-try-%j.out"]
    # If the job itself has a policy, its record also has the energy of the steps under off.
    if place is not None and not any(word.startswith("--mpi-wait-policy") for word in arguments.sbatch):
        asked.append("--mpi-wait-policy=profile")
    asked += arguments.sbatch
    try:
        done = subprocess.run(asked, input=f"#!/bin/sh\nexec {program}\n", capture_output=True, text=True, timeout=120,
                              check=False)
    except FileNotFoundError:
        raise Refusal("sbatch was not found: run this where Slurm's commands are") from None
    except subprocess.TimeoutExpired:
        raise Refusal("sbatch did not answer within 120 s") from None
    if done.returncode:
        raise Refusal(f"sbatch refused: {safe(done.stderr.strip() or 'it says nothing', 300)}")
    job = done.stdout.strip().partition(";")[0]
    print(f"job {safe(job)}: 'mpi-wait try --show' here says what it has so far, and after its end what the energy was")
    return 0


def _finished(experiment: Experiment, store: Store, spool: str | None = None) -> Experiment:
    """Adds the energies of the records that exist by now, and saves them."""
    found, said = with_records(experiment, spool)
    if found != experiment:
        store.save(found)
    return replace(found, notes=(*found.notes, *dict.fromkeys(said)))


def run(arguments: argparse.Namespace) -> int:
    command = _command(arguments)
    if arguments.sbatch is not None:
        return _submit(arguments, command)
    store = Store(arguments.state)
    if arguments.show:
        kept = store.load()
        if kept is None:
            raise Refusal(f"there is no experiment here ('{safe(store.path, 200)}')")
        _show(arguments, _finished(kept, store), "")
        return 0
    with Ending() as ending:
        trial = Trial(arguments, _begun(arguments, command, store), store, ending)
        try:
            why = trial.run()
            status = 0
        except KeyboardInterrupt:
            why = f"interrupted after {plural(trial.experiment.done(), 'round')}; the same command goes on from there"
            status = 128 + signal.SIGINT
    _show(arguments, _finished(trial.experiment, store), why)
    return status

