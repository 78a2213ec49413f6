"""The folder of a unit test is in memory: thousands of small files cost a disk's file system more than the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 1 << 30  # bytes
FAILED = pytest.StashKey[bool]()


def has_room() -> bool:
    """Programs are started from there, too."""
    return (os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
            and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or outcome.get_result().failed


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """pytest's own where there is no room in memory. It ends with the test; what a failed one leaves is copied to
    where pytest's own would be."""
    if not has_room():
        yield tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:30], numbered=True)
        return
    with tempfile.TemporaryDirectory(prefix="mpi-wait-test-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        if request.node.stash.get(FAILED, False):
            kept = tmp_path_factory.mktemp("failed", numbered=True)
            subprocess.run(["cp", "-a", f"{folder}/.", kept], check=False)
            print(f"{folder} is kept as {kept}")
