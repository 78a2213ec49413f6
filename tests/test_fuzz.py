"""The report's corpus, replayed once, and the sections of RESULTS.md. (The C targets replay theirs as unit tests.)"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz import reader
from tests.results import section_replace

CORPUS = Path(__file__).resolve().parent / "fuzz/corpus/report"


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_the_report_once_stumbled_over(path: Path) -> None:
    reader.one(path.read_text(errors="surrogateescape"), random.Random(1))


def test_a_section_replaces_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    for name, text in (("a", "one"), ("b", r"two \1"), ("a", "three")):
        section_replace(path, name, text)
    written = path.read_text()
    assert "one" not in written and written.index("three") < written.index(r"two \1")
