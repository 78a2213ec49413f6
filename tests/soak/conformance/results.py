"""tests/RESULTS.md: which programs gave the same under which policy."""

from __future__ import annotations

import datetime
import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.lib.libraries import BUILD, MPIS, OVER_OFI
from tests.lib.results import section_replace
from tests.soak.conformance.programs import PROGRAMS
from tests.soak.conformance.work import SLEEPS
from tests.soak.mpi_matrix.results import processor

FIGURES = BUILD / "conformance"
BY_NAME = {program.name: program for program in PROGRAMS}
ALL = (*MPIS, *OVER_OFI)
TITLES = {mpi.name: mpi.title for mpi in ALL}
NEVER = ["- IMB-MT: it wants an OpenMP runtime that the wheel does not bring.",
         "- MPICH's own test suite: no Debian package has it, and sources are not what a machine's apt is set up for.",
         "- `pstate`: needs a grant of cpufreq files; `auto` is `nap` here."]
HEAD = """# Conformance: other people's programs

Written by `tests/soak/conformance/run --results tests/RESULTS.md`; do not edit. Each row is of its last run in
one checkout.

Each program runs a few times without the library, and then once under each policy. `=` says that its exit status, its
output and its files were the same to the bit, but for times and dates; the number behind it is how often its ranks
slept, summed (`nap`: naps, `yield`: the core given away, `event`: sleeps and naps, and so on), of `profile` how often
a call waited. Rank 0 is held at its start until another rank waits for it and sleeps, so that every launch has a wait
that must sleep: one in which no rank slept is a failure. `event` ran over UCX under Open MPI 4.1, beside a reference
over UCX; elsewhere it naps. `umwait` and `mwaitx` ran by emulated instructions where the processor hides them. `left
out` are lines that are not the same in the runs without the library. More ranks than cores yield where these would
sleep.
"""


@dataclass(frozen=True)
class Row:
    """What is kept of a row. skipped: why it could not be tried."""

    program: str
    mpi: str
    policy: str
    problems: list[str] = field(default_factory=list)
    skipped: str = ""
    compared: int = 0
    left_out: int = 0
    sleeps: int = 0
    seconds: float = 0
    date: str = ""


def keep(row: Row, folder: Path = FIGURES) -> None:
    """In a file of its own, in the place of what an earlier run found."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**asdict(row), "date": str(datetime.date.today())})
    (folder / f"{row.program},{row.mpi},{row.policy}.json").write_text(text)


def kept(folder: Path = FIGURES) -> list[Row]:
    """In the order of the programs; without those that are none any more."""
    found = {path.stem: path for path in folder.glob("*.json")}
    names = [f"{program.name},{mpi.name},{policy}" for program in PROGRAMS for mpi in ALL for policy in SLEEPS]
    return [Row(**json.loads(found[name].read_text())) for name in names if name in found]


def cell(row: Row | None) -> str:
    if row is None or row.skipped:
        return "not run"
    return "**failed**" if row.problems else f"= {row.sleeps:,}"


def table(rows: list[Row]) -> list[str]:
    lines = [f"| program | MPI | ranks | lines | left out | {' | '.join(SLEEPS)} |",
             "|---|---|" + "---:|" * (3 + len(SLEEPS))]
    for name, mpi in dict.fromkeys((row.program, row.mpi) for row in rows if not row.skipped):
        found = {row.policy: row for row in rows if (row.program, row.mpi) == (name, mpi)}
        words = [name, TITLES[mpi], str(BY_NAME[name].ranks), f"{max(row.compared for row in found.values()):,}",
                 str(max(row.left_out for row in found.values())), *(cell(found.get(policy)) for policy in SLEEPS)]
        lines.append(f"| {' | '.join(words)} |")
    return [*lines, ""]


def programs(rows: list[Row]) -> list[str]:
    played = dict.fromkeys(BY_NAME[row.program] for row in rows if not row.skipped)
    return [f"- {program.name}: {program.title}. Compared: {program.compared}." for program in played]


def skipped(rows: list[Row]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.skipped:
            reasons.setdefault(f"{row.program}, {TITLES[row.mpi]}: {row.skipped}", []).append(row.policy)
    return [f"- {where} ({', '.join(policies)})" for where, policies in reasons.items()]


def meaning(played: list[Row]) -> str:
    """What being equal says: of some programs it is not the data."""
    data = sum(BY_NAME[row.program].compares_data for row in played)
    others = [row for row in played if not BY_NAME[row.program].compares_data]
    if not others:
        return f"All {data} rows compare data."
    names = ", ".join(dict.fromkeys(row.program.split("-")[0].upper() for row in others))
    return f"{data} of {len(played)} rows compare data, the {len(others)} of {names} compare which benchmarks ran."


def write(path: Path, folder: Path = FIGURES) -> None:
    virtual = " hypervisor " in Path("/proc/cpuinfo").read_text()
    rows = kept(folder)
    played = [row for row in rows if not row.skipped]
    equal = sum(not row.problems for row in played)
    dates = sorted({row.date for row in played})
    lines = [HEAD, f"{equal} of {len(played)} rows are equal; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}, "
             f"{processor()}, Linux {platform.release()}{', a virtual machine' if virtual else ''}.", "",
             meaning(played), "", *table(rows),
             "## The programs", "", *programs(rows), "", "## Not tried", "", *skipped(rows), *NEVER, "",
             "## Failures", ""]
    lines += [f"- {row.program}, {row.mpi}, {row.policy}: {problem}" for row in played
              for problem in row.problems] or ["None."]
    section_replace(path, "conformance", "\n".join(lines))
