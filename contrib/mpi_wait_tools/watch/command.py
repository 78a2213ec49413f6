"""mpi-wait watch-node: what 'mpi-wait report --watch' has srun start on each node of a job.

Prints a look a second, until its standard input ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time

from ..site.host import Host
from .look import line_of
from .node import Node

SUMMARY = "what 'mpi-wait report --watch' runs on the nodes of a job"
EVERY_S = 1.0
NICE = 10  # the ranks come first


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=int, help="the job's number")
    parser.add_argument("--step", default="", help="of this step alone")


def _ends_within(seconds: float) -> bool:
    """Whether standard input ends in that time; what it says otherwise is of no interest."""
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([0], [], [], max(0.0, end - time.monotonic()))
        if not ready or time.monotonic() > end:
            return False
        if not os.read(0, 4096):
            return True


def run(arguments: argparse.Namespace) -> int:
    host = Host()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    node = Node(arguments.job, arguments.step, os.environ.get("SLURMD_NODENAME") or host.name.split(".")[0], host)
    try:
        while True:
            print(line_of(node.look()))
            sys.stdout.flush()
            if _ends_within(EVERY_S):
                return 0
    finally:
        node.close()
