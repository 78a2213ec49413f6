"""MPI_Pcontrol on the fake MPI: handed on whole, and the waits are summed by the phase that it names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
PROFILE = NAP + ";profile=1"
OTHER = 17


def play(scene: str, config: str | None = PROFILE) -> dict[str, Any]:
    done, segment = run([DRIVER, scene], config, virtual=True)
    assert done.returncode == 0, done.stderr
    return segment["slots"][0]


def waits(slot: dict[str, Any]) -> dict[int, int]:
    return {place: waits for place, (waits, _) in enumerate(slot["lane"][0]["phases"]) if waits}


def test_waits_are_summed_by_the_phase_that_the_program_names() -> None:
    """0 and less end a phase, 2 changes nothing, and a phase that comes back is the same."""
    slot = play("phases")
    assert slot["phases"]["level"][:3] == [4, 3, 0] and slot["phases"]["place"] == 0
    assert waits(slot) == {0: 3, 1: 2, 2: 2}
    wait_ns = [wait_ns for _, wait_ns in slot["lane"][0]["phases"]]
    assert [round(ns / 1e6) for ns in wait_ns[:3]] == [1 + 32 + 64, 2 + 16, 4 + 8]
    assert sum(wait_ns) == slot["lane"][0]["calls"]["Recv"]["wait_ns"]


def test_how_long_a_phase_lasted_is_known() -> None:
    slot = play("phases")
    phases = slot["phases"]
    latest_ns = slot["end_ns"] - phases["since_ns"]
    assert [round(ns / 1e6) for ns in phases["time_ns"][:3]] == [1 + 32, 2 + 16, 4 + 8]
    assert round(latest_ns / 1e6) == 64 and sum(phases["time_ns"]) + latest_ns == slot["end_ns"] - slot["start_ns"]


def test_more_phases_than_there_is_room_for_are_one() -> None:
    slot = play("phases_many")
    assert slot["phases"]["level"] == list(range(3, 19)) and slot["phases"]["place"] == OTHER
    assert waits(slot) == {**dict.fromkeys(range(1, 17), 1), OTHER: 4}


def test_without_profile_no_phase_is_noted() -> None:
    slot = play("phases", NAP)
    assert not any(map(any, slot["lane"][0]["phases"])) and not any(slot["phases"]["level"])
    assert slot["phases"]["since_ns"] == 0 and slot["lane"][0]["calls"]["Pcontrol"]["calls"] == 6


@pytest.mark.parametrize("config", [None, NAP, PROFILE])
def test_what_follows_the_level_is_handed_on(config: str | None) -> None:
    """Five words and five numbers in turn, of the kinds of registers that a variadic call has."""
    told = values(run([DRIVER, "pcontrol"], config)[0])
    assert told == {"code": 0, "refused": 12, "told": 12345, "told_float": 17900.5}
