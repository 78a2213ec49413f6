"""mpi-wait top: the jobs, accounts or users of a period, sorted by the energy of their waiting awake; or the runs of
one program as a trend."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..jobs.period import add_period_arguments, period_of, with_progress
from ..jobs.sacct import Filters, Period, me, names, read_days
from ..meaning.bill import Bill, bill_of
from ..meaning.rows import GROUPS, ORDERS, Row, Run, Tally, rows_of
from ..record.wait import Cost
from ..site.tariff import Tariff, add_tariff_argument, tariff_of
from ..text.output import (
    Refusal,
    add_output_arguments,
    lines_limit,
    output_is_utf8,
    output_width,
    picture_path,
    wants_colour,
)
from ..text.units import rounded, safe

SUMMARY = "the jobs, accounts or users of a period by the energy that their MPI ranks spent waiting awake"
NAME_MAX = 4000


def _name(text: str) -> str:
    """Returns the name as sacct prints it: each byte that is no UTF-8 is one character there."""
    if not text or len(text) > NAME_MAX:
        raise argparse.ArgumentTypeError(f"a job's name has 1 to {NAME_MAX} characters")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=GROUPS, default="job", help="what to sum up (default: job)")
    parser.add_argument("--order", choices=tuple(ORDERS), default="awake",
                        help="awake: energy spent waiting awake; threads: CPU time of ranks' other threads meanwhile; "
                             "saved: energy saved by sleeping, as measured")
    add_period_arguments(parser, "1d")
    parser.add_argument("--user", metavar="NAME,...", type=names, help="only these users' jobs")
    parser.add_argument("--mine", action="store_true", help="only your own jobs")
    parser.add_argument("--name", metavar="NAME", type=_name, help="the runs of the jobs of this name, as a trend")
    parser.add_argument("--plot", metavar="FILE", type=picture_path,
                        help="with --name: draw the trend into FILE (.png, .svg or .pdf) instead")
    parser.add_argument("--account", metavar="NAME,...", type=names, help="only these accounts' jobs")
    parser.add_argument("--partition", metavar="NAME,...", type=names, help="only these partitions' jobs")
    parser.add_argument("--limit", metavar="N", type=lines_limit, default=20, help="how many lines (default: 20)")
    add_tariff_argument(parser)
    add_output_arguments(parser, "all lines as JSON")


def _read(period: Period, filters: Filters) -> Tally:
    tally = Tally()
    tally.name = filters.name
    for day in with_progress(read_days(period, filters), len(period.days()), lambda: tally.jobs):
        for row in day:
            tally.add(row)
    tally.tell_jobs_apart()
    return tally


def _of_run(run: Run) -> dict[str, Any]:
    return {
        "job_name": run.name, "state": run.state, "start": run.start, "elapsed_s": run.elapsed_s, "nodes": run.nodes,
        "submit": run.submit or None,
    }


def _of_cost(cost: Cost | None) -> dict[str, Any]:
    return {
        "cost_percent": rounded(cost.percent if cost else None),
        "cost_error": rounded(cost.error if cost else None),
        "cost_windows": cost.windows if cost else None,
    }


def _of_saving(row: Row) -> dict[str, Any]:
    saved = row.saved
    return {
        "saved_percent": rounded(saved.percent if saved else None),
        "saved_error": rounded(saved.error if saved else None),
        "saved_j": rounded(row.saved_j if saved else None),
    }


def _of_bill(row: Row, tariff: Tariff) -> dict[str, Any]:
    bill = bill_of(tariff, row.billed_j) if row.unknown < row.jobs else Bill(None, None)
    return {"price": rounded(bill.price), "currency": tariff.currency or None, "co2_g": rounded(bill.co2_g)}


def _as_json(period: Period, by: str, tally: Tally, rows: list[Row], tariff: Tariff) -> dict[str, Any]:
    return {
        "version": 1,
        "since": round(period.since),
        "until": round(period.until),
        "by": by,
        "jobs": tally.jobs,
        "without_record": tally.without,
        "unreadable": tally.unreadable,
        "from_extra": tally.from_extra,
        "rows": [
            {
                "name": row.name,
                "jobs": row.jobs,
                "joules": rounded(row.joules),
                "waiting_j": rounded(row.waiting_j),
                "awake_j": rounded(row.awake_j),
                "estimated": row.estimated,
                "energy_of": row.energy_of or None,
                "simulated": row.simulated,
                "without_energy": row.unknown,
                "without_gpus": row.lacks_gpus,
                "incomplete": row.incomplete,
                "wait_s": rounded(row.wait_s),
                "awake_s": rounded(row.awake_s),
                "asleep_s": rounded(row.asleep_s),
                "threads_s": rounded(row.threads_s),
                "ranks_s": rounded(row.ranks_s),
                "lost_s": rounded(row.lost_s),
                **_of_cost(row.cost),
                **_of_saving(row),
                **_of_bill(row, tariff),
                **(_of_run(row.run) if by == "job" else {}),
            }
            for row in rows
        ],
    }


def _filters(arguments: argparse.Namespace) -> Filters:
    if arguments.mine and arguments.user:
        arguments.refuse_usage("--mine and --user exclude each other")
    if arguments.plot and not arguments.name:
        arguments.refuse_usage("--plot draws the runs of one program: --name says which")
    if arguments.plot and arguments.json:
        arguments.refuse_usage("--plot and --json exclude each other")
    if arguments.name and arguments.by != "job":
        arguments.refuse_usage("--name shows single jobs: --by sums them up")
    users = me("--mine") if arguments.mine else arguments.user or ""
    return Filters(users, arguments.account or "", arguments.partition or "", arguments.name or "")


def _plot(path: str, name: str, period: Period, tally: Tally) -> None:
    from ..pictures.page import write_sheet
    from ..pictures.several import trend_sheet
    from .view import ordered

    if not tally.uses:
        raise Refusal(f"no job of the name '{safe(name)}' left a record in that time: --since reaches further back")
    write_sheet(path, trend_sheet(name, period.words(), ordered(tally.uses)))


def run(arguments: argparse.Namespace) -> int:
    filters, period = _filters(arguments), period_of(arguments, 1)
    tally = _read(period, filters)
    rows = rows_of(tally.uses, arguments.by, arguments.order)
    tariff = tariff_of(arguments)
    if arguments.plot:
        _plot(arguments.plot, arguments.name, period, tally)
        return 0
    if arguments.json:
        print(json.dumps(_as_json(period, arguments.by, tally, rows, tariff), indent=2, allow_nan=False))
        return 0
    try:
        from .view import show_top, show_trend
    except ImportError:
        raise Refusal("the Python package 'rich' is missing (python3-rich); --json works without") from None
    width, colour, utf8 = output_width(arguments), wants_colour(arguments), output_is_utf8()
    if arguments.name:
        text = show_trend(width, colour, utf8, period, arguments.name, arguments.limit, tally, rows)
    else:
        text = show_top(width, colour, utf8, period, arguments, tally, rows, tariff)
    sys.stdout.write(text)
    return 0
