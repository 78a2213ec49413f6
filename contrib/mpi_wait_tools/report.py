"""mpi-wait report: the accounting record of one job, for people or (--json) for programs."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

from .errors import Refusal
from .output import add_output_arguments, output_is_utf8, output_width, wants_colour
from .record import Record, Step, find_body, parse_record
from .sacct import RECORD_FIELDS, Job, Target, parse_target, read_jobs
from .units import safe

SUMMARY = "how long a job's MPI ranks waited, for which calls, and the energy that the job used"
RECORD_BYTES_MAX = 1 << 20
SOON_S = 180  # a record that is not there so soon after the end may still come
ROWS_MAX = 1000
ACTIVE = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


@dataclass(frozen=True)
class Found:
    """A record, and where it was found. Without a job it came from a file."""

    job: Job | None
    field: str
    record: Record


def _rows(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= ROWS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {ROWS_MAX}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        metavar="JOBID[.STEP]",
        nargs="?",
        help="a job as sacct shows it: 123, 123_4 (array), 123+1 (heterogeneous), "
        "123.0 (one step); - reads a record from stdin",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="read a raw record from FILE (- is stdin) instead of asking sacct",
    )
    parser.add_argument(
        "--duplicates", action="store_true", help="every run of a requeued job, the oldest first"
    )
    parser.add_argument(
        "--all-ranks", action="store_true", help="a line for every rank, however many"
    )
    parser.add_argument(
        "--calls",
        metavar="N",
        type=_rows,
        default=10,
        help="how many MPI calls to show (default 10)",
    )
    add_output_arguments(parser, "the record and sacct's fields as JSON")


def _read_text(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(RECORD_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"'{path}' cannot be read: {error.strerror}") from None
    if len(data) > RECORD_BYTES_MAX:
        raise Refusal(f"'{path}' is larger than {RECORD_BYTES_MAX} bytes: no record is")
    return data.decode("utf-8", "replace")


def _from_file(path: str) -> Found:
    body = find_body(_read_text(path))
    if body is None:
        raise Refusal(f"there is no record in '{path}': it has no \"mpi_wait\"")
    return Found(None, "", parse_record(body))


def _why_not(job: Job) -> str:
    """Why a job has no record: one of several reasons, told apart by what sacct shows of it."""
    foreign = [name for name in RECORD_FIELDS if job.fields.get(name, "").strip()]
    if job.state in WAITING:
        return f"job {job.id} has not run yet ({job.state}): there is no record"
    if job.state in ACTIVE:
        return f"job {job.id} is still running: its record is written some seconds after its end"
    ago = job.ended_s_ago
    if ago is not None and -SOON_S < ago < SOON_S:
        return (
            f"job {job.id} ended {max(0, round(ago))} s ago and has no record yet: it is "
            "written some 10 s after the end if the job had a policy; ask again in a few seconds "
            "(administrators: mpi-wait-node flush)"
        )
    if foreign:
        text = safe(job.fields[foreign[0]].strip(), 24)
        return f"job {job.id} has no record: {foreign[0]} holds another tool's text ({text})"
    return (
        f"job {job.id} has no record: it had no policy (--mpi-wait-policy), "
        "or the site keeps no record of such jobs"
    )


def _from_job(job: Job) -> Found:
    refusal: Refusal | None = None
    for field in RECORD_FIELDS:
        try:
            body = find_body(job.fields.get(field, ""))
            if body is not None:
                return Found(job, field, parse_record(body))
        except Refusal as problem:
            refusal = refusal or Refusal(f"{field} of job {job.id}: {problem}")
    raise refusal or Refusal(_why_not(job))


def _from_sacct(target: Target, duplicates: bool) -> list[Found]:
    jobs = read_jobs(target, duplicates)
    names = list(dict.fromkeys(job.id for job in jobs))
    if len(names) > 1:
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        raise Refusal(f"{target.job} stands for {len(names)} jobs ({shown}): ask for one of them")
    if not duplicates:
        return [_from_job(jobs[-1])]
    found, refusals = [], []
    for job in jobs:
        try:
            found.append(_from_job(job))
        except Refusal as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[-1]
    return found


def _pick_step(record: Record, step: str | None, job: str) -> Step | None:
    if step is None:
        return None
    for item in record.steps:
        if item.id == step:
            return item
    known = ", ".join(item.id for item in record.steps[:8]) or "none"
    known += ", ..." if len(record.steps) > 8 else ""
    raise Refusal(f"the record of job {job} has no step {step} (it has: {known})")


def _as_json(found: Found, step: str | None) -> dict[str, Any]:
    job = (
        {key: value for key, value in found.job.fields.items() if key not in RECORD_FIELDS}
        if found.job
        else None
    )
    answer: dict[str, Any] = {
        "job": job,
        "field": found.field or None,
        "mpi_wait": found.record.raw,
    }
    return {**answer, "step": step} if step is not None else answer


def _print(arguments: argparse.Namespace, founds: list[Found], target: Target | None) -> None:
    try:
        from .view import View, show
    except ImportError as error:
        name = error.name or "rich"
        raise Refusal(
            f"the Python package '{name.split('.')[0]}' is missing (python3-rich); "
            "--json works without"
        ) from None
    for index, found in enumerate(founds):
        step = _pick_step(
            found.record, target.step if target else None, found.job.id if found.job else ""
        )
        view = View(output_width(arguments), wants_colour(arguments), output_is_utf8())
        sys.stdout.write("\n" * (index > 0))
        sys.stdout.write(
            show(
                view,
                found.job,
                found.record,
                found.field,
                step,
                arguments.all_ranks,
                arguments.calls,
            )
        )


def run(arguments: argparse.Namespace) -> int:
    path = arguments.record or ("-" if arguments.job == "-" else None)
    if path and arguments.job not in (None, "-"):
        arguments.refuse_usage("a job and --record exclude each other")
    if path is None and arguments.job is None:
        arguments.refuse_usage("which job? JOBID[.STEP] as sacct shows it, or --record FILE")
    target = None if path else parse_target(arguments.job)
    if not path and target is None:
        arguments.refuse_usage(
            f"'{safe(arguments.job)}' is not a job id (accepted: 123, 123.0, 123_4, 123+1)"
        )
    founds = (
        [_from_file(str(path))] if target is None else _from_sacct(target, arguments.duplicates)
    )
    if not arguments.json:
        _print(arguments, founds, target)
        return 0
    step = target.step if target else None
    for found in founds:
        _pick_step(found.record, step, found.job.id if found.job else "")
    answers = [_as_json(found, step) for found in founds]
    print(json.dumps(answers if arguments.duplicates else answers[0], indent=2, allow_nan=False))
    return 0
