"""Worlds: groups of ranks that can wait for one another, and the labels of ranks. Pure.

A rank is a number in a world, which is an MPI_COMM_WORLD. Most steps have one world. A step may have several, or
programs of one rank each, or ranks whose world is not known: ranks of different worlds are not compared. A rank without
a number goes by its Slurm task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..record.record import Record, Step
from ..record.wait import LAUNCHED, SINGLETONS, UNKNOWN, RankWait, Wait, World
from ..text.units import count, plural

REMEDY = "try --mpi=pmix, or --mpi=pmi2 for MPICH and Intel MPI"


@dataclass(frozen=True)
class Group:
    """Ranks that follow one another in the record's list."""

    start: int  # index of the first one in the list
    ranks: int  # how many they are
    step: str  # "" if they came by several steps
    name: str = ""  # "world 2", "step 1"; "" if the job has no other group
    noun: str = "rank"  # the thing that numbers count: "rank" or "task"
    prefix: str = ""  # begins the labels, such as "w2:"
    numbers: Sequence[int] | None = None  # None if not known
    is_known: bool = True  # they are of one world, and can be compared
    of_step: str = ""  # stands before the prefix if labels must tell steps apart, such as "1."
    unseen: int = 0  # ranks of the same world that the record lacks: those of another component, for example

    def label(self, place: int, before: str) -> str:
        """Returns the label of a rank: `before` and its number, or "?" if that is not known."""
        return before + (str(self.numbers[place]) if self.numbers is not None else "?")


def steps_of_ranks(record: Record) -> list[Step]:
    """Returns the steps in which MPI ranks were seen."""
    return [step for step in record.steps if step.ranks > 0]


def _groups_of_steps(wait: Wait, steps: Sequence[Step]) -> list[Group]:
    """Returns one group for each step; one for all if the list of ranks cannot be told apart by step."""
    ranks = len(wait.per_rank)
    if sum(step.ranks for step in steps) != ranks:
        return [Group(0, ranks, "", numbers=range(ranks))] if ranks else []
    groups, start, several = [], 0, len(steps) > 1
    for step in steps:
        name, of_step = (f"step {step.id}", f"{step.id}.") if several else ("", "")
        groups.append(Group(start, step.ranks, step.id, name, numbers=range(step.ranks), of_step=of_step))
        start += step.ranks
    return groups


def _group_of_world(world: World, start: int, step: str, place: int, alone: bool, several: bool) -> Group:
    """Returns the group of one world. place is its number in its step, from 1. alone: the step has no other world.
    several: several steps of the job ran MPI."""
    of_step = f"{step}." if several and step else ""
    name = f"step {step}" if of_step else ""
    if world.kind != LAUNCHED:
        known, noun = (world.numbers, "task") if world.numbers else (None, "rank")
        return Group(start, world.ranks, step, name, noun, "", known, world.ranks == 1, of_step)
    if not alone:
        name = f"world {place} of {name}" if name else f"world {place}"
    prefix = "" if alone else f"w{place}:"
    unseen = max(0, world.size - world.ranks)
    return Group(start, world.ranks, step, name, "rank", prefix, world.numbers, True, of_step, unseen)


def _groups_of_worlds(record: Record, wait: Wait) -> Iterator[Group]:
    ran = steps_of_ranks(record)
    only = ran[0].id if len(ran) == 1 else ""
    steps = [world.step or only for world in wait.worlds]
    start, number, places = 0, Counter(steps), Counter[str]()
    for world, step in zip(wait.worlds, steps):
        places[step] += 1
        yield _group_of_world(world, start, step, places[step], number[step] == 1, len(ran) > 1)
        start += world.ranks


def groups_of(record: Record) -> list[Group]:
    """Returns the groups in the order of the record's list of ranks. Empty if no rank was seen, or if each step has one
    world and the record lists no ranks."""
    wait = record.wait
    if wait is None:
        return []
    return list(_groups_of_worlds(record, wait)) if wait.worlds else _groups_of_steps(wait, steps_of_ranks(record))


def groups_in(record: Record, step: Step | None) -> list[Group]:
    """Returns the groups of a step, or of the job. Empty if the step's ranks are not told apart from others."""
    groups = groups_of(record)
    if step is None:
        return groups
    groups = [group for group in groups if group.step == step.id]
    return groups if sum(group.ranks for group in groups) == step.ranks else []


def unseen_peers(record: Record, step: Step | None = None) -> int:
    """Returns how many ranks the record lacks of the worlds in it: the others wait for these, too."""
    return sum(group.unseen for group in groups_in(record, step))


def are_apart(record: Record, step: Step | None = None) -> bool:
    """Returns True if some ranks cannot be compared with one another, or if that is not known."""
    wait = record.wait
    if wait is not None and wait.worlds:
        groups = [group for group in groups_of(record) if step is None or group.step in ("", step.id)]
        return len(groups) != 1 or not groups[0].is_known
    return step is None and len(steps_of_ranks(record)) > 1


def rank_label(record: Record, one: RankWait) -> tuple[str, str]:
    """Returns noun and label of a rank that the record names: ("rank", "3"), ("task", "3"); ("rank", "") if it has no
    number."""
    groups = groups_of(record) if one.world else []
    group = groups[one.world - 1] if 0 < one.world <= len(groups) else None
    of_step = group.of_step if group is not None else f"{one.step}." if one.step else ""
    if one.task >= 0:
        return "task", f"{of_step}{one.task}"
    prefix = group.prefix if group is not None else ""
    return "rank", f"{of_step}{prefix}{one.rank}" if one.rank >= 0 else ""


def _kinds(wait: Wait, groups: Sequence[Group], record: Record) -> list[World]:
    starts = {group.start for group in groups}
    return [world for world, group in zip(wait.worlds, groups_of(record)) if group.start in starts]


def ranks_words(record: Record, step: Step | None, ranks: int, noun: str = "MPI rank") -> str:
    """Returns a number of ranks in words: "4 MPI ranks", "4 MPI ranks in 2 worlds", "2 programs of one MPI rank
    each"."""
    wait = record.wait
    worlds = _kinds(wait, groups_in(record, step), record) if wait is not None and wait.worlds else []
    if worlds and all(world.kind == SINGLETONS for world in worlds):
        return f"{plural(ranks, 'program')} of one {noun} each"
    words = plural(ranks, noun)
    if any(world.kind == UNKNOWN and world.ranks > 1 for world in worlds):
        return f"{words}, it is not known in which worlds"
    number = sum(world.ranks if world.kind == SINGLETONS else 1 for world in worlds)
    return f"{words} in {count(number)} worlds" if number > 1 and (step is not None or len(
        steps_of_ranks(record)) == 1) else words


def apart_line(record: Record, step: Step | None) -> str:
    """Says why the ranks of a job or step are not compared; "" if they are, or if only steps keep them apart."""
    wait = record.wait
    worlds = _kinds(wait, groups_in(record, step), record) if wait is not None and wait.worlds else []
    if not worlds or not are_apart(record, step):
        return ""
    if all(world.kind == SINGLETONS for world in worlds):
        return "programs of one rank each, which do not wait for one another"
    if any(world.kind == UNKNOWN for world in worlds):
        return "it is not known which ranks belong to one MPI_COMM_WORLD: they are not compared"
    return "ranks of one world are compared, those of several are not"


def singletons_note(record: Record) -> str:
    """Returns a note if srun started tasks that MPI did not join into one world, a common mistake; "" otherwise."""
    wait = record.wait
    if wait is None or not wait.worlds:
        return ""
    alone = [
        world.ranks for world, group in zip(wait.worlds, groups_of(record))
        if world.kind == SINGLETONS and len(set(world.numbers)) > 1 and group.step.isdigit()
    ]
    if not alone:
        return ""
    return f"MPI was not started by srun: {plural(sum(alone), 'program')} of one rank each; {REMEDY}."
