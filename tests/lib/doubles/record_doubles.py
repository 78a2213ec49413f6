"""Records of jobs that are too large, too long or too rare to run here. All of them conform to the schema."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from tests.lib.doubles.report_double import make_record

QUANTILES = 101
ENDS = 16


def _set_waits(record: dict[str, Any], waits: Sequence[float], nodes: int, span: float) -> dict[str, Any]:
    wait = record["mpi_wait"]["wait"]
    least, most = min(waits), max(waits)
    record["mpi_wait"]["nodes"] = {"reported": nodes, "of": nodes}
    record["mpi_wait"]["elapsed_s"] = span * 1.05
    wait |= {
        "ranks": len(waits),
        "total_s": sum(waits),
        "mean_s": sum(waits) / len(waits),
        "share": sum(waits) / (span * len(waits)),
        "asleep_s": sum(waits) * 0.9,
        "min": {"rank": waits.index(least), "s": least, "node": node_of(waits.index(least), len(waits), nodes)},
        "max": {"rank": waits.index(most), "s": most, "node": node_of(waits.index(most), len(waits), nodes)},
        "per_rank_s": [round(value, 6) for value in waits],
        "per_rank_asleep_s": [round(value * 0.9, 6) for value in waits],
    }
    record["mpi_wait"]["steps"] = [
        {"id": "0", "nodes": nodes, "ranks": len(waits), "elapsed_s": span, "wait_s": sum(waits), "joules": 4400.0}
    ]
    return record


def node_of(rank: int, ranks: int, nodes: int) -> str:
    return f"c{1 + rank * nodes // ranks:03d}"


def one_slow_node(ranks: int = 512, nodes: int = 16, slow: int = 5) -> dict[str, Any]:
    """Returns the record of a job in which all ranks of one node compute longer and the others wait for them."""
    waits = []
    for rank in range(ranks):
        own = node_of(rank, ranks, nodes) == f"c{slow + 1:03d}"
        waits.append((6.0 if own else 41.0) + 3.0 * math.sin(rank * 0.7) + (rank * 7919 % 97) / 40)
    return _set_waits(make_record(), waits, nodes, 120.0)


def thousands(ranks: int = 16384, nodes: int = 128) -> dict[str, Any]:
    """Returns the record of a job with more ranks than a record lists: it has quantiles instead."""
    waits = [30.0 + 25.0 * math.sin(rank / ranks * 9) + (rank * 7919 % 997) / 100 for rank in range(ranks)]
    for rank in range(ranks // nodes):
        waits[rank + 3 * ranks // nodes] = 0.5 + rank / 100
    record = _set_waits(make_record(), waits, nodes, 300.0)
    ordered = sorted(waits)
    wait = record["mpi_wait"]["wait"]
    wait |= {
        "per_rank_s": [],
        "per_rank_asleep_s": [],
        "quantiles_s": [ordered[round(index / (QUANTILES - 1) * (ranks - 1))] for index in range(QUANTILES)],
    }
    return record


def ends_of(waits: Sequence[float], nodes: int) -> dict[str, Any]:
    """Returns the record's lists of the ranks that wait least and most."""
    order = sorted(range(len(waits)), key=lambda rank: waits[rank])

    def listed(ranks: Sequence[int]) -> list[dict[str, Any]]:
        return [{"rank": rank, "s": waits[rank], "node": node_of(rank, len(waits), nodes)} for rank in ranks]

    return {"least": listed(order[:ENDS]), "most": listed(order[: -ENDS - 1 : -1])}


PROFILE = {
    "MPI_Allreduce": {
        "calls": 12000,
        "time_s": 31.0,
        "wait_s": 26.0,
        "bytes": 96000,
        "sizes": {"8": 11000, "1024": 400, "1048576": 600},
    },
    "MPI_Waitall": {"calls": 24000, "time_s": 14.0, "wait_s": 4.0, "bytes": 4.2e10},
    "MPI_Isend": {"calls": 48000, "time_s": 0, "wait_s": 0, "bytes": 4.2e10, "sizes": {"524288": 48000}},
}


def profiled() -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"]["wait"]["profile"] = copy.deepcopy(PROFILE)
    return record


def spinning(joules: float = 5200.0) -> dict[str, Any]:
    """Returns make_record's job under a policy that only measures: no rank slept."""
    record = make_record()
    body = record["mpi_wait"]
    body["policy"] = {"asked": "profile", "used": "profile", "by": "job"}
    body["steps"][0]["policy"] = dict(body["policy"])
    body["elapsed_s"] = 24.8
    body["energy"] |= {"joules": joules}
    body["wait"] |= {"asleep_s": 0, "per_rank_asleep_s": [0] * 4, "cpu_share": 0.99}
    for key in ("late", "late_s"):
        del body["wait"][key]
    return record


def costly() -> dict[str, Any]:
    """Returns the record of a job in which sleeping cost more than allowed."""
    record = make_record()
    record["mpi_wait"]["wait"]["cost"] = {"percent": 2.4, "error": 0.5, "windows": 760, "seconds": 432, "slowdown": 1}
    return record


def sampled() -> dict[str, Any]:
    """Returns a record with power over time, unknown for a while."""
    record = many_steps()
    power = [round(180 + 80 * math.sin(part / 3), 1) for part in range(64)]
    record["mpi_wait"]["energy"]["power_w"] = [None if part in (20, 21) else watts for part, watts in enumerate(power)]
    return record


def many_steps() -> dict[str, Any]:
    """Returns the record of a job whose steps differ in power."""
    record = make_record([1.0, 2.0, 3.0, 0.1])
    record["mpi_wait"]["steps"] = [
        {"id": "batch", "ranks": 0, "wait_s": 0, "elapsed_s": 25.0},
        {"id": "0", "ranks": 2, "wait_s": 3.0, "elapsed_s": 10.0, "joules": 1000.0},
        {"id": "1", "ranks": 2, "wait_s": 3.1, "elapsed_s": 10.0, "joules": 2500.0},
    ]
    return record
