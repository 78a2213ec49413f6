"""Twenty recorded jobs and what mpi-wait report says of them, as text and CSV: tests/unit/tools/recorded."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from tests.lib.doubles.report_double import Report, make_row, shown
from tests.lib.record_tools import validate
from tests.lib.recorded_jobs import JOB_WORDS, JOBS, KEPT, PARTS, make_rows, report_of, rows_of

ALIKE = "All ranks wait alike: for messages, or for one another in turn"
LOOK = ("; the policy key 'profile' tells waiting from transfer, and message sizes. See mpi-wait-policy(7), PROFILE: "
        "#SBATCH --mpi-wait-policy=nap,profile")
FITS = "nap fits: 94 % of the waiting was slept through."
ADVICE = {
    "balanced": [ALIKE + LOOK, FITS],
    "one-slow-rank": [
        "Take work from rank 5 (on c2): spread evenly, the same work could take up to 26 % less time.", FITS
    ],
    "slow-node": [
        "Look at node c3 first: all ranks seen there wait least. If it is slower than the others, that takes up to "
        "22 % of the time.", FITS
    ],
    "tree": ["Take work from rank 0 (on c1): spread evenly, the same work could take up to 21 % less time.", FITS],
    "master-worker": [
        "Rank 0 alone waits: if it hands out work, let it compute too; otherwise give it more to do.", FITS
    ],
    "lost-node": [],
    "missing-spool": [],
    "million-ranks": [
        "Look at rank 278438 (on c0278): hardly any other waits so little. A core that is slow, or work of its own, "
        "shows so; whether the others wait for it is not known.",
        "nap fits: 96 % of the waiting was slept through.",
    ],
    "two-steps": [
        "Step 1: take work from rank 1: spread evenly, the same work could take up to 36 % less time.",
        "Step 0: take work from rank 3: spread evenly, the same work could take up to 23 % less time.",
        "nap fits: 93 % of the waiting was slept through.",
    ],
    "step-under-off": [ALIKE + LOOK, "nap fits: 93 % of the waiting was slept through."],
    "short": ["nap fits: 78 % of the waiting was slept through."],
    "profile": [ALIKE + ".", "nap (or auto) fits: cores sleep in waits, and the ranks wait 15 % of their time. "
                "See mpi-wait-policy(7), POLICIES: #SBATCH --mpi-wait-policy=nap"],
    "no-mpi": [],
    "cancelled": [
        "Look at what rank 2 did at last: the job ended as CANCELLED, and the others waited longer than that."
    ],
    "requeued": [ALIKE + LOOK, FITS],
    "array-task": [ALIKE + LOOK, FITS],
    "heterogeneous": [FITS],
    "shared-node": [
        ALIKE + LOOK,
        "nap costs this job more than slowdown= allows: try nodes without other work (--exclusive), or, for a very "
        "short run, off. See mpi-wait-policy(7), KEYS: #SBATCH --exclusive",
    ],
    "throttled": [
        "Look at node c2 first, which was slowed down most: all ranks seen there wait least. If it is slower than the "
        "others, that takes up to 12 % of the time.", FITS
    ],
    "event-not-woken": [
        ALIKE + LOOK.replace("nap", "event"),
        "Messages did not wake all ranks, which napped instead: the policy nap does so from the start. "
        "See mpi-wait-policy(7), POLICIES: #SBATCH --mpi-wait-policy=nap",
    ],
}
NEVER_SAID = {
    "lost-node": ("Balance", "Lost", "Advice", "the job had every core", "2 MPI ranks\n"),
    "missing-spool": ("Balance", "Lost", "Advice", "the job had every core", "Take work"),
    "million-ranks": ("Take work", "less time", " d ", "computes longest"),
    "two-steps": ("0.3, 1.1", "Balance"),
    "short": ("Model", "of the energy of a period", "Take work"),
    "cancelled": ("Take work", "computes longest", "Lost", "fits"),
    "heterogeneous": ("All ranks wait alike", "none of them holds", "Lost"),
    "shared-node": ("Model", "of the energy of a period", "nap fits"),
    "throttled": ("0 by a power limit", "Take work"),
    "event-not-woken": ("event fits",),
    "requeued": ("Job 4715  ",),
}
"""What stood there once, and was wrong."""


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", JOBS)
def test_the_report_is_the_one_that_was_read(report: Report, name: str, part: str) -> None:
    """Where a change is meant: tests/unit/tools/recorded/make --reports, and read what it changed."""
    assert report_of(report, name, part) == (KEPT / name / f"report.{part}").read_text()


@pytest.mark.parametrize("name", JOBS)
def test_the_records_are_what_the_code_writes(tmp_path: pathlib.Path, name: str) -> None:
    """Where a change is meant: tests/unit/tools/recorded/make."""
    kept = rows_of(name)
    assert make_rows(name, tmp_path) == kept
    for row in kept:
        validate(json.loads(row["AdminComment"]))


def test_there_are_twenty_and_no_others() -> None:
    assert len(JOBS) == 20 and set(ADVICE) == set(JOBS)
    assert {path.name for path in KEPT.iterdir() if path.is_dir()} == set(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_the_advice_is_right(report: Report, name: str) -> None:
    """Each sentence is said where it holds, and by that nowhere else."""
    rows = [make_row(**row) for row in rows_of(name)]
    answer = json.loads(shown(report(rows[-1]["JobID"], "--json", rows=rows)))
    assert answer["advice"] == ADVICE[name]


@pytest.mark.parametrize("name", NEVER_SAID)
def test_what_was_wrong_is_not_said(name: str) -> None:
    text = (KEPT / name / "report.txt").read_text()
    assert not [words for words in NEVER_SAID[name] if words in text]


@pytest.mark.parametrize("name", ["lost-node", "missing-spool"])
def test_the_first_thing_said_is_what_is_missing(name: str) -> None:
    text, table = ((KEPT / name / f"report.{part}").read_text() for part in ("txt", "csv"))
    why = {"lost-node": "nodes missing", "missing-spool": "spool not shared"}[name]
    assert text.startswith(f"INCOMPLETE: 1 of 2 nodes reported ({why}); all figures are theirs\n")
    assert "energy of 1 of 2 nodes" in text and "2 MPI ranks seen on 1 of them" in text
    assert f",job,,incomplete,INCOMPLETE: 1 of 2 nodes reported ({why}),\n" in table
    assert "lost_to_imbalance" not in table and "max_over_mean" not in table


@pytest.mark.parametrize("name", JOBS)
def test_it_fits_a_narrow_terminal_and_one_without_utf8(report: Report, name: str) -> None:
    rows = [make_row(**row) for row in rows_of(name)]
    words = [rows[-1]["JobID"], *JOB_WORDS.get(name, ())]
    narrow = shown(report(*words, "--width", "40", rows=rows))
    assert max(map(len, narrow.splitlines())) <= 40
    assert not re.search(r"[0-9a-z.]…", narrow), "a figure or a word is cut"
    plain = shown(report(*words, rows=rows, settings={"LC_ALL": "C"}))
    assert plain.isascii() and max(map(len, plain.splitlines())) <= 80


def test_numbers_have_no_accidental_digits() -> None:
    for name in JOBS:
        values = [line.split(",")[-2] for line in (KEPT / name / "report.csv").read_text().splitlines()]
        assert not [value for value in values if re.fullmatch(r"[0-9]+\.[0-9]*(0{6}|9{6})[0-9]*", value)]
