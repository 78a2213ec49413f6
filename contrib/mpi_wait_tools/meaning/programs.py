"""Learns from the records of a site's jobs which wait policy fits each program. Pure.

A verdict needs several users whose own jobs say the same, or a user whom the administrator trusts. A policy is judged
by jobs that ran under it, never by a model. With too little known the verdict is TRY.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..record.record import Record
from ..text.units import percent, plural
from .advice import LITTLE, MEASURE_ONLY
from .cost import interval_words, saving_of
from .pooling import Pooled, over_jobs, over_users
from .reading import policy_of

USERS_LEAST = 3  # users whose own jobs must agree with a verdict
SHARE_ERROR = 0.5  # half of the 95 % interval that one job's share of waiting is taken to have, in percent
OFF, TRY = "off", "try"
FIRST = "nap"  # the policy to try first: it works on any hardware


@dataclass(frozen=True)
class Fact:
    """The measurements of one job; None if the record does not tell."""

    user: str
    policy: str
    ranks: int
    nodes: int
    ranks_s: float  # time of the ranks, summed
    share: float | None  # waiting as a share of the ranks' time
    cost: tuple[float, float] | None  # (percent, half of the 95 % interval)
    saved: tuple[float, float] | None  # (percent, half of the 95 % interval)
    simulated: bool


@dataclass(frozen=True)
class Measured:
    """A policy as the jobs of one program measured it."""

    policy: str
    jobs: int
    cost: Pooled | None
    saved: Pooled | None


@dataclass(frozen=True)
class Verdict:
    policy: str  # a policy, OFF or TRY
    why: str
    basis: Measured | None  # the measurements that decided, None if there were none


@dataclass
class Program:
    """The jobs of one program, and the verdict on it."""

    name: str
    facts: list[Fact] = field(default_factory=list)
    by_job_name: int = 0  # jobs that are known by the name of the job alone
    verdict: Verdict = Verdict(TRY, "", None)
    share: Pooled | None = None  # waiting in percent of the ranks' time
    trusted: bool = False  # the verdict is that of trusted users

    @property
    def users(self) -> int:
        return len({fact.user for fact in self.facts})


def fact_of(record: Record, user: str, ranks_s: float) -> Fact:
    """Returns a job's facts. A saving of which the record says that it is more has no interval, and is left out."""
    wait, saved, policy = record.wait, saving_of(record), policy_of(record)
    cost = wait.cost if wait is not None and wait.cost is not None and wait.cost.is_known else None
    return Fact(
        user=user,
        policy=policy.used if policy is not None else "",
        ranks=wait.ranks if wait else 0,
        nodes=record.nodes_of,
        ranks_s=ranks_s,
        share=wait.share if wait else None,
        cost=(cost.percent, cost.error) if cost else None,
        saved=(saved.percent, saved.error) if saved and not saved.at_least else None,
        simulated=record.energy is not None and record.energy.source == "simulated",
    )


def _pooled(facts: Sequence[Fact], of: Callable[[Fact], tuple[float, float] | None], together: bool) -> Pooled | None:
    """Pools a figure over jobs, and then over users. together takes all jobs for those of one user."""
    by_user: dict[str, list[tuple[float, float]]] = {}
    for fact in facts:
        figure = of(fact)
        if figure is not None:
            by_user.setdefault("" if together else fact.user, []).append(figure)
    return over_users([over_jobs(figures) for figures in by_user.values()])


def measured_of(facts: Sequence[Fact], policy: str, together: bool) -> Measured:
    own = [fact for fact in facts if fact.policy == policy]
    return Measured(policy, len(own), _pooled(own, lambda fact: fact.cost, together),
                    _pooled(own, lambda fact: fact.saved, together))


@dataclass(frozen=True)
class Law:
    """The limits by which a program is judged."""

    allow: float = 1.0  # percent by which a policy may lengthen a job
    worth: float = 2.0  # least saving in percent that is worth a policy, as for mpi-wait try
    users: int = USERS_LEAST

    def judge(self, measured: Measured) -> Verdict:
        """Judges one policy of one program: the policy itself, OFF, or TRY."""
        cost, saved, name = measured.cost, measured.saved, measured.policy
        if cost is None:
            return Verdict(TRY, f"{name}: no job could tell what sleeping costs", measured)
        costs = f"costs {interval_words(cost.value, cost.half)}"
        if cost.low > self.allow and self._is_heard(cost):
            return Verdict(OFF, f"{name} {costs}, more than the {self.allow:g} % allowed", measured)
        if saved is None:
            return Verdict(TRY, f"{name} {costs}; no job could tell what it saves", measured)
        both = f"{name} saves {interval_words(saved.value, saved.half)} and {costs}"
        if saved.high < self.worth and self._is_heard(saved):
            return Verdict(OFF, f"{both}: {self._too_little(cost, saved)}", measured)
        fits = cost.high <= self.allow and self._is_heard(cost)
        if fits and saved.low > 0 and saved.value >= self.worth and self._is_heard(saved):
            return Verdict(name, both, measured)
        return Verdict(TRY, f"{both}: {self._doubt(cost, saved)}", measured)

    def _is_heard(self, pooled: Pooled) -> bool:
        """Returns True if enough users have a vote. If the 95 % interval of three or more votes is beyond a limit, at
        least three votes are."""
        return len(pooled.votes) >= self.users

    def _too_little(self, cost: Pooled, saved: Pooled) -> str:
        if saved.high < 0:
            return "it uses more than it saves"
        return "it costs more than it saves" if cost.low > saved.high else f"less than {self.worth:g} % is not worth it"

    def _doubt(self, cost: Pooled, saved: Pooled) -> str:
        users = min(len(cost.votes), len(saved.votes))
        if users < self.users:
            return f"the word of {plural(users, 'user')}, and {self.users} must agree"
        return "the intervals are too wide, or users differ"

    def unmeasured(self, share: Pooled | None) -> Verdict:
        """Judges a program by its waiting alone, which says if a policy is worth a trial."""
        if share is None:
            return Verdict(TRY, f"no waiting of MPI ranks is known: {FIRST} first", None)
        waits, little = f"the ranks wait {percent(max(0.0, share.value) / 100)} of their time", 100 * LITTLE
        if share.high < little and self._is_heard(share):
            return Verdict(OFF, f"{waits}: there is little to save", None)
        return Verdict(TRY, f"{waits}, and no policy was measured: {FIRST} first", None)


def _worth(verdict: Verdict) -> tuple[int, float, int]:
    """Returns the rank of a verdict on a policy among those on others: what saves most, else OFF, else TRY; of a kind,
    the one of the most users."""
    basis = verdict.basis
    users = max(len(pooled.votes) for pooled in (basis.cost, basis.saved) if pooled) if basis else 0
    if verdict.policy in (OFF, TRY):
        return int(verdict.policy == OFF), 0.0, users
    return 2, basis.saved.value if basis and basis.saved else 0.0, users


def judge(program: Program, law: Law, trusted: Collection[str] = ()) -> None:
    """Sets the verdict on a program. If trusted users ran it, only their jobs count, and one of them is enough."""
    believed = [fact for fact in program.facts if fact.user in trusted]
    program.trusted = bool(believed)
    facts, law = believed or program.facts, replace(law, users=1) if believed else law
    program.share = _pooled(facts, lambda fact: None if fact.share is None else (100 * fact.share, SHARE_ERROR),
                            program.trusted)
    policies = sorted({fact.policy for fact in facts} - {*MEASURE_ONLY, ""})
    measured = [measured_of(facts, policy, program.trusted) for policy in policies]
    known = [law.judge(one) for one in measured if one.cost or one.saved]
    program.verdict = max([*known, law.unmeasured(program.share)], key=_worth)


def judged(programs: Iterable[Program], law: Law, trusted: Collection[str] = ()) -> list[Program]:
    """Judges programs; returns them by the time of their ranks, most first."""
    found = list(programs)
    for program in found:
        judge(program, law, trusted)
    return sorted(found, key=lambda program: (-sum(fact.ranks_s for fact in program.facts), program.name))
