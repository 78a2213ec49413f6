"""What became of the files of csv=: a part of the record, and what the report says of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..text.units import plural, safe
from .reader import Reader


@dataclass(frozen=True)
class CsvFiles:
    """On how many nodes they were written, and on how many not, by the reason. Each step counts for itself."""

    written: int
    failed: dict[str, int]


def csv_files(reader: Reader | None) -> CsvFiles | None:
    if reader is None:
        return None
    failed = reader.maybe_object("failed")
    return CsvFiles(reader.integer("written"), {why: failed.integer(why) for why in failed.value} if failed else {})


def csv_notes(csv: CsvFiles | None) -> list[str]:
    """Nothing where all were written."""
    if csv is None or not csv.failed:
        return []
    lost = sum(csv.failed.values())
    why = "; ".join(safe(why) for why, _ in sorted(csv.failed.items(), key=lambda item: (-item[1], item[0])))
    return [f"csv= left no files on {lost} of {plural(csv.written + lost, 'node')} (each step counts): {why}."]
