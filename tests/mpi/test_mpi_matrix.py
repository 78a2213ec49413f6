"""The plan of the matrix, and that its judgement can fail; tests/soak/mpi_matrix/run plays it."""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lib.launches import Seen
from tests.lib.libraries import BINDINGS, LIBRARY, MPIS
from tests.lib.slices import slice_of, slice_read
from tests.soak.mpi_matrix import plan, play, results

NAMES = [mpi.name for mpi in plan.PLAYED]
pytestmark = pytest.mark.skipif(not LIBRARY.exists() or not plan.FLAT.exists(), reason=f"not built: {LIBRARY}")


def test_slices_have_every_row_once() -> None:
    rows = list(plan.rows(NAMES, list(plan.policies()), complete=False))
    for parts in (1, 2, 7, len(rows) + 1):
        slices = [slice_of(rows, slice_read(f"{part}/{parts}")) for part in range(1, parts + 1)]
        assert sorted(map(rows.index, itertools.chain(*slices))) == list(range(len(rows)))
        assert max(map(len, slices)) - min(map(len, slices)) <= 1
    for text in ("0/3", "4/3", "1", "1/0", "-1/2", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match="no slice"):
            slice_read(text)


def test_the_cover_has_every_pair() -> None:
    rows = list(plan.rows(NAMES, list(plan.policies()), complete=False))
    for policy in plan.policies():
        assert {row.mpi.name for row in rows if row.policy == policy} == set(NAMES)
        assert {row.binding for row in rows if row.policy == policy} == set(BINDINGS)
        played = {name for row in rows if row.policy == policy for name in row.functions}
        assert played == set(plan.coverage()["functions"])
    for mpi, binding in itertools.product(plan.PLAYED, BINDINGS):
        judged = {name for row in rows
                  if (row.mpi.name, row.binding, row.policy) == (mpi.name, binding, plan.JUDGED)
                  for name in row.functions}
        possible = set(plan.functions_of(mpi, binding)) if (mpi, binding) in plan.pairs(NAMES) else set()
        assert judged == possible


def test_coverage_names_what_there_is() -> None:
    known = {"functions": {*plan.coverage()["functions"], plan.LAST}, "mpis": set(NAMES), "bindings": set(BINDINGS)}
    for kind in ("above", "spins", "unjudged", "returns", "absent"):
        for entry in plan.coverage()[kind]:
            assert len(entry["reason"]) > 20 and set(entry) <= {*known, "reason"}
            for key, names in known.items():
                assert set(entry.get(key, ())) <= names


@pytest.mark.parametrize(("cell", "sleeps", "ends", "fine"), [
    (("Recv", "openmpi", "C"), [3, 5], "nn", True),
    (("Recv", "openmpi", "C"), [3, 0], "nt", False),
    (("Recv", "openmpi", "C"), [0, 0], "tt", False),
    (("Recv", "openmpi", "C"), [0, 0], "rr", False),
    (("Finalize", "intel", "C"), [1], "t", True),
    (("Finalize", "intel", "C"), [3], "n", False),
    (("File_sync", "mpich", "C"), [0, 0], "rr", True),
    (("File_sync", "mpich", "C"), [3, 0], "nr", False),
    (("Comm_spawn", "openmpi-5", "C"), [0, 0], "tt", True),
])
def test_a_cell_is_judged_by_what_is_listed(cell: play.Cell, sleeps: list[int], ends: str, fine: bool) -> None:
    assert (play.cell_problem(cell, Seen([0.5] * len(sleeps), sleeps, ends, "0")) == "") == fine


@pytest.mark.parametrize(("cell", "shares", "fine"), [
    (("Recv", "openmpi", "C"), [0.07, 0.9, 0.08], True),
    (("Recv", "openmpi", "C"), [0.07, 0.21, 0.25], False),
    (("Win_lock", "intel", "mpi4py"), [0.22], True),
    (("Finalize", "intel", "C"), [0.99], True),
    (("File_sync", "mpich", "C"), [None], True),
])
def test_a_share_is_held_against_the_aim(cell: play.Cell, shares: list, fine: bool) -> None:
    assert (play.shares_judge(play.Report(shares={cell: shares})) == []) == fine


def row_of(policy: str, *functions: str) -> plan.Row:
    return plan.Row(MPIS[0], "C", policy, functions)


def test_a_policy_that_spins_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(play.RUNGS, "profile", play.SLEEPS)
    monkeypatch.setattr(play, "RESTED_MS", 300)
    report = play.Report()
    play.row_play(row_of("profile", "Recv"), play.References(2), report)
    if report.unavailable:
        pytest.skip(str(report.unavailable))
    assert any("Recv spins, but" in problem and problem.endswith("ends tt") for problem in report.problems)


def test_another_result_and_a_hang_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    references, report, row = play.References(2), play.Report(), row_of("profile", "Recv", "Bcast")
    try:
        known = references.of(row).seen
    except play.Unavailable as reason:
        pytest.skip(str(reason))
    known["Bcast"] = replace(known["Bcast"], result="0x0p+0")
    play.row_play(row, references, report)
    assert len(report.problems) == 1 and "Bcast gave" in report.problems[0]
    monkeypatch.setattr(play, "TIMEOUT_S", 2)
    monkeypatch.setattr(play, "REFERENCE_MS", 20000)
    play.row_play(row_of("profile", "Recv"), references, report)
    assert "hung for 2 s in Recv" in report.problems[1]


def test_the_results_say_what_is_above_the_aim(tmp_path: Path) -> None:
    shares = {("Recv", "openmpi", "C"): [0.05, 0.06, 0.07], ("Bcast", "mpich", "C"): [0.3, 0.31],
              ("Finalize", "intel", "C"): [0.97], ("File_sync", "mpich", "C"): [None],
              ("Win_lock", "intel", "mpi4py"): [0.22]}
    results.write(tmp_path / "RESULTS.md", play.Report(shares=shares), 60, 5, ["nap", "umwait"])
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| Recv | 6 |  |  |" in text and "| Bcast |  | **31** |  |" in text
    assert "- Bcast, mpich, C: 31 %" in text and "returns" in text and "| spins |" in text
    assert "- Bcast, mpich, C: 31 % of a CPU, above the aim of 20" in text, "and a failure"
    assert "Win_lock, intel, mpi4py: 22 %" not in text and "| **22** |" in text, "known, and said"
