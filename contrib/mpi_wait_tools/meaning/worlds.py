"""Worlds: groups of ranks that can wait for one another, and the labels of ranks. Pure.

A rank is a number in a world, an MPI_COMM_WORLD. Most steps have one. Where a step has several, or programs of one rank
each, or ranks of which nobody knows their world, these are not compared; a rank without a number has its Slurm task's.
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
    """
    Ranks that stand beside one another in the record's list, from start on. step: "" where they came by several.
    name: "world 2", "step 1", or "" where the job has no other. noun: what a number is of. numbers: None where they are
    not known. is_known: whether they are of one world, and can be compared.
    """

    start: int
    ranks: int
    step: str
    name: str = ""
    noun: str = "rank"
    prefix: str = ""
    numbers: Sequence[int] | None = None
    is_known: bool = True
    of_step: str = ""  # before the prefix, where steps are not told apart otherwise

    def label(self, place: int, before: str) -> str:
        """ "3", behind what tells steps and worlds apart; "?" where nobody knows."""
        return before + (str(self.numbers[place]) if self.numbers is not None else "?")


def steps_of_ranks(record: Record) -> list[Step]:
    """Returns the steps in which MPI ranks were seen."""
    return [step for step in record.steps if step.ranks > 0]


def _groups_of_steps(wait: Wait, steps: Sequence[Step]) -> list[Group]:
    """One for each step; one for all where the list cannot be told apart by step."""
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
    """place: of the world among those of its step, from 1; alone: it has no other. several: the job has more steps."""
    of_step = f"{step}." if several and step else ""
    name = f"step {step}" if of_step else ""
    if world.kind != LAUNCHED:
        known, noun = (world.numbers, "task") if world.numbers else (None, "rank")
        return Group(start, world.ranks, step, name, noun, "", known, world.ranks == 1, of_step)
    if not alone:
        name = f"world {place} of {name}" if name else f"world {place}"
    return Group(start, world.ranks, step, name, "rank", "" if alone else f"w{place}:", world.numbers, True, of_step)


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
    """In the order of the record's list of ranks; empty where no rank was seen, or where each step has its own world
    and there is no list."""
    wait = record.wait
    if wait is None:
        return []
    return list(_groups_of_worlds(record, wait)) if wait.worlds else _groups_of_steps(wait, steps_of_ranks(record))


def groups_in(record: Record, step: Step | None) -> list[Group]:
    """Returns the groups of a step; none if its ranks are not told apart from others."""
    groups = groups_of(record)
    if step is None:
        return groups
    groups = [group for group in groups if group.step == step.id]
    return groups if sum(group.ranks for group in groups) == step.ranks else []


def are_apart(record: Record, step: Step | None = None) -> bool:
    """Returns true if some ranks cannot be compared with one another, or nobody knows if they can."""
    wait = record.wait
    if wait is not None and wait.worlds:
        groups = [group for group in groups_of(record) if step is None or group.step in ("", step.id)]
        return len(groups) != 1 or not groups[0].is_known
    return step is None and len(steps_of_ranks(record)) > 1


def rank_label(record: Record, one: RankWait) -> tuple[str, str]:
    """Returns how a rank is called that the record names: ("rank", "3"), ("task", "3"), ("rank", "") if not known."""
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
    """ "4 MPI ranks", "4 MPI ranks in 2 worlds", "2 programs of one MPI rank each" """
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
    """Why the ranks of a job or step are not compared; "" where they are, or where steps alone keep them apart."""
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
    """Names the mistake if srun started tasks whose MPI did not take part; "" if it did not."""
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
