"""Finds the record of a job: in sacct's fields, or in a file."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

from ..record.record import Policy, Record, Step, find_body, no_record, parse_record
from ..text.errors import NoRecord, Refusal
from ..text.units import safe
from .kept import RECORD_BYTES_MAX, read_kept, read_kept_of
from .outlook import Outlook, ended_s_ago, outlook_of
from .runs import by_job
from .sacct import LAST, RECORD_FIELDS, Job, Target, read_jobs
from .use import Use, read_uses

USUAL_S = 30  # from a job's end to its record, with a margin


@dataclass(frozen=True)
class Found:
    """
    A record, where it was found, and the step of it that was asked for. Without a job it came from a file. use: what
    sacct has of the job or step besides, where several are compared.
    """

    job: Job | None
    field: str
    record: Record
    step: Step | None = None
    source: str = ""
    use: Use = Use()

    @property
    def has_record(self) -> bool:
        return bool(self.record.raw)

    @property
    def policy(self) -> Policy:
        return self.step.policy if self.step and self.step.policy else self.record.policy

    @property
    def is_watched(self) -> bool:
        """Whether its MPI ranks would be in the record: under off they are not."""
        return self.has_record and self.policy.used != "off"

    @property
    def name(self) -> str:
        """As it was asked for: "123.0", or the file's name."""
        if self.job is None:
            return safe(self.source or "a record", 24)
        return safe(self.job.id) + (f".{self.step.id}" if self.step else "")


def _read_text(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(RECORD_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"'{path}' cannot be read: {error.strerror}") from None
    except ValueError:
        raise Refusal(f"'{path}' cannot be read: it is no path") from None
    if len(data) > RECORD_BYTES_MAX:
        raise Refusal(f"'{path}' is larger than {RECORD_BYTES_MAX} bytes: no record is")
    return data.decode("utf-8", "replace")


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return "" if path == "-" else name[:-5] if name.endswith(".json") else name


def from_file(path: str) -> Found:
    body = find_body(_read_text(path))
    if body is None:
        raise Refusal(f"there is no record in '{path}': it has no \"mpi_wait\"")
    return Found(None, "", parse_record(body), source=_stem(path))


def _why_not_yet(job: Job, ago: float) -> NoRecord:
    if ago < USUAL_S:
        return NoRecord(
            f"job {job.id} ended {ago:.0f} s ago and has no record yet: it is written some 10 s after the end if "
            "the job had a policy, else never; ask again in a few seconds (administrators: mpi-wait-node sweep --now)"
        )
    return NoRecord(
        f"job {job.id} ended {ago:.0f} s ago and has no record: it had no policy, or its record, due some 10 s after "
        "the end, is held up (administrators: mpi-wait-node sweep --now)"
    )


def _why_not(job: Job) -> Refusal:
    """Why a job has no record: one of several reasons, told apart by what sacct shows of it. NoRecord: it has ended."""
    foreign = [name for name in RECORD_FIELDS if job.fields.get(name, "").strip()]
    now = time.time()
    outlook = outlook_of(job.fields, now)
    if outlook is Outlook.NOT_RUN:
        return Refusal(f"job {job.id} has not run yet ({job.state}): there is no record")
    if outlook is Outlook.RUNNING:
        return Refusal(f"job {job.id} is still running: its record is written some seconds after its end")
    if outlook is Outlook.NEVER_RAN:
        return NoRecord(f"job {job.id} has no record: it ended before it had a node")
    if outlook is Outlook.YET:
        return _why_not_yet(job, max(0.0, ended_s_ago(job.fields, now) or 0.0))
    if foreign:
        text = safe(job.fields[foreign[0]].strip(), 24)
        return NoRecord(f"job {job.id} has no record: {foreign[0]} holds another tool's text ({text})")
    return NoRecord(
        f"job {job.id} has no record: it had no policy (--mpi-wait-policy), "
        "or the site keeps no record of such jobs; beside another job, 'mpi-wait report' compares what sacct has"
    )


def from_job(job: Job) -> Found:
    refusal: Refusal | None = None
    for field in RECORD_FIELDS:
        try:
            body = find_body(job.fields.get(field, ""))
            if body is not None:
                return Found(job, field, parse_record(body))
        except Refusal as problem:
            refusal = refusal or Refusal(f"{field} of job {job.id}: {problem}")
    raise refusal or _why_not(job)


def _pick_step(record: Record, step: str, job: str) -> Step:
    for item in record.steps:
        if item.id == step:
            return item
    known = ", ".join(item.id for item in record.steps[:8]) or "none"
    known += ", ..." if len(record.steps) > 8 else ""
    raise Refusal(f"the record of job {job} has no step {step} (it has: {known})")


def _with_step(found: Found, step: str | None) -> Found:
    if step is None:
        return found
    return replace(found, step=_pick_step(found.record, step, found.name.replace("job ", "")))


def _from_kept(job: Job | None, number: str, spool: str) -> Found | None:
    """The record that the spool keeps of a job, if it keeps one."""
    text = read_kept_of(spool, job.fields) if job is not None else read_kept(spool, number)
    body = find_body(text) if text is not None else None
    return Found(job, "", parse_record(body), source=f"job {number}") if body is not None else None


def _stored_or_kept(job: Job, spool: str) -> Found:
    try:
        return from_job(job)
    except Refusal:
        kept = _from_kept(job, job.fields[LAST], spool)
        if kept is None:
            raise
        return kept


def _jobs(target: Target, duplicates: bool) -> list[Job]:
    jobs = read_jobs(target, duplicates)
    names = list(dict.fromkeys(job.id for job in jobs))
    if len(names) > 1:
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        raise Refusal(f"{target.job} stands for {len(names)} jobs ({shown}): ask for one of them")
    return jobs


def run_labels(founds: list[Found]) -> list[str]:
    """
    Returns what tells each job from the others of its number: "run 1 of 2", and the user where there are several jobs;
    "" for a single one.
    """
    rows = [found.job.fields for found in founds if found.job is not None]
    if len(rows) < 2 or len(rows) < len(founds):
        return [""] * len(founds)
    jobs, labels = by_job(rows), {}
    for runs in jobs:
        for place, row in enumerate(runs):
            said = [f"run {place + 1} of {len(runs)}"] if len(runs) > 1 else []
            if len(jobs) > 1:
                said.insert(0, f"{safe(row['User'], 24)}'s of {safe(runs[0]['Submit'], 24)}")
            labels[id(row)] = ", ".join(said)
    return [labels[id(row)] for row in rows]


def _bare(job: Job, step: str | None) -> Found:
    """A job that left no record, or a step of it."""
    elapsed, nodes = job.fields["ElapsedRaw"], job.fields["NNodes"]
    record = no_record(
        float(elapsed) if elapsed.isdigit() and len(elapsed) < 13 else 0.0,
        int(nodes) if nodes.isdigit() and 0 < len(nodes) < 9 else 1,
    )
    return Found(job, "", record, None if step is None else Step(step, 0, 0.0, None, None, None, None))


def _of_one(job: Job, step: str | None, spool: str, bare: bool) -> Found:
    try:
        return _with_step(_stored_or_kept(job, spool), step)
    except NoRecord:
        if not bare:
            raise
        return _bare(job, step)


def with_uses(founds: list[Found]) -> list[Found]:
    """The same, with what sacct has of each. Refusal: a step without a record is none that sacct knows."""
    uses = read_uses(dict.fromkeys(found.job.id for found in founds if found.job is not None))
    answer = []
    for found in founds:
        use = uses.get(found.name, Use()) if found.job is not None else Use()
        if not found.has_record and found.step is not None:
            if found.name not in uses:
                raise Refusal(f"sacct knows no step {found.name}")
            found = replace(found, step=replace(found.step, elapsed=use.elapsed))
        answer.append(replace(found, use=use))
    return answer


def from_sacct(target: Target, duplicates: bool, spool: str, bare: bool = False) -> list[Found]:
    """
    The record of the job's latest run, or with duplicates of every run that has one, the oldest first. Where sacct has
    none, or does not answer, what the spool (may be "") keeps of the job. bare: a job that has ended may have none.
    """
    try:
        jobs = _jobs(target, duplicates)
    except Refusal:
        kept = _from_kept(None, target.job, spool)
        if kept is None:
            raise
        return [_with_step(kept, target.step)]
    if not duplicates:
        return [_of_one(jobs[-1], target.step, spool, bare)]
    found, refusals = [], []
    for job in jobs:
        try:
            found.append(from_job(job))
        except Refusal as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[-1]
    return [_with_step(one, target.step) for one in found]
