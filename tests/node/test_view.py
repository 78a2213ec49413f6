"""The tasks' mount namespace in slurmstepd: the first child's, taken while it stands still, and no user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lib.record_tools import driver

UID = 65534


def own_namespace() -> int:
    return Path("/proc/self/ns/mnt").stat().st_ino


def view(children: int, whose: str = "own", euid: int = 0) -> Any:
    return driver("view", children, whose, euid)


def test_the_first_child_s_namespace_and_directory_are_taken() -> None:
    seen = view(3)
    first, *others = seen["children"]
    assert seen["taken"] == first and first not in (own_namespace(), *others)
    assert seen["directory"] == "/proc"


def test_it_can_be_taken_more_than_once() -> None:
    """By a child that ends at once, under contain_spank, and then by slurmstepd."""
    seen = view(1)
    assert seen["contained"] == seen["taken"] == seen["children"][0]


def test_it_is_taken_while_slurmstepd_is_the_user() -> None:
    """Which may not look into root's processes: slurmstepd forks the tasks under the user's effective identity."""
    seen = view(1, euid=UID)
    assert seen["taken"] == seen["children"][0]


def test_a_namespace_that_a_user_has_made_is_not_used() -> None:
    """Its owner decides what is mounted there, in the program's own place too."""
    seen = view(1, "user")
    assert seen["children"][0] != own_namespace() and seen["taken"] == 0


def test_without_a_task_there_is_none() -> None:
    seen = view(0)
    assert (seen["taken"], seen["directory"]) == (0, "")
