"""mpi-wait report: shows the record of one job, or of several side by side, to people or programs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..jobs.found import Found, Several, Use, from_file, from_sacct, run_labels, site_spool, with_uses
from ..jobs.sacct import RECORD_FIELDS, Target, read_named
from ..jobs.source_lines import Lines, lines_of
from ..meaning.advice import advice, ending_of
from ..meaning.bill import bill_json
from ..meaning.imbalance import imbalance_of
from ..meaning.reading import incomplete_line
from ..site.tariff import Tariff, add_tariff_argument, tariff_of
from ..text.output import (
    Refusal,
    add_output_arguments,
    output_is_utf8,
    output_width,
    page_path,
    picture_path,
    wants_colour,
)
from ..text.units import rounded
from . import brief, many
from .asked import Asked, asked_of
from .csv_rows import csv_text

OTHERS = ("json", "csv", "plot", "html", "brief", "duplicates", "all_ranks", "record")


def _add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="your running job: who waits now, each second anew")
    parser.add_argument("--once", action="store_true", help="with --watch: print the state once, as text")


def _check_watch_usage(arguments: argparse.Namespace) -> None:
    if arguments.once and not arguments.watch:
        arguments.refuse_usage("--once goes with --watch")
    one_job = len(arguments.jobs) == 1 and arguments.jobs != ["-"]
    if arguments.watch and (not one_job or any(getattr(arguments, name) for name in OTHERS)):
        arguments.refuse_usage("--watch shows one running job, JOBID[.STEP], and goes with --once, --no-color, --width")


def _watch(arguments: argparse.Namespace, target: Target | str) -> int:
    if isinstance(target, str):
        raise Refusal("--watch shows a running job, not a file")
    try:
        from ..watch.live import watch
    except ImportError as error:
        name = (error.name or "rich").split(".")[0]
        raise Refusal(f"the Python package '{name}' is missing (python3-rich): --watch needs it") from None
    return watch(arguments, target)


SUMMARY = "how long a job's MPI ranks waited, for which calls, and the energy that the job used"
ROWS_MAX = 1000
JOBS_MAX = 32
FOR_FEW = ("plot", "html", "all_ranks", "exe", "watch")  # options that a table of many jobs has no use for


def _rows(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= ROWS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {ROWS_MAX}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "jobs",
        metavar="JOBID[.STEP]",
        nargs="*",
        help="a job as sacct shows it: 123, 123_4 (array), 123+1 (heterogeneous), 123.0 (one step); several are "
        "compared with the first; a table of an array (123), of a directory with slurm-JOBID.out files, or of the "
        "numbers on stdin (-); - reads a record too",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        action="append",
        default=[],
        help="read a raw record from FILE (- is stdin) instead of asking sacct; several are compared",
    )
    parser.add_argument(
        "--spool", metavar="DIR", help="where sacct has no record: look in DIR/done (default: plugstack.conf's spool=)"
    )
    parser.add_argument("--duplicates", action="store_true", help="every run of a requeued job, the oldest first")
    parser.add_argument("--all-ranks", action="store_true", help="a line for every rank and every node, however many")
    parser.add_argument(
        "--calls", metavar="N", type=_rows, default=10, help="how many MPI calls to show (default: 10)"
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=picture_path, help="draw one page into FILE (.png, .svg or .pdf) instead"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=page_path, help="write one page into FILE (.html) instead, which loads nothing"
    )
    parser.add_argument(
        "--exe", metavar="FILE", action="append", default=[],
        help="the program, one of its libraries or a directory of them: functions and lines for the call sites "
        "that the key sites records",
    )
    parser.add_argument("--csv", action="store_true", help="every figure on a line of its own, as CSV")
    add_tariff_argument(parser)
    _add_watch_arguments(parser)
    brief.add_arguments(parser)
    add_output_arguments(parser, "the record and sacct's fields as JSON")


def _as_json(found: Found, lines: Lines, tariff: Tariff) -> dict[str, Any]:
    job = (
        {key: value for key, value in found.job.fields.items() if key not in RECORD_FIELDS}
        if found.job
        else None
    )
    answer: dict[str, Any] = {"job": job, "field": found.field or None, "mpi_wait": found.record.raw or None}
    if found.use != Use():
        answer["sacct"] = {
            "elapsed_s": found.use.elapsed, "cpu_s": found.use.cpu_s, "consumed_energy_j": found.use.joules
        }
    if not found.has_record:
        return answer if found.step is None else {**answer, "step": found.step.id}
    if not found.record.is_complete:
        answer["incomplete"] = incomplete_line(found.record)
    bill = bill_json(tariff, found.record, found.step)
    if bill is not None:
        answer["bill"] = {name: rounded(value) if isinstance(value, float) else value for name, value in bill.items()}
    imbalance = imbalance_of(found.record, found.step)
    if imbalance is not None:
        answer["imbalance"] = {
            "max_over_mean": rounded(imbalance.ratio),
            "lost_s": rounded(imbalance.lost_s),
            "share": rounded(imbalance.share),
            "core_share": rounded(imbalance.core_share),
            "is_bound": imbalance.lone,
        }
    if lines.places and found.record.wait is not None:
        answer["lines"] = {site.place: lines.place(site) for site in found.record.wait.sites if site.module}
    if found.step is not None:
        return {**answer, "step": found.step.id}
    return {**answer, "advice": [one.line for one in advice(found.record, ending_of(found.job))]}


def _print(arguments: argparse.Namespace, founds: list[Found], lines: Lines, tariff: Tariff) -> None:
    try:
        from .view import Output, Shown, compare, show
    except ImportError as error:
        name = error.name or "rich"
        raise Refusal(
            f"the Python package '{name.split('.')[0]}' is missing (python3-rich); --json and --csv work without"
        ) from None
    width = output_width(arguments, two_columns=True)
    output = Output(width, wants_colour(arguments), output_is_utf8())
    if len(founds) > 1 and not arguments.duplicates:
        sys.stdout.write(compare(output, founds))
        return
    labels = run_labels(founds)
    for index, found in enumerate(founds):
        shown = Shown(
            found.job, found.field, found.record, found.step, arguments.all_ranks, arguments.calls, labels[index],
            lines, tariff
        )
        sys.stdout.write("\n" * (index > 0) + show(output, shown))


def _draw(arguments: argparse.Namespace, founds: list[Found], lines: Lines, tariff: Tariff) -> None:
    """Draws a page or a sheet into a file. Loads the code that draws only here, since most reports need none."""
    from ..pictures.job import job_sheet
    from ..pictures.page import write_page, write_sheet
    from ..pictures.several import comparison_sheet
    from .page import page_of

    if arguments.html:
        write_page(arguments.html, page_of(founds[0], lines, tariff))
    else:
        write_sheet(arguments.plot, job_sheet(founds[0]) if len(founds) == 1 else comparison_sheet(founds))


def _check_asked(arguments: argparse.Namespace, asked: Asked) -> None:
    """Exits with a message if the jobs, files and options do not go together."""
    if asked.paths and asked.targets:
        arguments.refuse_usage("a job and --record exclude each other")
    if not asked.paths and not asked.targets:
        arguments.refuse_usage("which job? JOBID[.STEP] as sacct shows it, or --record FILE")
    if not asked.is_list and len(asked.paths) + len(asked.targets) > JOBS_MAX:
        arguments.refuse_usage(f"more than {JOBS_MAX} jobs: - reads up to 10000 of them from standard input")
    if asked.is_list and any(getattr(arguments, name) for name in FOR_FEW):
        arguments.refuse_usage("a list of jobs is a table, or --json or --csv: --plot, --html, --all-ranks, --exe and "
                               "--watch exclude it")
    if asked.is_list and any(target.step is not None for target in asked.targets):
        arguments.refuse_usage("a list of jobs has no steps")


def _check_usage(arguments: argparse.Namespace) -> None:
    _check_watch_usage(arguments)
    if sum(map(bool, (arguments.json, arguments.csv, arguments.plot, arguments.html))) > 1:
        arguments.refuse_usage("--json, --csv, --plot and --html exclude each other")
    brief.check_usage(arguments)
    several = len(arguments.jobs) + len(arguments.record) > 1
    if arguments.all_ranks and (several or arguments.json or arguments.csv or arguments.plot or arguments.html):
        arguments.refuse_usage("--all-ranks is for the text of one job: --json, --csv and --plot have every rank")
    if arguments.html and (several or arguments.duplicates):
        arguments.refuse_usage("--html is a page of one job: --plot compares several")
    if arguments.duplicates and len(arguments.jobs) > 1 and not arguments.brief:
        arguments.refuse_usage("--duplicates is for one job")


def _founds(arguments: argparse.Namespace, asked: Asked, spool: str) -> list[Found]:
    """Returns what the user asked for. Raises Several if a number stands for several jobs."""
    founds = [from_file(path, asked.text if path == "-" and asked.text else None) for path in asked.paths]
    compared = len(asked.targets) > 1
    if asked.targets:
        founds += from_sacct(asked.targets, arguments.duplicates, spool, bare=compared)
    return with_uses(founds) if compared else founds


def _write(arguments: argparse.Namespace, founds: list[Found], is_one: bool) -> None:
    sites = [site for found in founds if found.record.wait is not None for site in found.record.wait.sites]
    lines = lines_of(sites, arguments.exe)
    tariff = tariff_of(arguments)
    if arguments.html or arguments.plot:
        _draw(arguments, founds, lines, tariff)
    elif arguments.csv:
        sys.stdout.write(csv_text(founds, lines, tariff))
    elif arguments.json:
        answers = [_as_json(found, lines, tariff) for found in founds]
        print(json.dumps(answers[0] if is_one else answers, indent=2, allow_nan=False))
    else:
        _print(arguments, founds, lines, tariff)


def run(arguments: argparse.Namespace) -> int:
    _check_usage(arguments)
    asked = asked_of(arguments)
    if arguments.brief:
        return brief.run(arguments, asked)
    _check_asked(arguments, asked)
    if arguments.watch:
        return _watch(arguments, asked.targets[0] if asked.targets else asked.paths[0])
    spool = arguments.spool if arguments.spool is not None else site_spool() if asked.targets else ""
    if asked.is_list:
        rows = read_named(asked.jobs, arguments.duplicates)
        return many.write(arguments, many.many_of(rows, spool, asked.jobs, asked.remarks, tariff_of(arguments)))
    try:
        founds = _founds(arguments, asked, spool)
    except Several as several:
        if any(getattr(arguments, name) for name in FOR_FEW) or any(target.step for target in asked.targets):
            raise
        alone = len(asked.targets) == 1
        fields = (job.fields for job in several.jobs) if alone else read_named(asked.jobs, arguments.duplicates)
        return many.write(arguments, many.many_of(fields, spool, asked.jobs, [], tariff_of(arguments)))
    _write(arguments, founds, len(asked.targets) + len(asked.paths) == 1 and not arguments.duplicates)
    return 0
