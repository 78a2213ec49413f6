"""The maintainer scripts of the Debian packages, below a root of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "packaging/debian"
ROOTED = ("/usr/", "/var/")
UNITS = "echo debhelper disables the units"


def run(name: str, root: Path, *words: str) -> str:
    """Runs a script whose paths lie below `root`; returns what it prints."""
    text = (SCRIPTS / name).read_text().replace("#DEBHELPER#", UNITS)
    for path in ROOTED:
        text = text.replace(path, f"{root}{path}")
    script = root / name
    script.write_text(text)
    done = subprocess.run(["sh", script, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("replaced", [False, True], ids=["last", "replaced"])
def test_a_purge_leaves_what_the_package_for_another_slurm_has(tmp_path: Path, replaced: bool) -> None:
    """Slurm was upgraded, and with it the plugin's package; later the configuration of the former one is purged."""
    record, helper = tmp_path / "var/spool/mpi-wait/out/test-1-0.json", tmp_path / "usr/sbin/mpi-wait-node"
    for path in (record, *([helper] if replaced else [])):
        path.parent.mkdir(parents=True)
        path.touch()
    said = run("plugin.postrm", tmp_path, "purge")
    assert record.exists() == replaced
    assert (UNITS.removeprefix("echo ") in said) != replaced


def test_a_removal_leaves_records(tmp_path: Path) -> None:
    record = tmp_path / "var/spool/mpi-wait/out/test-1-0.json"
    record.parent.mkdir(parents=True)
    record.touch()
    assert UNITS.removeprefix("echo ") in run("plugin.postrm", tmp_path, "remove")
    assert record.exists()
