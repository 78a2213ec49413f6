"""Reads the accounting record (spank/record/record.schema.json) out of text that anybody may have written.

The numbers under "wait" are the ranks' own claim, and the text may be cut, merged or forged. So every value is checked
here for its type and range, and the rest of the program meets only the classes below. Unknown keys are skipped, since
later releases may add keys within one version.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ..text.output import Refusal
from ..text.units import count, plural, safe
from .energy import Energy, read_energy
from .reader import NUMBER_MAX, SECONDS_MAX, Reader, damaged, number_of
from .wait import NAME, STEP, Wait, read_wait

REASONS = {
    "lost": (
        "{n} MPI rank slept, but is not counted: the descriptors of the step's memory were closed, in the task too.",
        "{n} MPI ranks slept, but are not counted: the descriptors of the step's memory were closed, in the task too.",
    ),
    "unreached": (
        "{n} process ran MPI past the library: it finds MPI's functions in that library's own handle, as Julia and "
        "Python's ctypes do.",
        "{n} processes ran MPI past the library: they find MPI's functions in that library's own handle, as Julia and "
        "Python's ctypes do.",
    ),
    "replaced": (
        "{n} process, as a script, took the library out of LD_PRELOAD: what it started after that ran without it.",
        "{n} processes, as scripts, took the library out of LD_PRELOAD: what they started after that ran without it.",
    ),
    "static": (
        "{n} task ran a program that is linked statically: nothing can be preloaded into it; link it dynamically.",
        "{n} tasks ran a program that is linked statically: nothing can be preloaded into it; link it dynamically.",
    ),
    "setuid": (
        "{n} task ran a setuid program, or one with capabilities: nothing is preloaded into it.",
        "{n} tasks ran a setuid program, or one with capabilities: nothing is preloaded into it.",
    ),
    "unfit": (
        "{n} MPI rank slept, but is not counted: its library and the plugin on its node are of two releases.",
        "{n} MPI ranks slept, but are not counted: their library and the plugin on their node are of two releases.",
    ),
}
"""For each reason in the record: the sentence for one process, and that for several."""
OF_MPI = ("lost", "unreached", "unfit")
USUAL = (
    "No MPI rank was seen. If MPI ran, these are the usual reasons: LD_PRELOAD was set or emptied in the script, or by "
    "a module, before mpirun; a container lacks the library; the program is linked statically or setuid. "
    "mpi-wait-policy(7), WHAT IS NOT SERVED, has them all."
)


@dataclass(frozen=True)
class Missed:
    """The processes that are not counted, by the reason."""

    processes: dict[str, int]

    @property
    def ranks(self) -> int:
        """The number of these processes that ran MPI."""
        return sum(self.processes.get(why, 0) for why in OF_MPI)


def missed_of(reader: Reader | None) -> Missed:
    """Reads the missed processes. Reasons of a later release are left out."""
    return Missed({why: reader.maybe_integer(why) or 0 for why in REASONS} if reader else {})


def missed_notes(missed: Missed, is_rankless: bool) -> list[str]:
    """Returns notes on the missed processes.

    is_rankless: the job had a policy, but no MPI rank was seen. If ranks were seen, tasks that may not be MPI programs
    are not mentioned.
    """
    found = []
    for why, (one, several) in REASONS.items():
        number = missed.processes.get(why, 0)
        if number and (is_rankless or why in OF_MPI):
            found.append((one if number == 1 else several).format(n=count(number)))
    return found or [USUAL] if is_rankless else found


@dataclass(frozen=True)
class CsvFiles:
    """The files of csv=. A node counts once for each step."""

    written: int  # nodes on which the files were written
    failed: dict[str, int]  # nodes on which they were not written, by the reason


def csv_files(reader: Reader | None) -> CsvFiles | None:
    if reader is None:
        return None
    failed = reader.maybe_object("failed")
    return CsvFiles(reader.integer("written"), {why: failed.integer(why) for why in failed.value} if failed else {})


def csv_notes(csv: CsvFiles | None) -> list[str]:
    """Returns a note if some files of csv= were not written."""
    if csv is None or not csv.failed:
        return []
    lost = sum(csv.failed.values())
    why = "; ".join(safe(why) for why, _ in sorted(csv.failed.items(), key=lambda item: (-item[1], item[0])))
    return [f"csv= left no files on {lost} of {plural(csv.written + lost, 'node')} (each step counts): {why}."]


VERSION = 1


@dataclass(frozen=True)
class Policy:
    asked: str
    used: str
    why: str
    by: str


@dataclass(frozen=True)
class NodeUse:
    """Figures of one node, read by root; None if root could not read one."""

    name: str
    joules: float | None  # the job's energy on the node
    slowed: int | None  # times that the node's processors had to slow down


@dataclass(frozen=True)
class Grant:
    """The cores whose frequency the tasks could lower, counted by root."""

    mode: str  # "lease" or "file"
    cores: int  # number of cores granted
    refused: dict[str, int]  # number of cores not granted, by the reason


@dataclass(frozen=True)
class Step:
    id: str
    ranks: int
    wait: float
    policy: Policy | None
    nodes: int | None
    elapsed: float | None
    joules: float | None


@dataclass(frozen=True)
class StepsRest:
    """The sum of the steps for which the record had no room. The record's figures include them."""

    steps: int
    ranks: int
    wait: float


@dataclass(frozen=True)
class Record:
    policy: Policy
    nodes_reported: int
    nodes_of: int
    nodes_why: str
    elapsed: float
    energy: Energy | None
    energy_why: str
    grant: Grant | None
    csv: CsvFiles | None
    missed: Missed
    by_node: list[NodeUse]  # for jobs on 4 to 256 nodes, else empty
    throttled_most: str  # name of the node that was slowed down most, "" if none was
    wait: Wait | None
    steps: list[Step]
    steps_left_out: int
    steps_summed: int
    steps_rest: StepsRest | None
    raw: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Returns True if every node reported. Otherwise neither the busiest rank nor the job's energy is known."""
        return self.nodes_reported >= self.nodes_of


def _policy(reader: Reader) -> Policy:
    by = reader.text("by")
    if by not in ("", "job", "step", "program", "site"):
        raise damaged(reader.path("by"), "is not one of the possible values")
    return Policy(reader.text("asked", NAME), reader.text("used", NAME), reader.text("why"), by)


def _node_use(value: Any, where: str) -> NodeUse:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[0], str):
        raise damaged(where, "is not a node with two figures")
    joules, slowed = (None if figure is None else number_of(figure, where, NUMBER_MAX) for figure in value[1:])
    return NodeUse(value[0], joules, None if slowed is None else int(slowed))


def _grant(reader: Reader) -> Grant:
    refused = reader.maybe_object("refused")
    return Grant(
        mode=reader.text("mode", re.compile("lease|file")),
        cores=reader.integer("cores"),
        refused={why: refused.integer(why) for why in refused.value} if refused else {},
    )


def _step(value: Any, where: str) -> Step:
    reader = Reader(value, where)
    policy = reader.maybe_object("policy")
    return Step(
        id=reader.text("id", STEP),
        ranks=reader.integer("ranks"),
        wait=reader.number("wait_s", SECONDS_MAX),
        policy=_policy(policy) if policy else None,
        nodes=reader.maybe_integer("nodes"),
        elapsed=reader.maybe_number("elapsed_s", SECONDS_MAX),
        joules=reader.maybe_number("joules"),
    )


def _steps_rest(reader: Reader) -> StepsRest:
    return StepsRest(reader.integer("steps", 1), reader.integer("ranks"), reader.number("wait_s", SECONDS_MAX))


def parse_record(body: Any) -> Record:
    """Reads the value of "mpi_wait". Raises Refusal if this release does not understand it."""
    reader = Reader(body, "mpi_wait")
    version = reader.integer("v")
    if version != VERSION:
        raise Refusal(
            f"the record has version {version}, this mpi-wait reads version {VERSION}: "
            "use the mpi-wait of the release that the cluster runs"
        )
    throttle, rest = reader.maybe_object("throttle"), reader.maybe_object("steps_rest")
    nodes, energy, grant, wait = (
        reader.object("nodes"),
        reader.maybe_object("energy"),
        reader.maybe_object("grant"),
        reader.maybe_object("wait"),
    )
    return Record(
        policy=_policy(reader.object("policy")),
        nodes_reported=nodes.integer("reported", 1),
        nodes_of=nodes.integer("of", 1),
        nodes_why=nodes.text("why"),
        elapsed=reader.number("elapsed_s", SECONDS_MAX),
        energy=read_energy(energy) if energy else None,
        energy_why=reader.text("energy_why"),
        grant=_grant(grant) if grant else None,
        csv=csv_files(reader.maybe_object("csv")),
        missed=missed_of(reader.maybe_object("missed")),
        by_node=reader.items("by_node", _node_use, required=False),
        throttled_most=throttle.text("most") if throttle else "",
        wait=read_wait(wait) if wait else None,
        steps=reader.items("steps", _step),
        steps_left_out=reader.maybe_integer("steps_left_out") or 0,
        steps_summed=reader.maybe_integer("steps_summed") or 0,
        steps_rest=_steps_rest(rest) if rest else None,
        raw=body,
    )


def no_record(elapsed: float, nodes: int) -> Record:
    """Returns an empty record, which stands in for that of a job that left none."""
    return Record(
        policy=Policy("none", "none", "", ""),
        nodes_reported=nodes,
        nodes_of=nodes,
        nodes_why="",
        elapsed=elapsed,
        energy=None,
        energy_why="",
        grant=None,
        by_node=[],
        throttled_most="",
        wait=None,
        steps=[],
        steps_left_out=0,
        steps_summed=0,
        steps_rest=None,
        csv=None,
        missed=Missed({}),
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def find_body(text: str) -> Any:
    """Returns the value of "mpi_wait" in text; None if text does not mention it. Raises Refusal if it is broken.

    The text may be our object alone, our object with keys of other tools, or other text around our object.
    """
    if '"mpi_wait"' not in text:
        return None
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    starts = [0] + [match.start() for match in re.finditer(r'\{\s*"mpi_wait"', text)][:8]
    why = "it is no JSON object"
    for start in starts:
        try:
            value, _ = decoder.raw_decode(text[start:].lstrip())
        except (ValueError, RecursionError) as error:
            why = (
                "it is nested too deeply"
                if isinstance(error, RecursionError)
                else str(error).split(":")[0]
            )
            continue
        if isinstance(value, dict) and "mpi_wait" in value:
            return value["mpi_wait"]
    size = len(text.encode("utf-8", "replace"))
    cut = ", cut where the field ends" if size >= 65_535 else ""
    raise Refusal(f"the record is damaged ({why} in {size} bytes{cut})")
