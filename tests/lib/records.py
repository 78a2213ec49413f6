"""Merges nodes' records into one job's record by the real code, for the tests of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.lib.record_tools import driver, run, validate

GRANT = {
    "mode": "lease",
    "cores": 3,
    "refused": {"frequency domain reaches outside the task's cores": 1},
    "transitions": 8,
    "low_us": 1_234_567,
}
"""A step's grant in the node's notes."""


def merge(
    tmp_path: Path, records: list[dict[str, Any]], nodes_of: int | None = None, why: str = ""
) -> dict[str, Any]:
    """Merges node records by the real code, and checks what holds for every record."""
    files = []
    for index, record in enumerate(records):
        files.append(tmp_path / f"{index}.json")
        files[-1].write_text(json.dumps(record))
    done = run("driver", "merge", nodes_of or len(records), why, *files)
    assert done.returncode == 0, done.stderr
    line = done.stdout.removesuffix("\n")
    assert "\n" not in line and len(line) <= 60_000 and line.isascii()
    document = json.loads(line)
    validate(document)
    return document["mpi_wait"]


def left_out(tmp_path: Path, record: Any) -> str:
    """Returns the parts of a node record that count as absent, "" for none; the rest is merged."""
    path = tmp_path / "doubtful.json"
    path.write_text(json.dumps(record))
    done = run("driver", "merge", 1, "", path)
    assert done.returncode == 0, done.stderr
    validate(json.loads(done.stdout))
    return done.stderr.strip()


def refuse(tmp_path: Path, record: Any) -> str:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(record))
    return driver("merge", 1, "", path)["error"]
