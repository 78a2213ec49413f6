"""tests/RESULTS.md: the shares of a whole run, by function and library."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from tests.lib.libraries import BINDINGS, MPIS, Mpi, Unavailable, version_of
from tests.lib.results import section_replace
from tests.soak.mpi_matrix.plan import PLAYED, coverage, lists, policies, policy_reasons
from tests.soak.mpi_matrix.play import WAIT_MS, Report, columns, exceeding, median, shares_judge

KINDS = {"above": "Above the aim, and known to be", "spins": "Spins", "unjudged": "Not judged",
         "returns": "Does not wait", "absent": "Absent"}

HEAD = """# What a wait costs: the matrix

Written by `tests/soak/mpi_matrix/run --all --results tests/RESULTS.md`; do not edit.

One of two ranks comes {wait} ms late to a call; the other waits in it, single-threaded, under the policy `nap`. A
figure is the **share of CPU time** that the wait took the waiting thread, in per cent, read by the program itself
(`CLOCK_THREAD_CPUTIME_ID` around the call): the median of all its waits, {count} in launches that lay minutes apart.
Each was played once, and none again. Without the library every one of them is 100. The ranks have a real-time
priority, so that nobody else on this machine takes part. The aim is at most {aim:.0f}; what misses it is **bold**, and
is a failure unless `tests/coverage.json` lists it as above the aim on a machine of this kind: then the sleeps alone
decide. `spins` is a cell that it lists, and `returns` a call in which this library does not wait for the other rank.

Before that the same cells ran under every policy, with a partner that comes no earlier than the rank has slept three
times (`nap`: naps, `yield`: the core given away, and so on): no hang, the same results to the bit as without the
library, and sleeps in every wait that is not listed.
"""


def processor() -> str:
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else platform.machine()}"


def library_version(mpi: Mpi) -> str:
    try:
        return version_of(["env", f"LD_LIBRARY_PATH={mpi.libraries() if mpi.wheel else ''}",
                           mpi.tool("mpirun", mpi.wheel), "--version"])
    except Unavailable as reason:
        return str(reason)


def machine(seconds: float, report: Report, played: Iterable[str]) -> list[str]:
    virtual = " hypervisor " in Path("/proc/cpuinfo").read_text()
    lines = ["## Where", "",
             f"- {processor()}, Linux {platform.release()}{', a virtual machine' if virtual else ''}",
             f"- {datetime.date.today()}, {report.launches} launches in {seconds / 60:.0f} min",
             f"- policies that ran: none, {', '.join(played)}"]
    lines += [f"- `{name}` did not: {reason}" for name, reason in policy_reasons().items() if name not in played]
    lines += [f"- `{name}` by emulated instructions, in C" for name in played if name not in policies()]
    lines += [f"- {mpi.title}; of its launcher: {library_version(mpi)}" for mpi in MPIS]
    return [*lines, ""]


def figure(report: Report, function: str, mpi: str, binding: str) -> str:
    shares = report.shares.get((function, mpi, binding))
    if shares is None:
        return "absent" if lists("absent", function, mpi, binding) else ""
    share = median(shares)
    if share is None:
        return "returns"
    if lists("spins", function, mpi, binding):
        return "spins"
    return f"**{100 * share:.0f}**" if share > coverage()["aim"] else f"{100 * share:.0f}"


def table(report: Report, binding: str) -> list[str]:
    used = columns(report, PLAYED, binding)
    if not used:
        return []
    lines = [f"## {binding}", "", "| function | " + " | ".join(mpi.title for mpi in used) + " |",
             "|---|" + "---:|" * len(used)]
    for function in (*coverage()["functions"], "Finalize"):
        figures = [figure(report, function, mpi.name, binding) for mpi in used]
        if any(figures):
            lines.append(f"| {function} | " + " | ".join(figures) + " |")
    return [*lines, ""]


def listed(kind: str) -> Iterable[str]:
    for entry in coverage()[kind]:
        where = [", ".join(entry[key]) if key in entry else f"every {key[:-1]}"
                 for key in ("functions", "mpis", "bindings")]
        yield f"- {'; '.join(where)}: {entry['reason']}"


def write(path: Path, report: Report, seconds: float, waits: int, played: Iterable[str]) -> None:
    aim = coverage()["aim"]
    lines = [HEAD.format(wait=WAIT_MS, count=waits, aim=100 * aim), *machine(seconds, report, played)]
    for binding in BINDINGS:
        lines += table(report, binding)
    over = {cell: share for cell, share in exceeding(report).items() if not lists("above", *cell)}
    lines += ["## Above the aim, and not listed", ""]
    lines += [f"- {', '.join(cell)}: {100 * share:.0f} %" for cell, share in sorted(over.items())] or ["None."]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}", "", *listed(kind)]
    lines += [f"- {where}: {reason}" for where, reason in sorted(report.unavailable.items())]
    wrong = [*report.problems, *shares_judge(report)]
    lines += ["", "## Failures", "", *([f"- {problem}" for problem in wrong] or ["None."])]
    section_replace(path, "matrix", "\n".join(lines))
