"""The findings of check and their text for people: one aligned line per finding, and advice below those that matter.

Needs no package besides Python's own, since a compute node may have no other.
"""

from __future__ import annotations

import enum
import textwrap
from dataclasses import dataclass

from ..text.plot import ASCII


class Status(enum.Enum):
    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_SEEN = "NOT SEEN"


@dataclass(frozen=True)
class Finding:
    """One line of the answer of check."""

    status: Status
    name: str
    what: str  # the state of the host
    means: str = ""  # the consequences of that state, "" if all is well
    do: str = ""  # advice to the administrator, "" if all is well


@dataclass(frozen=True)
class Section:
    title: str
    findings: list[Finding]


def ok(name: str, what: str) -> Finding:
    return Finding(Status.OK, name, what)


def warn(name: str, what: str, means: str, do: str) -> Finding:
    return Finding(Status.WARN, name, what, means, do)


def fail(name: str, what: str, means: str, do: str) -> Finding:
    return Finding(Status.FAIL, name, what, means, do)


def not_seen(name: str, what: str, do: str) -> Finding:
    return Finding(Status.NOT_SEEN, name, what, "", do)


COLOURS = {Status.OK: "32", Status.WARN: "33", Status.FAIL: "31;1", Status.NOT_SEEN: "36"}
STATUS_WIDTH = max(len(status.value) for status in Status)


class CheckView:
    def __init__(self, width: int, colour: bool, utf8: bool) -> None:
        self.width, self.colour, self.utf8 = width, colour, utf8

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def _wrapped(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            text,
            max(24, self.width),
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )

    def _finding(self, finding: Finding, names: int) -> list[str]:
        indent = " " * (STATUS_WIDTH + names + 4)
        lines = self._wrapped(finding.what or "-", indent)
        head = self._painted(f"{finding.status.value:<{STATUS_WIDTH}}", COLOURS[finding.status])
        lines[0] = f"  {head}  {finding.name:<{names}}{lines[0][STATUS_WIDTH + names + 4 :]}"
        if finding.means:
            lines += self._wrapped(finding.means, indent)
        if finding.do:
            lines += self._wrapped("To do: " + finding.do, indent)
        return lines

    def _section(self, section: Section, names: int) -> list[str]:
        lines = ["", self._painted(section.title, "1")]
        for finding in section.findings:
            lines += self._finding(finding, names)
        return lines

    def text(self, title: str, sections: list[Section], verdict: str) -> str:
        names = max(len(finding.name) for section in sections for finding in section.findings) + 2
        lines = [self._painted(title, "1")]
        for section in sections:
            lines += self._section(section, names)
        written = "\n".join([*lines, "", *textwrap.wrap(verdict, self.width)]) + "\n"
        return written if self.utf8 else written.translate(ASCII).encode("ascii", "replace").decode()
