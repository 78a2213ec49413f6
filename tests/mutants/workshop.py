"""A copy of the tree with a build of its own, in which sources are changed and tests are run.

The build is without optimization: a mutant costs the compilation of one file and a few links.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import C_TEST, ROOT, Mutant, Refusal

PATIENCE_S = "20"  # for what does not come; without a mutant each test has to pass with that
TEST_S = 120
BUILD_S = 900
OPTIONS = ("-Doptimization=0", "-Ddebug=false", "-Dtests=true", "--prefix=/opt/mpi-wait", "--libdir=lib")


def sources() -> list[str]:
    """What git knows or would know: also what was not committed yet."""
    words = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def without_preload() -> dict[str, str]:
    """The caller's environment: sanitizers want to be the first library."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def run_bounded(words: list[str], timeout: int, **how: Any) -> subprocess.CompletedProcess[str]:
    """In a session of its own, of which nothing is left when it takes too long."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          start_new_session=True, **how) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Workshop:
    def __init__(self, tree: Path) -> None:
        self.tree, self.build = tree, tree / "build"
        self.tests: dict[str, dict[str, Any]] = {}  # meson's, by name
        self.files: dict[str, list[str]] = {}  # by meson's id of a target

    def prepare(self) -> None:
        """Brings the copy up to date; what has not changed keeps its time, and so its object files."""
        names = sources()
        for name in names:
            source, copy = ROOT / name, self.tree / name
            if source.is_symlink() or not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                shutil.copy2(source, copy, follow_symlinks=False)
                os.utime(copy, follow_symlinks=False)
        self._remove_all_but(set(names))
        if not (self.build / "build.ninja").exists():
            self._run(["meson", "setup", str(self.build), str(self.tree), *OPTIONS], BUILD_S)
        else:  # so that meson knows of what is new
            self._run(["ninja", "-C", str(self.build), "build.ninja"], BUILD_S)
        self.tests = {test["name"]: test for test in self._info("tests")}
        self.files = {target["id"]: [os.path.relpath(name, self.build) for name in target["filename"]]
                      for target in self._info("targets")}
        self._link_stage()

    def _remove_all_but(self, names: set[str]) -> None:
        for folder, folders, files in os.walk(self.tree):
            at = Path(folder)
            folders[:] = [name for name in folders if name != "__pycache__" and at / name != self.build]
            for name in files:
                if str((at / name).relative_to(self.tree)) not in names:
                    (at / name).unlink()

    def _info(self, what: str) -> Any:
        return json.loads((self.build / f"meson-info/intro-{what}.json").read_text())

    def _link_stage(self) -> None:
        """Where tests look for what is installed: the program as it was built last."""
        place = self.build / "stage/opt/mpi-wait/sbin/mpi-wait-node"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(self.build / "spank/mpi-wait-node")

    def _run(self, words: list[str], timeout: int) -> subprocess.CompletedProcess[str]:
        done = run_bounded(words, timeout, cwd=self.tree)
        if done.returncode:
            said = done.stdout[-3000:] + done.stderr[-3000:]
            raise Refusal(f"{' '.join(words[:3])}: status {done.returncode}\n{said}")
        return done

    def targets(self, test: str, patterns: tuple[str, ...]) -> set[str]:
        """What ninja makes for a test: a C test's program and what that is given, or what the patterns match."""
        if test.startswith(C_TEST):
            name = test.removeprefix(C_TEST)
            if name not in self.tests:
                raise Refusal(f"'{name}' is no test of meson's")
            return {file for target in self.tests[name]["depends"] for file in self.files[target]}
        made = [file for files in self.files.values() for file in files]
        found = {pattern: set(fnmatch.filter(made, pattern)) for pattern in patterns}
        if nothing := [pattern for pattern in patterns if not found[pattern]]:
            raise Refusal(f"{test}: nothing that is built is called '{nothing[0]}'")
        return set().union(*found.values())

    def make(self, targets: set[str]) -> None:
        if not targets:  # ninja would make everything
            return
        self._run(["ninja", "-C", str(self.build), "-j1", *sorted(targets)], BUILD_S)

    def run_c(self, test: str) -> tuple[bool, str]:
        """Whether it passed, and the first thing that it says. A status other than 0 and 1 is neither."""
        known = self.tests[test.removeprefix(C_TEST)]
        environment = {**without_preload(), **known["env"]}
        done = run_bounded(known["cmd"], TEST_S, cwd=known["workdir"] or self.build, env=environment)
        said = done.stderr.strip().partition("\n")[0]
        if done.returncode not in (0, 1):
            raise Refusal(f"{test}: status {done.returncode}: {said}")
        return done.returncode == 0, said

    def run_pytest(self, tests: list[str]) -> dict[str, dict[str, str]]:
        """Outcomes by node id, see outcomes.py."""
        outcomes = self.build / "outcomes.json"
        outcomes.unlink(missing_ok=True)
        environment = {**without_preload(), "MPI_WAIT_BUILD": str(self.build), "MPI_WAIT_OUTCOMES": str(outcomes),
                       "MPI_WAIT_STAGE": str(self.build / "stage/opt/mpi-wait"), "MPI_WAIT_PATIENCE_S": PATIENCE_S}
        words = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.outcomes"]
        done = run_bounded([*words, *tests], TEST_S + 5 * len(tests), cwd=self.tree, env=environment)
        if done.returncode not in (0, 1) or not outcomes.exists():
            raise Refusal(f"pytest: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        seen: dict[str, dict[str, str]] = json.loads(outcomes.read_text())
        return seen

    def passes(self, test: str, outcomes: dict[str, dict[str, str]]) -> tuple[bool, str]:
        """Of a test and all its parameters. What breaks outside of the test, and what is skipped, is neither."""
        mine = {node: seen for node, seen in outcomes.items() if node == test or node.startswith(f"{test}[")}
        if not mine:
            raise Refusal(f"{test}: pytest has no such test")
        for node, seen in mine.items():
            if seen.get("setup") != "passed" or seen.get("teardown") != "passed" or seen.get("call") == "skipped":
                raise Refusal(f"{node}: {seen}")
        failed = [seen["why"] for seen in mine.values() if seen["call"] == "failed"]
        return not failed, failed[0] if failed else ""

    def run(self, test: str) -> tuple[bool, str]:
        return self.run_c(test) if test.startswith(C_TEST) else self.passes(test, self.run_pytest([test]))

    def try_out(self, mutant: Mutant, targets: set[str]) -> tuple[bool, str]:
        """Whether the test fails of the change, and what it says of it."""
        path = self.tree / mutant.file
        text = path.read_text()
        path.write_text(mutant.applied(text))
        try:
            self.make(targets)
            passed, said = self.run(mutant.test)
        finally:
            path.write_text(text)
        return not passed, said
