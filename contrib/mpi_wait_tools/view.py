"""The report as a person sees it: rendered into one string, at one width, and only then written.

Text from the record or from sacct enters through units.safe and as rich Text, never as markup.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .bars import ASCII, bar, histogram, quantile, split_bar
from .power import power_lines
from .reading import Rank, energy_scope, imbalance_of, notes, policy_line, ranks_of
from .record import Call, Energy, Grant, ProfiledCall, Record, Step, Wait
from .sacct import Job
from .units import bytes_class, count, duration, percent, plural, safe, scaled, sizes_line, watt_hours

RANKS_SHOWN = 16  # more ranks than this are shown as the extremes and a distribution
EXTREMES = 4
LABEL_WIDTH = 9
GRANTS = {"lease": "lease", "fd": "descriptor", "file": "ownership"}
JOINT = "\ue000"  # a space at which no line is broken, between a number and its unit
STATE_STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "cyan"}


class View:
    """Collects what is shown of one job."""

    def __init__(self, width: int, colour: bool, utf8: bool) -> None:
        self.utf8, self.buffer = utf8, io.StringIO()
        self.console = Console(
            file=self.buffer,
            width=width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self.width = width

    def text(self) -> str:
        written = self.buffer.getvalue().replace(JOINT, " ")
        lines = "\n".join(line.rstrip() for line in written.split("\n"))
        return lines if self.utf8 else lines.translate(ASCII).encode("ascii", "replace").decode()

    def line(
        self, label: str, value: str, style: str = "", tail: tuple[str, str] | None = None
    ) -> None:
        """ "  Label    value", wrapped under itself."""
        grid = Table.grid(padding=0)
        grid.add_column(width=LABEL_WIDTH + 2, no_wrap=True)
        grid.add_column(overflow="fold")
        shown = Text(re.sub(r"(?<=\d) ", JOINT, value), style=style)
        if tail:
            shown.append("  ").append(*tail)
        grid.add_row(Text("  " + label, style="bold"), shown)
        self.console.print(grid)

    def heading(self, title: str) -> None:
        self.console.print()
        self.console.print(
            Rule(Text(title, style="bold"), align="left", style="dim", characters="─")
        )

    def header(self, name: str, job: Job | None, record: Record) -> None:
        left = Text(name, style="bold")
        if job is None:
            right = Text(f"ran {duration(record.elapsed)}")
        else:
            left.append("  " + safe(job.fields["JobName"], 28), style="")
            right = Text(safe(job.fields["State"], 24), style=STATE_STYLES.get(job.state, "red"))
            right.append(f" after {safe(job.fields['Elapsed'], 16)}", style="")
        grid = Table.grid(expand=True)
        grid.add_column(overflow="fold")
        grid.add_column(justify="right")
        grid.add_row(left, right)
        self.console.print(grid)

    def facts(self, job: Job | None, record: Record, step: Step | None) -> None:
        policy = step.policy if step is not None and step.policy is not None else record.policy
        self.line("Policy", policy_line(policy))
        parts = [plural(step.nodes or record.nodes_of if step else record.nodes_of, "node")]
        if job is not None and step is None and job.fields["AllocCPUS"].isdigit():
            parts.append(plural(int(job.fields["AllocCPUS"][:12]), "CPU"))
        ranks = (
            step.ranks if step is not None else record.wait.ranks if record.wait is not None else 0
        )
        parts.append(plural(ranks, "MPI rank") if ranks else "no MPI rank")
        if step is None and len(record.steps) > 1:
            parts.append(plural(len(record.steps) + record.steps_left_out, "step"))
        self.line("Ran on", ", ".join(parts))

    def energy(self, job: Job | None, record: Record, step: Step | None) -> None:
        energy = record.energy
        if energy is None:
            self.line(
                "Energy",
                f"not known: {safe(record.energy_why) or 'no node could read its counters'}",
                "yellow",
            )
        elif step is not None and step.joules is None:
            self.line("Energy", "not known for this step")
        else:
            joules = energy.joules if step is None or step.joules is None else step.joules
            seconds = record.elapsed if step is None else step.elapsed or 0.0
            power = f", {scaled(joules / seconds, 'W')} on average" if seconds > 0 else ""
            tail = (
                ("simulated, not measured", "bold yellow") if energy.source == "simulated" else None
            )
            self.line("Energy", f"{scaled(joules, 'J')} = {watt_hours(joules)}{power}", tail=tail)
            self.line("", energy_scope(record) + self._whole_nodes(energy, step))
            rest = (energy.node_joules or 0.0) - energy.joules
            if step is None and energy.scope == "share" and rest > 0:
                self.line("", f"the nodes' other {scaled(rest, 'J')}: idle, or other jobs'", "dim")
            if step is None and energy.zones:
                self.line("", self._zones(energy))
        consumed = job.fields["ConsumedEnergyRaw"] if job is not None and step is None else ""
        if consumed.isdigit() and 0 < int(consumed[:19]) < 10**15:
            self.line("", f"Slurm's own ConsumedEnergy: {scaled(float(consumed), 'J')}", "dim")
        if step is None:
            self.power(record)

    def power(self, record: Record) -> None:
        for index, text in enumerate(power_lines(record)):
            self.line("" if index else "Model", text, "dim" if index == 2 else "")

    @staticmethod
    def _whole_nodes(energy: Energy, step: Step | None) -> str:
        if energy.scope == "node" or energy.node_joules is None or step is not None:
            return ""
        return f"; whole nodes: {scaled(energy.node_joules, 'J')}"

    @staticmethod
    def _zones(energy: Energy) -> str:
        def shown(names: tuple[str, ...]) -> list[str]:
            return [
                f"{name} {scaled(energy.zones[name], 'J')}"
                for name in names
                if name in energy.zones
            ]

        inner = shown(("core", "uncore"))
        outer = shown(("package",))
        if outer and inner:
            outer = [f"{outer[0]} (of it {', '.join(inner)})"]
        elif inner:
            outer = inner
        board = [f"{zone} (the whole board)" for zone in shown(("psys",))]
        return "zones: " + " · ".join(outer + shown(("dram",)) + board)

    def waiting(self, wait: Wait, ranks: list[Rank], step: Step | None) -> None:
        if step is not None:
            total, mean = step.wait, step.wait / step.ranks
            whole = step.elapsed * step.ranks if step.elapsed else 0
            share = f", {percent(min(1.0, total / whole))} of the step's time" if whole else ""
        else:
            total, mean = wait.total, wait.mean
            share = f", {percent(wait.share)} of the ranks' time" if wait.share is not None else ""
        self.line("Total", f"{duration(total)}{share}")
        values = sorted(rank.seconds for rank in ranks)
        least, most = (values[0], values[-1]) if values else (wait.least.seconds, wait.most.seconds)
        spread = f"{duration(least)} least · {duration(mean)} mean · {duration(most)} most"
        self.line("Per rank", spread if values or step is None else f"{duration(mean)} mean")
        if step is None:
            self._rungs(wait, total)
            self._lowered(wait, total)
        reading = imbalance_of(wait, ranks, step)
        if reading:
            self.line("Balance", reading)

    def _rungs(self, wait: Wait, total: float) -> None:
        parts = []
        if wait.asleep is not None:
            share = (
                f" ({percent(min(1.0, wait.asleep / total))} of the waiting)" if total > 0 else ""
            )
            parts.append(f"{duration(wait.asleep)}{share}")
        if wait.cpu_share is not None:
            parts.append(f"long waits used {percent(wait.cpu_share)} of a CPU")
        if parts:
            self.line("Asleep" if wait.asleep is not None else "CPU", "; ".join(parts))
        if wait.late:
            by = (
                f", by {duration(wait.late_seconds / wait.late)} on average"
                if wait.late_seconds
                else ""
            )
            self.line("Late", f"{plural(wait.late, 'nap')} ended past the budget{by}")

    def _lowered(self, wait: Wait, total: float) -> None:
        if wait.transitions:
            share = f" ({percent(min(1.0, wait.low / total))} of the waiting)" if total > 0 else ""
            changes = plural(wait.transitions, "change")
            self.line("Lowered", f"{duration(wait.low)} at low frequency{share}; {changes}")

    def grant(self, grant: Grant) -> None:
        self.line("Frequency", f"{plural(grant.cores, 'core')} granted by {GRANTS[grant.mode]}")
        for why, cores in sorted(grant.refused.items(), key=lambda item: -item[1])[:4]:
            self.line("", f"{plural(cores, 'core')} not granted: {safe(why)}", "yellow")

    def ranks(self, ranks: list[Rank], everything: bool) -> None:
        ordered = sorted(ranks, key=lambda rank: -rank.seconds)
        self.console.print()
        if everything or len(ranks) <= RANKS_SHOWN:
            self._bars(ranks, ordered[0].seconds)
        else:
            left_out = len(ranks) - 2 * EXTREMES
            self._bars(ordered[:EXTREMES], ordered[0].seconds)
            self.console.print(
                Text(
                    f"  … {plural(left_out, 'rank')} between (--all-ranks shows them)", style="dim"
                )
            )
            self._bars(ordered[-EXTREMES:], ordered[0].seconds, ordered[:EXTREMES])
        if any(rank.asleep is not None for rank in ranks):
            self.console.print(Text("  █ asleep  ░ polling", style="dim"))
        if len(ranks) > RANKS_SHOWN:
            self._histogram([rank.seconds for rank in ranks])

    def _bars(self, ranks: list[Rank], most: float, aligned_with: list[Rank] | None = None) -> None:
        both = ranks + (aligned_with or [])
        label = max(len(rank.label) for rank in both)
        amount = max(len(duration(rank.seconds)) for rank in both)
        room = self.width - label - amount - 12
        for rank in ranks:
            line = Text(f"  rank {rank.label:>{label}}  {duration(rank.seconds):>{amount}}  ")
            asleep, polling = split_bar(
                rank.seconds, rank.seconds if rank.asleep is None else rank.asleep, most, room
            )
            self.console.print(
                line.append(asleep, "cyan").append(polling, "yellow"), no_wrap=True, crop=True
            )

    def _histogram(self, values: list[float]) -> None:
        bins = histogram(values)
        rows = [
            (f"{duration(one.low)} – {duration(one.high)}", one.ranks, plural(one.ranks, "rank"))
            for one in bins
        ]
        self._distribution("How many ranks wait how long:", rows)

    def quantiles(self, wait: Wait) -> None:
        shown = (
            (0.0, "least"),
            (0.1, "10 %"),
            (0.25, "25 %"),
            (0.5, "median"),
            (0.75, "75 %"),
            (0.9, "90 %"),
            (1.0, "most"),
        )
        values = [(name, quantile(wait.quantiles, part)) for part, name in shown]
        title = f"So many of the {count(wait.ranks)} ranks wait at most:"
        self._distribution(title, [(name, value, duration(value)) for name, value in values])

    def _distribution(self, title: str, rows: Sequence[tuple[str, float, str]]) -> None:
        self.console.print()
        self.console.print(Text("  " + title))
        label, amount = max(len(row[0]) for row in rows), max(len(row[2]) for row in rows)
        room = min(40, self.width - label - amount - 7)
        most = max(row[1] for row in rows)
        for name, value, shown in rows:
            line = Text(f"  {name:>{label}}  {shown:>{amount}}  ").append(
                bar(value, most, room), "cyan"
            )
            self.console.print(line, no_wrap=True, crop=True)

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """A table whose first column is text and whose others are numbers."""
        table = Table(
            box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False
        )
        table.add_column("")
        for index, name in enumerate(columns):
            table.add_column(
                Text(name),
                justify="left" if index == 0 else "right",
                no_wrap=True,
                overflow="ellipsis",
            )
        for row in rows:
            table.add_row("", *(Text(cell) for cell in row))
        self.console.print(table)

    def calls(self, calls: list[Call], total: float, limit: int) -> None:
        self.heading("Calls")
        rows = []
        for call in calls[:limit]:
            share = percent(min(1.0, call.seconds / total)) if total > 0 else ""
            longest = duration(call.longest) if call.longest is not None else ""
            rows.append(
                [
                    call.name,
                    count(call.calls),
                    count(call.waits),
                    duration(call.seconds),
                    share,
                    longest,
                ]
            )
        self.table(["call", "calls", "waits", "waited", "share", "longest"], rows)
        if len(calls) > limit:
            rest = sum(call.seconds for call in calls[limit:])
            more = f"  {len(calls) - limit} more waited {duration(rest)} together"
            more += f" (--calls {len(calls)} shows them)"
            self.console.print(Text(more, style="dim"))

    def profile(self, calls: list[ProfiledCall], limit: int) -> None:
        """Every call, whether it waited or not. What is not waiting is transfer and the MPI's own work."""
        self.heading("Profile")
        columns = ["call", "calls", "time", "of it waiting", "bytes", "sizes"]
        rows = [
            [
                call.name,
                count(call.calls),
                duration(call.time) if call.time else "",
                percent(min(1.0, call.wait / call.time)) if call.time else "",
                scaled(call.bytes, "B") if call.bytes else "",
                sizes_line(call.sizes),
            ]
            for call in calls[:limit]
        ]
        self.table(columns, rows)
        if len(calls) > limit:
            more = f"  {len(calls) - limit} more (--calls {len(calls)} shows them)"
            self.console.print(Text(more, style="dim"))
        shown = [call for call in calls[:limit] if len(call.sizes) > 1]
        if shown:
            self._sizes(shown[0])

    def _sizes(self, call: ProfiledCall) -> None:
        rows = [
            (f"{bytes_class(least)}", number, f"{count(round(number))} calls")
            for least, number in call.sizes.items()
        ]
        self._distribution(f"How many bytes {call.name} hands over:", rows)

    def steps(self, steps: list[Step]) -> None:
        self.heading("Steps")
        rows = []
        for step in steps:
            optional = [
                step.policy.used if step.policy else "",
                count(step.nodes) if step.nodes is not None else "",
                count(step.ranks),
                duration(step.elapsed) if step.elapsed is not None else "",
                duration(step.wait) if step.ranks else "",
                scaled(step.joules, "J") if step.joules is not None else "",
            ]
            rows.append([step.id, *optional])
        self.table(["step", "policy", "nodes", "ranks", "ran", "waited", "energy"], rows)


def show(
    view: View,
    job: Job | None,
    record: Record,
    field: str,
    step: Step | None,
    everything: bool,
    calls: int,
) -> str:
    """The whole report of one run of a job, or of one of its steps."""
    what = f"Job {safe(job.id)}" if job is not None else "A record without its job"
    view.header(f"{what}, step {step.id}" if step is not None else what, job, record)
    view.facts(job, record, step)
    view.energy(job, record, step)
    if record.grant is not None and step is None:
        view.grant(record.grant)
    wait, ranks = record.wait, ranks_of(record, step)
    if wait is not None and (step is None or step.ranks):
        view.heading("Waiting in MPI")
        view.waiting(wait, ranks, step)
        if ranks and max(rank.seconds for rank in ranks) > 0:
            view.ranks(ranks, everything)
        elif step is None and wait.quantiles:
            view.quantiles(wait)
        if wait.calls and step is None:
            view.calls(wait.calls, wait.total, calls)
        if wait.profile and step is None:
            view.profile(wait.profile, calls)
    if step is None and len(record.steps) > 1:
        view.steps(record.steps)
    remarks = notes(record, field)
    if step is not None and wait is not None and wait.calls:
        remarks.append("Calls are counted for the whole job only.")
    if remarks:
        view.heading("Mind")
        for remark in remarks:
            view.console.print(Text("  " + remark, style="yellow"))
    return view.text()
