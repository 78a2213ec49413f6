"""Tools that wrap functions beside the library: tests/lib/doubles/wrapping_tool.c. With others: tests/mpi/
test_beside_others.py; with GOTCHA itself: tests/soak/gotcha."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, NAP, ROOT, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
CALLS = 1000
BEHIND, BEFORE = f"{LIBRARY}:{{tool}}", f"{{tool}}:{LIBRARY}"
CONFIGS = pytest.mark.parametrize("config", [NAP, "rungs=none;profile=1", None], ids=["acts", "profiles", "inert"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools")


def tool_of(folder: Path, kind: str) -> Path:
    tool = folder / f"{kind}.so"
    if not tool.exists():
        subprocess.run(["cc", "-O2", "-Wall", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-D{kind}", "-o", tool,
                        ROOT / "tests/lib/doubles/wrapping_tool.c", "-ldl"], check=True, timeout=60)
    return tool


def counts(scene: str, config: str | None, **environment: str) -> tuple[dict[str, float], dict[str, int]]:
    """Returns the calls that the tool counted, and those that the library did."""
    done, segment = run([DRIVER, scene], config, **environment)
    assert done.returncode == 0, done.stderr
    if not config:
        return values(done), {}
    calls = segment["slots"][0]["lane"][0]["calls"]
    return values(done), {name: call["calls"] for name, call in calls.items()}


@CONFIGS
@pytest.mark.parametrize("kind", ["TABLES", "RETURNS", "JUMPS", "PROFILES"])
@pytest.mark.parametrize("preload", [BEHIND, BEFORE], ids=["behind", "before"])
@pytest.mark.parametrize(("scene", "name"), [("short", "Barrier"), ("tests", "Test")])
def test_the_tool_and_the_library_see_each_call_once(folder: Path, kind: str, preload: str, config: str | None,
                                                     scene: str, name: str) -> None:
    seen, own = counts(scene, config, LD_PRELOAD=preload.format(tool=tool_of(folder, kind)))
    assert (seen["tool_init"], seen[f"tool_{name.lower()}"]) == (1, CALLS)
    assert not own or (own["Init"], own[name]) == (1, CALLS)


@CONFIGS
def test_an_auditor_of_the_loader_sees_each_call_once(folder: Path, config: str | None) -> None:
    """The loader asks it what we find, too, and takes its word."""
    seen, own = counts("short", config, LD_AUDIT=str(tool_of(folder, "AUDITS")), LD_BIND_NOW="1")
    assert seen.get("tool_barrier", CALLS) == CALLS
    assert not own or (own["Init"], own["Barrier"]) == (1, CALLS)


@CONFIGS
def test_behind_a_tool_that_defines_dlsym(folder: Path, config: str | None) -> None:
    _, own = counts("short", config, LD_PRELOAD=BEFORE.format(tool=tool_of(folder, "DLSYM")))
    assert not own or (own["Init"], own["Barrier"]) == (1, CALLS)
