"""pytest's part: tests marked `unified` run in the guest, a whole module at once, where this machine cannot run them.

Outside, the first such test starts the guest, whose own pytest runs all tests that were chosen of its module. Each test
then takes over its result from there. The module's fixtures see `in_guest()` and do nothing outside. Inside, every
result is written as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lib.guest import machine
from tests.lib.guest.kernel import GuestError
from tests.lib.throwaway import cgroups

TIMEOUT_S = 900
GROUP = "guest"
"""The group of pytest-xdist: all its tests run on one worker. With distribution by group, their ids end with its
name."""
RESULTS = pytest.StashKey[dict[Path, dict[str, Any]]]()


def elsewhere() -> bool:
    """Returns true outside the guest on a machine where tests marked `unified` need it."""
    return machine.INSIDE not in os.environ and bool(cgroups.unavailable_reason("cgroup2"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unified: needs a machine with nothing but cgroup v2, or an emulated one")


def name_of(item: pytest.Item) -> str:
    return item.nodeid.removesuffix(f"@{GROUP}")


def chosen(session: pytest.Session, path: Path) -> list[str]:
    return [name_of(item) for item in session.items if item.path == path and item.get_closest_marker("unified")]


def play(session: pytest.Session, path: Path) -> dict[str, Any]:
    """Runs a module in the guest. Returns the guest's results by test; under "", the text that the guest printed."""
    options = ["-p", "no:cacheprovider", "--basetemp=/run/pytest", "-q"]
    try:
        reports, console = machine.run([machine.PYTHON, "-m", "pytest", *options, *chosen(session, path)], TIMEOUT_S)
    except GuestError as error:
        reports, console = "", str(error)
    results: dict[str, Any] = {"": console}
    for line in reports.splitlines():
        nodeid, result = json.loads(line)
        results.setdefault(nodeid, []).append(result)
    return results


def give(item: pytest.Item, results: dict[str, Any]) -> None:
    """Ends this test with its result in the guest."""
    phases = results.get(name_of(item), [])
    for phase in phases:
        for title, text in phase["sections"]:
            item.add_report_section("call", f"guest, {phase['when']}", f"{title}\n{text}")
    for phase in phases:
        if phase["outcome"] == "skipped":
            pytest.skip(phase["text"])
        if phase["outcome"] == "failed":
            pytest.fail(f"in the guest, {phase['when']}:\n{phase['text']}", pytrace=False)
    if [phase["when"] for phase in phases] != ["setup", "call", "teardown"]:
        pytest.fail(f"the guest has no result of it; it printed:\n{results[''][-5000:]}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not pyfuncitem.get_closest_marker("unified") or not elsewhere():
        return None
    known = pyfuncitem.session.stash.setdefault(RESULTS, {})
    if pyfuncitem.path not in known:
        known[pyfuncitem.path] = play(pyfuncitem.session, pyfuncitem.path)
    give(pyfuncitem, known[pyfuncitem.path])
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if machine.INSIDE not in os.environ:
        return
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    result = {"when": report.when, "outcome": report.outcome, "text": text, "duration": report.duration,
              "sections": report.sections}
    print(f"{report.nodeid}: {report.when} {report.outcome} {report.duration:.1f} s", file=sys.stderr, flush=True)
    with open(machine.REPORTS, "w") as file:
        file.write(json.dumps([report.nodeid, result]) + "\n")
