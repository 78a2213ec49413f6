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


def test_bytes_within_and_between_nodes_are_summed(tmp_path: Path) -> None:
    first, second = node_record("c1"), node_record("c2")
    assert "point_to_point" not in merge(tmp_path, [first, second])["wait"]
    for record in (first, second):
        record["steps"][0]["wait"]["places"] = [10**18, 5]
    assert merge(tmp_path, [first, second])["wait"]["point_to_point"] == {
        "within_nodes_bytes": 10,
        "between_nodes_bytes": 2 * 10**18,
    }
