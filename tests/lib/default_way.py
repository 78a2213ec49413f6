"""Follows a record on the way that it takes at a site: the epilog starts a writer, the writer stores, and the test only
asks sacct."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import jsonschema

from tests.lib.jobs import HELPER, SCHEMA
from tests.lib.throwaway import Cluster

TIMEOUT_S = 120
"""A writer waits for 8 to 12 s. Where slurmdbd has no row yet, it tries again 15 and 45 s later."""


def commands(cluster: Cluster) -> list[list[str]]:
    """Returns mpi-wait-node's processes on all hosts: pid, parent, session and arguments."""
    shown = cluster.node_run("submit", ["ps", "-eo", "pid=,ppid=,sid=,args="], check=True).stdout
    rows = [line.split() for line in shown.splitlines()]
    return [[*row[:3], *row[4:]] for row in rows if row[3:4] == [HELPER]]


def writers(cluster: Cluster) -> list[list[str]]:
    """Returns the writers that the epilogs have started, one a node."""
    return [row for row in commands(cluster) if row[3:4] == ["drain"]]


def left(cluster: Cluster, job: int) -> list[str]:
    """Returns what is left of a job's first run: its files in the spool and the outboxes, and its node state."""
    places = [f"{cluster.spool}/throwaway-{job}-*", f"/var/spool/mpi-wait/out/*-{job}-*", f"/run/mpi-wait/*/{job}"]
    script = f"ls -d {' '.join(places)} 2>/dev/null"
    return [path for node in cluster.nodes for path in cluster.node_run(node, ["sh", "-c", script]).stdout.split()]


def text_of(cluster: Cluster, job: int) -> str:
    rows = cluster.sacct(job, ["AdminComment"], extra=["-X"])
    return rows[0]["AdminComment"] if rows else ""


def stored(cluster: Cluster, jobs: Sequence[int]) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Waits for the jobs' records with sacct and ps alone. Returns the records, validated, and the helper's processes
    seen meanwhile."""
    seen: dict[str, list[str]] = {}
    deadline = time.monotonic() + TIMEOUT_S
    while not all(texts := [text_of(cluster, job) for job in jobs]):
        assert time.monotonic() < deadline, [texts, [left(cluster, job) for job in jobs], commands(cluster)]
        seen.update((row[0], row) for row in commands(cluster))
        time.sleep(0.3)
    documents = [json.loads(text) for text in texts]
    for document in documents:
        jsonschema.validate(document, SCHEMA)
    return [document["mpi_wait"] for document in documents], list(seen.values())
