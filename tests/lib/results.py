"""Sections of tests/RESULTS.md. Several commands write the file: each owns one section between two marks, and leaves
the others."""

from __future__ import annotations

import re
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "RESULTS.md"


def marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name} -->", f"<!-- end {name} -->"


def section_read(path: Path, name: str) -> str:
    """Returns the text of that section; "" if there is none."""
    begin, end = marks(name)
    have = path.read_text() if path.exists() else ""
    found = re.search(re.escape(begin) + r"(.*?)" + re.escape(end), have, re.S)
    return found[1].strip() if found else ""


def section_replace(path: Path, name: str, text: str) -> None:
    """Replaces that section's text, or adds the section behind the last one."""
    begin, end = marks(name)
    have = path.read_text() if path.exists() else ""
    section = f"{begin}\n\n{text.strip()}\n\n{end}\n"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end) + r"\n?", re.S)
    if pattern.search(have):
        path.write_text(pattern.sub(lambda _: section, have, count=1))
    else:
        path.write_text(have.rstrip("\n") + ("\n\n" if have.strip() else "") + section)
