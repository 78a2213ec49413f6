"""What check found: one line of its answer. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_SEEN = "NOT SEEN"


@dataclass(frozen=True)
class Finding:
    """what is there; means: what follows from it; do: what helps. The last two are empty where all is well."""

    status: Status
    name: str
    what: str
    means: str = ""
    do: str = ""


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
