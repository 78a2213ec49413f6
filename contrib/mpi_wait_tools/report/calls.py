"""The tables of a report: MPI calls, their profile, the program's phases and call sites, and the job's steps."""

from __future__ import annotations

from rich.text import Text

from ..jobs.source_lines import Lines
from ..record.record import Step
from ..record.wait import Call, Phase, PointToPoint, ProfiledCall, RankWait, Site
from ..text.canvas import TRANSFER, WAITING, Canvas
from ..text.plot import bar, split_bar
from ..text.units import bytes_class, core_time, count, duration, percent, safe, scaled, sizes_line

BAR_WIDTH = 24
CALLSITE_LEAST = 24
CALL_WIDTH = 66  # characters that a table takes without its bars, with room for most names


def _bar_room(canvas: Canvas) -> int:
    return max(0, min(BAR_WIDTH, canvas.width - CALL_WIDTH))


def _more(canvas: Canvas, text: str) -> None:
    canvas.note(Text(text, style="dim"))


def draw_calls(canvas: Canvas, calls: list[Call], total: float, limit: int) -> None:
    canvas.heading("Calls")
    room = _bar_room(canvas)
    most = max(call.seconds for call in calls)
    rows: list[list[str | Text]] = [
        [
            call.name,
            count(call.calls),
            count(call.waits),
            core_time(call.seconds),
            percent(min(1.0, call.seconds / total)) if total > 0 else "",
            duration(call.longest) if call.longest is not None else "",
            Text(bar(call.seconds, most, room), WAITING),
        ]
        for call in calls[:limit]
    ]
    columns = ["call", "calls", "waits", "waited", "share", "longest", ""]
    canvas.table(columns, rows, left=(0, 6), drop=(6, 5, 2, 1, 4))
    if len(calls) > limit:
        rest = sum(call.seconds for call in calls[limit:])
        _more(canvas, f"{len(calls) - limit} more waited {core_time(rest)} together (--calls {len(calls)} shows them)")


def draw_profile(
    canvas: Canvas, calls: list[ProfiledCall], messages: PointToPoint | None, limit: int
) -> None:
    """Draws all MPI calls, those that never waited too. Time that is not waiting is transfer and MPI's own work."""
    canvas.heading("Profile")
    time, waited = sum(call.time for call in calls), sum(call.wait for call in calls)
    if time > 0:
        share = percent(min(1.0, waited / time))
        canvas.line("In MPI", f"{core_time(time)}: {share} waiting, the rest transfer and the MPI's own work")
    if messages is not None:
        whole = messages.within + messages.between
        share = percent(messages.within / whole)
        text = f"{scaled(whole, 'B')} point to point by MPI_COMM_WORLD: {share} within nodes, the rest between"
        canvas.line("Messages", text)
    columns = ["call", "calls", "time", "of it waiting", "bytes", "sizes"]
    rows = [
        [
            call.name,
            count(call.calls),
            core_time(call.time) if call.time else "",
            percent(min(1.0, call.wait / call.time)) if call.time else "",
            scaled(call.bytes, "B") if call.bytes else "",
            sizes_line(call.sizes),
        ]
        for call in calls[:limit]
    ]
    canvas.table(columns, rows, drop=(5, 4, 1))
    if len(calls) > limit:
        _more(canvas, f"{len(calls) - limit} more (--calls {len(calls)} shows them)")
    _transfer(canvas, [call for call in calls[:limit] if call.time > 0])
    shown = [call for call in calls[:limit] if len(call.sizes) > 1]
    if shown:
        _sizes(canvas, shown[0])


def _transfer(canvas: Canvas, calls: list[ProfiledCall]) -> None:
    """Draws waiting against transfer, call by call."""
    if not calls:
        return
    canvas.blank()
    name, amount = max(len(call.name) for call in calls), max(len(core_time(call.time)) for call in calls)
    room = canvas.width - name - amount - 7
    most = max(call.time for call in calls)
    for call in calls:
        waited, rest = split_bar(call.time, min(call.time, call.wait), most, room)
        line = Text(f"  {call.name:<{name}}  {core_time(call.time):>{amount}}  ")
        canvas.text(line.append(waited, WAITING).append(rest, TRANSFER))
    canvas.note(
        Text().append("█", WAITING).append(" waiting  ", "dim").append("░", TRANSFER).append(" transfer", "dim")
    )


def _sizes(canvas: Canvas, call: ProfiledCall) -> None:
    rows = [
        (bytes_class(least), number, f"{count(round(number))} calls")
        for least, number in call.sizes.items()
    ]
    canvas.distribution(f"How many bytes {call.name} hands over:", rows)


def _waits_most(most: RankWait | None) -> str:
    if most is None:
        return ""
    rank = f"rank {most.rank}" if most.rank >= 0 else "a rank"
    return f"{rank} on {safe(most.node, 16)}, {duration(most.seconds)}"


def draw_phases(canvas: Canvas, phases: list[Phase]) -> None:
    """Draws the phases that the program names by MPI_Pcontrol."""
    canvas.heading("Phases")
    rows = [
        [
            phase.name,
            core_time(phase.time),
            count(phase.waits),
            core_time(phase.seconds),
            percent(min(1.0, phase.seconds / phase.time)) if phase.time else "",
            _waits_most(phase.most),
        ]
        for phase in phases
    ]
    canvas.table(["phase", "time", "waits", "waited", "share", "waits most"], rows, left=(0, 5), drop=(5, 2, 1))


def _end_of(text: str, room: int) -> str:
    """Cuts text to room from its start: the end of a call site tells most."""
    return text if len(text) <= room else "…" + text[1 - room :]


def draw_sites(canvas: Canvas, sites: list[Site], lines: Lines, total: float, limit: int) -> None:
    """Draws the places in the program from which the waiting comes."""
    canvas.heading("Call sites")
    rows = [
        [
            _end_of(lines.place(site), max(CALLSITE_LEAST, canvas.width - CALL_WIDTH)),
            site.call,
            count(site.waits),
            core_time(site.seconds),
            percent(min(1.0, site.seconds / total)) if total > 0 else "",
            _waits_most(site.most),
        ]
        for site in sites[:limit]
    ]
    canvas.table(["place", "call", "waits", "waited", "share", "waits most"], rows, left=(0, 1, 5), drop=(5, 2, 1, 4))
    if len(sites) > limit:
        rest = sum(site.seconds for site in sites[limit:])
        _more(canvas, f"{len(sites) - limit} more waited {core_time(rest)} together (--calls {len(sites)} shows them)")
    if not lines.places and any(site.module for site in sites):
        _more(canvas, "--exe FILE has functions and lines instead of addresses")


def draw_steps(canvas: Canvas, steps: list[Step], policy: str) -> None:
    """Draws the job's steps. policy is the job's, which holds for steps that asked for none."""
    canvas.heading("Steps")
    rows = [
        [
            step.id,
            step.policy.used if step.policy else policy,
            count(step.nodes) if step.nodes is not None else "",
            "–" if step.policy and step.policy.used == "off" else count(step.ranks),
            duration(step.elapsed) if step.elapsed is not None else "",
            core_time(step.wait) if step.ranks else "",
            scaled(step.joules, "J") if step.joules is not None else "",
        ]
        for step in steps
    ]
    canvas.table(["step", "policy", "nodes", "ranks", "ran", "waited", "energy"], rows, drop=(2, 3, 1, 4))
