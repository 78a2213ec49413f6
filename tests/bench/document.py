"""A benchmark's results as JSON, checked against the schema beside this file before they are written."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema

from tests.bench import machine, variants
from tests.bench.engine import Measured, Row
from tests.bench.targets import Target

SCHEMA = Path(__file__).resolve().parent / "results.schema.json"
VERSION = 1


class Invalid(Exception):
    """A file that should have results has none."""


def rounded(value: float) -> float:
    """Six figures that matter are more than any of them means."""
    return float(f"{value:.6g}")


def figure_of(row: Row, name: str) -> dict[str, Any]:
    low, high = row.spread(name)
    return {"median": rounded(row.median(name)), "low": rounded(low), "high": rounded(high),
            "values": [rounded(value) for value in row.values[name]]}


def row_of(row: Row) -> dict[str, Any]:
    return {"group": row.group, "variant": row.variant, "point": row.point,
            "figures": {name: figure_of(row, name) for name in row.values}}


def make(name: str, title: str, measured: Measured, targets: list[Target], short: bool, rounds: int,
         began: float, load_before: list[float]) -> dict[str, Any]:
    return {
        "version": VERSION, "benchmark": name, "title": title,
        "command": f"tests/bench/run {'--short ' if short else ''}{name}", "short": short,
        "undisturbed": bool(variants.before_all),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)), "seconds": round(time.time() - began, 1),
        "rounds": rounds, "machine": machine.described(), "versions": machine.versions(),
        "load": {"before": load_before, "after": machine.loads()},
        "rows": [row_of(row) for row in measured.rows], "targets": [target.as_dict() for target in targets],
        "unavailable": measured.unavailable, "problems": measured.problems,
    }


def write(path: Path, results: dict[str, Any]) -> None:
    jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    path.write_text(json.dumps(results, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Raises Invalid where it is something else."""
    try:
        results: dict[str, Any] = json.loads(path.read_text())
        jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    except (OSError, ValueError, jsonschema.ValidationError) as error:
        raise Invalid(f"'{path}' has no results of this version: {str(error).splitlines()[0]}") from error
    return results
