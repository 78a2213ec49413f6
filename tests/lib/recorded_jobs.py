"""Twenty jobs of the kinds that a site sees: their nodes' notes, and sacct's rows.

The real merging code makes the records of these jobs from the nodes' notes. The notes have the shape that a node
writes; the merging code refuses any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lib.doubles.report_double import Report, make_row, shown
from tests.lib.record_tools import REPOSITORY, node_record, run

BEGIN_S = 1_700_000_000.0
WATTS = 180.0  # watts of a node
NAP = {"asked": "nap", "used": "nap", "why": "", "by": "job"}
Ranks = dict[str, list[tuple[int, float, float]]]
"""By node: rank, seconds of waiting, the part of them asleep."""


@dataclass(frozen=True)
class RecordedJob:
    """A job. nodes_of: the number of nodes that the job ran on. why: the reason for missing nodes, as the writer of the
    record knew it. row: sacct's row. earlier: earlier runs of the same job, which were requeued."""

    nodes: list[dict[str, Any]]
    nodes_of: int
    why: str = ""
    row: dict[str, str] = field(default_factory=dict)
    earlier: tuple[RecordedJob, ...] = ()

    def record(self, folder: Path) -> str:
        """Returns the line that the real code stores."""
        files = []
        for index, node in enumerate(self.nodes):
            files.append(folder / f"{index}.json")
            files[-1].write_text(json.dumps(node))
        done = run("driver", "merge", self.nodes_of, self.why, *files)
        assert done.returncode == 0 and '"mpi_wait"' in done.stdout, done.stdout + done.stderr
        return done.stdout.rstrip("\n")


JOBS: dict[str, Callable[[], RecordedJob]] = {}
JOB_WORDS = {"requeued": ("--duplicates",)}
"""Further arguments of mpi-wait report, by job."""


def recorded(make: Callable[[], RecordedJob]) -> Callable[[], RecordedJob]:
    JOBS[make.__name__.replace("_", "-")] = make
    return make


def _noise(index: int) -> float:
    """Returns a number from -1 to 1, always the same for an index."""
    return (index * 7919 % 1009) / 504.5 - 1


def _energy(seconds: float, watts: float = WATTS, source: str = "rapl") -> dict[str, Any]:
    joules = seconds * watts
    zones = {"package": joules * 0.85, "core": joules * 0.5, "dram": joules * 0.15}
    return {"source": source, "gaps": 0, "zones_uj": {name: round(value * 1e6) for name, value in zones.items()}}


def _wait(ranks: Sequence[tuple[int, float, float]], size: int, span_s: float, **changes: Any) -> dict[str, Any]:
    """Returns a step's waiting on a node, most of it in one call; nine tenths of its naps end in time."""
    waited = sum(rank[1] for rank in ranks)
    asleep = sum(rank[2] for rank in ranks)
    naps = round(asleep / 95e-6)
    calls = {
        "MPI_Allreduce": [4000 * len(ranks), 3600 * len(ranks), round(waited * 0.7e6), 31_000],
        "MPI_Waitall": [8000 * len(ranks), 5200 * len(ranks), round(waited * 0.25e6), 12_000],
        "MPI_Bcast": [100 * len(ranks), 80 * len(ranks), round(waited * 0.05e6), 90_000],
    }
    wait = {
        "ranks": [[rank, round(wait_s * 1e6), round(asleep_s * 1e6)] for rank, wait_s, asleep_s in ranks],
        "size": size,
        "unseen": 0,
        "doubtful": 0,
        "span_us": round(span_s * len(ranks) * 1e6),
        "naps": naps,
        "late": naps // 400,
        "late_us": naps // 400 * 42,
        "sampled_us": round(waited * 0.8e6),
        "sampled_cpu_us": round(waited * 0.8e6 - asleep * 0.78e6),
        "calls": calls,
        "hooks": {"opal": 100_000},
    }
    return {**wait, **changes}


def _cost(seconds: float, percent: float, error: float, windows: int) -> dict[str, int]:
    """Returns a node's measurements in looks of that many seconds, where a cost of 1 % is allowed."""
    slept_us = round(seconds * 1e6)
    return {
        "slept_us": slept_us,
        "more_us": round(slept_us * percent / 100),
        "deviation_us": round(slept_us * error / 200),
        "windows": windows,
        "slowdown_ppm": 10_000,
    }


def _step(
    wait: dict[str, Any] | None, begin_s: float, end_s: float, name: str = "0", **changes: Any
) -> dict[str, Any]:
    step = {"id": name, "start_s": BEGIN_S + begin_s, "end_s": BEGIN_S + end_s, "energy": _energy(end_s - begin_s)}
    return {**step, "wait": wait, **changes}


def _node(name: str, nodes: str, job: int, elapsed_s: float, steps: list[dict[str, Any]], **changes: Any) -> Any:
    facts = {
        "start_s": BEGIN_S,
        "end_s": BEGIN_S + elapsed_s,
        "cores": 8,
        "cores_total": 8,
        "policy": NAP,
        "energy": _energy(elapsed_s),
        "steps": steps,
        "power_mw": [round(1000 * (WATTS + 12 * _noise(part))) for part in range(32)] if elapsed_s > 30 else [],
    }
    return node_record(name, nodes, [], job, **{**facts, **changes})


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _row(job: int, name: str, elapsed_s: float, nodes: int, cpus: int, **changes: str) -> dict[str, str]:
    row = {
        "JobID": str(job),
        "JobIDRaw": str(job),
        "JobName": name,
        "State": "COMPLETED",
        "Elapsed": _clock(elapsed_s),
        "ElapsedRaw": str(round(elapsed_s)),
        "Start": "2026-01-02T03:04:05",
        "End": "2026-01-02T03:30:05",
        "NNodes": str(nodes),
        "AllocCPUS": str(cpus),
        "ConsumedEnergyRaw": "0",
        "User": "ada",
        "Account": "physics",
        "Partition": "batch",
    }
    return {**row, **changes}


def _job(
    job: int, name: str, ranks: Ranks, elapsed_s: float, of: int | None = None, why: str = "", changes: Any = None,
    wait: Any = None, row: Any = None, **more: Any,
) -> RecordedJob:
    """Returns a job with one step on all nodes, as long as the job except for its first and last second. wait, changes:
    for each node."""
    names = f"c[1-{of or len(ranks)}]" if (of or len(ranks)) > 1 else "c1"
    size = sum(map(len, ranks.values()))
    nodes = []
    for node, listed in ranks.items():
        own = {"size": size, **(wait or {})}
        step = _step(_wait(listed, span_s=elapsed_s - 2, **own), 1, elapsed_s - 1)
        nodes.append(_node(node, names, job, elapsed_s, [step], **(changes or {})))
    cpus = 8 * (of or len(ranks))
    return RecordedJob(nodes, of or len(ranks), why, _row(job, name, elapsed_s, of or len(ranks), cpus, **(row or {})),
                       **more)


def _spread(waits: Sequence[float], nodes: int, asleep: float = 0.94) -> Ranks:
    """Returns ranks in blocks by node, each asleep for that part of its waiting."""
    each = -(-len(waits) // nodes)
    ranks: Ranks = {}
    for rank, wait in enumerate(waits):
        ranks.setdefault(f"c{rank // each + 1}", []).append((rank, wait, wait * asleep))
    return ranks


@recorded
def balanced() -> RecordedJob:
    """Every rank waits for messages, none for a slower one."""
    return _job(4701, "cfd", _spread([9.0 + 0.3 * _noise(rank) for rank in range(8)], 2), 62.0,
                wait={"cost": _cost(216.0, 0.31, 0.12, 843)})


@recorded
def one_slow_rank() -> RecordedJob:
    """Seven ranks wait for rank 5, which is slower."""
    return _job(4702, "cfd", _spread([0.4 if rank == 5 else 18.0 + _noise(rank) for rank in range(8)], 2), 62.0)


@recorded
def slow_node() -> RecordedJob:
    """All ranks wait for the eight ranks of one node."""
    waits = [(1.5 if 16 <= rank < 24 else 24.0) + 0.6 * _noise(rank) for rank in range(32)]
    return _job(4703, "cfd", _spread(waits, 4), 82.0)


@recorded
def tree() -> RecordedJob:
    """A reduction by a hand-written tree: a rank that passes on more waits less."""
    waits = [20.0 - 4.2 * (4 if rank == 0 else (rank & -rank).bit_length() - 1) for rank in range(16)]
    calls = {"MPI_Recv": [600, 540, 60_000_000, 40_000], "MPI_Send": [600, 20, 1_000_000, 5_000]}
    return _job(4704, "reduce", _spread(waits, 2), 62.0, wait={"calls": calls})


@recorded
def master_worker() -> RecordedJob:
    """Rank 0 hands out work and waits for answers; the others compute."""
    waits = [47.0] + [0.9 + 0.2 * _noise(rank) for rank in range(1, 8)]
    calls = {"MPI_Probe": [900, 880, 46_500_000, 120_000], "MPI_Recv": [1800, 900, 6_000_000, 20_000]}
    return _job(4705, "sweep", _spread(waits, 1), 52.0, wait={"calls": calls})


@recorded
def lost_node() -> RecordedJob:
    """Node c2 went down and never wrote its part; the others had waited for the rank on it."""
    ranks = {"c1": [(0, 21.0, 19.5), (1, 19.0, 17.5)]}
    return _job(4706, "cfd", ranks, 62.0, of=2, why="nodes missing", wait={"size": 4},
                row={"State": "NODE_FAIL", "AllocCPUS": "16"})


@recorded
def missing_spool() -> RecordedJob:
    """Two nodes that share no directory: only the first node's part arrives."""
    ranks = {"c1": [(0, 0.5, 0.3), (1, 12.0, 11.4)]}
    return _job(4707, "cfd", ranks, 62.0, of=2, why="spool not shared", wait={"size": 4})


@recorded
def million_ranks() -> RecordedJob:
    """A thousand nodes with a thousand ranks each. Rank 278438 waited a little less than a second in all."""
    nodes = []
    for place in range(1000):
        ranks = []
        for local in range(1000):
            rank = place * 1000 + local
            wait = 0.8 if rank == 278_438 else 1150.0 + 60.0 * _noise(rank)
            ranks.append((rank, wait, wait * 0.96))
        step = _step(_wait(ranks, 1_000_000, 2300.0), 1, 2301)
        changes = {"cores": 1000, "cores_total": 1000, "energy": _energy(2302, 900.0)}
        nodes.append(_node(f"c{place:04d}", "c[0000-0999]", 4708, 2302.0, [step], **changes))
    return RecordedJob(nodes, 1000, "", _row(4708, "climate", 2302, 1000, 1_000_000))


@recorded
def two_steps() -> RecordedJob:
    """Two steps of different programs: rank 3 holds up the first, rank 1 the second."""
    first = [(0, 9.0, 8.4), (1, 9.4, 8.8), (2, 9.1, 8.5), (3, 0.3, 0.1)]
    second = [(0, 14.0, 13.0), (1, 0.2, 0.0), (2, 14.4, 13.6), (3, 13.8, 12.9)]
    steps = [
        _step(None, 0, 62, "batch"),
        _step(_wait(first, 4, 28.0), 1, 30, "0"),
        _step(_wait(second, 4, 28.0), 31, 60, "1"),
    ]
    return RecordedJob([_node("c1", "c1", 4709, 62.0, steps)], 1, "", _row(4709, "chain.sh", 62, 1, 8))


@recorded
def step_under_off() -> RecordedJob:
    """The first step napped; the second was started with --mpi-wait-policy=off, to compare."""
    ranks = [(0, 9.0, 8.4), (1, 9.4, 8.8), (2, 9.1, 8.5), (3, 8.8, 8.1)]
    off = {"asked": "off", "used": "off", "why": "", "by": "step"}
    steps = [_step(_wait(ranks, 4, 28.0), 1, 30, "0"), _step(None, 31, 60, "1", policy=off)]
    return RecordedJob([_node("c1", "c1", 4710, 62.0, steps)], 1, "", _row(4710, "compare.sh", 62, 1, 8))


@recorded
def short() -> RecordedJob:
    """Three seconds long: too few looks to tell a saving."""
    ranks = {"c1": [(0, 0.21, 0.17), (1, 0.02, 0.0), (2, 0.25, 0.2), (3, 0.19, 0.15)]}
    saving = {"why": "too few looks"}
    return _job(4711, "hello", ranks, 3.2, changes={"saving": saving}, wait={"cost": _cost(2.0, 4.0, 3.0, 5)})


@recorded
def profile() -> RecordedJob:
    """Only measured: no rank slept."""
    calls = {
        "MPI_Allreduce": [16_000, 41_000_000, 25_200_000, 256_000, [0, 0, 0, 0, 15_000, 0, 0, 0, 1_000]],
        "MPI_Waitall": [32_000, 22_000_000, 9_000_000, 4_200_000_000, []],
        "MPI_Bcast": [400, 2_400_000, 1_800_000, 3_200_000, [0] * 13 + [400]],
        "MPI_Isend": [32_000, 0, 0, 4_200_000_000, [0] * 18 + [32_000]],
        "MPI_Irecv": [32_000, 0, 0, 4_200_000_000, [0] * 18 + [32_000]],
    }
    measured = {"asked": "profile", "used": "profile", "why": "", "by": "job"}
    phases = [[3, 205_000_000, 34_000, 25_000_000, 7_100_000, 3], [4, 33_000_000, 450, 9_500_000, 2_900_000, 2],
              [0, 2_000_000, 60, 900_000, 300_000, 0]]
    build_id = "3b5f0c7d21a94e0689d0c7e1b2a3f4d5e6f70819"
    sites = [["cfd", build_id, 0x1A2F4, "MPI_Allreduce", 15_800, 24_900_000, 7_000_000, 3],
             ["libhalo.so.2", "", 0x4D31, "MPI_Waitall", 18_200, 9_000_000, 2_600_000, 2],
             ["cfd", build_id, 0x9C10, "MPI_Bcast", 400, 1_800_000, 500_000, 1]]
    wait = {"profile": calls, "phases": phases, "sites": sites, "places": [3_000_000_000, 1_200_000_000],
            "naps": 0, "late": 0, "late_us": 0}
    return _job(4712, "cfd", _spread([9.0 + 0.3 * _noise(rank) for rank in range(8)], 2, 0.0), 62.0, wait=wait,
                changes={"policy": measured})


@recorded
def no_mpi() -> RecordedJob:
    """A program without MPI under the site's default."""
    site = {"asked": "nap", "used": "nap", "why": "", "by": "site"}
    node = _node("c1", "c1", 4713, 62.0, [_step(None, 0, 62, "batch")], policy=site)
    return RecordedJob([node], 1, "", _row(4713, "python3", 62, 1, 8))


@recorded
def cancelled() -> RecordedJob:
    """Rank 2 hung, the others waited for it until the user had enough."""
    waits = [590.0, 588.0, 1.2, 591.0]
    return _job(4714, "cfd", _spread(waits, 1), 602.0, row={"State": "CANCELLED by 1000"})


@recorded
def requeued() -> RecordedJob:
    """The first run was preempted by another job; both runs left a record."""
    waits = [9.0 + 0.3 * _noise(rank) for rank in range(8)]
    first = _job(4715, "cfd", _spread([wait / 3 for wait in waits], 2), 21.0, row={"State": "PREEMPTED"})
    return _job(4715, "cfd", _spread(waits, 2), 62.0, changes={"restart_count": 1}, earlier=(first,))


@recorded
def array_task() -> RecordedJob:
    ids = {"array_job_id": 4716, "array_task_id": 3}
    return _job(4719, "param", _spread([2.0, 2.2, 1.9, 2.1], 1), 42.0, changes=ids, row={"JobID": "4716_3"})


@recorded
def heterogeneous() -> RecordedJob:
    """The second component of a heterogeneous job; the first has its own record, and the first eight ranks of the one
    MPI_COMM_WORLD."""
    ids = {"het_job_id": 4720, "het_offset": 1}
    own = _spread([6.0 + 0.3 * _noise(rank) for rank in range(8)], 2)
    ranks = {node: [(8 + rank, *waits) for rank, *waits in listed] for node, listed in own.items()}
    world = {"worlds": [[4720, 16, 4]], "size": 16}
    return _job(4721, "couple", ranks, 62.0, changes=ids, wait=world, row={"JobID": "4720+1"})


@recorded
def shared_node() -> RecordedJob:
    """Uses two of the node's eight cores. Other jobs had the rest, and disturbed the steps in which ranks slept."""
    ranks = {"c1": [(0, 12.0, 11.0), (1, 13.0, 12.1)]}
    saving = {"why": "shared with other jobs"}
    energy = {**_energy(62.0), "own_uj": round(62.0 * WATTS * 1e6 / 4)}
    return _job(4722, "small", ranks, 62.0, changes={"cores": 2, "saving": saving, "energy": energy},
                wait={"cost": _cost(108.0, 2.4, 0.5, 760)},
                row={"AllocCPUS": "2"})


@recorded
def throttled() -> RecordedJob:
    """The fans of c2 had failed: its processors ran hot and slow, and c1 waited."""
    job = _job(4723, "cfd", _spread([21.0, 20.5, 21.4, 20.9, 1.9, 1.4, 2.2, 1.7], 2), 82.0)
    events = {"core_throttle": 0, "package_throttle": 0, "core_power_limit": 0, "package_power_limit": 0}
    job.nodes[0]["throttle"] = dict(events)
    job.nodes[1]["throttle"] = {**events, "core_throttle": 312, "package_throttle": 88}
    return job


@recorded
def event_not_woken() -> RecordedJob:
    """An MPI whose messages wake no sleeping rank: the ranks tried the event rung, and then napped."""
    event = {"asked": "event", "used": "event", "why": "", "by": "job"}
    return _job(4724, "cfd", _spread([12.0 + 0.3 * _noise(rank) for rank in range(4)], 1), 62.0,
                changes={"policy": event}, wait={"flags": {"no_event": 4}})




KEPT = REPOSITORY / "tests/unit/tools/recorded"
PARTS = {"txt": (), "csv": ("--csv",)}
"""Arguments of mpi-wait report, by the suffix of the file that keeps the report."""


def rows_of(name: str) -> list[dict[str, str]]:
    """Returns sacct's rows, with the kept records."""
    rows: list[dict[str, str]] = json.loads((KEPT / name / "sacct.json").read_text())
    return rows


def make_rows(name: str, folder: Path) -> list[dict[str, str]]:
    """Returns the same rows, made anew by the real code."""
    job = JOBS[name]()
    return [{**one.row, "AdminComment": one.record(folder)} for one in (*job.earlier, job)]


def report_of(report: Report, name: str, part: str) -> str:
    """Returns the command's output for a kept job."""
    rows = [make_row(**row) for row in rows_of(name)]
    words = [rows[-1]["JobID"], *PARTS[part]]
    if part == "txt":
        words += JOB_WORDS.get(name, ())
    return shown(report(*words, rows=rows))
