"""Shared by the commands: options and questions about standard output, and the exceptions that end a command."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from .units import safe


class Refusal(Exception):
    """The command cannot answer. The message is one line, and says how to help."""


class NoRecord(Refusal):
    """The job has ended and left no record."""


class NotEnded(Refusal):
    """The job has not ended as far as sacct knows, and has no record before that."""


PICTURES = (".png", ".svg", ".pdf")
WIDTH_MIN, WIDTH_MAX, WIDTH_READABLE = 40, 1000, 120
LINES_MAX = 100_000
WIDTH_TWO_COLUMNS, WIDTH_BOTH = 150, 200  # least width of a report in two columns, and the most that both take


def picture_path(text: str) -> str:
    if not text.lower().endswith(PICTURES):
        raise argparse.ArgumentTypeError(f"'{safe(text)}' ends in none of {', '.join(PICTURES)}")
    return text


def page_path(text: str) -> str:
    if not text.lower().endswith((".html", ".htm")):
        raise argparse.ArgumentTypeError(f"'{safe(text)}' does not end in .html")
    return text


def lines_limit(text: str) -> int:
    """Reads the value of --limit."""
    if not text.isdigit() or not 1 <= int(text[:9]) <= LINES_MAX:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is not a number from 1 to {LINES_MAX}")
    return int(text)


def _columns(text: str) -> int:
    if not text.isdigit() or not WIDTH_MIN <= int(text) <= WIDTH_MAX:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number from {WIDTH_MIN} to {WIDTH_MAX}"
        )
    return int(text)


def add_output_arguments(parser: argparse.ArgumentParser, json_help: str) -> None:
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument(
        "--no-color", action="store_true", help="no colours, as with NO_COLOR in the environment"
    )
    parser.add_argument(
        "--width", metavar="N", type=_columns, help="columns to use (default: the terminal's)"
    )


def output_width(arguments: argparse.Namespace, two_columns: bool = False) -> int:
    """Returns the width to write in, in characters. two_columns says that the output makes use of a wide terminal."""
    if arguments.width:
        return int(arguments.width)
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 80
    columns = shutil.get_terminal_size((80, 24)).columns
    if two_columns and columns >= WIDTH_TWO_COLUMNS:
        return min(WIDTH_BOTH, columns)
    return max(WIDTH_MIN, min(WIDTH_READABLE, columns))


def wants_colour(arguments: argparse.Namespace) -> bool:
    if arguments.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def _locale_is_plain() -> bool:
    """Returns True if the user asked for the locale C, whose terminals need not know UTF-8.

    Python writes UTF-8 under C all the same. If LC_ALL is not set, it puts LC_CTYPE=C.UTF-8 into its own environment,
    so that value of LC_CTYPE is not the user's.
    """
    everything, kind, language = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    chosen = everything or ("" if kind == "C.UTF-8" else kind) or language
    return chosen in ("C", "POSIX")


def output_is_utf8() -> bool:
    if _locale_is_plain() and "PYTHONIOENCODING" not in os.environ:
        return False
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
