#!/usr/bin/python3
"""Generates, from the table spank/record/record_fields.def, the JSON Schema, the lists of mpi-wait-record(5), and the
names and units that mpi-wait's tools use.

Without --write it only names the files that differ from the table, and fails if there are any.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "spank/record/record_fields.def"
SCHEMA = ROOT / "spank/record/record.schema.json"
MANUAL = ROOT / "packaging/man/mpi-wait-record.5"
PYTHON = ROOT / "contrib/mpi_wait_tools/record/fields.py"

ROWS_OF = {"WAIT_SUM": "WAIT", "FORECAST": "FORECAST", "HOOK": "HOOK", "FLAG": "FLAG",
           "MISSED": "MISSED"}
"""Objects of the rows that do not name one."""
NUMBER_MAX, SECONDS_MAX = 1e18, 1e12
FIRST = "0.1"
"""The first release."""
WHO = {"ROOT": "by root", "RANKS": "by the ranks", "BOTH": "by root and ranks"}
MPI_FUNCTION = "^(MPI_[A-Za-z_]+|other)$"
PHASE = "^([1-9][0-9]{0,9}|none|other)$"
CSV_FAILURES = "^(no such directory|no permission to write there|no space left|killed|failed)$"
POLICY_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_-]*$", "maxLength": 31}
NODE_NAME = {"type": "string", "maxLength": 64}
COUNT = {"type": "integer", "minimum": 0}
SOME = {"type": "integer", "minimum": 1}
AMOUNT = {"type": "number", "minimum": 0}
SECONDS = {"$ref": "#/definitions/seconds"}

TYPES: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"const": 1}, ""),
    "count": (COUNT, ""),
    "positive": (SOME, ""),
    "rank": ({"type": "integer", "minimum": -1}, ""),
    "share": ({"type": "number", "minimum": 0, "maximum": 1}, ""),
    "cost_percent": ({"type": "number", "minimum": -100, "maximum": 100}, "%"),
    "cost_error": ({"type": "number", "minimum": 0, "maximum": 200}, "%"),
    "cost_slowdown": ({"type": "number", "minimum": 0, "maximum": 100}, "%"),
    "seconds": (SECONDS, "s"),
    "positive_seconds": (AMOUNT, "s"),
    "watts": (AMOUNT, "W"),
    "yes": ({"const": True}, ""),
    "joules": (AMOUNT, "J"),
    "bytes": (AMOUNT, "B"),
    "word": ({"type": "string", "maxLength": 64}, ""),
    "node_name": (NODE_NAME, ""),
    "zone_name": ({"type": "string", "maxLength": 63}, ""),
    "step_name": ({"type": "string", "maxLength": 15}, ""),
    "module_name": ({"type": "string", "pattern": "^[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,46}$"}, ""),
    "build_id": ({"type": "string", "pattern": "^([0-9a-f]{2}){1,20}$"}, ""),
    "offset": ({"type": "string", "pattern": "^0x[0-9a-f]{1,16}$"}, ""),
    "call_name": ({"type": "string", "pattern": MPI_FUNCTION}, ""),
    "step_id": ({"type": "string", "pattern": "^(batch|extern|interactive|[0-9]+)$"}, ""),
    "policy_name": (POLICY_NAME, ""),
    "asker": ({"enum": ["job", "step", "program", "site"]}, ""),
    "scope": ({"enum": ["node", "share", "gpus"]}, ""),
    "source": ({"enum": ["rapl", "hwmon", "cray", "mixed", "simulated", "nvml", "rsmi", "intel"]}, ""),
    "meter_source": ({"enum": ["powercap", "cray", "hwmon"]}, ""),
    "meter_scope": ({"enum": ["node", "cpu", "memory", "gpu"]}, ""),
    "gpu_source": ({"enum": ["nvml", "rsmi", "intel", "mixed", "simulated"]}, ""),
    "zone_problem": ({"enum": ["vanished", "stopped", "nonsense"]}, ""),
    "grant_mode": ({"enum": ["lease", "file"]}, ""),
    "policy": ({"$ref": "#/definitions/policy"}, ""),
    "rank_wait": ({"$ref": "#/definitions/rank_wait"}, ""),
    "rank_waits": ({"$ref": "#/definitions/rank_waits"}, ""),
    "seconds_list": ({"type": "array", "items": SECONDS}, "s"),
    "quantiles": ({"type": "array", "items": SECONDS, "minItems": 101, "maxItems": 101}, "s"),
    "power_course": ({"type": "array", "minItems": 2, "maxItems": 64,
                      "items": {"oneOf": [AMOUNT, {"type": "null"}]}}, "W"),
    "uncounted_parts": ({"type": "array", "minItems": 1, "maxItems": 1, "items": {"enum": ["gpus"]}}, ""),
    "dropped_zones": ({"type": "array", "minItems": 1, "maxItems": 16, "items": "DROPPED"}, ""),
    "energy_meters": ({"type": "array", "minItems": 1, "maxItems": 16, "items": "METER"}, ""),
    "gpu_devices": ({"type": "array", "minItems": 1, "maxItems": 16, "items": "GPU"}, ""),
    "refusals": ({"type": "object", "additionalProperties": SOME, "maxProperties": 12}, ""),
    "csv_failures": ({"type": "object", "minProperties": 1, "additionalProperties": False,
                      "patternProperties": {CSV_FAILURES: SOME}}, ""),
    "spun_calls": ({"type": "object", "maxProperties": 16, "patternProperties": {MPI_FUNCTION: "SPUN"},
                    "additionalProperties": False}, ""),
    "message_sizes": ({"type": "object", "patternProperties": {"^[0-9]{1,12}$": {"type": "number", "minimum": 1}},
                       "additionalProperties": False}, ""),
    "node_uses": ({"type": "array", "minItems": 4, "maxItems": 256, "items": {
        "type": "array", "minItems": 3, "maxItems": 3,
        "items": [NODE_NAME, {"oneOf": [AMOUNT, {"type": "null"}]}, {"oneOf": [COUNT, {"type": "null"}]}]}}, ""),
    "world_kind": ({"enum": ["launched", "singletons", "unknown"]}, ""),
    "number_runs": ({"type": "array", "minItems": 1, "maxItems": 64, "items": {
        "type": "array", "minItems": 2, "maxItems": 3, "items": [COUNT, SOME, COUNT]}}, ""),
    "rank_places": ({"type": "array", "maxItems": 4096, "items": {
        "type": "array", "minItems": 3, "maxItems": 4,
        "items": [NODE_NAME, COUNT, SOME, {"type": "integer", "minimum": 2}]}}, ""),
}
"""Schema and unit of each type. A word in capitals stands for the object of that name."""
PARTS = {"dropped_zones": "DROPPED", "gpu_devices": "GPU", "energy_meters": "METER", "spun_calls": "SPUN",
         "policy": "POLICY", "rank_wait": "RANK_WAIT"}
"""Objects that a type contains."""
AGAIN = {("WAIT", "max"), ("PHASE", "max"), ("SITE", "max"), ("STEP", "policy")}
"""Fields whose object the manual has explained already."""
OBJECTS: dict[str, Any] = {
    "one": lambda name: name,
    "null_or": lambda name: {"oneOf": [{"type": "null"}, name]},
    "list": lambda name: {"type": "array", "items": name},
    "by_phase": lambda name: {"type": "object", "maxProperties": 18, "patternProperties": {PHASE: name},
                              "additionalProperties": False},
    "by_call": lambda name: {"type": "object", "patternProperties": {MPI_FUNCTION: name},
                             "additionalProperties": False},
}
ABOUT = ("What sacct shows in AdminComment. Seconds are s, joules are J. 'wait' comes from the job's own ranks and is "
         "their claim; 'energy' was read by root.")


@dataclass(frozen=True)
class Field:
    object: str
    name: str
    type: str
    required: bool
    by: str
    since: str
    csv: str
    text: str

    @property
    def part(self) -> str:
        """The object that the field contains, "" for none."""
        found = re.fullmatch(r"(\w+)\((\w+)\)", self.type)
        return found[2] if found else PARTS.get(self.type, "")

    @property
    def unit(self) -> str:
        return TYPES[self.type][1] if self.type in TYPES else ""


def _arguments(text: str) -> list[str]:
    """A row's arguments, with adjacent strings joined."""
    found = re.findall(r'\s*((?:"(?:[^"\\]|\\.)*"\s*)+|\w+(?:\(\w+\))?)\s*(?:,|$)', text)
    return [str(ast.literal_eval(f"({word})")) if word.startswith('"') else word for word in found]


def _field(macro: str, words: list[str]) -> Field:
    if macro == "FIELD":
        macro, *words = words
    name, kind, presence, by, since, csv, text = words[:7]
    if macro == "WAIT_SUM" and presence == "COUNTED" and kind == "count":
        kind = "positive"
    return Field(ROWS_OF.get(macro, macro), name, kind, presence == "REQUIRED", by, since, csv, text)


def fields_read(table: str) -> list[Field]:
    table = re.sub(r"/\*.*?\*/|^#.*?$", "", table, flags=re.S | re.M)
    rows = re.findall(r'^([A-Z_]+)\(((?:[^"()]|\(\w+\)|"(?:[^"\\]|\\.)*")*)\)$', table, flags=re.M)
    return [_field(macro, _arguments(text)) for macro, text in rows]


class Schema:
    def __init__(self, fields: list[Field]) -> None:
        self.fields = fields

    def _filled(self, fragment: Any) -> Any:
        if isinstance(fragment, str) and any(field.object == fragment for field in self.fields):
            return self.object(fragment)
        if isinstance(fragment, dict):
            return {key: self._filled(value) for key, value in fragment.items()}
        return [self._filled(value) for value in fragment] if isinstance(fragment, list) else fragment

    def _property(self, field: Field) -> dict[str, Any]:
        kind = re.fullmatch(r"(\w+)\((\w+)\)", field.type)
        shape = self._filled(OBJECTS[kind[1]](kind[2]) if kind else TYPES[field.type][0])
        return {"description": field.text, **shape} if len(shape) > 2 else {**shape, "description": field.text}

    def object(self, name: str) -> dict[str, Any]:
        own = [field for field in self.fields if field.object == name]
        required = [field.name for field in own if field.required]
        return {
            "type": "object",
            **({"required": required} if required else {}),
            "additionalProperties": False,
            "properties": {field.name: self._property(field) for field in own},
        }

    def whole(self) -> dict[str, Any]:
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "The accounting record of one job under an MPI wait policy",
            "description": ABOUT,
            "type": "object",
            "required": ["mpi_wait"],
            "properties": {"mpi_wait": self.object("RECORD")},
            "definitions": {
                "seconds": {"type": "number", "minimum": 0, "maximum": SECONDS_MAX},
                "policy": self.object("POLICY"),
                "rank_waits": {"type": "array", "maxItems": 16, "items": {"$ref": "#/definitions/rank_wait"}},
                "rank_wait": self.object("RANK_WAIT"),
            },
        }


def _printed(value: Any, depth: int = 0) -> str:
    """JSON with one line for each value that contains no object with properties."""
    line = json.dumps(value, ensure_ascii=False)
    if '"properties"' not in line:
        return line
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _printed(item, depth + 1) for item in value) + f"\n{outer}]"
    items = [f"{inner}{json.dumps(key)}: {_printed(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{outer}}}"


def schema_text(fields: list[Field]) -> str:
    return _printed(Schema(fields).whole()) + "\n"


def _roff(text: str) -> str:
    text = re.sub(r"(?<=\d) %", r"\\ %", text.replace("\\", "\\e").replace("-", "\\-"))
    lines = textwrap.wrap(text, 118, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line[0] in ".'" else line for line in lines)


def _heading(field: Field, within: Field) -> str:
    """The field's name, unit, author and release; without those that it shares with the field that contains it."""
    said = [field.unit, WHO[field.by] if field.by != within.by else "",
            f"since {field.since}" if field.since != within.since else ""]
    notes = ", ".join(filter(None, said))
    return f'.TP\n.BR {field.name} " ({_roff(notes)})"' if notes else f".TP\n.B {field.name}"


def _explained(fields: list[Field], within: Field, apart: list[str]) -> list[str]:
    """The fields of an object, each followed by the fields that it contains, except those of objects that have a
    section of their own or were explained before."""
    lines: list[str] = []
    for field in (field for field in fields if field.object == within.part):
        is_apart = field.part in apart
        text = f"{field.text} See {title_of(field.part)}." if is_apart else field.text
        lines += [_heading(field, within), _roff(text)]
        if field.part and not is_apart and (field.object, field.name) not in AGAIN:
            lines += [".RS", *_explained(fields, field, apart), ".RE"]
    return lines


def title_of(name: str) -> str:
    return {"RECORD": "THE JOB", "STEP": "STEPS"}.get(name, name)


def manual_text(fields: list[Field], page: str) -> str:
    """The page, with new lists between its marks."""
    marks = re.findall(r'^\.\\" fields of (\w+)$', page, flags=re.M)
    for name in marks:
        whole = Field("", "", f"one({name})", True, "ROOT", FIRST, "", "")
        within = next((field for field in fields if field.part == name), whole)
        lines = "\n".join([f'.\\" fields of {name}', *_explained(fields, within, marks), '.\\" end of fields'])
        page = re.sub(rf'^\.\\" fields of {name}$.*?^\.\\" end of fields$', lambda _, new=lines: new, page,
                      flags=re.M | re.S)
    return page


PLAIN = {"count": (0, NUMBER_MAX), "positive": (0, NUMBER_MAX), "seconds": (0, SECONDS_MAX), "share": (0, 1),
         "watts": (0, NUMBER_MAX), "cost_percent": (-100, 100), "cost_error": (0, 200), "cost_slowdown": (0, 100)}
"""Types that mpi-wait's tools read by the table alone, with their least and greatest value."""


def python_text(fields: list[Field]) -> str:
    rows = []
    for field in (field for field in fields if field.type in PLAIN):
        whole, (least, most) = field.type in ("count", "positive"), PLAIN[field.type]
        least += field.type == "positive" and field.required
        rows.append(f'    Figure("{field.object.lower()}", "{field.name}", "{field.unit}", {field.required}, {whole}, '
                    f'{least}, {most:g}, "{field.csv}"),')
    table = "\n".join(rows)
    return f'''"""The plain figures of a record, generated by spank/record/record_fields.py from record_fields.def."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    object: str
    name: str
    unit: str
    required: bool
    whole: bool
    least: int
    most: float
    csv: str  # its measure in CSV, "" for none


FIGURES = (
{table}
)


def figures_of(name: str) -> list[Figure]:
    return [figure for figure in FIGURES if figure.object == name]
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the files")
    arguments = parser.parse_args()
    fields = fields_read(TABLE.read_text())
    wanted = {SCHEMA: schema_text(fields), MANUAL: manual_text(fields, MANUAL.read_text()), PYTHON: python_text(fields)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if arguments.write:
            path.write_text(wanted[path])
        else:
            print(f"{path.relative_to(ROOT)} differs from {TABLE.relative_to(ROOT)}:"
                  " run spank/record/record_fields.py --write")
    return 1 if stale and not arguments.write else 0


if __name__ == "__main__":
    sys.exit(main())
