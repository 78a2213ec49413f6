"""Finds a job's record, in sacct, in a file or in the spool (SPOOL/done/CLUSTER-JOBID-RESTART.json), and reads sacct's
own figures of jobs and steps.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..record.record import Policy, Record, Step, find_body, no_record, parse_record
from ..site.host import Host
from ..site.slurm import CONFIGURATIONS, plugstack_of, read_plugstack
from ..text.output import NoRecord, NotEnded, Refusal
from ..text.units import safe
from .runs import Outlook, by_job, ended_s_ago, outlook_of, span_of
from .sacct import LAST, RECORD_FIELDS, Job, Target, read_jobs, run_sacct

USE_FIELDS = ("JobID", "ElapsedRaw", "TotalCPU", "ConsumedEnergyRaw")
JOULES_MAX = 1e15  # sacct prints larger numbers if it does not know the energy
_CPU_TIME = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d\d(?:\.\d{1,9})?)")


@dataclass(frozen=True)
class Use:
    """sacct's own figures of a job or step; None if not known."""

    elapsed: float | None = None  # seconds
    cpu_s: float | None = None  # never 0: sacct prints 0 if it does not know
    joules: float | None = None  # never 0, likewise


def cpu_seconds(text: str) -> float | None:
    """Returns the seconds of sacct's TotalCPU, [[days-]hours:]minutes:seconds; None if that is 0, or no such time."""
    match = _CPU_TIME.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds or None


def joules_of(text: str) -> float | None:
    return float(text) if text.isdigit() and len(text) < 20 and 0 < float(text) < JOULES_MAX else None


def _seconds(text: str) -> float | None:
    return float(text) if text.isdigit() and len(text) < 13 else None


def uses_of(output: str) -> dict[str, Use]:
    """Returns the uses in sacct's output, by job and step as sacct names them. Skips lines of another shape."""
    uses = {}
    for line in output.splitlines():
        cells = line.split("|")
        if len(cells) == len(USE_FIELDS):
            uses[cells[0]] = Use(_seconds(cells[1]), cpu_seconds(cells[2]), joules_of(cells[3]))
    return uses


def read_uses(jobs: Iterable[str]) -> dict[str, Use]:
    """Asks sacct for the uses of these jobs and their steps. {} if sacct fails.

    Steps are always asked for, because sacct sums a job's CPU time over its steps.
    """
    words = ["-P", "-n", "-j", ",".join(jobs), "--delimiter=|", f"--format={','.join(USE_FIELDS)}"]
    try:
        done = run_sacct(words)
    except Refusal:
        return {}
    return uses_of(done.stdout) if done.returncode == 0 else {}


RECORD_BYTES_MAX = 1 << 20
CLOCKS_S = 30  # most by which a record's begin and end may differ from slurmctld's times
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-([1-9][0-9]{0,9})-([0-9]{1,10})\.json")


def site_spool() -> str:
    """Returns the spool= of the plugin's line in this host's plugstack.conf; "" if there is none."""
    host = Host()
    for configuration in filter(None, (os.environ.get("SLURM_CONF", ""), *CONFIGURATIONS)):
        path = plugstack_of(host, configuration)
        if os.path.isfile(path):
            for line in read_plugstack(host, path).lines:
                for word in line.words:
                    if word.startswith("spool=/"):
                        return word[len("spool=") :]
    return ""


def _read(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refusal(f"'{safe(path, 200)}' is no file")
            data = opened.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be read: {error.strerror} (its job's group may read it)") from None
    return data[:RECORD_BYTES_MAX].decode("utf-8", "replace")


def _run_of(text: str) -> tuple[float, float] | None:
    """Returns the run's begin and end, in seconds since the epoch; None if the file, of an older release, has none."""
    try:
        run = json.loads(text)["run"]
        start, end = float(run["start_s"]), float(run["end_s"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (start, end) if start <= end < float("inf") else None


class Kept:
    """The records that the spool keeps; none if spool is "". Lists their names once, since there may be very many."""

    def __init__(self, spool: str) -> None:
        self.folder = os.path.join(spool, "done") if spool else ""
        self._by_job: dict[str, list[tuple[int, str]]] | None = None  # by job number: the run and the file's name

    def _names(self, job: str) -> list[str]:
        """Returns the record files of a job's number, ordered by run; [] also if the folder may not be read."""
        if self._by_job is None:
            self._by_job = {}
            try:
                names = os.listdir(self.folder) if self.folder else []
            except OSError:
                names = []
            for match in filter(None, map(_NAME.fullmatch, names)):
                self._by_job.setdefault(match.group(1), []).append((int(match.group(2)), match.group()))
        return [name for _, name in sorted(self._by_job.get(job, []))]

    def read(self, job: str, span: tuple[float, float] | None = None) -> str | None:
        """Returns the text of the record that is kept of a job number; None if none is.

        Several jobs may have had the number. span, the begin and end of a run, picks the record that overlaps it most;
        None picks the latest.
        """
        best, best_fit = None, float("-inf")
        for name in self._names(job):
            text = _read(os.path.join(self.folder, name))
            run = _run_of(text)
            if run is None:
                fit = float("-inf")
            elif span is None:
                fit = run[1]
            else:
                fit = min(span[1], run[1]) - max(span[0], run[0])
                if fit < -CLOCKS_S:
                    continue
            if fit >= best_fit:
                best, best_fit = text, fit
        return best

    def read_of(self, row: Mapping[str, str]) -> str | None:
        """Returns the text of the kept record of the run in sacct's row; None also if that run has not begun."""
        span = span_of(row)
        return self.read(row[LAST], span) if span is not None else None


USUAL_S = 30  # from a job's end until its record is stored, with a margin


@dataclass(frozen=True)
class Found:
    """A record and the place where it was found."""

    job: Job | None  # None if the record came from a file
    field: str  # the field of sacct that held the record, "" if it came from a file or the spool
    record: Record
    step: Step | None = None  # the step that the user asked for, None for the whole job
    source: str = ""  # name of the file, or "job NUMBER" from the spool
    use: Use = Use()  # sacct's own figures, if several jobs are compared

    @property
    def has_record(self) -> bool:
        return bool(self.record.raw)

    @property
    def policy(self) -> Policy:
        return self.step.policy if self.step and self.step.policy else self.record.policy

    @property
    def is_watched(self) -> bool:
        """Returns True if MPI ranks would be in the record. Policy off watches none."""
        return self.has_record and self.policy.used != "off"

    @property
    def name(self) -> str:
        """The name by which the user asked for it: "123.0", or the file's name."""
        if self.job is None:
            return safe(self.source or "a record", 24)
        return safe(self.job.id) + (f".{self.step.id}" if self.step else "")


def read_text(path: str) -> str:
    """Returns the text of a file, or of standard input if path is "-". Raises Refusal if that is too large for a
    record."""
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
        raise Refusal(f"'{path}' is larger than {RECORD_BYTES_MAX} bytes: it is no record")
    return data.decode("utf-8", "replace")


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return "" if path == "-" else name[:-5] if name.endswith(".json") else name


def from_file(path: str, text: str | None = None) -> Found:
    """Returns the record in a file. text is the file's if it was read already."""
    body = find_body(read_text(path) if text is None else text)
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
    """Returns the reason why a job has no record, judged from sacct's row: a NoRecord if the job has ended."""
    foreign = [name for name in RECORD_FIELDS if job.fields.get(name, "").strip()]
    now = time.time()
    outlook = outlook_of(job.fields, now)
    if outlook is Outlook.NOT_RUN:
        return NotEnded(f"job {job.id} has not run yet ({job.state}): there is no record")
    if outlook is Outlook.RUNNING:
        return NotEnded(f"job {job.id} is still running: its record is written some seconds after its end")
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
    """Returns the record that the spool keeps of a job; None if it keeps none."""
    text = Kept(spool).read_of(job.fields) if job is not None else Kept(spool).read(number)
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


class Several(Refusal):
    """A job's number stands for several jobs."""

    def __init__(self, number: str, names: Sequence[str], jobs: Sequence[Job]) -> None:
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        super().__init__(f"{number} stands for {len(names)} jobs ({shown}): ask for one of them")
        self.jobs = jobs


UNKNOWN_WHY = (
    "submitted just now, a task of an array that has not run yet, another cluster's, too old, or somebody else's"
)


def _checked(target: Target, jobs: Sequence[Job]) -> Sequence[Job]:
    """Returns jobs if they are the runs of one job. Raises Refusal if there are none, or Several."""
    names = list(dict.fromkeys(job.id for job in jobs))
    if not names:
        raise Refusal(f"sacct knows no job {target.job}: {UNKNOWN_WHY}")
    if len(names) > 1:
        raise Several(target.job, names, jobs)
    return jobs


def run_labels(founds: list[Found]) -> list[str]:
    """Returns labels that tell runs of one number apart: "run 1 of 2", led by the user if the runs are of several jobs.

    The label is "" if there is only one run.
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
    """Returns a stand-in for a job that left no record, or for a step of it."""
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
    """Returns founds with sacct's own figures of each. Raises Refusal if sacct knows no step of that name."""
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


def _of_runs(target: Target, jobs: Sequence[Job]) -> list[Found]:
    """Returns the records of those runs that have one. Raises Refusal if none has."""
    found, refusals = [], []
    for job in jobs:
        try:
            found.append(from_job(job))
        except Refusal as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[-1]
    return [_with_step(one, target.step) for one in found]


def _kept(target: Target, spool: str, refusal: Refusal) -> Found:
    """Returns the record that the spool keeps of a job of which sacct says nothing. Raises refusal if there is none."""
    kept = _from_kept(None, target.job, spool)
    if kept is None:
        raise refusal
    return _with_step(kept, target.step)


def from_sacct(targets: Sequence[Target], duplicates: bool, spool: str, bare: bool = False) -> list[Found]:
    """Returns for each target the record of its job's latest run; with duplicates those of all runs that have one, the
    oldest first.

    If sacct has none, or does not answer, the spool (may be "") is searched. With bare, a job that has ended without a
    record is returned with an empty one; without, that raises NoRecord. A number that stands for several jobs raises
    Several.
    """
    try:
        rows = read_jobs(targets, duplicates)
    except Refusal as refusal:
        return [_kept(target, spool, refusal) for target in targets]
    found: list[Found] = []
    for target in targets:
        try:
            jobs = _checked(target, rows[target])
        except Several:
            raise
        except Refusal as refusal:
            found.append(_kept(target, spool, refusal))
            continue
        found += _of_runs(target, jobs) if duplicates else [_of_one(jobs[-1], target.step, spool, bare)]
    return found
