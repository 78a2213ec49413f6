"""A Python that is too old answers with one line, and no traceback, for each program that people run."""

from __future__ import annotations
import __future__

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OLDEST = (3, 6)  # of EL 8 and SLES 15
NOT_SHIPPED = {"contrib/pictures/make"}
NEED_A_NEWER = ("contrib/late-sender", "contrib/mpi-wait")
TEXTFILE = "contrib/recipes/mpi-wait-textfile"
COLUMNS = "contrib/recipes/reportseff-waits"
# Starts the program as its Python would, and lets nothing of ours be imported.
AS_OLD = """
import sys
path, sys.version_info, sys.version = sys.argv[1], (3, {minor}, 8, "final", 0), "3.{minor}.8 (default)"
sys.argv = sys.argv[1:]
class Nothing:
    def find_spec(self, name, *_):
        if name.startswith("mpi_wait_tools"):
            raise SyntaxError(name)
sys.meta_path.insert(0, Nothing())
exec(compile(open(path).read(), path, "exec", dont_inherit=True), {{"__name__": "__main__", "__file__": path}})
"""


def programs() -> list[str]:
    """Returns the programs of contrib that Python runs, but those that only draw our pictures."""
    files = [path for path in (ROOT / "contrib").rglob("*") if path.is_file() and path.suffix in ("", ".in")]
    found = [path for path in files if re.match(rb"#!.*\bpython3", path.read_bytes()[:80])]
    return sorted({str(path.relative_to(ROOT)) for path in found} - NOT_SHIPPED)


def check_line(done: subprocess.CompletedProcess[str], name: str, version: str) -> None:
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(rf"{name}: Python 3\.9 or later is needed, and \S+ is {re.escape(version)}\S*: start .+\n",
                        done.stderr), done.stderr


def test_which_programs_there_are() -> None:
    assert programs() == [*NEED_A_NEWER, TEXTFILE, COLUMNS]


@pytest.mark.parametrize("program", programs())
def test_an_old_python_can_read_it(program: str) -> None:
    """To its end, since it is compiled as a whole: the grammar, and what it takes from the future."""
    tree = ast.parse((ROOT / program).read_text(), feature_version=OLDEST)
    taken = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
             for alias in node.names]
    assert [name for name in taken if getattr(__future__, name).getOptionalRelease()[:2] > OLDEST] == []


@pytest.mark.parametrize("minor", [6, 8])
@pytest.mark.parametrize("program", NEED_A_NEWER)
def test_the_line(program: str, minor: int) -> None:
    words = ["/usr/bin/python3", "-c", AS_OLD.format(minor=minor), str(ROOT / program), "--help"]
    check_line(subprocess.run(words, capture_output=True, text=True, check=False), Path(program).name, f"3.{minor}.8")


def test_the_pythons_that_are_here() -> None:
    for python in Path("/usr/bin").glob("python3.[678]"):
        for program in programs():
            done = subprocess.run([python, ROOT / program, "--help"], capture_output=True, text=True, check=False)
            if program in NEED_A_NEWER:
                check_line(done, Path(program).name, python.name.removeprefix("python"))
            else:
                assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("recipe", [TEXTFILE, COLUMNS])
def test_a_recipe_asks_for_nothing_newer(recipe: str) -> None:
    """Arguments that subprocess.run and others learned after 3.6."""
    newer = r"capture_output|\btext=|missing_ok|dirs_exist_ok|removeprefix|removesuffix|fromisoformat|:="
    assert not re.findall(newer, (ROOT / recipe).read_text())


def test_the_packages_ask_for_it() -> None:
    assert re.search(r"^Requires: python3 >= 3\.9$", (ROOT / "packaging/rpm/spank-mpi-wait.spec.in").read_text(), re.M)
    tools = (ROOT / "packaging/debian/control.in").read_text().partition("Package: mpi-wait-tools")[2]
    assert re.search(r"^Depends: .*\bpython3 \(>= 3\.9\)", tools, re.M)
    assert 'target-version = "py39"' in (ROOT / "ruff.toml").read_text()
