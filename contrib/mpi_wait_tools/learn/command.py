"""mpi-wait learn: reads the records of a period from sacct and proposes a file of policies by program. Installs
nothing."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from ..jobs.period import add_period_arguments, period_of, with_progress
from ..jobs.sacct import Filters, Period, names, read_days
from ..meaning.programs import TRY, Law, Program, judged
from ..text.output import Refusal, add_output_arguments, lines_limit, output_is_utf8, output_width, wants_colour
from ..text.units import plural, safe
from .gather import Gathered

SUMMARY = "which wait policy fits each program of a site, as its own jobs measured it; installs nothing"
DAYS = 30
PATTERN_MAX = 200
FILE_VERSION, FILE_ROWS_MAX = 1, 256  # as spank/policy/programs.h reads
# A name that stands for itself in the file, whose names are patterns. Others are left out of it.
PLAIN = re.compile(r"[A-Za-z0-9_.+@%][A-Za-z0-9_.+@%-]{0,62}")
NO_FILE = "no program has a verdict yet, and the plugin refuses a file without any; without --json the reasons stand"


def _pattern(text: str) -> str:
    if not text or len(text) > PATTERN_MAX:
        raise argparse.ArgumentTypeError(f"a pattern has 1 to {PATTERN_MAX} characters")
    return text


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 50:
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is not a number from 0 to 50")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_period_arguments(parser, f"{DAYS}d")
    parser.add_argument("--name", metavar="PATTERN", type=_pattern,
                        help="only programs of such names, as in 'wrf*'")
    parser.add_argument("--user", metavar="NAME,...", type=names, help="only these users' jobs")
    parser.add_argument("--trust", metavar="NAME,...", type=names, action="append", default=[],
                        help="believe these users: of programs that they ran only their jobs count, and one is enough")
    parser.add_argument("--allow", metavar="PERCENT", type=_percent, default=Law.allow,
                        help=f"by how much a policy may lengthen a job (default: {Law.allow:g})")
    parser.add_argument("--worth", metavar="PERCENT", type=_percent, default=Law.worth,
                        help=f"the least saving that is worth a policy (default: {Law.worth:g})")
    parser.add_argument("--limit", metavar="N", type=lines_limit, default=20, help="how many programs (default: 20)")
    add_output_arguments(parser, "the proposed file, for programs=FILE, with the programs whose verdict is known")


def _gather(period: Period, users: str) -> Gathered:
    gathered = Gathered()
    days = read_days(period, Filters(users), steps=True)
    for day in with_progress(days, len(period.days()), lambda: gathered.jobs):
        for row in day:
            gathered.add(row)
    return gathered


def is_nameable(program: Program) -> bool:
    return PLAIN.fullmatch(program.name) is not None


def proposal(programs: Sequence[Program]) -> dict[str, Any]:
    """Returns the file for programs=FILE, with the programs that have a verdict other than TRY. The plugin ignores
    notes. Raises Refusal if there is no such program."""
    rows = [
        {"names": [program.name], "policy": program.verdict.policy, "note": _note(program)}
        for program in programs if program.verdict.policy != TRY and is_nameable(program)
    ]
    if not rows:
        raise Refusal(NO_FILE)
    return {"v": FILE_VERSION, "programs": rows[:FILE_ROWS_MAX]}


def _note(program: Program) -> str:
    why = program.verdict.why.replace("±", "+/-").replace("−", "-")
    return f"{why}; {plural(len(program.facts), 'job')} of {plural(program.users, 'user')}"


def run(arguments: argparse.Namespace) -> int:
    period = period_of(arguments, DAYS)
    trusted = {name.strip() for words in arguments.trust for name in words.split(",")}
    gathered = _gather(period, arguments.user or "")
    law = Law(arguments.allow, arguments.worth)
    programs = judged(gathered.programs(arguments.name or ""), law, trusted)
    if arguments.json:
        print(json.dumps(proposal(programs), indent=2, allow_nan=False))
        return 0
    try:
        from .view import show_learned
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None
    left_out = sum(not is_nameable(program) and program.verdict.policy != TRY for program in programs)
    sys.stdout.write(show_learned(output_width(arguments), wants_colour(arguments), output_is_utf8(), period,
                                  arguments.limit, gathered, programs, left_out))
    return 0
