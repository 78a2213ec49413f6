"""The one table of a record's fields: what follows from it is as it says, and the tools know all of them."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lib.recorded_jobs import JOBS, rows_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "spank/record/record_fields.py"
READ = """
import json, sys
sys.path.insert(0, "contrib")
from mpi_wait_tools.meaning import reading
from mpi_wait_tools.record.record import find_body, parse_record

seen = set()
class Watched(dict):
    def __init__(self, value, path): super().__init__(value); self.path = path
    def get(self, key, default=None): seen.add(f"{self.path}.{key}"); return super().get(key, default)
    def __contains__(self, key): seen.add(f"{self.path}.{key}"); return super().__contains__(key)
    def __getitem__(self, key): seen.add(f"{self.path}.{key}"); return super().__getitem__(key)
def watched(value, path):
    if isinstance(value, list): return [watched(item, f"{path}[]") for item in value]
    if not isinstance(value, dict): return value
    return Watched({key: watched(item, f"{path}.{key}") for key, item in value.items()}, path)
for line in sys.stdin:
    record = parse_record(watched(find_body(line), "mpi_wait"))
    reading.notes(record, "")
print(json.dumps(sorted(seen)))
"""


def test_what_follows_from_the_table_is_up_to_date() -> None:
    """Else: spank/record/record_fields.py --write."""
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_row_that_is_added_shows_in_all_of_them(tmp_path: pathlib.Path) -> None:
    """In a copy of what the script reads and writes."""
    files = ["spank/record/record_fields.def", "spank/record/record_fields.py", "spank/record/record.schema.json",
             "packaging/man/mpi-wait-record.5", "contrib/mpi_wait_tools/record/fields.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    table = tmp_path / files[0]
    row = 'WAIT_SUM(trial_s, seconds, EVER, RANKS, "0.2", "trial", "A time for the trial.", trial_us, MAYBE)\n'
    table.write_text(re.sub(r"^(?=WAIT_SUM\(late,)", row, table.read_text(), flags=re.M))
    command = ["/usr/bin/python3", tmp_path / files[1]]
    stale = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert stale.returncode == 1 and len(stale.stdout.splitlines()) == 3
    subprocess.run([*command, "--write"], timeout=60, check=True)
    wait = json.loads((tmp_path / files[2]).read_text())["properties"]["mpi_wait"]["properties"]["wait"]["oneOf"][1]
    assert wait["properties"]["trial_s"]["description"] == "A time for the trial."
    assert '.BR trial_s " (s, since 0.2)"\nA time for the trial.\n' in (tmp_path / files[3]).read_text()
    assert '    Figure("wait", "trial_s", "s", False, False, 0, 1e+12, "trial"),\n' in (tmp_path / files[4]).read_text()


def paths_of(schema: Any, whole: Any, path: str) -> Iterator[str]:
    """The paths of all properties; of objects whose keys are names or reasons, none below."""
    if "$ref" in schema:
        schema = {**whole["definitions"][schema["$ref"].rsplit("/", 1)[-1]]}
    for one in schema.get("oneOf", []):
        yield from paths_of(one, whole, path)
    if isinstance(schema.get("items"), dict):
        yield from paths_of(schema["items"], whole, f"{path}[]")
    for key, value in schema.get("properties", {}).items():
        yield f"{path}.{key}"
        yield from paths_of(value, whole, f"{path}.{key}")


UNREAD = {
    "mpi_wait.grant.transitions": "the report says whose frequency it was, and not how often",
    "mpi_wait.grant.low_s": "the same",
}
"""Fields that mpi-wait's tools pass over, with the reason."""
AS_THEY_COME = ("mpi_wait.wait.hooks.", "mpi_wait.wait.flags.")
"""Objects of which all names are taken."""


@pytest.fixture(scope="module")
def read() -> set[str]:
    """What the reader looks for in the recorded jobs, and in one with the parts that none of them has."""
    lines = [row["AdminComment"] for name in JOBS for row in rows_of(name)]
    return set(json.loads(subprocess.run(["/usr/bin/python3", "-c", READ], input="\n".join([*lines, more(lines[0])]),
                                         cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout))


def more(line: str) -> str:
    document = json.loads(line)
    record = document["mpi_wait"]
    record["grant"] = {"mode": "lease", "cores": 1, "refused": {"no": 1}, "transitions": 1, "low_s": 1}
    record["by_node"] = [["c1", 1, 1]] * 4
    record["csv"] = {"written": 1, "failed": {"killed": 1}}
    record["missed"] = {"lost": 1, "unreached": 1, "replaced": 1, "static": 1, "setuid": 1}
    record["steps_rest"] = {"steps": 1, "ranks": 1, "wait_s": 1}
    record["steps"][0]["policy"] = record["policy"]
    record["energy"]["dropped"] = [{"node": "c1", "zone": "package-0", "why": "stopped"}]
    gpu = {"node": "c1", "number": 0, "name": "x", "joules": 1}
    record["energy"]["gpu_joules"] = 1
    record["energy"]["meters"] = [{"source": "cray", "scope": "node", "joules": 1, "nodes": 1}]
    record["energy"]["gpus"] = {"given": 2, "counted": 1, "present": 2, "source": "nvml", "why": "x", "devices": [gpu]}
    record["energy"]["saved"] = {"percent": 9, "error": 1, "looks": 40, "look_w": 200, "beside_w": 180}
    kinds = ("core_throttle", "package_throttle", "core_power_limit", "package_power_limit")
    record["throttle"] = dict.fromkeys(kinds, 1)
    ranks = record["wait"]["ranks"]
    record["wait"]["worlds"] = [{"kind": "launched", "ranks": ranks, "worlds": 1, "size": ranks, "step": "0",
                                 "numbers": [[1, ranks]]}]
    record["wait"]["most"] = record["wait"]["least"] = [record["wait"]["max"]]
    record["wait"]["forecast"] = dict.fromkeys(("naps", "early", "early_s", "foreseen", "unforeseen", "allowed_s"), 1)
    record["wait"]["cost"] = {"percent": -1, "error": 1, "windows": 1, "seconds": 1, "slowdown": 1}
    record["wait"]["sites"] = [{"module": "a", "offset": "0x1", "build_id": "00", "call": "MPI_Recv", "waits": 1,
                                "wait_s": 1, "max": {"rank": 1, "s": 1, "node": "c1"}}]
    record["wait"]["point_to_point"] = {"within_nodes_bytes": 1, "between_nodes_bytes": 1}
    return json.dumps(document)


def test_each_field_is_read_or_passed_over_for_a_reason(read: set[str]) -> None:
    schema = json.loads((ROOT / "spank/record/record.schema.json").read_text())
    paths = set(paths_of(schema["properties"]["mpi_wait"], schema, "mpi_wait"))
    assert len(paths) > 100
    unread = {path for path in paths - read if not path.startswith(AS_THEY_COME)}
    assert unread == set(UNREAD)
