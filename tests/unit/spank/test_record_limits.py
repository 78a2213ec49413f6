"""Merging nodes' records at its limits: what is shown when not everything can be, and what nodes do not agree on."""

from __future__ import annotations

import copy
from pathlib import Path

from tests.lib.record_tools import node_record
from tests.lib.records import merge

UNASKED = {"asked": "", "used": "", "why": "", "by": ""}


def test_the_steps_that_waited_most_are_shown(tmp_path: Path) -> None:
    record = node_record()
    (step,) = record["steps"]
    record["steps"] = [copy.deepcopy(step) | {"id": str(i), "start_s": step["start_s"] + i / 1000} for i in range(4000)]
    for i, each in enumerate(record["steps"]):
        each["wait"]["ranks"] = [[0, 1_000_000 * (i + 1), 0]]
    merged = merge(tmp_path, [record])
    assert [step["id"] for step in merged["steps"]] == [str(i) for i in range(3744, 4000)]
    assert merged["steps_rest"] == {"steps": 3744, "ranks": 3744, "wait_s": sum(range(1, 3745))}


def test_a_rank_that_is_there_twice_is_no_world(tmp_path: Path) -> None:
    """As many ranks as the world has, but not the world's: listed step after step, none taken for another."""
    wait = merge(tmp_path, [node_record(ranks=[[1, 2 * 10**6, 0], [1, 10**6, 0]])])["wait"]
    assert sorted(wait["per_rank_s"]) == [1, 2] and wait["ranks"] == 2


def test_a_step_s_fallback_on_one_node_is_the_step_s(tmp_path: Path) -> None:
    records = [node_record(node, "c[1-2]") for node in ("c1", "c2")]
    good = {"asked": "umwait", "used": "umwait", "why": "", "by": "step"}
    fell = good | {"used": "nap", "why": "no waitpkg"}
    for record, policy in zip(records, (good, fell)):
        record["steps"][0]["policy"] = policy
    records[1]["steps"][0]["start_s"] -= 1
    (step,) = merge(tmp_path, records)["steps"]
    assert step["policy"] == fell and step["elapsed_s"] == 10


def test_a_job_that_asked_for_nothing(tmp_path: Path) -> None:
    assert merge(tmp_path, [node_record(policy=UNASKED)])["policy"] == {"asked": "off", "used": "off"}


def test_a_job_of_no_length_has_no_curve(tmp_path: Path) -> None:
    record = node_record(power_mw=[1000, 2000])
    assert merge(tmp_path, [record | {"end_s": record["start_s"]}])["elapsed_s"] == 0


def test_more_functions_than_any_mpi_has(tmp_path: Path) -> None:
    """Nodes of different releases may name different ones; those beyond the room are added up, the largest shown."""
    records = []
    for node in (0, 1):
        records.append(node_record(f"c{node + 1}", "c[1-2]"))
        letters = [chr(97 + i // 26) + chr(97 + i % 26) for i in range(200)]
        records[-1]["steps"][0]["wait"]["profile"] = {
            f"MPI_{'AB'[node]}{name}": [1, 1000, 0, i, []] for i, name in enumerate(letters)}
    profile = merge(tmp_path, records)["wait"]["profile"]
    assert len(profile) == 25 and sum(call["calls"] for call in profile.values()) == 400
    shown = [call["bytes"] for name, call in profile.items() if name != "other"]
    assert shown == sorted(shown, reverse=True) and shown[0] == 199
