"""A benchmark's results as JSON, checked against the schema beside this file before they are written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import jsonschema
except ImportError:  # a carried copy has Python alone; the tree checks its results when it reads them
    jsonschema = None

from tests.bench import machine, variants
from tests.bench.engine import Measured, Row
from tests.bench.targets import Target

SCHEMA = Path(__file__).resolve().parent / "results.schema.json"
VERSION = 1


class Invalid(Exception):
    """The file has no valid results."""


def rounded(value: float) -> float:
    """Rounds to six significant figures, more than any measurement justifies."""
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


def merged(documents: list[dict[str, Any]], judge: Callable[[Measured], list[Target]]) -> dict[str, Any]:
    """Returns one document of one machine's results from several calls. Raises Invalid if the machines or versions
    differ.

    The rounds of the same row are appended to each other.
    """
    first = documents[0]
    for other in documents[1:]:
        for key in ("benchmark", "machine", "versions", "short", "undisturbed"):
            if without_times(other[key]) != without_times(first[key]):
                raise Invalid(f"results of {first['began']} and of {other['began']} differ in '{key}'")
    measured = Measured()
    for results in documents:
        rows_add(measured, results["rows"])
        measured.unavailable.update(results["unavailable"])
        measured.problems += results["problems"]
    commands = dict.fromkeys(results["command"] for results in documents)
    return {**first, "command": "; ".join(commands), "began": min(results["began"] for results in documents),
            "seconds": round(sum(results["seconds"] for results in documents), 1),
            "rounds": max(results["rounds"] for results in documents),
            "stolen_percent": max(results.get("stolen_percent", 0) for results in documents),
            "rows": [row_of(row) for row in measured.rows],
            "targets": [target.as_dict() for target in judge(measured)],
            "unavailable": measured.unavailable, "problems": measured.problems}


def without_times(value: Any) -> Any:
    """Returns the value without the cost of a sleep, which each call measures anew."""
    return {key: item for key, item in value.items() if key != "nap"} if isinstance(value, dict) else value


def rows_add(measured: Measured, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        values = {name: figure["values"] for name, figure in row["figures"].items()}
        for number in range(max(map(len, values.values()))):
            figures = {name: list_of[number] for name, list_of in values.items() if number < len(list_of)}
            measured.add(row["group"], row["variant"], [(row["point"], figures)])


def write(path: Path, results: dict[str, Any]) -> None:
    if jsonschema:
        jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    path.write_text(json.dumps(results, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Reads results. Raises Invalid if the file has none of this version."""
    try:
        results: dict[str, Any] = json.loads(path.read_text())
        jsonschema.validate(results, json.loads(SCHEMA.read_text()))
    except (OSError, ValueError, jsonschema.ValidationError) as error:
        raise Invalid(f"'{path}' has no results of this version: {str(error).splitlines()[0]}") from error
    return results
