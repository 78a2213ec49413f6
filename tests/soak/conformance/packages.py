"""The Debian packages of programs, by the sections of packages.txt. What cannot be installed raises Unavailable."""

from __future__ import annotations

import functools
import glob
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.lib.libraries import ROOT, Unavailable

LIST = Path(__file__).resolve().parent / "packages.txt"
SETUP = ROOT / "contrib/setup"
TIMEOUT_S = 900


def sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for block in LIST.read_text().split("\n\n"):
        names = [line for line in block.splitlines() if line and not line.startswith("#")]
        if names:
            found[re.match(r"# (\w+)", block)[1]] = names  # type: ignore[index]
    return found


@functools.cache
def install(section: str) -> str:
    """By contrib/setup, which leaves alone what is there already. Why not; "" if all is there. Tried once."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(sections()[section]) + "\n")
        file.flush()
        try:
            done = subprocess.run([SETUP, file.name], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"{', '.join(sections()[section])}: not installed within {TIMEOUT_S} s"
    said = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
    return f"{', '.join(sections()[section])} could not be installed: {said[:200]}" if done.returncode else ""


def provide(section: str, needed: Iterable[str]) -> None:
    """Sees to it that these files exist, by the packages of that section if they do not yet."""
    needed = tuple(needed)
    if section and not all(glob.glob(pattern) for pattern in needed) and (reason := install(section)):
        raise Unavailable(reason)
    missing = [pattern for pattern in needed if not glob.glob(pattern)]
    if missing:
        raise Unavailable(f"there is no {', '.join(missing)}")
