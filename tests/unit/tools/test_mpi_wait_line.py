"""What the packages say before they take a plugin away that plugstack.conf still names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
PLUGIN = "/opt/mpi-wait/lib/slurm/spank_mpi_wait.so"


def look(*directories: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(BUILD / "packaging/mpi-wait-line"), *map(str, directories)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("line", [f"optional {PLUGIN} default=off", "  required\tspank_mpi_wait.so",
                                  f'optional "{PLUGIN}"'])
def test_a_line_that_is_left_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "plugstack.conf").write_text(f"# ours\n{line}\n")
    done = look(tmp_path / "none", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the plugin's line is still there:\n    {tmp_path}/plugstack.conf\n" in done.stderr
    assert "prints two errors" in done.stderr and "Remove the line" in done.stderr
    assert "keep it if the package for another release of Slurm" in done.stderr  # apt's upgrade removes it as well


@pytest.mark.parametrize("pattern", ["parts/*.conf", "{}/parts/*.conf"])
def test_an_included_file_is_named(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "plugstack.conf").write_text(f"include {pattern.format(tmp_path)}\n")
    (tmp_path / "parts/a.conf").write_text("optional /usr/lib/other.so\n")
    (tmp_path / "parts/b.conf").write_text(f"optional {PLUGIN}\n")
    assert f"there:\n    {tmp_path}/parts/b.conf\n" in look(tmp_path).stderr


@pytest.mark.parametrize("line", ["", f"# optional {PLUGIN}", "optional /opt/other/spank_mpi_wait.so",
                                  f"optional /x{PLUGIN}", "include nothing/*.conf"])
def test_nothing_is_said_where_no_line_is(tmp_path: Path, line: str) -> None:
    (tmp_path / "plugstack.conf").write_text(line + "\n")
    done = look(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_is_said_without_slurm(tmp_path: Path) -> None:
    assert look(tmp_path).returncode == 0


def test_the_packages_ask_before_they_go() -> None:
    for script in ("debian/plugin.prerm", "rpm/spank-mpi-wait.spec.in"):
        assert "mpi-wait-line || " in (ROOT / "packaging" / script).read_text()
