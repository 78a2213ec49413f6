"""The answer of mpi-wait learn for people: a table of programs, the reason for each verdict, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ..jobs.sacct import Period
from ..meaning.cost import interval_words
from ..meaning.pooling import Pooled
from ..meaning.programs import OFF, TRY, USERS_LEAST, Program
from ..text.canvas import Canvas, written
from ..text.units import count, percent, plural, safe
from .gather import Gathered

NAME_WIDTH = 24
TITLES = ("program", "jobs", "users", "ranks", "nodes", "waiting", "policy", "cost", "saved", "verdict")
LEFT = (0, 6, 9)
DROPPED = (4, 3, 6, 2, 5)  # places in TITLES, the first to go first
STYLES = {OFF: "red", TRY: "yellow"}


def _range(values: Sequence[int]) -> str:
    known = [value for value in values if value]
    if not known:
        return "–"
    least, most = min(known), max(known)
    return count(least) if least == most else f"{count(least)}–{count(most)}"


def _interval(pooled: Pooled | None) -> str:
    return "–" if pooled is None else interval_words(pooled.value, pooled.half)


def _cells(program: Program) -> list[str | Text]:
    verdict, facts = program.verdict, program.facts
    basis = verdict.basis
    return [
        safe(program.name, NAME_WIDTH) or "(none)",
        count(len(facts)),
        count(program.users),
        _range([fact.ranks for fact in facts]),
        _range([fact.nodes for fact in facts]),
        percent(max(0.0, program.share.value) / 100) if program.share else "–",
        basis.policy[:8] if basis else "–",
        _interval(basis.cost if basis else None),
        _interval(basis.saved if basis else None),
        Text(verdict.policy, STYLES.get(verdict.policy, "green")),
    ]


def _reason(program: Program) -> str:
    verdict = program.verdict
    said = f"{verdict.policy}. {verdict.why}" if verdict.policy in (OFF, TRY) else verdict.why
    believed = ", by the users whom you trust" if program.trusted else ""
    return f"{safe(program.name, NAME_WIDTH) or '(none)'}: {said}{believed}."


def _mind(gathered: Gathered, programs: Sequence[Program], left_out: int) -> Iterator[str]:
    facts = [fact for program in programs for fact in program.facts]
    unknown = sum(program.verdict.policy == TRY for program in programs)
    if unknown:
        yield (f"Of {plural(unknown, 'program')} too little is known. A verdict needs {USERS_LEAST} users whose own "
               "jobs agree, or --trust.")
    silent = sum(fact.cost is None and fact.saved is None for fact in facts)
    if silent:
        yield (f"{plural(silent, 'job')} measured neither a cost nor a saving: too short, under off or profile, or of "
               "an older release.")
    by_job_name = sum(program.by_job_name for program in programs)
    if by_job_name:
        are = "is" if by_job_name == 1 else "are"
        yield (f"{plural(by_job_name, 'job')} {are} known by the job's name alone: mpirun or a script started the "
               "ranks. programs=FILE compares the names of programs.")
    if gathered.of_several:
        yield f"{plural(gathered.of_several, 'job')} ran several programs, and their records have the sum: left out."
    if left_out:
        yield (f"{plural(left_out, 'program')} with a verdict cannot be named in the file, whose names are patterns: "
               "only letters, digits and ._+@%- stand for themselves.")
    if any(fact.simulated for fact in facts):
        yield "Energy is simulated for some of the jobs, not measured."
    if gathered.incomplete:
        yield f"{plural(gathered.incomplete, 'record')} INCOMPLETE: nodes did not report. Left out."
    if gathered.from_extra:
        yield f"{plural(gathered.from_extra, 'record')} from Extra, which a job's owner can change."
    if gathered.unreadable:
        yield f"{plural(gathered.unreadable, 'record')} cannot be read: damaged, or of another release. Left out."


def show_learned(
    width: int, colour: bool, utf8: bool, period: Period, limit: int, gathered: Gathered, programs: Sequence[Program],
    left_out: int,
) -> str:
    """Returns the answer. left_out is the number of programs with a verdict that the file cannot name."""
    canvas, shown = Canvas(width, colour), programs[:limit]
    canvas.ends(Text("Policies by program, as jobs measured them", style="bold"), Text(period.words()))
    canvas.note(Text(f"{plural(gathered.used, 'job')} of {count(gathered.jobs)} with a record, "
                     f"{plural(len(programs), 'program')}", style="dim"))
    if shown:
        canvas.blank()
        canvas.table(TITLES, [_cells(program) for program in shown], LEFT, DROPPED)
        canvas.blank()
    if len(programs) > limit:
        canvas.note(Text(f"{len(programs) - limit} more (--limit {len(programs)})", style="dim"))
    for program in shown:
        mark = "?" if program.verdict.policy == TRY else "→"
        canvas.sentence(mark, _reason(program), STYLES.get(program.verdict.policy, "green"))
    remarks = list(_mind(gathered, programs, left_out))
    if remarks:
        canvas.heading("Mind")
    for sentence in remarks:
        canvas.sentence("!", sentence, "yellow")
    if any(program.verdict.policy != TRY for program in programs):
        canvas.blank()
        canvas.note(Text("Nothing is installed. --json prints the file for programs=FILE.", style="dim"))
    return written(canvas.lines(), utf8)
