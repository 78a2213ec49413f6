"""Rules for every test: a time limit, no silent skip, and no second try except for the named quarantine.

tests/quarantine.txt names the tests that may be tried again; tests/allowed_skips.txt lists the reasons for which CI may
skip a test. A malformed line in either file ends the run before the first test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
QUARANTINE, SKIPS = TESTS / "quarantine.txt", TESTS / "allowed_skips.txt"
MOST_IN_QUARANTINE = 10
MORE_TRIES = 2
LINE = re.compile(r"(\S.*?) \| (\d{4}-\d\d-\d\d) \| (\S.*)")
"""NODE_ID | DATE | REASON"""


@dataclass(frozen=True)
class Quarantined:
    """A test that may be tried again, with date and reason."""

    test: str
    since: str
    reason: str


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def quarantine(path: Path = QUARANTINE) -> list[Quarantined]:
    """Reads the quarantine. Raises ValueError if a line lacks its date or reason, or if there are too many lines."""
    found = []
    for line in lines(path):
        if not (match := LINE.fullmatch(line)):
            raise ValueError(f"{path}: '{line}' is not 'TEST | YYYY-MM-DD | REASON'")
        found.append(Quarantined(*match.groups()))
    if len(found) > MOST_IN_QUARANTINE:
        raise ValueError(f"{path}: {len(found)} tests; at most {MOST_IN_QUARANTINE} may be in quarantine")
    return found


def allowed_skips(path: Path = SKIPS) -> list[re.Pattern[str]]:
    """Reads the patterns, one a line; each must match a whole reason."""
    return [re.compile(line) for line in lines(path)]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[QUARANTINED] = quarantine(Path(os.environ.get("MPI_WAIT_QUARANTINE", QUARANTINE)))
    config.stash[ALLOWED] = allowed_skips() if os.environ.get("CI") else None


QUARANTINED = pytest.StashKey[list[Quarantined]]()
ALLOWED = pytest.StashKey["list[re.Pattern[str]] | None"]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Lets only the tests in the quarantine run again, whatever marks or options say."""
    if config.getoption("reruns", None):
        raise pytest.UsageError("--reruns is not used here: tests/quarantine.txt names what may be tried again")
    again = {entry.test for entry in config.stash[QUARANTINED]}
    for item in items:
        if item.get_closest_marker("flaky"):
            raise pytest.UsageError(f"{item.nodeid} is marked flaky: tests/quarantine.txt names what may be repeated")
        if item.nodeid in again:
            item.add_marker(pytest.mark.flaky(reruns=MORE_TRIES))


def reason_of(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI, fails a test that was skipped for a reason that is not on the list."""
    outcome = yield
    report = outcome.get_result()
    allowed = item.config.stash[ALLOWED]
    if allowed is None or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = reason_of(report)
    if not any(pattern.fullmatch(reason) for pattern in allowed):
        report.outcome = "failed"
        report.longrepr = f"skipped, and tests/allowed_skips.txt does not have the reason: {reason}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names the skipped and the repeated tests, so that a green run does not mislead."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reasons[reason_of(report)] = reasons.get(reason_of(report), 0) + 1
    if reasons:
        terminalreporter.section("NOT TESTED on this machine", yellow=True, bold=True)
        for text, count in sorted(reasons.items()):
            terminalreporter.line(f"{count} tests: {text}", yellow=True)
    if repeated := terminalreporter.stats.get("rerun", []):
        terminalreporter.section("TRIED AGAIN, of tests/quarantine.txt", yellow=True, bold=True)
        for report in repeated:
            terminalreporter.line(report.nodeid, yellow=True)
        terminalreporter.line(f"{len(repeated)} second tries", yellow=True)
