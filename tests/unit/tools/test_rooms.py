"""What tests/checks/rooms finds, in trees of a few files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOMS = Path(__file__).resolve().parents[2] / "checks/rooms"
C = {"house/top/a.c": '#include "house/top/a.h"\n#include "house/low/b.h"\n', "house/top/a.h": "", "house/low/b.h": "",
     "house/low/b.c": '#include "house/low/b.h"\n#include <house/top/a.h>\n', "other/c.h": ""}
PYTHON = {"tools/top/__init__.py": "", "tools/top/a.py": "from ..low.b import something\n",
          "tools/low/b.py": "import tools.low.c\n", "tools/low/c.py": ""}
HOUSE = '[house.h]\nroot = "house"\nlanguage = "c"\n'
TOOLS = '[house.t]\nroot = "tools"\nlanguage = "python"\n[house.t.rooms]\ntop = ["low"]\nlow = []\n'


def said(place: Path, table: str, files: dict[str, str]) -> str:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (place / "table").write_text(table)
    done = subprocess.run([ROOMS, "--table", place / "table", "--tree", place], capture_output=True, text=True,
                          check=False)
    assert (done.returncode != 0) == bool(done.stdout.count("\n") and "modules in" not in done.stdout), done
    return done.stdout


def house(place: Path, more: dict[str, str], row: str = "", rooms: str = 'top = ["low"]\nlow = []') -> str:
    return said(place, f"{HOUSE}{row}\n[house.h.rooms]\n{rooms}\n", {**C, **more})


def test_a_house_in_order(tmp_path: Path) -> None:
    assert house(tmp_path, {}) == "house: 2 modules in 2 rooms, 0 in circles\n"


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("house/low/b.h", '#include "house/top/a.h"\n', "house/low/b uses top/a: not an arrow of the table"),
    ("house/low/b.h", '# include "other/c.h"\n', "house/low/b uses other/c.h: not a house that it may use"),
    ("house/low/b.h", '#include "b.h"\n', "house/low/b uses b.h: not a house that it may use"),
    ("house/high/d.c", "", "house/high: no room of the table"),
])
def test_what_is_wrong(tmp_path: Path, name: str, text: str, expected: str) -> None:
    assert expected in house(tmp_path, {name: text}).splitlines()


def test_another_house_that_may_be_used(tmp_path: Path) -> None:
    assert "in circles" in house(tmp_path, {"house/low/b.h": '#include "other/c.h"\n'}, 'outside = ["other"]')


def test_a_room_of_another_house_that_may_be_used(tmp_path: Path) -> None:
    row = 'outside = ["other/shared"]'
    assert "in circles" in house(tmp_path, {"house/low/b.h": '#include "other/shared/d.h"\n'}, row)
    found = house(tmp_path, {"house/low/b.h": '#include "other/c.h"\n#include "other/shared_not/e.h"\n'}, row)
    assert found == ("house/low/b uses other/c.h: not a house that it may use\n"
                     "house/low/b uses other/shared_not/e.h: not a house that it may use\n")


@pytest.mark.parametrize("name", ["stats.h", "process/config.h", "budget/account.h", "mpi/mpi_calls.def"])
def test_spank_may_use_nothing_of_preload_but_the_contract(tmp_path: Path, name: str) -> None:
    sources = {"spank/node/a.c": f'#include "preload/{name}"\n#include "preload/contract/stats.h"\n'}
    found = [line for line in said(tmp_path, (ROOMS.parent / "rooms.toml").read_text(), sources).splitlines()
             if line.startswith("spank/node/a ")]
    assert found == [f"spank/node/a uses preload/{name}: not a house that it may use"]


def test_a_room_uses_only_what_stands_below_it(tmp_path: Path) -> None:
    found = house(tmp_path, {}, rooms='top = ["low"]\nlow = ["top"]')
    assert found == "house: low may not use top, which does not stand below it in the table\n"


def test_circles_are_those_of_the_table(tmp_path: Path) -> None:
    circle = {"house/low/d.h": '#include "house/low/b.h"\n', "house/low/b.h": '#include "house/low/d.h"\n'}
    known = 'circles = ["low/b", "low/d"]'
    assert house(tmp_path, circle) == "house/low/b stands in a circle\nhouse/low/d stands in a circle\n"
    assert house(tmp_path, circle, known) == "house: 3 modules in 2 rooms, 2 in circles\n"
    assert "house/low/d stands in no circle any more" in house(tmp_path, {"house/low/d.h": ""}, known)


def test_a_room_that_is_too_full(tmp_path: Path) -> None:
    full = {f"house/low/m{number}.c": "" for number in range(18)}
    assert house(tmp_path, full) == "house/low: 19 modules, not 18\n"
    assert "in circles" in house(tmp_path, full, "crowded = {low = 19}")
    assert house(tmp_path, full, "crowded = {low = 20}") == "house/low: 19 modules, not 20\n"


def test_imports_of_a_package(tmp_path: Path) -> None:
    assert said(tmp_path, TOOLS, PYTHON) == "tools: 4 modules in 2 rooms, 0 in circles\n"


@pytest.mark.parametrize("text", ["from ..top import a\n", "from ..top.a import (\n    x,\n)\n",
                                  "    import tools.top.a\n", "from tools.top import a as b\n"])
def test_a_wrong_import(tmp_path: Path, text: str) -> None:
    found = said(tmp_path, TOOLS, {**PYTHON, "tools/low/b.py": text})
    assert "tools/low/b uses top/a: not an arrow of the table" in found.splitlines()


def test_modules_that_import_one_another(tmp_path: Path) -> None:
    found = said(tmp_path, TOOLS, {**PYTHON, "tools/low/c.py": "from . import b\n"})
    assert found == "tools/low/b stands in a circle\ntools/low/c stands in a circle\n"
