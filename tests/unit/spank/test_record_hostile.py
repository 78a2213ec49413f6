"""A node's record as nobody should have written it: the part that is wrong is named, and counts as absent.

Only a record that does not say who and when it is of is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import node_record
from tests.lib.records import GRANT, left_out, merge, refuse

ENERGY = {"source": "rapl", "gaps": 0, "zones_uj": {"package": 1}}
STEP = {"id": "0", "start_s": 1, "end_s": 2}
IDENTITY = [
    ("v", 2, "version 1"),
    ("kind", "job", "version 1"),
    ("node", "../x", "not a name"),
    ("node", "", "not a name"),
    ("cluster", "a b", "not a name"),
    ("job_id", -1, "not a number"),
    ("job_id", 2**32, "not a number"),
    ("job_id", "7", "not a number"),
    ("nodes", "c1;reboot", "node list"),
    ("nodes", None, "node list"),
    ("start_s", -1, "start_s"),
    ("end_s", 1e300, "end_s"),
]
PARTS = [
    ("cores", -4, "cores"),
    ("cores_total", 10**9, "cores"),
    ("steps", {}, "steps"),
    ("steps", [7], "steps"),
    ("steps", [{}] * 5000, "steps"),
    ("steps", [STEP | {"policy": {"asked": "<b>"}}], "policy"),
    ("steps", [STEP | {"energy": {"zones_uj": {}}}], "energy"),
    ("energy", {"zones_uj": {}}, "energy"),
    ("energy", {"source": "rapl", "gaps": 0, "zones_uj": {"gpu": 1}}, "energy"),
    ("energy", {"source": "rapl", "gaps": 0, "zones_uj": {"package": -1}}, "energy"),
    ("energy", ENERGY | {"own_uj": -1}, "energy"),
    ("energy", ENERGY | {"dropped": "all"}, "energy"),
    ("energy", ENERGY | {"dropped": [["<b>", "vanished"]]}, "energy"),
    ("energy", ENERGY | {"dropped": [["package-0", "<script>"]]}, "energy"),
    ("energy_why", None, "energy_why"),
    ("throttle", {"core_throttle": -1}, "throttle"),
    ("power_mw", 7, "power_mw"),
    ("power_mw", [1, -1], "power_mw"),
    ("policy", {"asked": "<b>", "used": "x", "why": "", "by": ""}, "policy"),
    ("policy", {"asked": "nap", "used": "nap", "why": "", "by": "me"}, "policy"),
    ("policy", None, "policy"),
    ("steps_left_out", -1, "steps_left_out"),
]


def ids(rows: list[tuple[str, Any, str]]) -> list[str]:
    return [f"{i}-{row[0]}" for i, row in enumerate(rows)]


@pytest.mark.parametrize(("field", "value", "message"), IDENTITY, ids=ids(IDENTITY))
def test_a_record_of_nobody_is_refused(tmp_path: Path, field: str, value: Any, message: str) -> None:
    assert message in refuse(tmp_path, node_record(**{field: value}))


@pytest.mark.parametrize(("field", "value", "message"), PARTS, ids=ids(PARTS))
def test_a_part_that_no_node_writes_counts_as_absent(tmp_path: Path, field: str, value: Any, message: str) -> None:
    assert message in left_out(tmp_path, node_record(**{field: value}))


def test_energy_that_no_node_writes_is_absent_with_a_reason(tmp_path: Path) -> None:
    """And all else of the node and of the others is there."""
    records = [node_record("c1", "c[1-2]", energy=ENERGY | {"own_uj": -1}), node_record("c2", "c[1-2]")]
    merged = merge(tmp_path, records)
    assert merged["energy_why"] == "the node wrote an energy that makes no sense"
    assert merged["energy"]["nodes"] == 1 and merged["wait"]["ranks"] == 4 and merged["nodes"]["reported"] == 2


def test_a_step_that_no_node_writes_is_left_out_whole(tmp_path: Path) -> None:
    """Its sums would be read before its ranks are: none of them stays."""
    record = node_record(steps_left_out=3)
    (good,) = record["steps"]
    bad = good | {"id": "1", "grant": GRANT, "wait": good["wait"] | {"naps": 10**6, "ranks": [[0, -1, 0]]}}
    record["steps"] = [bad, good, bad | {"id": "2"}]
    merged = merge(tmp_path, [record])
    assert [step["id"] for step in merged["steps"]] == ["0"] and merged["steps_left_out"] == 5
    assert merged["wait"]["naps"] == 30 and "grant" not in merged
    assert left_out(tmp_path, record) == '"steps"[0]: wait'


WAITS = [
    {"ranks": [[0, -1, 0]]},
    {"ranks": [[0, 1]]},
    {"ranks": [[2**24, 1, 1]]},
    {"ranks": [["0", 1, 1]]},
    {"ranks": "no"},
    {"ranks": [[0, 1, 1]] * 1025},
    {"calls": {"MPI_Re cv": [1, 1, 1, 1]}},
    {"calls": {"evil": [1, 1, 1, 1]}},
    {"calls": {"MPI_Recv": [1, 1]}},
    {"calls": []},
    {"calls": {f"MPI_{chr(97 + i // 26)}{chr(97 + i % 26)}": [1, 1, 1, 1] for i in range(300)}},
    {"profile": []},
    {"profile": {"other": [1, 1, 1, 1, []]}},
    {"profile": {"MPI_Send": [1, 1, 1, 1]}},
    {"profile": {"MPI_Send": [1, 1, -1, 1, []]}},
    {"profile": {"MPI_Send": [1, 1, 1, 2**63 - 1, []]}},
    {"profile": {"MPI_Send": [1, 1, 1, 1, ["1"]]}},
    {"profile": {"MPI_Send": [1, 1, 1, 1, [0] * 41]}},
    {"profile": {f"MPI_{'x' * 44}": [1, 1, 1, 1, []]}},
    {"phases": {}},
    {"phases": [[3, 1, 1, 1, 1]]},
    {"phases": [[2, 1, 1, 1, 1, 0]]},
    {"phases": [[-2, 1, 1, 1, 1, 0]]},
    {"phases": [[2**31, 1, 1, 1, 1, 0]]},
    {"phases": [["3", 1, 1, 1, 1, 0]]},
    {"phases": [[3, -1, 1, 1, 1, 0]]},
    {"phases": [[3, 1, 1, 2 * 10**18, 1, 0]]},
    {"phases": [[3, 1, 1, 1, 1, -2]]},
    {"phases": [[3 + i, 1, 1, 1, 1, 0] for i in range(19)]},
    {"sites": {}},
    {"sites": [["a", "", 1, "MPI_Recv", 1, 1, 1]]},
    {"sites": [["a/b", "", 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["..", "", 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a\u001b", "", 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a" * 48, "", 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a", "xy", 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a", "00" * 21, 1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a", "", -1, "MPI_Recv", 1, 1, 1, 0]]},
    {"sites": [["a", "", 1, "Recv", 1, 1, 1, 0]]},
    {"sites": [["a", "", 1, "MPI_Recv", 1, 2 * 10**18, 1, 0]]},
    {"sites": [["a", "", 1, "MPI_Recv", 1, 1, 1, -2]]},
    {"sites": [["a", "", i, "MPI_Recv", 1, 1, 1, 0] for i in range(26)]},
    {"places": [1]},
    {"places": [1, 1, 1]},
    {"places": [1, -1]},
    {"places": [2 * 10**18, 1]},
    {"places": {"near": 1}},
    {"size": -1},
    {"span_us": 2 * 10**18},
    {"omitted": {"count": 0}},
    {"late": None},
    {"naps": -1},
    {"low_us": -1},
    {"threads_us": -1},
    {"transitions": "many"},
]


@pytest.mark.parametrize("change", WAITS, ids=range(len(WAITS)))
def test_a_step_of_hostile_waits_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    record = node_record()
    record["steps"][0]["wait"] |= change
    assert left_out(tmp_path, record) == '"steps"[0]: wait'


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "loan"},
        {"mode": None},
        {"cores": -1},
        {"transitions": 1.5},
        {"low_us": 10**16},
        {"refused": []},
        {"refused": {"<script>": 1}},
        {"refused": {"x" * 65: 1}},
        {"refused": {"": 1}},
        {"refused": {"no cpufreq": -1}},
        {"refused": {f"reason {i}": 1 for i in range(13)}},
    ],
    ids=range(11),
)
def test_a_step_of_a_hostile_grant_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    record = node_record()
    record["steps"][0]["grant"] = {**GRANT, **change}
    assert left_out(tmp_path, record) == '"steps"[0]: grant'


@pytest.mark.parametrize("missed", [5, [], "lost", {"lost": -1}, {"static": 1.5}, {"unreached": 1_000_001}])
def test_a_step_of_hostile_counts_of_who_is_missed_is_left_out(tmp_path: Path, missed: Any) -> None:
    record = node_record()
    record["steps"][0]["missed"] = missed
    assert left_out(tmp_path, record) == '"steps"[0]: missed'


def test_a_step_of_an_outcome_of_csv_that_is_no_word_is_left_out(tmp_path: Path) -> None:
    record = node_record()
    record["steps"][0]["csv"] = 5
    assert left_out(tmp_path, record) == '"steps"[0]: csv'
