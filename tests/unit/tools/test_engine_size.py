"""What tests/checks/engine counts, in trees of a few files."""

from __future__ import annotations

import subprocess
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[2] / "checks/engine"
HEADER = """
/* Two lines
 * of comment */
#define ONE   1u /* a comment */
#define BIG   (UINT64_C(1) << 36)
#define TEXT  "1"
#define SAME  OTHER
#define ROW(x) 7
enum kind { FIRST = 3, SECOND };
static enum kind function(void)
{
	int value = 5;
}
"""


def said(place: Path, files: dict[str, str], *options: str) -> tuple[int, list[str]]:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    done = subprocess.run([ENGINE, "--tree", place, *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_lines_of_code_and_constants_are_counted(tmp_path: Path) -> None:
    code, lines = said(tmp_path, {"preload/budget/a.h": HEADER, "preload/wait/act.c": "#define TWO 2\n",
                                "preload/wait/b.c": HEADER}, "--list")
    assert code == 0 and lines[:2] == ["preload/budget/a.h:   10 lines, 3 constants ONE BIG FIRST",
                                       "preload/wait/act.c: 1 constants TWO"]
    assert lines[2] == "preload/wait/b.c: 3 constants ONE BIG FIRST" and lines[3].startswith("preload/budget: 10 lines")
    assert lines[4] == "preload/budget, what acts on it: 4 constants, of 45; the rest of preload/wait: 3, of 27"


def test_laws_that_root_shares_are_counted(tmp_path: Path) -> None:
    code, lines = said(tmp_path, {"preload/contract/looks.h": HEADER, "preload/contract/stats.h": HEADER}, "--list")
    assert code == 0 and lines[0] == "preload/contract/looks.h:   10 lines, 3 constants ONE BIG FIRST"
    assert lines[1].startswith("preload/budget: 10 lines")
    assert lines[2].startswith("preload/budget, what acts on it: 3 ")


def test_too_many_of_any_fail(tmp_path: Path) -> None:
    assert said(tmp_path / "lines", {"preload/budget/a.c": "int a;\n" * 1301})[0] == 1
    defines = "".join(f"#define A{i} {i}\n" for i in range(46))
    for place in ("presleep", "loop"):
        assert said(tmp_path / place, {f"preload/wait/{place}.c": defines})[0] == 1
