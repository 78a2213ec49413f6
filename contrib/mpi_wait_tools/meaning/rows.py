"""Turns sacct's rows into rows of jobs, and into sums over accounts, users, partitions and policies. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..jobs.runs import by_job
from ..jobs.sacct import RECORD_FIELDS
from ..record.energy import Saved
from ..record.record import Record, find_body, parse_record
from ..record.wait import Cost, Wait
from ..text.output import Refusal
from .advice import BROKEN
from .bill import billed_joules
from .cost import cost_together, saved_together, saving_of
from .imbalance import imbalance_of, ranks_time_in_sums
from .reading import energy_of

GROUPS = ("job", "account", "user", "partition", "policy")


@dataclass(frozen=True)
class Run:
    """One run of a job, as sacct has it."""

    name: str = ""
    state: str = ""
    start: str = ""
    elapsed_s: float | None = None  # None if sacct does not tell
    nodes: int = 0
    submit: str = ""

    def with_run(self, other: Run) -> Run:
        """Returns both runs of a requeued job as one: the begin of the first, the time of both, the end of the last."""
        first, last = sorted((self, other), key=lambda run: run.start)
        known = [run.elapsed_s for run in (first, last) if run.elapsed_s is not None]
        return replace(last, start=first.start, submit=first.submit, elapsed_s=sum(known) if known else None)


@dataclass(frozen=True)
class JobUse:
    """The use of one job, and the part of it that went into waiting. Only the waiting awake could have been saved.

    The energies of waiting are estimates: the job's energy times the share of the ranks' time. They assume that a rank
    draws the same power computing, polling or asleep.
    """

    names: dict[str, str]  # the job's name in each grouping: "job", "user", "account", ...
    joules: float | None  # None if not known
    waiting_j: float | None  # None if not known
    awake_j: float | None  # None if not known
    estimated: bool
    wait_s: float
    asleep_s: float
    ranks_s: float  # time of the ranks between MPI_Init and MPI_Finalize, summed
    lost_s: float | None  # None if not known, as of a job that did not run to its end: a rank may have hung
    simulated: bool
    lacks_gpus: bool = False  # the energy of some or all of the nodes' GPUs is missing
    complete: bool = True
    run: Run = Run()
    threads_s: float = 0.0
    energy_of: str = ""  # the parts of the node that joules counts
    cost: Cost | None = None  # measured cost of sleeping, None if nothing was compared
    job_key: str = ""  # identifies the job, since its number may have belonged to another job before
    saved: Saved | None = None  # measured saving of sleeping, None if not known
    billed_j: float = 0.0  # joules with those of the job's GPUs that were counted

    @property
    def awake_s(self) -> float:
        return max(0.0, self.wait_s - self.asleep_s)

    def share(self, seconds: float | None) -> float | None:
        """Returns seconds as a share of the ranks' time; None if one of them is not known."""
        return min(1.0, seconds / self.ranks_s) if seconds is not None and self.ranks_s > 0 else None


@dataclass
class Row:
    name: str
    jobs: int = 0
    joules: float = 0.0
    billed_j: float = 0.0
    waiting_j: float = 0.0
    awake_j: float = 0.0
    wait_s: float = 0.0
    asleep_s: float = 0.0
    ranks_s: float = 0.0
    threads_s: float = 0.0  # CPU time of the ranks' other threads while these waited
    lost_s: float = 0.0
    lost_of_s: float = 0.0  # time of the ranks of the jobs whose loss is known
    estimated: bool = False
    simulated: bool = False
    unknown: int = 0  # jobs whose energy is not known
    lacks_gpus: int = 0  # jobs whose energy lacks that of GPUs
    incomplete: int = 0  # jobs that lack nodes
    labels: dict[str, str] = field(default_factory=dict)
    energy_of: str = ""
    run: Run = Run()
    costs: list[Cost] = field(default_factory=list)
    savings: list[tuple[Saved, float]] = field(default_factory=list)  # (saving, joules of the job), if both are known

    @property
    def awake_s(self) -> float:
        return max(0.0, self.wait_s - self.asleep_s)

    @property
    def cost(self) -> Cost | None:
        """The cost of sleeping, of all jobs together; None if too little was seen to tell."""
        cost = cost_together(self.costs)
        return cost if cost is not None and cost.is_known else None

    @property
    def saved(self) -> Saved | None:
        """The saving of sleeping, of all jobs whose saving is known; None if there is no such job."""
        return saved_together(self.savings)[0]

    @property
    def saved_j(self) -> float:
        return saved_together(self.savings)[1]

    def add(self, use: JobUse) -> None:
        self.jobs += 1
        self.costs += [use.cost] if use.cost is not None else []
        self.savings += [(use.saved, use.joules or 0.0)] if use.saved is not None else []
        self.joules += use.joules or 0.0
        self.billed_j += use.billed_j
        self.waiting_j += use.waiting_j or 0.0
        self.awake_j += use.awake_j or 0.0
        self.wait_s += use.wait_s
        self.asleep_s += use.asleep_s
        self.ranks_s += use.ranks_s
        self.threads_s += use.threads_s
        self.lost_s += use.lost_s or 0.0
        self.lost_of_s += use.ranks_s if use.lost_s is not None else 0.0
        self.estimated |= use.estimated
        self.simulated |= use.simulated
        self.unknown += use.joules is None
        self.lacks_gpus += use.lacks_gpus
        self.incomplete += not use.complete


def _asleep(wait: Wait | None) -> float:
    """Returns the seconds asleep. If the record does not tell, returns 0, so that the waiting counts as awake."""
    return min(wait.total, wait.asleep) if wait is not None and wait.asleep is not None else 0.0


def use_of(record: Record, names: dict[str, str], run: Run = Run()) -> JobUse:
    """Returns the use of a job. The state in run tells if the job ran to its end."""
    wait, energy = record.wait, record.energy
    joules, waiting = energy.joules if energy else None, None
    if energy is not None and energy.scope != "gpus" and wait is not None and wait.share is not None:
        waiting = energy.joules * wait.share
    asleep_s = _asleep(wait)
    part = 1 - asleep_s / wait.total if wait is not None and wait.total > 0 else 1.0
    imbalance = imbalance_of(record)
    return JobUse(
        names={**names, "policy": record.policy.used},
        joules=joules,
        waiting_j=waiting,
        awake_j=None if waiting is None else waiting * part,
        estimated=waiting is not None,
        wait_s=wait.total if wait else 0.0,
        asleep_s=asleep_s,
        ranks_s=ranks_time_in_sums(record),
        lost_s=imbalance.lost_s if imbalance and not imbalance.lone and run.state not in BROKEN else None,
        simulated=energy is not None and energy.source == "simulated",
        lacks_gpus=energy is not None and energy.lacks_gpus,
        complete=record.is_complete,
        run=run,
        threads_s=wait.threads if wait else 0.0,
        energy_of=energy_of(record),
        cost=wait.cost if wait else None,
        saved=saving_of(record),
        billed_j=billed_joules(energy) if energy else 0.0,
    )


ORDERS: dict[str, Callable[[Row], tuple[float, ...]]] = {
    "awake": lambda row: (-row.awake_j, -row.awake_s),
    "threads": lambda row: (-row.threads_s, -row.awake_j, -row.awake_s),
    "saved": lambda row: (-row.saved_j, -row.awake_j, -row.awake_s),
}


def rows_of(uses: Iterable[JobUse], group: str, order: str = "awake") -> list[Row]:
    """Sums uses into rows by a group of their names.

    Rows are in the order of ORDERS[order], descending: for "awake" by joules of waiting awake, then by its seconds.
    Energies of different parts are in rows of their own; the parts that most jobs have come first. A job without energy
    joins a row of its name.
    """
    rows: dict[tuple[str, str], Row] = {}
    of_key: dict[str, str] = {}
    for use in sorted(uses, key=lambda use: use.joules is None):
        name = use.names[group]
        key = use.job_key or name if group == "job" else name
        parts = use.energy_of or of_key.get(key, "")
        of_key.setdefault(key, parts)
        row = rows.setdefault((key, parts), Row(name, labels=use.names, run=use.run, energy_of=parts))
        row.run = row.run.with_run(use.run) if row.jobs and group == "job" else row.run
        row.add(use)
    blocks: dict[str, int] = {}
    for row in rows.values():
        blocks[row.energy_of] = blocks.get(row.energy_of, 0) + row.jobs
    several = len([block for block in blocks if block]) > 1

    def place(row: Row) -> tuple[int, str]:
        return (-blocks[row.energy_of], row.energy_of) if several and row.energy_of else (int(several), "")

    return sorted(rows.values(), key=lambda row: (*place(row), *ORDERS[order](row), row.name))


def record_in(row: dict[str, str]) -> tuple[Record, str] | None:
    """Returns the record in sacct's row, and the name of its field; None if there is none. Raises Refusal if no field
    has one that can be read, and one has one that cannot."""
    refusal = None
    for key in RECORD_FIELDS:
        try:
            body = find_body(row.get(key, ""))
            if body is not None:
                return parse_record(body), key
        except Refusal as problem:
            refusal = problem
    if refusal is not None:
        raise refusal
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 13 else None


def _run(row: dict[str, str]) -> Run:
    elapsed = _number(row["ElapsedRaw"])
    state = (row["State"].split() or [""])[0].rstrip("+")
    nodes = _number(row["NNodes"]) or 0
    seconds = None if elapsed is None else float(elapsed)
    return Run(row["JobName"], state, row["Start"], seconds, nodes, row["Submit"])


class Tally:
    """The uses of the jobs that were read, and the number of jobs: in all, without a record, with a record that cannot
    be read, and with one in Extra."""

    def __init__(self) -> None:
        self.jobs = self.without = self.unreadable = self.from_extra = 0
        self.uses: list[JobUse] = []
        self.name = ""  # jobs of another name are left out; "" for all
        self.numbers_again = 0  # job numbers that several jobs had
        self._rows: dict[str, list[dict[str, str]]] = {}  # by job number: for each use, the cells that identify its job

    def _note(self, row: dict[str, str]) -> None:
        """Notes the row of the use that was added last."""
        told = {name: row.get(name, "") for name in ("User", "JobName", "State", "Submit", "Start", "Restarts")}
        self._rows.setdefault(row["JobID"], []).append({**told, "use": str(len(self.uses) - 1)})

    def tell_jobs_apart(self) -> None:
        """Sets job_key of all uses: runs of one job share a key, other jobs of the same number get another. Call it
        after the last row."""
        for number, rows in self._rows.items():
            jobs = by_job(rows)
            self.numbers_again += len(jobs) > 1
            for index, runs in enumerate(jobs):
                for row in runs:
                    place = int(row["use"])
                    self.uses[place] = replace(self.uses[place], job_key=f"{number} {index}")

    def add(self, row: dict[str, str]) -> None:
        self.jobs += 1
        if not row:
            self.unreadable += 1
            return
        if self.name and row["JobName"] != self.name:
            self.jobs -= 1
            return
        try:
            found = record_in(row)
        except Refusal:
            self.unreadable += 1
            return
        if found is None:
            self.without += 1
            return
        names = {"job": row["JobID"], "user": row["User"], "account": row["Account"]}
        self.uses.append(use_of(found[0], {**names, "partition": row["Partition"]}, _run(row)))
        self._note(row)
        self.from_extra += found[1] == "Extra"
