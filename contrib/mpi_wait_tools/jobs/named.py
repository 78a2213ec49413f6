"""Reads the numbers of jobs where users have them: in lists, on standard input, in names of Slurm's output files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..text.output import Refusal
from ..text.units import safe

JOBS_MAX = 1000
_ONE = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")
_TASKS = re.compile(r"([1-9][0-9]{0,9})_\[([0-9,-]{1,200})\]")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LISTED = re.compile(r",(?![^\[]*\])")


def jobs_named(text: str) -> list[str] | None:
    """Parses "123", "123_4", "123_[1-4,7]", "123+1", and lists of these with commas. None if text is none of these, or
    names too many jobs."""
    found: list[str] = []
    for word in _LISTED.split(text):
        tasks = _TASKS.fullmatch(word)
        if tasks is None:
            if not _ONE.fullmatch(word):
                return None
            found.append(word)
            continue
        for part in tasks.group(2).split(","):
            ends = _RANGE.fullmatch(part)
            if ends is None:
                return None
            first, last = int(ends.group(1)), int(ends.group(2) or ends.group(1))
            if last < first or last - first >= JOBS_MAX:
                return None
            found += [f"{tasks.group(1)}_{task}" for task in range(first, last + 1)]
    return found if len(found) <= JOBS_MAX else None


NAMED_MAX = 10_000  # jobs; more are for mpi-wait top
ENTRIES_MAX = 100_000  # files of one directory
SKIPPED_NAMED = 3
_NUMBER = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,10})?")
_OUTPUT = re.compile(rf"slurm-({_NUMBER.pattern})\.out")  # slurm-%j.out and slurm-%A_%a.out, sbatch's defaults


@dataclass(frozen=True)
class Named:
    jobs: list[str]
    remark: str = ""  # names what was skipped, "" if nothing was


def _bounded(jobs: list[str], where: str) -> list[str]:
    """Returns jobs without repetitions. Raises Refusal if they are too many."""
    once = list(dict.fromkeys(jobs))
    if len(once) > NAMED_MAX:
        raise Refusal(f"{where} names {len(once)} jobs, of at most {NAMED_MAX}: 'mpi-wait top' is for many")
    return once


def jobs_in_text(text: str) -> list[str] | None:
    """Returns the jobs of standard input, 123 or 123_4 with white space between. None if the text is not a list of jobs
    at all but may be a record. Raises Refusal for a list with something else in it, and for a text without words."""
    words = text.split()
    if not words:
        raise Refusal("standard input is empty: expected the numbers of jobs, or a record")
    if '"mpi_wait"' in text or not words[0][0].isdigit():
        return None
    strange = [word for word in words if not _NUMBER.fullmatch(word)]
    if strange:
        raise Refusal(f"'{safe(strange[0], 24)}' on standard input is no job (accepted: 123, 123_4)")
    return _bounded(words, "standard input")


def jobs_in_directory(path: str) -> Named:
    """Returns the jobs that the names of Slurm's output files in a directory tell, in order of their numbers. Opens no
    file. Raises Refusal if there are none, or if the directory cannot be read or has too many entries."""
    shown = safe(path, 200)
    jobs, skipped = [], []
    try:
        with os.scandir(path) as entries:
            for number, entry in enumerate(entries):
                if number >= ENTRIES_MAX:
                    raise Refusal(f"'{shown}' has more than {ENTRIES_MAX} entries: name the jobs instead")
                match = _OUTPUT.fullmatch(entry.name)
                if match:
                    jobs.append(match.group(1))
                else:
                    skipped.append(entry.name)
    except OSError as error:
        raise Refusal(f"'{shown}' cannot be read: {error.strerror}") from None
    if not jobs:
        raise Refusal(f"'{shown}' has no file slurm-JOBID.out: name the jobs instead")
    return Named(sorted(_bounded(jobs, f"'{shown}'"), key=number_of), _skipped(shown, skipped))


def number_of(job: str) -> tuple[int, ...]:
    """Returns the numbers in a job's name, by which jobs are sorted."""
    return tuple(int(part) for part in re.findall("[0-9]+", job))


def _skipped(path: str, names: list[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(safe(name, 40) for name in sorted(names)[:SKIPPED_NAMED])
    more = ", ..." if len(names) > SKIPPED_NAMED else ""
    entries = "1 other entry" if len(names) == 1 else f"{len(names)} other entries"
    return f"Skipped {entries} of '{path}': {shown}{more}."
