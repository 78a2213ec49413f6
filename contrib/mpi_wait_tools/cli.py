"""The command line: runs the subcommand. A command that ends early prints at most one line on stderr.

Exit codes: 0 done; 1 cannot be answered, and the line says why (check: something is wrong); 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys

from . import __version__
from .text.output import Refusal
from .text.units import safe

# A subcommand is a module with SUMMARY, add_arguments(parser) and run(arguments).
COMMANDS = {"report": "report.command", "top": "top.command", "try": "trial.command", "learn": "learn.command",
            "check": "check.command"}
HIDDEN = {"watch-node": "watch.agent"}  # subcommands that other subcommands start on the nodes


def build_parser(chosen: str = "") -> argparse.ArgumentParser:
    """Builds the parser of the command line. If chosen is a subcommand, no other is loaded."""
    parser = argparse.ArgumentParser(
        prog="mpi-wait",
        description="What a job's MPI ranks waited for, the energy that it used, and whether a host is fit for it.",
    )
    parser.add_argument("--version", action="version", version=f"mpi-wait {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    places = {**COMMANDS, **HIDDEN}
    for name, place in {chosen: places[chosen]}.items() if chosen in places else places.items():
        module = importlib.import_module(f".{place}", __package__)
        shown = {"help": module.SUMMARY} if name in COMMANDS else {}
        command = commands.add_parser(name, description=module.SUMMARY, **shown)
        module.add_arguments(command)
        command.set_defaults(run=module.run, refuse_usage=command.error)
    return parser


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    arguments = build_parser(*words[:1]).parse_args(words)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Refusal as refusal:
        print(f"mpi-wait: {safe(str(refusal), 2000)}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has gone (a pager, head). Without this, Python would report the broken pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
