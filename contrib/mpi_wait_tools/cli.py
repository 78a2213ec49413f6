"""The command line: runs the subcommand. A command that ends early prints at most one line on stderr.

Exit codes: 0 done; 1 cannot be answered, and the line says why (check: something is wrong); 2 wrong usage.
"""

from __future__ import annotations

import argparse
import errno
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
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # errors of writing, of a full disk for example


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


def _drop_output() -> None:
    """Lets standard output go nowhere: Python would otherwise write the rest at exit, and report the error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if sys.stdout is None:  # as after ">&-": a file that is opened later would take its number
        print("mpi-wait: the output cannot be written: standard output is closed", file=sys.stderr)
        return 1
    try:
        arguments = build_parser(*words[:1]).parse_args(words)
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Refusal as refusal:
        print(f"mpi-wait: {safe(str(refusal), 2000)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has gone (a pager, head)
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in FULL:
            raise
        _drop_output()
        print(f"mpi-wait: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
