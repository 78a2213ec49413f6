"""Puts a record into words: its policy, ranks, balance, nodes and parts of energy, and notes on the figures. Pure.

Energies of different parts of a node are neither compared nor added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..record.energy import Energy
from ..record.reader import Reader
from ..record.record import Policy, Record, Step, csv_notes, missed_notes
from ..record.wait import RankWait, Wait
from ..text.units import duration, plural, safe, scaled, watt_hours
from .imbalance import imbalance_of
from .worlds import Group, apart_line, are_apart, groups_in, rank_label, singletons_note, unseen_peers

NO_GPUS = "GPUs not counted"
NAMES_SHOWN = 2


def _parts(energy: Energy) -> str:
    """Names the zones that spank/energy adds up: packages and memory, or the board if there is no package zone."""
    if "package" in energy.zones:
        return "processors and memory" if "dram" in energy.zones else "processors"
    return "memory" if "dram" in energy.zones else "whole boards" if "psys" in energy.zones else "unnamed parts"


def energy_of(record: Record) -> str:
    """Names the parts that the energy is of: "processors and memory", "processors without GPUs", "processors of some
    nodes"; "" if no energy is known."""
    energy = record.energy
    if energy is None:
        return ""
    words = "GPUs" if energy.scope == "gpus" else _parts(energy) + (" without GPUs" if energy.has_gpus else "")
    return words + (" of some nodes" if energy.nodes is not None and energy.nodes < record.nodes_of else "")


def kinds_of(each: Iterable[str]) -> dict[str, int]:
    """Counts how many energies are of the same parts. Energies that are not known, "", are left out."""
    found: dict[str, int] = {}
    for kind in each:
        if kind:
            found[kind] = found.get(kind, 0) + 1
    return found


def kinds_words(kinds: dict[str, int], noun: str) -> str:
    """Returns the counts in words: "processors and memory of 3 runs, processors of 1 run"."""
    return ", ".join(f"{kind} of {plural(number, noun)}" for kind, number in kinds.items())


def gpus_tail(energy: Energy) -> str:
    """Names missing GPUs: "GPUs not counted", "1 of 2 GPUs counted"; "" if none is missing."""
    if not energy.lacks_gpus:
        return ""
    gpus = energy.gpus
    return f"{gpus.counted} of {plural(gpus.given, 'GPU')} counted" if gpus and gpus.counted else NO_GPUS


SCOPES = {"node": "whole boards", "cpu": "processors", "memory": "memory", "gpu": "GPUs"}


def meters_line(energy: Energy) -> str:
    """Returns the energy of whole nodes by other sources: "cray: whole boards 9.00 kJ, memory 1.00 kJ"; "" if there are
    none."""
    found: dict[str, list[str]] = {}
    for meter in energy.meters:
        what = SCOPES.get(meter.scope, safe(meter.scope))
        found.setdefault(safe(meter.source), []).append(f"{what} {scaled(meter.joules, 'J')}")
    return "; ".join(f"{source}: {', '.join(told)}" for source, told in found.items())


def gpus_energy(record: Record, energy: Energy) -> str:
    """Returns the GPUs' energy: "5.00 kJ = 1.39 Wh, 500 W on average"; "" if none was counted."""
    if energy.gpu_joules is None:
        return ""
    joules = energy.gpu_joules
    power = f", {scaled(joules / record.elapsed, 'W')} on average" if record.elapsed > 0 else ""
    return f"{scaled(joules, 'J')} = {watt_hours(joules)}{power}"


def gpus_which(energy: Energy) -> str:
    """Says which GPUs count: "1 of 2 that Slurm gave the job (NVIDIA H100), by their own counters; a GPU is split
    between jobs"."""
    gpus = energy.gpus
    if gpus is None:
        return ""
    why = f"; {safe(gpus.why)}" if gpus.why else ""
    if not gpus.counted:
        return f"not counted: {safe(gpus.why) or 'no reason is known'}"
    names = list(dict.fromkeys(safe(device.name) for device in gpus.devices))
    shown = f" ({', '.join(names[:NAMES_SHOWN])}{', ...' if len(names) > NAMES_SHOWN else ''})" if names else ""
    which = f"all {gpus.given}" if gpus.counted == gpus.given > 1 else f"{gpus.counted} of {gpus.given}"
    which = "the one" if gpus.given == 1 else which
    return f"{which} that Slurm gave the job{shown}, by their own counters{why}"


EVEN = 0.8  # least over most waiting at which the ranks wait alike
SMALL = 0.01  # share of the ranks' time below which there is little to say


@dataclass(frozen=True)
class Rank:
    """The waiting of one rank."""

    label: str
    seconds: float  # time waited, asleep or awake
    asleep: float | None  # seconds asleep, None if the record does not tell
    node: str = ""
    noun: str = "rank"  # the thing that the label numbers: "rank" or "task"

    @property
    def name(self) -> str:
        return f"{self.noun} {self.label}"


def ranks_of(record: Record, step: Step | None) -> list[Rank]:
    """Returns the ranks of the job or of a step. Empty if the record does not list them, or does not tell them apart by
    step.

    A label is "3", "1.3" if several steps ran MPI, or "w2:3" if the step had several worlds.
    """
    wait = record.wait
    if wait is None:
        return []
    return [
        rank for group in groups_in(record, step)
        for rank in ranks_in(wait, group, (group.of_step if step is None else "") + group.prefix)
    ]


def ranks_in(wait: Wait, group: Group, before: str = "") -> list[Rank]:
    """Returns the ranks of a group, their labels prefixed with `before`. Empty if the record does not list ranks."""
    asleep: Sequence[float | None] = [*wait.per_rank_asleep] or [None] * len(wait.per_rank)
    nodes = wait.per_rank_nodes or [""] * len(wait.per_rank)
    end = min(group.start + group.ranks, len(wait.per_rank))
    return [
        Rank(group.label(at - group.start, before), wait.per_rank[at], asleep[at], nodes[at], group.noun)
        for at in range(group.start, end)
    ]


def extremes_of(record: Record, wait: Wait) -> tuple[list[Rank], list[Rank]]:
    """Returns the ranks that wait most and those that wait least, each in descending order, for a record that does not
    list all ranks."""
    most = sorted(wait.most_ranks or [wait.most], key=lambda one: -one.seconds)
    least = sorted(wait.least_ranks or [wait.least], key=lambda one: -one.seconds)
    return tuple(  # type: ignore[return-value]
        [
            Rank(label, one.seconds, None, one.node, noun)
            for one in ends
            for noun, label in [rank_label(record, one)]
            if label
        ]
        for ends in (most, least)
    )


def policies_of(record: Record) -> list[Policy]:
    """Returns the policies of the steps with ranks, each once; the job's if no step had ranks."""
    found = [step.policy or record.policy for step in record.steps if step.ranks] or [record.policy]
    return list({policy.used: policy for policy in reversed(found)}.values())


def policy_of(record: Record) -> Policy | None:
    """Returns the policy under which all ranks ran. None if steps with ranks differ in it: the figures of the record
    are sums over several policies then."""
    found = policies_of(record)
    return found[0] if len(found) == 1 else None


def policy_line(policy: Policy) -> str:
    by = {
        "job": ", asked for by the job",
        "step": ", asked for by the step",
        "program": ", the site's policy for this program",
        "site": ", the site's default",
    }.get(policy.by, "")
    why = f" ({safe(policy.why)})" if policy.why else ""
    if policy.asked == policy.used:
        return policy.used + why + by
    return f"{policy.asked} became {policy.used}{why}{by}"


def energy_scope(record: Record) -> str:
    energy = record.energy
    if energy is None:
        return ""
    if energy.scope == "gpus":
        return "the job's GPUs alone: its nodes have no other counters"
    missing = gpus_tail(energy)
    tail = f"; {missing}" if missing else ""
    if energy.scope == "node":
        return f"{nodes_words(record)}, the job had every core{tail}"
    return f"the job's share, by its part of the cores{tail}"


def nodes_words(record: Record) -> str:
    """Names the parts of the counters' whole energy, of which the job has a share: "the node's processors"."""
    energy = record.energy
    if energy is not None and energy.has_gpus:
        of = "the node" if record.nodes_of == 1 else "the nodes"
        return f"{of}'{'s' if record.nodes_of == 1 else ''} {parts_words(energy)}"
    return "the whole node" if record.nodes_of == 1 else "whole nodes"


def whole_words(record: Record) -> str:
    """Returns nodes_words() for a picture, which has one wording for one node and for several."""
    return nodes_words(record) if record.energy is not None and record.energy.has_gpus else "whole nodes"


def parts_words(energy: Energy) -> str:
    if "package" not in energy.zones and "psys" in energy.zones:
        return "board"
    if "package" not in energy.zones:
        return "memory"
    return "processors and memory" if "dram" in energy.zones else "processors"


def incomplete_line(record: Record) -> str:
    """Returns the warning that leads every answer on a record that lacks nodes; "" if it lacks none."""
    if record.is_complete:
        return ""
    why = f" ({safe(record.nodes_why)})" if record.nodes_why else ""
    return f"INCOMPLETE: {record.nodes_reported} of {plural(record.nodes_of, 'node')} reported{why}"


def energy_nodes(record: Record) -> str:
    """Returns "energy of 1 of 2 nodes" if nodes are missing; "" if none is, or if there is no energy."""
    if record.is_complete or record.energy is None:
        return ""
    known = record.energy.nodes if record.energy.nodes is not None else record.nodes_reported
    return f"energy of {known} of {plural(record.nodes_of, 'node')}"


def rank_name(record: Record, one: RankWait) -> str:
    noun, label = rank_label(record, one)
    return f"{noun} {label}" if label else "one rank"


def balance(ranks: int, mean: float, least: tuple[str, float], most: tuple[str, float], below: int) -> str:
    """Puts the balance into words. least and most are (name, seconds).

    below is the number of ranks that wait less than half the mean: negative if some do, but their number is not known;
    0 also if a single one of many does.
    """
    if ranks < 2:
        return "a single rank: nobody to compare it with"
    if mean <= 0:
        return "no rank waited"
    factor = f"max/mean {most[1] / mean:.2f}: "
    if most[1] <= 0 or least[1] / most[1] >= EVEN:
        return factor + "the ranks wait about alike, none of them holds the others up for long"
    if below == ranks - 1 and ranks > 2:
        return factor + f"{most[0]} alone waits: it is done before the others, or hands out their work"
    if below > ranks // 2:
        return factor + f"few ranks wait, {most[0]} most: they are done before the others"
    if below > 1 or below < 0:
        others = plural(below - 1, "other") if below > 0 else "some others"
        return factor + f"{least[0]} and {others} wait least: they compute longest, the rest waits for them"
    others = "the other waits for it" if ranks == 2 else "the others wait for it"
    return factor + f"{least[0]} waits least: it computes longest, {others}"


def _balance_of_ranks(ranks: list[Rank]) -> str:
    mean = sum(rank.seconds for rank in ranks) / len(ranks)
    least, most = (min(ranks, key=lambda rank: rank.seconds), max(ranks, key=lambda rank: rank.seconds))
    below = sum(rank.seconds < mean / 2 for rank in ranks)
    ends = [(one.name, one.seconds) for one in (least, most)]
    return balance(len(ranks), mean, ends[0], ends[1], below)


def _balance_of_quantiles(record: Record, wait: Wait) -> str:
    below = sum(value < wait.mean / 2 for value in wait.quantiles)
    below = below if below < 2 else -1 if below <= len(wait.quantiles) // 2 else wait.ranks
    ends = [(rank_name(record, one), one.seconds) for one in (wait.least, wait.most)]
    return balance(wait.ranks, wait.mean, ends[0], ends[1], below)


def _balance_of_some(record: Record, wait: Wait, ranks: list[Rank], unseen: int, is_broken: bool) -> str:
    """Puts the balance into words where the record lacks ranks of the same world."""
    lacks = f"the record lacks {plural(unseen, 'rank')} of the same MPI_COMM_WORLD"
    if is_broken or wait.ranks < 2:
        return f"not known: {lacks}"
    name = min(ranks, key=lambda rank: rank.seconds).name if ranks else rank_name(record, wait.least)
    return f"{name} waits least of those seen; {lacks}, for which all may wait"


def balance_of(record: Record, ranks: list[Rank], step: Step | None, is_broken: bool) -> str:
    """Puts the balance of the job, or of a step, into words; "" if the record does not tell.

    The record does not tell if nodes are missing, if several steps ran MPI, or if the step's ranks are not known. For
    several worlds, or a world of which ranks are missing, the answer is why ranks are not compared. is_broken: the job
    did not run to its end, so the rank that waits least may have hung, and is not named.
    """
    wait = record.wait
    if wait is None or not record.is_complete:
        return ""
    if are_apart(record, step):
        return apart_line(record, step)
    if unseen := unseen_peers(record, step):
        return _balance_of_some(record, wait, ranks, unseen, is_broken)
    imbalance = imbalance_of(record, step)
    if is_broken and imbalance is not None and imbalance.ratio:
        return f"max/mean {imbalance.ratio:.2f}; the job did not run to its end"
    if imbalance is not None and imbalance.lone:
        least = min(ranks, key=lambda rank: rank.seconds) if ranks else None
        name = least.name if least is not None else rank_name(record, wait.least)
        return f"max/mean {imbalance.ratio:.2f}: {name} waits least, and hardly any other as little"
    if ranks:
        return _balance_of_ranks(ranks)
    return _balance_of_quantiles(record, wait) if step is None else ""


FLAGS = {
    "two_mpis": "found two MPI libraries and {was} left alone",
    "no_hook": "use{s} an MPI whose waits make no idle call that is known",
    "lanes_full": "called MPI from more threads than are counted",
    "locked": "polled, since several threads call MPI and its wait loop holds a lock",
    "no_event": "{was} not woken by messages, and napped instead",
    "no_grant": "did not find the frequency grant that was announced",
}
SPUN_SHOWN = 4


def _service_notes(wait: Wait) -> list[str]:
    """Returns notes on ranks and calls that could not save anything, with the reason."""
    found = []
    for flag, text in FLAGS.items():
        if flag in wait.flags:
            one = wait.flags[flag] == 1
            words = text.format(was="was" if one else "were", s="s" if one else "")
            found.append(f"{plural(wait.flags[flag], 'rank')} {words}.")
    for call in wait.spun[:SPUN_SHOWN]:
        found.append(
            f"{call.name} kept the CPU busy for {duration(call.cpu)}: "
            "this MPI made no idle call there, in which a rank could sleep."
        )
    return found


def _left_out(record: Record) -> str:
    line = f"{plural(record.steps_left_out, 'step')} had no room in the record"
    if record.steps_rest is None:
        return line + "."
    return f"{line}; {record.steps_rest.steps} of them waited {duration(record.steps_rest.wait)} together."


def no_ranks(record: Record, step: Step | None, policy: Policy) -> str:
    """Returns the words for no rank seen. The record counts missed ranks for the job only, not for each step."""
    if policy.used == "off":
        return "ranks not watched"
    missed = record.missed.ranks if step is None else 0
    return f"{plural(missed, 'MPI rank')} that are not counted" if missed else "no MPI rank"


def _throttle_notes(record: Record) -> list[str]:
    """Returns a warning if processors were slowed down: a slow node explains why ranks wait."""
    if not isinstance(record.raw.get("throttle"), dict):
        return []
    reader = Reader(record.raw["throttle"], "mpi_wait.throttle")
    heat = reader.integer("core_throttle") + reader.integer("package_throttle")
    power = reader.integer("core_power_limit") + reader.integer("package_power_limit")
    if not heat and not power:
        return []
    node = safe(reader.text("most"))
    most = f", most on {node}" if node else ""
    times = plural(heat if heat else power, "time")
    how = f"{times} by heat, {power} by a power limit" if heat and power else f"{times} by heat"
    how = how if heat else f"{times} by a power limit"
    return [f"Processors were slowed down: {how}{most}. Others may wait for the ranks there."]


def notes(record: Record, field: str) -> list[str]:
    """Returns what a reader must know before trusting the figures, one sentence each. Missing nodes are not among them:
    incomplete_line() names them at the top."""
    found = []
    if record.energy is not None and record.energy.gaps:
        gaps = plural(record.energy.gaps, "interval")
        found.append(
            f"Energy is too low: in {gaps} a counter may have wrapped unseen; those are left out."
        )
    if record.energy is not None and record.energy.dropped:
        zones = ", ".join(safe(zone) for zone in record.energy.dropped)
        found.append(f"Energy is too low: counters were lost ({zones}).")
    if record.energy is not None and record.energy.mirrored:
        dies = plural(record.energy.mirrored, "die")
        found.append(f"{dies} showed the counter of another die of the same package: each counter counts once.")
    if (
        record.energy is not None
        and record.energy.nodes
        and record.energy.nodes < record.nodes_reported
    ):
        found.append(
            f"Energy is from {record.energy.nodes} of {plural(record.nodes_reported, 'node')}: "
            "the others had no counters."
        )
    found += _throttle_notes(record)
    found += csv_notes(record.csv)
    found += missed_notes(record.missed, record.wait is None and record.policy.used not in ("off", "none"))
    if alone := singletons_note(record):
        found.append(alone)
    if record.wait is not None and record.wait.unseen:
        found.append(
            f"{plural(record.wait.unseen, 'rank')} found no room in the statistics "
            "and are not counted."
        )
    if record.wait is not None and record.wait.doubtful:
        found.append(f"{plural(record.wait.doubtful, 'rank')} claimed impossible figures; these were cut.")
    if record.wait is not None:
        found += _service_notes(record.wait)
    off = [step.id for step in record.steps if step.policy is not None and step.policy.used == "off"]
    if off and record.policy.used != "off":
        steps = ("Step " if len(off) == 1 else "Steps ") + ", ".join(off[:8]) + (", ..." if len(off) > 8 else "")
        found.append(f"{steps} ran under off: the energy is here, the ranks were not watched.")
    if record.steps_left_out:
        found.append(_left_out(record))
    if record.steps_summed:
        found.append(f"Of {plural(record.steps_summed, 'step')} there are only sums: they lack ranks and profile.")
    if field == "Extra":
        found.append("The record stands in Extra, which the job's owner can change.")
    return found
