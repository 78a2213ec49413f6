"""The list of mutants fits the sources, and what counts as killed. tests/mutants/run tries them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants import catalogue
from tests.mutants.catalogue import Mutant, Refusal
from tests.mutants.workshop import Workshop

FEWEST = 40
STAGES = {"inject", "bind", "energy", "domain", "record"}
GOOD = Mutant("a", "spank/policy/plan.c", "int plan_owners(", "int plan_owned(", "meson:plan", "because")
PASSED = {"setup": "passed", "call": "passed", "teardown": "passed"}
FAILED = PASSED | {"call": "failed", "why": "assert 1 == 2"}


def test_the_list_fits_the_sources() -> None:
    known = catalogue.read()
    assert len(known.mutants) >= FEWEST
    assert {mutant.stage for mutant in known.mutants} >= STAGES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"old": "not there"}, "is in spank/policy/plan.c 0 times, not once"),
        ({"old": "int"}, "times, not once"),
        ({"old": "a\nb"}, "one line is changed"),
        ({"new": GOOD.old}, "one line is changed"),
        ({"file": "tests/run"}, "is not in spank/, preload/"),
        ({"test": "tests/unit/tools/test_mutants.py"}, "is no test"),
        ({"test": "tests/no_such_test.py::test"}, "is no test"),
        ({"test": "tests/unit/tools/test_mutants.py::test"}, "[targets]"),
    ],
)
def test_what_the_list_may_not_have(change: dict[str, str], message: str) -> None:
    known = catalogue.Catalogue({}, [])
    catalogue.check(GOOD, known)
    with pytest.raises(Refusal, match=message.replace("[", r"\[")):
        catalogue.check(Mutant(**{**vars(GOOD), **change}), known)


def test_only_a_test_that_fails_kills(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    assert workshop.passes("t.py::a", {"t.py::a": PASSED, "t.py::ab": FAILED}) == (True, "")
    assert workshop.passes("t.py::a", {"t.py::a[1]": PASSED, "t.py::a[2]": FAILED}) == (False, "assert 1 == 2")
    for seen in ({}, {"t.py::b": FAILED}, {"t.py::a": {"setup": "failed", "teardown": "passed"}},
                 {"t.py::a": {"setup": "skipped", "teardown": "passed"}}, {"t.py::a": PASSED | {"call": "skipped"}},
                 {"t.py::a": FAILED | {"teardown": "failed"}}):
        with pytest.raises(Refusal):
            workshop.passes("t.py::a", seen)


def test_a_status_other_than_a_failed_check_kills_nothing(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.build.mkdir()
    for status, text in ((0, "true"), (1, "echo why >&2; exit 1")):
        workshop.tests["t"] = {"cmd": ["sh", "-c", text], "workdir": None, "env": {}}
        assert workshop.run_c("meson:t") == (status == 0, "why" if status else "")
    for text in ("exit 77", "kill -SEGV $$"):
        workshop.tests["t"] = {"cmd": ["sh", "-c", text], "workdir": None, "env": {}}
        with pytest.raises(Refusal):
            workshop.run_c("meson:t")


def test_the_list_is_printed_a_slice_at_a_time() -> None:
    words = [str(catalogue.ROOT / "tests/mutants/run"), "--list"]
    parts = [subprocess.run([*words, "--slice", f"{i}/3"], capture_output=True, text=True, check=True).stdout
             for i in (1, 2, 3)]
    names = [line.split()[0] for part in parts for line in part.splitlines() if not line.startswith(" ")]
    assert sorted(names) == sorted(mutant.name for mutant in catalogue.read().mutants)
    assert subprocess.run([*words, "--slice", "4/3"], capture_output=True, check=False).returncode == 2
    assert subprocess.run([*words, "no-such"], capture_output=True, check=False).returncode == 2
