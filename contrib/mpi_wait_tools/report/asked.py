"""Reads which jobs and files a user asked report for: words, a directory of Slurm's output files, standard input."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..jobs.found import read_text
from ..jobs.named import JOBS_MAX, jobs_in_directory, jobs_in_text, jobs_named
from ..jobs.sacct import Target, parse_target
from ..text.units import safe


@dataclass
class Asked:
    targets: list[Target] = field(default_factory=list)  # jobs, and steps of jobs
    paths: list[str] = field(default_factory=list)  # files with records; "-" is standard input
    text: str = ""  # standard input's, if it is a record
    remarks: list[str] = field(default_factory=list)  # sentences on what was skipped
    is_list: bool = False  # a directory, or numbers on standard input, named jobs

    @property
    def jobs(self) -> list[str]:
        return list(dict.fromkeys(target.job for target in self.targets))

    def add(self, jobs: Sequence[str]) -> None:
        self.targets += [Target(job, None) for job in jobs]
        self.is_list = True


def _add_input(asked: Asked) -> None:
    text = read_text("-")
    jobs = jobs_in_text(text)
    if jobs is None:
        asked.paths.append("-")
        asked.text = text
    else:
        asked.add(jobs)


def _add_word(arguments: argparse.Namespace, asked: Asked, word: str) -> None:
    target = parse_target(word)
    listed = jobs_named(word) if arguments.brief else None
    if listed is not None:
        asked.targets += [Target(job, None) for job in listed]
    elif target is not None and not arguments.brief:
        asked.targets.append(target)
    elif target is None and os.path.isdir(word):
        named = jobs_in_directory(word)
        asked.add(named.jobs)
        asked.remarks += [named.remark] * bool(named.remark)
    elif arguments.brief:
        arguments.refuse_usage(
            f"'{safe(word)}' is no job, no list of at most {JOBS_MAX} and no directory "
            "(accepted with --brief: 123, 123_4, 123_[1-4,7], 123+1, with commas between)"
        )
    else:
        arguments.refuse_usage(
            f"'{safe(word)}' is not a job id (accepted: 123, 123.0, 123_4, 123+1), and no directory"
        )


def asked_of(arguments: argparse.Namespace) -> Asked:
    """Returns the jobs and files that the user asked for. Exits with a message if they make no sense. Reads standard
    input if that is among them."""
    asked = Asked(paths=list(arguments.record))
    if (arguments.record + arguments.jobs).count("-") > 1:
        arguments.refuse_usage("standard input can be read once: - can be given once")
    for word in arguments.jobs:
        if word != "-":
            _add_word(arguments, asked, word)
    if "-" in arguments.jobs:
        _add_input(asked)
    return asked
