"""The rank's own executable chooses the policy among those that MPI_WAIT_CONFIG offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lib.doubles.notes_page import NotesPage
from tests.lib.doubles.support import BUILD, NAP, run

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
OFF = "rungs=none;off=1"
CHOICES = f"|v=1;{NAP};profile=1|v=1;{OFF}"
STARTS = 'export MPI_WAIT_CONFIG="$MPI_WAIT_CONFIG$CHOICES"; exec "$@"'


@pytest.fixture
def notes() -> Iterator[NotesPage]:
    with NotesPage() as page:
        yield page


def play(notes: NotesPage, step: str, names: str, program: Path = DRIVER) -> list[dict[str, Any]]:
    """Returns the slots of a rank whose step has that policy, where ranks choose by these names."""
    offer = f"{CHOICES}|{names}" if names else ""
    done, segment = run(["bash", "-c", STARTS, "bash", program, "short"], f"{notes.field};{step}", CHOICES=offer)
    assert done.returncode == 0, done.stderr
    slots: list[dict[str, Any]] = segment["slots"]
    assert segment["claimed"] == len(slots)
    return slots


def profiles(slot: dict[str, Any]) -> bool:
    return bool(slot["lane"][0]["calls"]["Barrier"]["time_ns"])


@pytest.mark.parametrize("names,number", [
    ("preload_driver:1", 1), ("wrf.exe:2,preload_*:1", 1), ("preload_drive?:1,preload_driver:2", 1),
    ("wrf.exe:1", 0), ("bash:1,preload:2,driver:2", 0),
])
def test_the_first_name_that_matches_gives_the_policy(notes: NotesPage, names: str, number: int) -> None:
    (slot,) = play(notes, NAP, names)
    assert slot["program"] == number and profiles(slot) == (number == 1)


def test_off_leaves_the_program_alone_and_is_noted(notes: NotesPage) -> None:
    assert play(notes, NAP, "preload_driver:2") == []
    assert notes.off() == [0, 1, *[0] * 14] and notes.counts() == {}


def test_under_off_only_a_name_that_matches_acts(notes: NotesPage) -> None:
    assert play(notes, OFF, "wrf.exe:1") == [] and play(notes, OFF, "") == []
    assert notes.off() == [0] * 16 and notes.counts() == {}
    (slot,) = play(notes, OFF, "preload_driver:1")
    assert slot["program"] == 1 and profiles(slot)


def test_it_is_the_file_that_runs_and_no_link_to_it(notes: NotesPage, tmp_path: Path) -> None:
    (tmp_path / "lmp").symlink_to(DRIVER)
    (slot,) = play(notes, NAP, "lmp:2,preload_driver:1", tmp_path / "lmp")
    assert slot["program"] == 1


@pytest.mark.parametrize("names", ["", ":1", "preload_driver:3", "preload_driver:1,", "preload_driver:1|"])
def test_a_text_that_is_not_understood_makes_it_inert(notes: NotesPage, names: str) -> None:
    offer = f"{CHOICES}|{names}"
    done, segment = run(["bash", "-c", STARTS, "bash", DRIVER, "short"], f"{notes.field};{NAP}", CHOICES=offer)
    assert done.returncode == 0 and segment["slots"] == [] and notes.off() == [0] * 16
