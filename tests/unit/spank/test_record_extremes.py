"""Writer and reader of a node's record share their bounds: whatever is counted, the part is read as it was written."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.lib.properties import PROPERTY
from tests.lib.record_tools import driver, node_record
from tests.lib.records import left_out, merge

MOST = 2**64 - 1
TWELVE_DAYS_UJ = 12 * 86400 * 1200 * 10**6
"""A node of 1.2 kW for twelve days."""


def extreme_record(number: int) -> dict[str, object]:
    """A node's record as it is written where every count is that number."""
    parts = driver("extremes", number)
    record = node_record(**{name: parts[name] for name in ("energy", "power_mw", "saving", "throttle")})
    record["steps"][0] |= {"energy": parts["energy"], "grant": parts["grant"]}
    return record


@pytest.mark.parametrize("number", [0, 1, 10**12, 10**15, 10**15 + 1, TWELVE_DAYS_UJ, 10**16, 2**53, 2**53 + 1, 2**62,
                                    2**63 - 1, 2**63, MOST])
def test_every_part_is_read_as_it_was_written(tmp_path: Path, number: int) -> None:
    assert left_out(tmp_path, extreme_record(number)) == ""


@settings(PROPERTY, max_examples=60)
@given(some.integers(0, 64).flatmap(lambda bits: some.integers(0, 2**bits - 1 if bits else 0)))
def test_whatever_was_counted_is_read(number: int) -> None:
    with TemporaryDirectory() as folder:
        assert left_out(Path(folder), extreme_record(number)) == ""


def test_a_job_of_twelve_days_has_its_energy(tmp_path: Path) -> None:
    record = node_record(energy={"source": "rapl", "gaps": 0, "zones_uj": {"package": TWELVE_DAYS_UJ}})
    assert merge(tmp_path, [record])["energy"]["joules"] == TWELVE_DAYS_UJ // 10**6


def test_a_node_list_as_long_as_an_environment_variable(tmp_path: Path) -> None:
    """A hundred kilobytes of names that no range puts together are in the node's record, and read there."""
    nodes = ",".join(["c1", *(f"rack{i * i:09}" for i in range(7500))])
    assert 100_000 < len(nodes) < 128 * 1024
    driver("begin", tmp_path / "run", 7, 4, 4, "test", nodes, "nap", 0)
    driver("finish", tmp_path / "run", 7, tmp_path / "out", "")
    (written,) = (tmp_path / "out").glob("*.c1.json")
    assert f'"nodes": "{nodes}"' in written.read_text().replace('":"', '": "')
    assert driver("merge", 1, "", written)["mpi_wait"]["nodes"] == {"reported": 1, "of": 1}
