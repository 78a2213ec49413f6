"""Runs programs under the preload library, with a stats segment, for the tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
LIBRARY = BUILD / "preload/libmpiwait.so"

_specification = importlib.util.spec_from_file_location("segment_tool", Path(__file__).with_name("segment_tool.py"))
segment_tool = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(segment_tool)
NAP = segment_tool.NAP
VIRTUAL = BUILD / "tests/lib/doubles/libvirtual-time.so"


def run(command: list, config: str | None = NAP, segment: dict | None = None, preload: Path | None = None,
        fds: tuple[int, ...] = (), virtual: bool = False, made: Callable[[int], object] = lambda fd: None,
        **environment: str):
    """Returns (completed process, segment).
    segment: fields to spoil. config: None for no configuration. preload: a library that is loaded behind the product's.
    virtual: preload the double of the clock last, and print its counts among the values. made: called with the
    segment."""
    fd = segment_tool.segment_make(**(segment or {}))
    made(fd)
    libraries = ":".join(str(library) for library in (LIBRARY, preload, VIRTUAL if virtual else None) if library)
    full = os.environ | {"LD_PRELOAD": libraries, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_rmaps_base_oversubscribe": "1"} | environment
    full.pop("MPI_WAIT_CONFIG", None)
    if config:
        full["MPI_WAIT_CONFIG"] = f"v=1;{config};{segment_tool.segment_field(fd)}"
    done = subprocess.run([str(word) for word in command], env=full, pass_fds=[fd, *fds], capture_output=True,
                          text=True, timeout=60 if virtual else 120, check=False)
    return done, segment_tool.segment_read(fd)


def values(done: subprocess.CompletedProcess) -> dict[str, float]:
    """Returns the "key value" lines that the driver prints."""
    return {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines() if len(line.split()) == 2}
