"""Judges a job's figures, as good, worth a look or bad, and gives advice on the job. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..jobs.sacct import Job
from ..record.record import Record, Step
from ..record.wait import Cost, Wait
from ..text.units import duration, percent, safe
from .cost import cost_words
from .imbalance import NOTABLE, Imbalance, imbalance_of, is_busy, ranks_time
from .nodes import slow_nodes
from .reading import EVEN, Rank, incomplete_line, policies_of, rank_name, ranks_in
from .worlds import Group, are_apart, groups_of, steps_of_ranks

GOOD, LOOK, BAD = "good", "look", "bad"
ORDER = (BAD, LOOK, GOOD)
# (least share that is worth a look, least share that is bad). The numbers are conventions, as are those of seff.
AWAKE, LOST, LATE = (0.05, 0.25), (0.05, 0.20), (0.01, 0.03)
BAD_COST = 3  # multiple of slowdown= from which a cost is bad


@dataclass(frozen=True)
class Judgement:
    """The verdict on one figure."""

    level: str  # GOOD, LOOK or BAD
    what: str  # name of the figure
    value: str  # the figure, as it is shown
    rule: str  # the thresholds, in words


def level_of(share: float, thresholds: tuple[float, float]) -> str:
    look, bad = thresholds
    return GOOD if share < look else LOOK if share < bad else BAD


def _of_share(what: str, share: float, thresholds: tuple[float, float]) -> Judgement:
    rule = f"good below {percent(thresholds[0])}, bad from {percent(thresholds[1])} of the ranks' time"
    return Judgement(level_of(share, thresholds), what, percent(share), rule)


def _of_cost(cost: Cost, allowed: float) -> Judgement:
    """Judges a measured cost by the lower end of its interval: the true cost is hardly below that."""
    level = level_of(cost.percent - cost.error, (math.nextafter(allowed, math.inf), BAD_COST * allowed))
    rule = f"good up to the {allowed:g} % of slowdown=, bad from {BAD_COST * allowed:g} %, by the interval's lower end"
    return Judgement(level, "sleeping costs", cost_words(cost), rule)


def judged(record: Record, step: Step | None, state: str, is_broken: bool) -> list[Judgement]:
    """Judges a job, or a step, which has fewer figures. Returns the worst verdicts first.

    state is the job's state in sacct, "" if not known.
    """
    found = []
    if is_broken:
        found.append(Judgement(BAD, "end", state, "good if the job ran to its end"))
    if not record.is_complete:
        found.append(Judgement(BAD, "record", incomplete_line(record), "good if every node reported"))
    wait, time = record.wait, ranks_time(record)
    if wait is not None and step is None and time:
        awake = max(0.0, wait.total - (wait.asleep or 0.0))
        found.append(_of_share("waiting awake", min(1.0, awake / time), AWAKE))
        if wait.cost is not None and wait.cost.is_known and wait.cost.slowdown is not None:
            found.append(_of_cost(wait.cost, wait.cost.slowdown))
        elif wait.late_seconds is not None and wait.cost is None:
            found.append(_of_share("late", min(1.0, wait.late_seconds / time), LATE))
    imbalance = imbalance_of(record, step) if not is_broken else None
    if imbalance is not None and imbalance.share is not None and not imbalance.lone:
        found.append(_of_share("lost to the imbalance", imbalance.share, LOST))
    if record.throttled_most and step is None:
        rule = "good if no processor was slowed down"
        found.append(Judgement(LOOK, "slowed down", record.throttled_most, rule))
    return sorted(found, key=lambda one: ORDER.index(one.level))


LITTLE = 0.02  # share of the ranks' time below which waiting is not worth a policy
SLEPT_WELL = 0.7  # share of the waiting: if ranks slept for that much of it, the policy fits
SHORT_WAIT_S = 200e-6  # nap cannot use much of a wait shorter than this
SHORT_RUN_S = 5.0  # time of one rank: in shorter runs ranks wait mostly for one another's start
LATE_SHARE = 0.01  # share of the ranks' time
UNFORESEEN = 0.5  # share of the waits: if more had no forecast, the advice says so
ASKED = 0.05  # share of the ranks' time in loops that only test and probe, from which advice is due
THREADS = 0.1  # CPUs that other threads use while a rank waits, from which advice is due
FIRST_NAMED = 3
STEPS_NAMED = 2
SLOWDOWN_LEAST, SLOWDOWN_USUAL, SLOWDOWN_MOST = 0.01, 1.0, 50.0  # the key's bounds in percent, and nap's own value
EXCLUSIVE = "#SBATCH --exclusive"
MEASURE_ONLY = ("off", "profile", "yield")
BOUNDED = ("nap", "auto", "event")  # policies under which threads=bounded is the default
FINE_RUNGS = ("umwait", "mwaitx")
COLLECTIVES = ("MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter_block")
ASKING = ("MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe")
PASSED_THROUGH = ("two_mpis", "no_hook")
BROKEN = ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")


@dataclass(frozen=True)
class Advice:
    """A finding on a job, and the option by which its user can act on it."""

    says: str  # sentences
    paste: str = ""  # a line for the job's script, or an option of srun; "" if none serves
    see: str = ""  # the manual's section, "" for none

    @property
    def words(self) -> str:
        """The sentences with the manual's section, and without the line to paste."""
        return f"{self.says} See {self.see}." if self.see else self.says

    @property
    def line(self) -> str:
        """All of the advice in one line, which ends with the line to paste."""
        return f"{self.words[:-1]}: {self.paste}" if self.paste else self.words


POLICIES, KEYS = "mpi-wait-policy(7), POLICIES", "mpi-wait-policy(7), KEYS"
PROFILE, SPINS = "mpi-wait-policy(7), PROFILE", "mpi-wait-policy(7), WHAT STILL SPINS"
CHECK = "mpi-wait(1), WHAT CHECK LOOKS AT"


def _pasted(record: Record, value: str) -> str:
    """Returns the option with that value as the user gave the job's: to srun, or in the job's script."""
    before = "srun" if record.policy.by == "step" else "#SBATCH"
    return f"{before} --mpi-wait-policy={value}"


def _napping(record: Record) -> str:
    """Returns the job's policy, or nap in place of one under which no rank sleeps."""
    return "nap" if record.policy.used in MEASURE_ONLY else record.policy.asked


@dataclass(frozen=True)
class Ending:
    """The end of a job, as sacct has it."""

    state: str = ""  # the first word of the state, "" if not known
    is_component: bool = False  # the job is one part of a heterogeneous job; the other parts have their own records

    @property
    def is_broken(self) -> bool:
        return self.state in BROKEN


def ending_of(job: Job | None) -> Ending:
    return Ending(job.state, "+" in job.id) if job is not None else Ending()


@dataclass(frozen=True)
class _Group:
    """Ranks of one program, which can only wait for one another."""

    record: Record
    wait: Wait
    ranks: list[Rank]  # empty if the record does not list them
    imbalance: Imbalance
    step: Step | None  # None if the job has only one
    name: str = ""  # "step 1", "world 2"; "" if the job has no other group
    ranks_seen: int = 0  # number of ranks seen in the step, or in the job

    @cached_property
    def least(self) -> float:
        return min(rank.seconds for rank in self.ranks) if self.ranks else self.wait.least.seconds

    @cached_property
    def most(self) -> float:
        return max(rank.seconds for rank in self.ranks) if self.ranks else self.wait.most.seconds

    @cached_property
    def mean(self) -> float:
        return sum(rank.seconds for rank in self.ranks) / len(self.ranks) if self.ranks else self.wait.mean

    @property
    def share(self) -> float:
        """The share of the ranks' time that they wait."""
        time = ranks_time(self.record, self.step)
        own = time * min(1.0, self.imbalance.ranks / self.ranks_seen) if time and self.ranks_seen else time
        return min(1.0, self.mean * self.imbalance.ranks / own) if own else 0.0

    @property
    def is_even(self) -> bool:
        return self.imbalance.share is None or self.imbalance.share < NOTABLE or self.least >= EVEN * self.most

    def said(self, sentence: str) -> Advice:
        return Advice(f"{self.name.capitalize()}: {sentence[0].lower()}{sentence[1:]}" if self.name else sentence)


def _names(ranks: list[Rank]) -> str:
    shown = ranks if len(ranks) == FIRST_NAMED + 1 else ranks[:FIRST_NAMED]
    names = ", ".join(rank.label for rank in shown)
    more = f" and {len(ranks) - len(shown)} others" if len(ranks) > len(shown) else ""
    return ranks[0].noun + (" " if len(ranks) == 1 else "s ") + names + more


def _place(group: _Group, rank: Rank | None) -> str:
    """Returns the rank's node as " (on c2)"; "" if it is not known, or the job has one node. rank None: the one that
    waits least."""
    least = group.wait.least
    node = rank.node if rank is not None else ""
    if rank is None or (not node and not group.name and rank.label == str(least.rank)):
        node = least.node
    return f" (on {safe(node)})" if node and group.record.nodes_of > 1 else ""


def _busiest(group: _Group) -> str:
    """Names the ranks that compute longest: those that wait least, as is_busy() tells."""
    if not group.ranks:
        name = rank_name(group.record, group.wait.least)
        return f"{name}{_place(group, None)}" if name != "one rank" else "the rank that waits least"
    busiest = [rank for rank in group.ranks if is_busy(rank.seconds, group.least, group.most)]
    return _names(busiest) + (_place(group, busiest[0]) if len(busiest) == 1 else "")


def _of_all_alike(group: _Group) -> Iterator[Advice]:
    if group.share < NOTABLE or group.most <= 0 or group.least < EVEN * group.most:
        return
    alike = "All ranks wait alike: for messages, or for one another in turn"
    if group.wait.profile:
        yield group.said(f"{alike}.")
        return
    profiled = _pasted(group.record, f"{group.record.policy.asked},profile")
    said = group.said(f"{alike}; the policy key 'profile' tells waiting from transfer, and message sizes.")
    yield replace(said, paste=profiled, see=PROFILE)


def _of_idle(group: _Group) -> str:
    """Returns the advice for a group of which few ranks wait, and most hardly do."""
    idle = [rank for rank in group.ranks if rank.seconds > group.mean]
    if len(idle) == 1:
        return (
            f"{_names(idle).capitalize()} alone waits: if it hands out work, let it compute too; "
            "otherwise give it more to do."
        )
    return f"Give {_names(idle)} more to do, or ask for fewer ranks: the others hardly wait."


def _of_nodes(group: _Group, share: str) -> str:
    """Returns the advice for a group that waits for some nodes; "" if no node stands out."""
    record = group.record
    slow = [] if group.name else slow_nodes(record)
    if slow:
        names = ", ".join(safe(name) for name in slow[:FIRST_NAMED])
        noun, one = ("node", "it") if len(slow) == 1 else ("nodes", "they")
        heat = ", which was slowed down most" if slow == [record.throttled_most] else ""
        return (
            f"Look at {noun} {names} first{heat}: all ranks seen there wait least. If {one} "
            f"{'is' if one == 'it' else 'are'} slower than the others, that takes up to {share} of the time."
        )
    if record.throttled_most and record.throttled_most == group.wait.least.node and not group.name:
        name = safe(record.throttled_most)
        return f"Look at node {name} first: it was slowed down most, and holds the rank that waits least."
    return ""


def _of_the_balance(group: _Group) -> Iterator[Advice]:
    """Yields advice on the balance of a group. All of its ranks were seen, and the job ran to its end."""
    imbalance = group.imbalance
    if imbalance.ranks < 2 or group.is_even:
        yield from _of_all_alike(group)
        return
    share = percent(imbalance.share or 0.0)
    below = sum(rank.seconds < group.mean / 2 for rank in group.ranks)
    node = _of_nodes(group, share)
    if node:
        yield Advice(node)
    elif imbalance.lone:
        yield group.said(
            f"Look at {_busiest(group)}: hardly any other waits so little. A core that is slow, or work of its own, "
            "shows so; whether the others wait for it is not known."
        )
    elif group.ranks and below > len(group.ranks) // 2:
        yield group.said(_of_idle(group))
    else:
        yield group.said(
            f"Take work from {_busiest(group)}: spread evenly, the same work could take up to {share} less time."
        )


def _of_a_broken_job(group: _Group, state: str) -> Iterator[Advice]:
    """Yields advice on a job that did not run to its end. The job may have hung: the rank that waits least is then the
    one that stopped answering, and the distribution of the work is not at fault."""
    if group.imbalance.ranks < 2 or group.is_even or group.imbalance.lone:
        return
    yield group.said(
        f"Look at what {_busiest(group)} did at last: the job ended as {state}, and the others waited longer than that."
    )


def _group(record: Record, wait: Wait, group: Group) -> _Group | None:
    """Returns a group with its imbalance; None if the record does not tell how unbalanced it is."""
    steps = steps_of_ranks(record)
    if len(steps) > 1 and not group.step and not wait.worlds:
        return None
    step = next((step for step in steps if step.id == group.step), None) if len(steps) > 1 else None
    imbalance = imbalance_of(record, step, group)
    if imbalance is None or (wait.worlds and group.ranks < 2 < wait.ranks):
        return None
    seen = step.ranks if step is not None else wait.ranks
    return _Group(record, wait, ranks_in(wait, group), imbalance, step, group.name, seen)


def _groups(record: Record, wait: Wait) -> list[_Group]:
    """Returns a group for each program whose ranks are known, the most unbalanced first."""
    if not wait.per_rank:
        imbalance = imbalance_of(record) if not are_apart(record) else None
        return [_Group(record, wait, [], imbalance, None)] if imbalance is not None else []
    groups = [found for group in groups_of(record) if group.is_known and (found := _group(record, wait, group))]
    return sorted(groups, key=lambda group: -group.imbalance.lost_s)


def _is_at_the_end(record: Record, group: _Group) -> bool:
    """Returns True if the job may have ended in the group's step: in the last step, or in one that lasts as long as the
    job. Steps under off do not count, since those of report --watch are among them."""
    steps = [step for step in record.steps if (step.policy or record.policy).used != "off"]
    last = steps[-1:] if not record.steps_left_out else []
    own = group.step or next(iter(steps_of_ranks(record)), None)
    return own is None or own in last or not own.id.isdigit()


def _is_short(record: Record, wait: Wait) -> bool:
    return (ranks_time(record) or 0.0) / max(1, wait.ranks) < SHORT_RUN_S


def _of_the_groups(record: Record, wait: Wait, ending: Ending) -> Iterator[Advice]:
    if wait.unseen or ending.is_component or _is_short(record, wait):
        return
    groups = _groups(record, wait)
    if ending.is_broken:
        groups = [group for group in groups if _is_at_the_end(record, group)]
    for group in groups[:STEPS_NAMED]:
        yield from _of_a_broken_job(group, ending.state) if ending.is_broken else _of_the_balance(group)


def _with_key(record: Record, key: str, says: str) -> Advice:
    """Returns advice to run the job again with one more key."""
    return Advice(says, _pasted(record, f"{_napping(record)},{key}"), KEYS)


def _slowdown(wait: Wait, times: float) -> str:
    """Returns slowdown= with a multiple of what the job allowed, or of what policies allow if that is not known."""
    allowed = wait.cost.slowdown if wait.cost is not None else None
    return f"slowdown={min(SLOWDOWN_MOST, max(SLOWDOWN_LEAST, times * (allowed or SLOWDOWN_USUAL))):g}"


def _of_short_naps(record: Record, wait: Wait) -> Advice | None:
    """Says why a policy that naps slept little; None if the record does not tell."""
    waits = sum(call.waits for call in wait.calls)
    mean = wait.total / waits if waits else 0.0
    spun = [call.name for call in wait.spun if call.name in COLLECTIVES]
    if wait.flags.get("shared_cores"):
        return _with_key(record, "pin=cores", "Ranks share cores with others: a core for each (pin=cores) is worth "
                         "more than a policy.")
    if wait.flags.get("locked"):
        return Advice("This MPI waits under a lock, so nothing naps once a second thread calls it: call it from one "
                      "thread only.", see=SPINS)
    if spun:
        return _with_key(record, "collectives=ibarrier", f"{spun[0]} burns CPU without an idle call: "
                         "collectives=ibarrier naps before it, provided that every rank has the library.")
    if 0 < mean < SHORT_WAIT_S:
        tried = (record.policy.asked, record.policy.used)
        if any(name in (*FINE_RUNGS, "auto") for name in tried):
            return None
        return Advice(f"A wait lasts {duration(mean)} on average, short for a nap: umwait and mwaitx sleep in such "
                      "waits, where the processor has them, and auto uses what it has.",
                      _pasted(record, "auto"), POLICIES)
    if record.policy.used == "pstate":
        low = min(1.0, wait.low / wait.total) if wait.total > 0 else 0.0
        return Advice(f"The cores ran at low frequency for {percent(low)} of the waiting: in short waits, and without "
                      "a grant, they keep theirs. nap sleeps there, if the ranks may sleep.",
                      _pasted(record, "nap"), POLICIES)
    return _with_key(record, _slowdown(wait, 2.0), "Much of the waiting was polled: a larger slowdown= lets ranks "
                     "sleep earlier, and wake later.")


def _is_late(record: Record, wait: Wait) -> bool:
    """Returns True if naps ended so late that advice is due.

    Returns False for jobs that tell more: forecast waits have an account, which the report shows, and a measured cost
    says more than late naps.
    """
    time = ranks_time(record)
    if not wait.late_seconds or not time or wait.flags.get("shared_cores") or wait.forecast is not None:
        return False
    if wait.cost is not None and wait.cost.is_known:
        return False
    return wait.late_seconds / time > LATE_SHARE


def _unforeseen_share(wait: Wait) -> float:
    if wait.forecast is None:
        return 0.0
    waits = wait.forecast.foreseen + wait.forecast.unforeseen
    return wait.forecast.unforeseen / waits if waits else 0.0


def _of_the_unforeseen(record: Record, wait: Wait, share: str) -> Advice:
    says = f"{share} of the waits came at no foreseeable time"
    if "event" in (record.policy.asked, record.policy.used):
        return _with_key(record, _slowdown(wait, 2.0), f"{says}: a larger slowdown= lets ranks nap more there.")
    return Advice(f"{says}: event, where Open MPI runs over UCX, sleeps until the message comes; a larger "
                  "slowdown= lets ranks nap more there.", _pasted(record, "event"), POLICIES)


def _of_what_fits(record: Record, wait: Wait) -> Advice | None:
    used = record.policy.used
    slept = min(1.0, wait.asleep / wait.total) if wait.asleep is not None and wait.total > 0 else 0.0
    low = min(1.0, wait.low / wait.total) if wait.total > 0 else 0.0
    unwoken = wait.flags.get("no_event", 0)
    if used == "event" and unwoken:
        who = "all ranks" if unwoken >= wait.ranks else f"{unwoken} of {wait.ranks} ranks"
        return Advice(f"Messages did not wake {who}, which napped instead: the policy nap does so from the start.",
                      _pasted(record, "nap"), POLICIES)
    if wait.cost is not None and wait.cost.is_too_much:
        return Advice(f"{used} costs this job more than slowdown= allows: try nodes without other work (--exclusive), "
                      "or, for a very short run, off.",
                      _pasted(record, "off") if _is_short(record, wait) else EXCLUSIVE, KEYS)
    if _is_late(record, wait):
        return replace(_with_key(record, _slowdown(wait, 0.5), "Naps end late here: 'mpi-wait check' on a node looks "
                                 "at its timers; a smaller slowdown= naps less."), see=CHECK)
    if wait.transitions and low > 0.5:
        return Advice(f"{used} fits: the cores ran at low frequency for {percent(low)} of the waiting.")
    if slept >= SLEPT_WELL:
        return Advice(f"{used} fits: {percent(slept)} of the waiting was slept through.")
    if (unforeseen := _unforeseen_share(wait)) > UNFORESEEN:
        return _of_the_unforeseen(record, wait, percent(unforeseen))
    return _of_short_naps(record, wait) if wait.asleep is not None else None


def _of_the_policy(record: Record, wait: Wait, share: float) -> Advice | None:
    waited, passed = percent(share), sum(wait.flags.get(flag, 0) for flag in PASSED_THROUGH)
    policies = policies_of(record)
    if share < LITTLE:
        return Advice(f"There is little to save: the ranks wait {waited} of their time.")
    if 2 * passed > wait.ranks:
        return None  # no policy reaches these ranks, as a note on the figures says
    if all(policy.used in MEASURE_ONLY for policy in policies):
        return Advice(f"nap (or auto) fits: cores sleep in waits, and the ranks wait {waited} of their time.",
                      _pasted(record, "nap"), POLICIES)
    # Figures of several policies are sums, which judge none of them.
    return _of_what_fits(replace(record, policy=policies[0]), wait) if len(policies) == 1 else None


def _of_the_loops(record: Record, wait: Wait) -> Iterator[Advice]:
    """Yields advice on loops that test and probe. Only the policy profile times these."""
    time = ranks_time(record)
    asked = sum(max(0.0, call.time - call.wait) for call in wait.profile if call.name in ASKING)
    if time and asked / time >= ASKED:
        yield _with_key(record, "polls=on", f"{percent(min(1.0, asked / time))} of the ranks' time went into loops "
                        "that only test and probe: polls=on lets ranks sleep in them.")


def _of_the_threads(record: Record, wait: Wait) -> Iterator[Advice]:
    if wait.total > 0 and wait.threads / wait.total >= THREADS:
        bounded = record.policy.used in BOUNDED  # the threads were bounded already
        yield _with_key(record, "threads=passive" if bounded else "threads=bounded", "Beside each rank that waited its "
                        f"other threads used {wait.threads / wait.total:.2g} cores: if they did not compute, "
                        "threads=bounded lets OpenMP's sleep after a millisecond, and threads=passive at once.")


def advice(record: Record, ending: Ending) -> list[Advice]:
    """Returns advice, the most promising first; none if no rank was seen or a node is missing."""
    wait = record.wait
    if wait is None or wait.share is None or not record.is_complete:
        return []
    found = list(_of_the_groups(record, wait, ending)) if wait.share >= LITTLE else []
    policy = None if ending.is_broken or wait.unseen else _of_the_policy(record, wait, wait.share)
    threads = [] if ending.is_broken or wait.share < LITTLE else _of_the_threads(record, wait)
    loops = [] if ending.is_broken else _of_the_loops(record, wait)
    return [*found, *([policy] if policy else []), *threads, *loops]
