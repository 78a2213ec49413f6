"""tests/RESULTS.md: which programs gave the same under which policy."""

from __future__ import annotations

import datetime
import platform
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.play import Row, Verdict
from tests.conformance.work import RESTS
from tests.mpi_matrix.results import processor
from tests.results import section_replace

HEAD = """# Conformance: other people's programs

Written by `tests/conformance/run --results tests/RESULTS.md`; do not edit.

Each program runs twice without the library, and then under each policy. `=` says that its exit status, its output and
its files were the same to the bit, but for times and dates; the number behind it is how often its ranks rested, summed
(`nap`: naps, `yield`: the core given away, `event`: sleeps and naps, and so on), of `profile` how often a call waited.
A launch in which no rank rested is a failure here. `event` ran over UCX under Open MPI 4.1, beside a reference over
UCX; elsewhere it naps. `umwait` and `mwaitx` ran by emulated instructions where the processor hides them. `left out`
are lines that are not the same in two runs without the library.
"""


@dataclass
class Report:
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: dict[Row, str] = field(default_factory=dict)
    seconds: float = 0

    def failed(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.problems]


def cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    if verdict.problems:
        return "**failed**"
    policy = verdict.row.policy
    return f"= {verdict.work.rested(policy) if RESTS[policy] else verdict.work.waits:,}"


def table(report: Report) -> list[str]:
    lines = [f"| program | MPI | ranks | lines | left out | {' | '.join(RESTS)} |",
             "|---|---|" + "---:|" * (3 + len(RESTS))]
    cells = {(verdict.row.program, verdict.row.mpi, verdict.row.policy): verdict for verdict in report.verdicts}
    for program, mpi in dict.fromkeys((verdict.row.program, verdict.row.mpi) for verdict in report.verdicts):
        found = [cells.get((program, mpi, policy)) for policy in RESTS]
        some = [verdict for verdict in found if verdict]
        words = [program.name, mpi.title, str(program.ranks), f"{max(verdict.compared for verdict in some):,}",
                 str(max(verdict.left_out for verdict in some)), *map(cell, found)]
        lines.append(f"| {' | '.join(words)} |")
    return [*lines, ""]


def programs(report: Report) -> list[str]:
    played = dict.fromkeys(verdict.row.program for verdict in report.verdicts)
    return [f"- {program.name}: {program.title}. Compared: {program.compared}." for program in played]


def skipped(report: Report) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row, reason in report.skipped.items():
        reasons.setdefault(f"{row.program.name}, {row.mpi.title}: {reason}", []).append(row.policy)
    return [f"- {where} ({', '.join(policies)})" for where, policies in reasons.items()] or ["Nothing."]


def write(path: Path, report: Report) -> None:
    virtual = " hypervisor " in Path("/proc/cpuinfo").read_text()
    lines = [HEAD, f"{len(report.verdicts)} rows in {report.seconds / 60:.0f} min on {datetime.date.today()}: "
             f"{processor()}, Linux {platform.release()}{', a virtual machine' if virtual else ''}.", "",
             *table(report), "## The programs", "", *programs(report), "", "## Not tried", "", *skipped(report), "",
             "## Failures", ""]
    lines += [f"- {verdict.row}: {problem}" for verdict in report.failed() for problem in verdict.problems] or ["None."]
    section_replace(path, "conformance", "\n".join(lines))
