#!/usr/bin/python3
"""One rank of mpi4py's test suite: outcomes.py FOLDER SECONDS .../test/main.py [OPTION...]

Writes what became of each test to FOLDER/RANK, a JSON line each, as it happens. A test that takes longer than that many
seconds ends the rank, and with it the launch.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import unittest
from pathlib import Path

FOLDER, SECONDS, MAIN = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Noted(unittest.TextTestResult):
    """The results that unittest prints, in a file too."""

    file = None

    def note(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        from mpi4py import MPI

        if Noted.file is None:
            Noted.file = (FOLDER / str(MPI.COMM_WORLD.rank)).open("a")
        Noted.file.write(json.dumps([test.id(), outcome, why[:200]]) + "\n")
        Noted.file.flush()

    def startTest(self, test):  # noqa: N802
        self.note(test, "began")
        signal.alarm(SECONDS)
        super().startTest(test)

    def stopTest(self, test):  # noqa: N802
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):  # noqa: N802
        self.note(test, "passed")
        super().addSuccess(test)

    def addError(self, test, err):  # noqa: N802
        self.note(test, "error", repr(err[1]))
        super().addError(test, err)

    def addFailure(self, test, err):  # noqa: N802
        self.note(test, "failed", repr(err[1]))
        super().addFailure(test, err)

    def addSkip(self, test, reason):  # noqa: N802
        self.note(test, "skipped", reason)
        super().addSkip(test, reason)


if __name__ == "__main__":
    unittest.TextTestRunner.resultclass = Noted
    sys.argv = sys.argv[3:]
    sys.path.insert(0, os.path.dirname(MAIN))
    sys.dont_write_bytecode = True
    runpy.run_path(MAIN, run_name="__main__")
