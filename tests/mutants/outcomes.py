"""A plugin of pytest: notes each test's outcome by stage (setup, call, teardown) in the file $MPI_WAIT_OUTCOMES."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

seen: dict[str, dict[str, str]] = {}
"""By node id: {"setup": "passed", "call": "failed", ..., "why": the first line of what failed}."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome = seen.setdefault(report.nodeid, {})
    outcome[report.when or ""] = report.outcome
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        outcome["why"] = (crash.message if crash else str(report.longrepr)).partition("\n")[0]


def pytest_sessionfinish() -> None:
    Path(os.environ["MPI_WAIT_OUTCOMES"]).write_text(json.dumps(seen))
