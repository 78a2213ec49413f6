"""The rules for all tests: what fails once has failed, but for the quarantine; a skip is said, and fails in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib import rules

ROOT = Path(__file__).resolve().parents[3]
SECOND_TRY = """
from pathlib import Path
def test_fails_once():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""


def play(folder: Path, text: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and output of pytest over one file, under the rules alone."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    clean = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.lib.rules", "-p", "no:cacheprovider", f"--rootdir={folder}",
         *arguments, str(folder / "test_it.py")],
        cwd=ROOT, env=clean | environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def quarantined(folder: Path, *lines: str) -> dict[str, str]:
    path = folder / "quarantine.txt"
    path.write_text("\n".join(lines))
    return {"MPI_WAIT_QUARANTINE": str(path)}


def test_what_fails_once_has_failed(tmp_path: Path) -> None:
    status, text = play(tmp_path, SECOND_TRY, **quarantined(tmp_path))
    assert (status, "1 failed" in text) == (1, True)


def test_the_quarantine_is_tried_again_and_said(tmp_path: Path) -> None:
    line = "test_it.py::test_fails_once | 2026-01-31 | the clock of this machine jumps"
    status, text = play(tmp_path, SECOND_TRY, **quarantined(tmp_path, line))
    assert status == 0
    assert "1 passed, 1 rerun" in text and "1 second tries" in text


def test_three_failures_are_one(tmp_path: Path) -> None:
    line = "test_it.py::test_fails | 2026-01-31 | because"
    status, text = play(tmp_path, "def test_fails():\n    assert False\n", **quarantined(tmp_path, line))
    assert (status, "1 failed, 2 rerun" in text) == (1, True)


@pytest.mark.parametrize("way", ["mark", "option"])
def test_there_is_no_other_way_to_a_second_try(tmp_path: Path, way: str) -> None:
    mark = "import pytest\npytestmark = pytest.mark.flaky(reruns=1)\n" if way == "mark" else ""
    options = ["--reruns=1"] if way == "option" else []
    status, text = play(tmp_path, mark + SECOND_TRY, *options, **quarantined(tmp_path))
    assert status == pytest.ExitCode.USAGE_ERROR and "tests/quarantine.txt" in text


def test_a_skip_fails_in_ci_only(tmp_path: Path) -> None:
    text = "import pytest\ndef test_it():\n    pytest.skip('there is no moon')\n"
    assert play(tmp_path, text)[0] == 0
    status, said = play(tmp_path, text, CI="true")
    assert status == 1 and "does not have the reason: there is no moon" in said


def test_lines_of_the_quarantine(tmp_path: Path) -> None:
    path = tmp_path / "quarantine.txt"
    path.write_text("# a comment\n\ntests/a.py::test_b[1 MiB] | 2026-01-31 | why it is here\n")
    assert rules.quarantine(path) == [rules.Quarantined("tests/a.py::test_b[1 MiB]", "2026-01-31", "why it is here")]
    path.write_text("tests/a.py::test_b[1 MiB] | 2026-01-31\n")
    with pytest.raises(ValueError, match="is not 'TEST . YYYY-MM-DD . REASON'"):
        rules.quarantine(path)
    path.write_text("".join(f"tests/a.py::test_{number} | 2026-01-31 | why\n" for number in range(11)))
    with pytest.raises(ValueError, match="11 tests; at most 10"):
        rules.quarantine(path)


def test_the_trees_own_lists_are_good() -> None:
    rules.quarantine()
    rules.allowed_skips()
