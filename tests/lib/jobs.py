"""Shared by the end-to-end tests: run a job on the throw-away cluster, and get its record."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema

from tests.lib.doubles.segment_tool import SEGMENT, segment_read
from tests.lib.throwaway import Cluster
from tests.lib.waiting import wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((REPOSITORY / "spank/record/record.schema.json").read_text())
PROGRAMS = "/opt/mpi-wait-tests"
HELPER = "/opt/mpi-wait/sbin/mpi-wait-node"
LIBRARY = "libmpiwait.so"
IN_THE_QUEUE = re.compile(r"^srun: job \d+ (queued and waiting for|has been allocated) resources\n", re.MULTILINE)


def srun(
    cluster: Cluster, argv: Sequence[str], *, check: bool = True, timeout: float = 120, **how: Any
) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Runs srun under a name of its own. Returns the job's id (0: no job was made) and the finished process, without
    srun's messages on waiting for resources."""
    name = f"t{secrets.token_hex(6)}"
    done = cluster.run(["srun", f"--job-name={name}", *argv], timeout=timeout, **how)
    done.stderr = IN_THE_QUEUE.sub("", done.stderr or "")
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return job_named(cluster, name), done


def begin(cluster: Cluster, argv: Sequence[str], **how: Any) -> tuple[int, subprocess.Popen[str]]:
    """Starts a job in the background; returns its id and srun's process."""
    name = f"t{secrets.token_hex(6)}"
    process = cluster.popen(["srun", f"--job-name={name}", *argv], **how)
    return wait_for(lambda: job_named(cluster, name), lambda: f"a job of {argv} ({process.poll()})"), process


def waited_s(cluster: Cluster, node: str, job: int) -> list[float]:
    """Returns the waiting time so far of each rank of a running job on that node, as the node's notes have it."""
    waits = [step["wait"] or {"ranks": []} for step in steps(cluster, node, job)]
    return [us / 1e6 for wait in waits for _, us, *_ in wait["ranks"]]


def steps(cluster: Cluster, node: str, job: int) -> list[dict[str, Any]]:
    """Returns a node's notes of a running job's steps."""
    files = cluster.node_run(node, ["sh", "-c", f"for f in /run/mpi-wait/*/{job}/step.*.json; do cat $f; echo; done"])
    return [json.loads(line) for line in files.stdout.splitlines() if line]


def open_waits_s(cluster: Cluster, node: str) -> list[float]:
    """Returns, for each rank on that node that waits in MPI now, the length of the current wait, read from the rank's
    segment."""
    segments: dict[int, Path] = {}
    for pid in cluster.pids(node):
        with suppress(OSError):
            for path in Path(f"/proc/{pid}/fd").iterdir():
                if os.readlink(path) == SEGMENT:
                    segments[path.stat().st_ino] = path
    waits = []
    for path in segments.values():
        with suppress(OSError), path.open("rb") as file:
            lanes = [lane for slot in segment_read(file.fileno())["slots"] for lane in slot["lane"]]
            waits += [(lane["open_last_ns"] - lane["open_since_ns"]) / 1e9 for lane in lanes if lane["open_call"]]
    return waits


def job_named(cluster: Cluster, name: str) -> int:
    return max(map(int, cluster.run(["squeue", "-h", "-t", "all", "-n", name, "-o", "%A"]).stdout.split()), default=0)


def sbatch(cluster: Cluster, script: str, argv: Sequence[str] = (), **how: Any) -> int:
    """Submits a script; returns the job's id."""
    done = cluster.run(
        ["sbatch", "--parsable", f"--output={cluster.share}/%j.out", *argv],
        input="#!/bin/bash\n" + script,
        **how,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout)


def output(cluster: Cluster, job: int) -> str:
    """Returns what a batch script printed, without srun's remarks on waiting for a step."""
    text = cluster.node_run("submit", ["cat", f"{cluster.share}/{job}.out"], check=True).stdout
    return "".join(line for line in text.splitlines(True) if not line.startswith("srun: "))


def comment(cluster: Cluster, job: int | str, field: str = "AdminComment") -> str:
    """Returns a field of the job's row in slurmdbd. Waits for a row: slurmctld sends it seconds after the job's end."""
    rows = wait_for(lambda: cluster.sacct(job, [field], extra=["-X"]), f"a row of job {job} in slurmdbd")
    return rows[0][field]


def comments_of_all_runs(cluster: Cluster, job: int) -> list[str]:
    """Returns AdminComment of every run of a requeued job, the first run first."""
    rows = cluster.sacct(job, ["Start", "AdminComment"], extra=["-X", "-D"])
    return [row["AdminComment"] for row in sorted(rows, key=lambda row: row["Start"])]


def flush(cluster: Cluster) -> str:
    """Makes every node hand in its records, without the writer's courtesy to slurmdbd. Returns ""."""
    for node in reversed(cluster.nodes):
        done = cluster.node_run(node, [HELPER, "sweep", "--now", f"spool={cluster.spool}"])
        # 1: slurmdbd refused the record now, as when slurmctld changes the row at that moment; the node keeps it.
        assert done.returncode in (0, 1, 2), done.stderr
    return ""


def record(cluster: Cluster, job: int | str, timeout: float = 40) -> dict[str, Any]:
    """Waits for the job's end and its record in slurmdbd; returns the record as sacct shows it, validated."""
    cluster.wait_job(job, timeout=timeout)

    def arrived() -> str:
        return flush(cluster) or comment(cluster, job)
    document = json.loads(wait_for(arrived, f"a record of job {job}", timeout, pause_s=0.2))
    jsonschema.validate(document, SCHEMA)
    result: dict[str, Any] = document["mpi_wait"]
    return result


def has_no_record(cluster: Cluster, job: int) -> bool:
    """Returns true if, after all nodes have handed in, the job's row is empty and no node keeps anything of the job."""
    cluster.wait_job(job)
    flush(cluster)
    left = [
        cluster.node_run(
            node,
            [
                "sh",
                "-c",
                f"ls -d /run/mpi-wait/*/{job} 2>/dev/null; ls /var/spool/mpi-wait/out"
                f" 2>/dev/null | grep -- '-{job}-'",
            ],
        ).stdout
        for node in cluster.nodes
    ]
    return comment(cluster, job) == "" and not any(left)
