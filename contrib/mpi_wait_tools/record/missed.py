"""Processes that are not among a record's ranks, and why: a part of the record, and what the report says of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..text.units import count
from .reader import Reader

REASONS = {
    "lost": (
        "{n} MPI rank rested, but is not counted: the descriptors of the step's memory were closed, in the task too.",
        "{n} MPI ranks rested, but are not counted: the descriptors of the step's memory were closed, in the task too.",
    ),
    "unreached": (
        "{n} process ran MPI past the library: it finds MPI's functions in that library's own handle, as Julia and "
        "Python's ctypes do.",
        "{n} processes ran MPI past the library: they find MPI's functions in that library's own handle, as Julia and "
        "Python's ctypes do.",
    ),
    "replaced": (
        "{n} process, as a script, took the library out of LD_PRELOAD: what it started after that ran without it.",
        "{n} processes, as scripts, took the library out of LD_PRELOAD: what they started after that ran without it.",
    ),
    "static": (
        "{n} task ran a program that is linked statically: nothing can be preloaded into it.",
        "{n} tasks ran a program that is linked statically: nothing can be preloaded into it.",
    ),
    "setuid": (
        "{n} task ran a setuid program, or one with capabilities: nothing is preloaded into it.",
        "{n} tasks ran a setuid program, or one with capabilities: nothing is preloaded into it.",
    ),
    "unfit": (
        "{n} MPI rank rested, but is not counted: its library is of another release than the plugin on its node.",
        "{n} MPI ranks rested, but are not counted: their library is of another release than the plugin on their node.",
    ),
}
"""By the record's name: what is said of one, and of several."""
OF_MPI = ("lost", "unreached", "unfit")
USUAL = (
    "No MPI rank was seen. If MPI ran, these are the usual reasons: LD_PRELOAD was set or emptied in the script, or by "
    "a module, before mpirun; a container lacks the library; the program is linked statically or setuid. "
    "mpi-wait-policy(7), WHAT IS NOT SERVED, has them all."
)


@dataclass(frozen=True)
class Missed:
    """How many, by the reason."""

    processes: dict[str, int]

    @property
    def ranks(self) -> int:
        """How many of them ran MPI."""
        return sum(self.processes.get(why, 0) for why in OF_MPI)


def missed_of(reader: Reader | None) -> Missed:
    """Reasons of a later release are left out."""
    return Missed({why: reader.maybe_integer(why) or 0 for why in REASONS} if reader else {})


def missed_notes(missed: Missed, is_rankless: bool) -> list[str]:
    """
    is_rankless: the job had a policy, and no MPI rank was seen. Beside ranks, nothing is said of tasks that need not be
    MPI programs.
    """
    found = []
    for why, (one, several) in REASONS.items():
        number = missed.processes.get(why, 0)
        if number and (is_rankless or why in OF_MPI):
            found.append((one if number == 1 else several).format(n=count(number)))
    return found or [USUAL] if is_rankless else found
