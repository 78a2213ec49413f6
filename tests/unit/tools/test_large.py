"""tests/checks/large: a tracked file that is large is refused unless the table has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[3] / "tests/checks/large"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "large").write_bytes(b"x" * 300_001)
    (tmp_path / "small").write_bytes(b"x" * 300_000)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "small", "large"], check=True)
    return tmp_path


def said(tree: Path, table: str) -> tuple[int, str]:
    (tree / "table").write_text(table)
    done = subprocess.run([CHECK, "--tree", tree, "--table", tree / "table"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_large_file_has_to_be_listed(tree: Path) -> None:
    assert said(tree, "# none\n") == (1, "large: above 300000 bytes, and not in large.txt\n")
    assert said(tree, "# why\nlarge  # a picture\n") == (0, "")


def test_what_is_listed_without_need_is_named(tree: Path) -> None:
    assert said(tree, "large\nsmall\ngone\n") == (
        1, "large.txt: gone is not above 300000 bytes\nlarge.txt: small is not above 300000 bytes\n")


def test_what_git_does_not_track_is_no_matter(tree: Path) -> None:
    (tree / "build").write_bytes(b"x" * 400_000)
    assert said(tree, "large\n") == (0, "")
