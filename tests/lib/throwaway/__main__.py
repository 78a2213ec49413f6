"""`python3 -m tests.lib.throwaway`: a throw-away Slurm cluster for one command, or for a shell.

    python3 -m tests.lib.throwaway run [--nodes N] [--profile P] [--user NAME] -- COMMAND...
    python3 -m tests.lib.throwaway shell
    python3 -m tests.lib.throwaway check

`run` boots the cluster, runs the command on its submit host as a job user, tears all down, and
exits with the command's status. `check` says what this machine lacks.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.lib.throwaway import cgroups, config, project
from tests.lib.throwaway.cluster import Cluster
from tests.lib.throwaway.errors import ClusterError
from tests.lib.throwaway.requirements import missing_requirements


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.lib.throwaway", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("run", "run one command in a cluster"), ("shell", "a shell in a cluster")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--nodes", type=int, default=2, help="how many nodes (default 2)")
        command.add_argument("--profile", choices=list(config.PROFILES), default="linuxproc")
        command.add_argument("--user", default="alice", help="who runs it (default alice)")
        command.add_argument("--bind", action="append", default=[], metavar="TARGET=SOURCE",
                             help="show a file or directory of this machine in the cluster")
        command.add_argument("--plain", action="store_true", help="Slurm without this project")
        command.add_argument("--no-simulated", action="store_true",
                             help="nodes without simulated powercap and cpufreq files")
        command.add_argument("--quiet", action="store_true", help="no progress lines")
        if name == "run":
            command.add_argument("argv", nargs="+", metavar="COMMAND")
    commands.add_parser("check", help="say what is missing")
    return parser.parse_args(words)


def check() -> int:
    missing = missing_requirements()
    for line in missing:
        print(f"missing: {line}")
    for profile in config.PROFILES:
        reason = cgroups.unavailable_reason(profile)
        print(f"profile {profile}: " + (f"not available: {reason}" if reason else
                                        "not available" if missing else "available"))
    return 1 if missing else 0


def run_inside(arguments: argparse.Namespace) -> int:
    """Boots a cluster, runs the command, tears the cluster down. Returns the command's exit status as a shell would."""
    argv = arguments.argv if arguments.command == "run" else ["/bin/bash"]
    options = {} if arguments.plain else project.project_cluster_arguments()
    binds = dict(options.pop("binds", {}))
    for text in arguments.bind:
        target, _, source = text.partition("=")
        binds[target] = Path(source).resolve()

    def progress(line: str) -> None:
        if not arguments.quiet:
            print(f"  {line}", file=sys.stderr, flush=True)
    with Cluster(nodes=arguments.nodes, profile=arguments.profile, binds=binds, progress=progress,
                 simulated=not arguments.no_simulated, **options) as cluster:
        process = cluster.popen(argv, user=arguments.user, terminal=True, stdin=None, stdout=None,
                                stderr=None, env={"TERM": os.environ.get("TERM", "dumb")})
        status = process.wait()
    return status if status >= 0 else 128 - status


def main() -> int:
    arguments = parse_arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    if arguments.command == "check":
        return check()
    try:
        return run_inside(arguments)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
