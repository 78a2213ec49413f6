"""What holds for every test: a time limit, no silent skip, no second try but for the named quarantine.

tests/quarantine.txt names the tests that may be tried again, tests/allowed_skips.txt the reasons for which a test may
be left out in CI. A line of either that is not as its head says ends the run before the first test.
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
    """A test that may be tried again, since when, and why."""

    test: str
    since: str
    reason: str


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def quarantine(path: Path = QUARANTINE) -> list[Quarantined]:
    """Raises ValueError where a line lacks its date or reason, or where there are too many."""
    found = []
    for line in lines(path):
        if not (match := LINE.fullmatch(line)):
            raise ValueError(f"{path}: '{line}' is not 'TEST | YYYY-MM-DD | REASON'")
        found.append(Quarantined(*match.groups()))
    if len(found) > MOST_IN_QUARANTINE:
        raise ValueError(f"{path}: {len(found)} tests; at most {MOST_IN_QUARANTINE} may be in quarantine")
    return found


def allowed_skips(path: Path = SKIPS) -> list[re.Pattern[str]]:
    """The patterns, one a line; each must match a reason from its beginning to its end."""
    return [re.compile(line) for line in lines(path)]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[QUARANTINED] = quarantine(Path(os.environ.get("MPI_WAIT_QUARANTINE", QUARANTINE)))
    config.stash[ALLOWED] = allowed_skips() if os.environ.get("CI") else None


QUARANTINED = pytest.StashKey[list[Quarantined]]()
ALLOWED = pytest.StashKey["list[re.Pattern[str]] | None"]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only what is named in the quarantine is tried again: neither a mark nor an option does that."""
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
    """In CI a test that was skipped for a reason that is not on the list has failed."""
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
    """Names what was left out and what was tried again, so that a green run cannot mislead."""
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
