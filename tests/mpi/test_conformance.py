"""tests/soak/conformance notices a wrong result, a hang, a library that is not at work; ends no other processes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.lib import libraries
from tests.lib.libraries import BUILD, LIBRARY, MPIS, Unavailable
from tests.soak.conformance import packages, play, results, work
from tests.soak.conformance.compare import Reference, stable
from tests.soak.conformance.programs import PROGRAMS, Program
from tests.soak.conformance.work import Work
from tests.soak.mpi_matrix.plan import FLAT

pytestmark = pytest.mark.skipif(not LIBRARY.exists() or not FLAT.exists(), reason=f"not built: {LIBRARY}")
FIRST = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0\n'


@pytest.fixture
def make(tmp_path: Path):
    """A program of two ranks under Open MPI, of which the first does what the lines say."""
    try:
        MPIS[0].launcher()
    except Unavailable as reason:
        pytest.skip(str(reason))

    def made(lines: str, **fields) -> play.Row:
        script = tmp_path / "program"
        script.write_text(f"#!/bin/sh\n{FIRST}{lines}\n")
        script.chmod(0o755)
        return play.Row(Program("fake", "a script", "all of it", str(script), **fields), MPIS[0], "nap")

    return made


def test_another_result_is_noticed(make) -> None:
    verdict = play.row_play(make('echo same; echo ${MPI_WAIT_CONFIG:+not} the same'), play.References(True))
    assert "stdout, line 2: 'not the same' instead of 'the same'" in verdict.problems


def test_another_file_is_noticed(make) -> None:
    row = make('echo same; echo ${MPI_WAIT_CONFIG:+not} the same >out', files=("out",))
    problems = play.row_play(row, play.References(True)).problems
    assert any(problem.startswith("out, line 1: 'not the same'") for problem in problems), problems


def test_an_exit_status_is_noticed(make) -> None:
    verdict = play.row_play(make('echo same; [ -z "$MPI_WAIT_CONFIG" ] || exit 3'), play.References(True))
    assert len(verdict.problems) == 1 and verdict.problems[0].startswith("exit status 3")


def test_a_library_that_is_not_at_work_is_noticed(make) -> None:
    verdict = play.row_play(make("echo same"), play.References(True))
    assert verdict.problems == ["0 of 2 ranks had the library"]
    idle = Work(2, 7, 0.5, {"pause": 900, "yield": 1})
    assert idle.problem("nap", 2) == "7 waits of 0.500 s in all, and none slept"
    assert Work(2, 7, 0.001, {"pause": 900}).problem("nap", 2) == "7 waits of 0.001 s in all, and none slept"
    assert Work(2, 7, 0.5, {"nap": 900}).problem("nap", 2) == Work(2, 7, 0.5).problem("profile", 2) == ""
    assert Work(2).problem("profile", 2) == "no rank waited"


def test_what_differs_by_itself_is_left_out_and_counted(make) -> None:
    row = make('date +%N; echo same; echo ${MPI_WAIT_CONFIG:+not} the same; echo "in 5 s"', cut=(r"in \d+ s",))
    verdict = play.row_play(row, play.References(True))
    assert (verdict.compared, verdict.left_out) == (2, 1)
    assert verdict.problems[0].startswith("stdout, line 3")
    nothing = play.row_play(make("date +%N"), play.References(True))
    assert nothing.problems == ["no line is the same each time without the library"]


def processes(word: str) -> list[int]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in line.read_bytes().decode(errors="replace").split("\0"):
                found.append(int(line.parent.name))
        except OSError:
            continue
    return found


def test_a_hang_is_ended_and_nobody_else(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "LEAST_S", 2)
    monkeypatch.setattr(play, "TIMES", 0)
    seconds = f"300.{os.getpid()}"
    with subprocess.Popen(["sleep", seconds], start_new_session=True) as bystander:
        try:
            row = make(f'echo same; [ -z "$MPI_WAIT_CONFIG" ] || {{ setsid sleep {seconds} & sleep {seconds}; }}')
            verdict = play.row_play(row, play.References(True))
            assert verdict.problems == ["hung for 2 s"]
            deadline = time.monotonic() + 5
            while processes(seconds) != [bystander.pid] and time.monotonic() < deadline:
                time.sleep(0.05)
            assert processes(seconds) == [bystander.pid] and bystander.poll() is None
        finally:
            bystander.kill()
    assert not list(BUILD.glob("conformance-*/program"))


def unbalanced(arguments: str) -> Program:
    try:
        binary = str(libraries.program(MPIS[0], "unbalanced"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    return Program("unbalanced", "ours", "what it computes", binary, arguments, cut=(r"\d+\.\d+",))


@pytest.mark.parametrize("policy", ["profile", "yield", "nap", "event"])
def test_a_good_program_is_equal_and_rests(policy: str) -> None:
    """Though none of its own waits need be long enough for it: its steps are of a microsecond."""
    verdict = play.row_play(play.Row(unbalanced("3 0.001 0.001"), MPIS[0], policy), play.References(True))
    assert verdict.problems == [] and verdict.compared and verdict.work.ranks == 2
    assert verdict.work.slept(policy) or policy == "profile"


def test_a_library_that_never_rests_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "HELD_S", 1)
    monkeypatch.setitem(work.SLEEPS, "profile", ("nap",))
    verdict = play.row_play(play.Row(unbalanced("3 5 1"), MPIS[0], "profile"), play.References(True))
    assert len(verdict.problems) == 1 and verdict.problems[0].endswith("none slept")


def test_lines_are_kept_and_cut() -> None:
    text = "time 5.2\n  energy -3.25   in 7 s\n\nenergy -4 in 9 s\n"
    assert stable(text, (), ()) == ["time 5.2", "energy -3.25 in 7 s", "energy -4 in 9 s"]
    assert stable(text, ("^ *energy",), (r"in \d+ s",)) == ["energy -3.25", "energy -4"]
    reference = Reference({"stdout": ["a", "b"], "out": ["c"]})
    assert reference.differences({"stdout": ["a"], "out": ["d"]}) == [
        "out, line 1: 'd' instead of 'c'", "stdout has 1 lines instead of 2"]
    reference.learn({"stdout": ["a"], "out": ["c"]})
    assert reference.compared() == 1 and len(reference.differences({"stdout": ["x", "y"], "out": ["c"]})) == 0


def test_what_cannot_be_installed_is_said(make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setup = tmp_path / "setup"
    setup.write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
    setup.chmod(0o755)
    monkeypatch.setattr(packages, "SETUP", setup)
    packages.install.cache_clear()
    row = make("echo same", section="netpipe", needed=(f"{tmp_path}/absent*",))
    with pytest.raises(Unavailable, match="netpipe-openmpi, netpipe-mpich2 could not be installed: E: Unable"):
        play.row_play(row, play.References(True))
    packages.install.cache_clear()
    with pytest.raises(Unavailable, match="there is no .*/absent"):
        packages.provide("", row.program.needed)


def test_every_program_has_its_packages_and_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert {program.section for program in PROGRAMS if program.section} == set(packages.sections())
    assert {name for program in PROGRAMS for name in program.mpis} <= {mpi.name for mpi in MPIS}


def test_the_results_name_failures_and_what_was_not_tried(tmp_path: Path) -> None:
    where = ("netpipe", "openmpi")
    results.keep(results.Row(*where, "nap", compared=17, left_out=2, sleeps=1), tmp_path)
    results.keep(results.Row(*where, "nap", compared=17, left_out=2, sleeps=1234), tmp_path)
    results.keep(results.Row(*where, "yield", ["stdout, line 1: 'a' instead of 'b'"]), tmp_path)
    results.keep(results.Row(*where, "event", skipped="there is no such thing"), tmp_path)
    results.write(tmp_path / "RESULTS.md", tmp_path)
    text = (tmp_path / "RESULTS.md").read_text()
    assert "1 of 2 rows are equal" in text and "All 2 rows compare data." in text
    assert "| 17 | 2 | not run | **failed** | = 1,234 | not run |" in text
    assert "- netpipe, openmpi, yield: stdout, line 1: 'a' instead of 'b'" in text
    assert "- netpipe, Open MPI 4.1 (Debian): there is no such thing (event)" in text


def test_the_results_say_of_which_rows_the_data_is_compared(tmp_path: Path) -> None:
    rows = [results.Row("lammps-melt", "openmpi", "nap", sleeps=1), results.Row("imb-rma", "intel", "nap", sleeps=1),
            results.Row("imb-nbc", "intel", "nap", sleeps=1)]
    for row in rows:
        results.keep(row, tmp_path)
    results.write(tmp_path / "RESULTS.md", tmp_path)
    said = "1 of 3 rows compare data, the 2 of IMB compare which benchmarks ran."
    assert said in (tmp_path / "RESULTS.md").read_text()
