"""What ranks claim is cut and marked where it cannot be, is summed, and never a reason to have no record at all."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.lib.record_tools import driver, node_record
from tests.lib.records import merge
from tests.lib.segments import SLOT, SLOTS, read_slots, segment


@pytest.mark.parametrize("word", [2**64 - 1, 0x7FF8000000000000, 2**63, 2**62], ids=hex)
def test_whatever_ranks_say_the_record_takes_it(tmp_path: Path, word: int) -> None:
    """All ones, NaN, negative, huge: a node's record with that is merged, not refused."""
    content = bytearray(struct.pack("<Q", word) * (len(segment()) // 8))
    content[:SLOTS] = segment(claimed=2**32 - 1)[:SLOTS]
    for index in range(64):
        struct.pack_into("<I", content, SLOTS + index * SLOT + 4, 2)
    record = node_record()
    record["steps"][0]["wait"] = read_slots(tmp_path, bytes(content))
    path = tmp_path / "node.json"
    path.write_text(json.dumps(record))
    wait = driver("merge", 1, "", path)["mpi_wait"]["wait"]
    assert wait["ranks"] == 64 and wait["doubtful"] == 64 and wait["unseen"] == 1_000_000
    assert wait["max"]["s"] <= 8 * 10


def test_phases_are_added_up_over_nodes_with_the_rank_that_waited_most(tmp_path: Path) -> None:
    first, second = node_record("c1"), node_record("c2")
    first["steps"][0]["wait"]["phases"] = [[3, 10**6, 2, 5 * 10**5, 3 * 10**5, 0], [0, 10**6, 1, 1000, 1000, 1]]
    second["steps"][0]["wait"]["phases"] = [[3, 2 * 10**6, 1, 4 * 10**5, 4 * 10**5, 2], [4, 10**6, 0, 0, 0, -1]]
    assert merge(tmp_path, [first, second])["wait"]["phases"] == {
        "3": {"time_s": 3, "waits": 3, "wait_s": 0.9, "max": {"rank": 2, "s": 0.4, "node": "c2"}},
        "4": {"time_s": 1, "waits": 0, "wait_s": 0},
        "none": {"time_s": 1, "waits": 1, "wait_s": 0.001, "max": {"rank": 1, "s": 0.001, "node": "c1"}},
    }


def test_call_sites_are_added_up_over_nodes_with_the_rank_that_waited_most(tmp_path: Path) -> None:
    """One place is the same on all nodes if file, identity, address and call are; another build is another place."""
    first, second = node_record("c1"), node_record("c2")
    first["steps"][0]["wait"]["sites"] = [
        ["app", "ab" * 20, 0x11D2, "MPI_Recv", 2, 5 * 10**5, 3 * 10**5, 0], ["", "", 0, "other", 7, 7000, 0, -1]]
    second["steps"][0]["wait"]["sites"] = [
        ["app", "ab" * 20, 0x11D2, "MPI_Recv", 1, 4 * 10**5, 4 * 10**5, 2],
        ["app", "cd" * 20, 0x11D2, "MPI_Recv", 1, 10**5, 10**5, -1], ["lib.so", "", 1, "MPI_Wait", 1, 1000, 0, -1]]
    assert merge(tmp_path, [first, second])["wait"]["sites"] == [
        {"module": "app", "offset": "0x11d2", "build_id": "ab" * 20, "call": "MPI_Recv", "waits": 3, "wait_s": 0.9,
         "max": {"rank": 2, "s": 0.4, "node": "c2"}},
        {"module": "app", "offset": "0x11d2", "build_id": "cd" * 20, "call": "MPI_Recv", "waits": 1, "wait_s": 0.1,
         "max": {"rank": -1, "s": 0.1, "node": "c2"}},
        {"module": "lib.so", "offset": "0x1", "call": "MPI_Wait", "waits": 1, "wait_s": 0.001},
        {"call": "other", "waits": 7, "wait_s": 0.007},
    ]


def test_call_sites_of_many_nodes_are_bounded(tmp_path: Path) -> None:
    """Ten nodes, each with twenty-four places of its own: the twenty-four that waited most, and the rest as one."""
    records = [node_record(f"c{node}", "c[0-9]") for node in range(10)]
    for node, record in enumerate(records):
        record["steps"][0]["wait"]["sites"] = [
            ["app", "", 24 * node + i, "MPI_Recv", 1, 10**6 + 24 * node + i, 0, -1] for i in range(24)]
    *kept, rest = merge(tmp_path, records)["wait"]["sites"]
    assert len(kept) == 24 and rest["call"] == "other" and "module" not in rest
    assert rest["waits"] + sum(site["waits"] for site in kept) == 240


def test_phases_of_many_nodes_are_bounded(tmp_path: Path) -> None:
    """Ten nodes, each with sixteen phases of its own at the greatest numbers: sixteen, and the rest as one."""
    records = [node_record(f"c{node}", "c[0-9]") for node in range(10)]
    for node, record in enumerate(records):
        most = 10**18
        record["steps"][0]["wait"]["phases"] = [[3 + 16 * node + i, most, most, most, most, 0] for i in range(16)]
    phases = merge(tmp_path, records)["wait"]["phases"]
    assert len(phases) == 17 and phases["other"]["wait_s"] == 1e12


def test_bytes_within_and_between_nodes_are_summed(tmp_path: Path) -> None:
    first, second = node_record("c1"), node_record("c2")
    assert "point_to_point" not in merge(tmp_path, [first, second])["wait"]
    for record in (first, second):
        record["steps"][0]["wait"]["places"] = [10**18, 5]
    assert merge(tmp_path, [first, second])["wait"]["point_to_point"] == {
        "within_nodes_bytes": 10,
        "between_nodes_bytes": 2 * 10**18,
    }
