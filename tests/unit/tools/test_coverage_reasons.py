"""The reasons for what no test reaches: of lines, never of a whole file, and of files that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.coverage import lines

ROOT = Path(__file__).resolve().parents[3]


def test_each_reason_is_for_a_file_that_there_is() -> None:
    files = [str(path.relative_to(ROOT)) for folder in ("spank", "preload") for path in (ROOT / folder).rglob("*.[ch]")]
    assert [reason.place for reason in lines.reasons_read() if not any(map(reason.is_for, files))] == []


@pytest.mark.parametrize("pattern", [".", ".*", ".+", "^.", ""])
def test_a_reason_for_a_whole_file_is_refused(pattern: str) -> None:
    with pytest.raises(lines.WholeFile):
        lines.reason_of(f"spank/node/state.c:* | {pattern} | damaged")
    assert lines.reason_of(f"spank/node/state.c:text_get | {pattern} | damaged").why == "damaged"
