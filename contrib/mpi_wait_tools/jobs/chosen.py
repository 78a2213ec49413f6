"""Words on the command line that choose jobs: names, times, and oneself."""

from __future__ import annotations

import argparse
import os
import pwd
import time

from ..text.errors import Refusal
from ..text.units import safe
from .sacct_many import parse_time

NAMES_MAX = 4000  # characters


def names(text: str) -> str:
    """Users, accounts or partitions. sacct knows which there are: winbind's have a backslash, others spaces."""
    each = text.split(",")
    if not text.isprintable() or len(text) > NAMES_MAX or any(not name.strip() or name[0] == "-" for name in each):
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no name, and no list of names with commas")
    return text


def moment(text: str) -> float:
    found = parse_time(text, time.time())
    if found is None:
        accepted = "12h, 7d, today, 2026-11-21, 2026-11-21T16:40"
        raise argparse.ArgumentTypeError(f"'{safe(text)}' is no time (accepted: {accepted})")
    return found


def me(asked: str) -> str:
    """Whose jobs: this user's. asked: what they are asked for by, for the refusal."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise Refusal(f"{asked}: uid {os.getuid()} has no name on this host (--user names one)") from None
