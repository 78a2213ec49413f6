"""The report's corpus, replayed once, and the sections of RESULTS.md. (The C targets replay theirs as unit tests.)"""

from __future__ import annotations

import random
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tests.lib import results
from tests.lib.results import section_replace
from tests.unit.fuzz import reader

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
CORPUS = FUZZ / "corpus/report"


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_the_report_once_stumbled_over(path: Path) -> None:
    reader.one(path.read_text(errors="surrogateescape"), random.Random(1))


def test_a_section_replaces_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    for name, text in (("a", "one"), ("b", r"two \1"), ("a", "three")):
        section_replace(path, name, text)
    written = path.read_text()
    assert "one" not in written and written.index("three") < written.index(r"two \1")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("fuzz_run")
    module.__file__ = str(FUZZ / "run")
    monkeypatch.setitem(sys.modules, "fuzz_run", module)
    SourceFileLoader("fuzz_run", module.__file__).exec_module(module)
    monkeypatch.setattr(module, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(module, "FOUND", tmp_path / "found")
    monkeypatch.setattr(results, "PATH", tmp_path / "RESULTS.md")
    return module


def test_the_figures_add_up_and_none_is_counted_twice(command: ModuleType) -> None:
    """Edges and the tree are those of the last run."""
    results.PATH.write_text("")
    for tried, minutes, edges, tree in ((900, 1, 70, "day, a"), (400, 2, 80, "day, b"), (0, 0, 0, "")):
        if tried:
            command.figures_add("merge", command.Played(tried, True, edges, 1000, 60.0 * minutes), tree)
        command.results_write()
    row = next(line for line in results.PATH.read_text().splitlines() if line.startswith("| merge"))
    assert row.endswith("| 1,300 | 3 min | 80 | 1,000 | day, b | 0 |")


def test_edges_are_those_of_the_last_line(command: ModuleType) -> None:
    log = "INFO: Loaded 1 modules   (5678 inline 8-bit counters): 5678\n#2 INITED cov: 12 ft: 3\n#9 DONE   cov: 34\n"
    assert command.edges_read(log) == (34, 5678) and command.edges_read("") == (None, None)
