"""The pairwise cover of the matrix (tests/soak/mpi_matrix/run has all of it), and that its judgement can fail."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.lib.libraries import BINDINGS, LIBRARY, MPIS
from tests.soak.mpi_matrix import plan, play, results

NAMES = [mpi.name for mpi in MPIS]
pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not LIBRARY.exists() or not plan.FLAT.exists(), reason=f"not built: {LIBRARY}"),
]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_cover(name: str) -> None:
    """No hang, the same results, and every cell sleeps through its wait that is not listed as spinning."""
    report, references = play.Report(), play.References(2)
    for row in plan.rows([name], list(plan.policies()), complete=False):
        (play.row_judge if row.policy == plan.JUDGED else play.row_play)(row, references, report, 2)
    if not report.shares and report.unavailable:
        pytest.skip("; ".join(f"{where}: {reason}" for where, reason in report.unavailable.items()))
    print(f"{name}: {len(report.shares)} cells; not tried: {report.unavailable or 'nothing'}")
    assert report.problems == []
    assert play.cells_judge(report) == []


def test_the_cover_has_every_pair() -> None:
    rows = list(plan.rows(NAMES, list(plan.policies()), complete=False))
    for policy in plan.policies():
        assert {row.mpi.name for row in rows if row.policy == policy} == set(NAMES)
        assert {row.binding for row in rows if row.policy == policy} == set(BINDINGS)
        played = {name for row in rows if row.policy == policy for name in row.functions}
        assert played == set(plan.coverage()["functions"])
    for mpi, binding in itertools.product(MPIS, BINDINGS):
        judged = {name for row in rows if (row.mpi, row.binding, row.policy) == (mpi, binding, plan.JUDGED)
                  for name in row.functions}
        possible = set(plan.functions_of(mpi, binding)) if (mpi, binding) in plan.pairs(NAMES) else set()
        assert judged == possible


def test_coverage_names_what_there_is() -> None:
    known = {"functions": {*plan.coverage()["functions"], plan.LAST}, "mpis": set(NAMES), "bindings": set(BINDINGS)}
    for kind in ("spins", "unjudged", "returns", "absent"):
        for entry in plan.coverage()[kind]:
            assert len(entry["reason"]) > 20 and set(entry) <= {*known, "reason"}
            for key, names in known.items():
                assert set(entry.get(key, ())) <= names


@pytest.mark.parametrize(("cell", "shares", "fine"), [
    (("Recv", "openmpi", "C"), [0.07, 0.9], True),
    (("Recv", "openmpi", "C"), [0.99, 0.97], False),
    (("Recv", "openmpi", "C"), [None, None], False),
    (("Finalize", "intel", "C"), [0.99], True),
    (("Finalize", "intel", "C"), [0.07, 0.05], False),
    (("File_sync", "mpich", "C"), [None], True),
    (("File_sync", "mpich", "C"), [0.05], False),
])
def test_a_cell_is_judged_by_what_is_listed(cell: play.Cell, shares: list, fine: bool) -> None:
    report = play.Report(shares={cell: shares})
    assert (play.cells_judge(report) == []) == fine


def row_of(policy: str, *functions: str) -> plan.Row:
    return plan.Row(MPIS[0], "C", policy, functions)


def test_a_policy_that_spins_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "JUDGED", "profile")
    monkeypatch.setattr(play, "SPINS", 0.2)  # whatever else this machine does meanwhile
    report = play.Report()
    play.row_judge(row_of("profile", "Recv"), play.References(2), report, 2)
    if report.unavailable:
        pytest.skip(str(report.unavailable))
    assert any("Recv (openmpi, C) spins" in problem for problem in play.cells_judge(report))


def test_another_result_and_a_hang_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    references, report, row = play.References(2), play.Report(), row_of("profile", "Recv", "Bcast")
    try:
        references.of(row).results["Bcast"] = "0x0p+0"
    except play.Unavailable as reason:
        pytest.skip(str(reason))
    play.row_play(row, references, report, 2)
    assert len(report.problems) == 1 and "Bcast gave" in report.problems[0]
    monkeypatch.setattr(play, "TIMEOUT_S", 2)
    monkeypatch.setattr(play, "WAIT_MS", 20000)
    play.row_play(row_of("profile", "Recv"), references, report, 2)
    assert "hung for 2 s in Recv" in report.problems[1]


def test_the_results_say_what_is_above_the_aim(tmp_path: Path) -> None:
    shares = {("Recv", "openmpi", "C"): [0.05, 0.06, 0.07], ("Bcast", "mpich", "C"): [0.3, 0.31],
              ("Finalize", "intel", "C"): [0.97], ("File_sync", "mpich", "C"): [None]}
    results.write(tmp_path / "RESULTS.md", play.Report(shares=shares), 60, 5, ["nap", "umwait"])
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| Recv | 6 |  |  |" in text and "| Bcast |  | **31** |  |" in text
    assert "- Bcast, mpich, C: 31 %" in text and "returns" in text and "| spins |" in text
