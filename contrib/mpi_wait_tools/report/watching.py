"""report --watch: what goes with it; the rest is the room of that name."""

from __future__ import annotations

import argparse

from ..jobs.sacct import Target
from ..text.errors import Refusal

OTHERS = ("json", "csv", "plot", "html", "brief", "duplicates", "all_ranks", "record")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="your running job: who waits now, each second anew")
    parser.add_argument("--once", action="store_true", help="with --watch: one look, as text")


def check_usage(arguments: argparse.Namespace) -> None:
    if arguments.once and not arguments.watch:
        arguments.refuse_usage("--once goes with --watch")
    one_job = len(arguments.jobs) == 1 and arguments.jobs != ["-"]
    if arguments.watch and (not one_job or any(getattr(arguments, name) for name in OTHERS)):
        arguments.refuse_usage("--watch shows one running job, JOBID[.STEP], and goes with --once, --no-color, --width")


def run(arguments: argparse.Namespace, target: Target | str) -> int:
    if isinstance(target, str):
        raise Refusal("a job that runs is watched, and no file")
    try:
        from ..watch.live import watch
    except ImportError as error:
        name = (error.name or "rich").split(".")[0]
        raise Refusal(f"the Python package '{name}' is missing (python3-rich): --watch needs it") from None
    return watch(arguments, target)
