"""Outboxes and the spool of a site with sink=file: prepared before a command of mpi-wait-node, judged after it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lib.domains import helper
from tests.lib.record_tools import node_record, validate

TIMEOUT_S = 60
OLD_S = 1000
SERVICE = (".clock", ".slot.")
Files = dict[str, dict[str, Any]]
"""Node records by job key, then by node."""


@dataclass(frozen=True)
class Verb:
    words: tuple[str, ...]
    outbox: Files = field(default_factory=dict)
    """Records that are still in the outbox of node c1."""
    spool: Files = field(default_factory=dict)
    shared: bool = True
    stores: bool = True
    """True if a successful run stores all records."""

    @property
    def jobs(self) -> Files:
        keys = self.outbox.keys() | self.spool.keys()
        return {key: self.outbox.get(key, {}) | self.spool.get(key, {}) for key in keys}


def _job(number: int, *nodes: str) -> dict[str, Any]:
    listed = "c1" if nodes == ("c1",) else "c[1-2]"
    return {node: node_record(node, listed, [[int(node[1]) - 1, 10**6 * number, 10]], number) for node in nodes}


QUICK = ("--first-delay", "0", "--collect", "1")
VERBS = {
    "drain, no spool": Verb(("drain", *QUICK), {"test-7-0": _job(7, "c1")}, shared=False),
    "drain, two nodes": Verb(("drain", *QUICK), {"test-7-0": _job(7, "c1")}, {"test-7-0": _job(7, "c1", "c2")}),
    "sweep, only moved": Verb(
        ("sweep", "--only-move"), {"test-7-0": _job(7, "c1"), "test-8-0": _job(8, "c1")}, stores=False
    ),
    "sweep": Verb(("sweep",), {}, {"test-7-0": _job(7, "c1", "c2"), "test-8-0": _job(8, "c1")}),
    "sweep, no spool": Verb(("sweep",), {"test-7-0": _job(7, "c1"), "test-8-0": _job(8, "c1")}, shared=False),
    "sweep, now": Verb(("sweep", "--now"), {"test-7-0": _job(7, "c1")}, {"test-8-0": _job(8, "c1")}),
}
VERBS["drain, two nodes"].outbox["test-7-0"]["c1"]["nodes"] = "c[1-2]"
del VERBS["drain, two nodes"].spool["test-7-0"]["c1"]


class Depot:
    """The directories. A test judges them by file names and contents."""

    def __init__(self, folder: Path, verb: Verb) -> None:
        self.folder, self.verb = folder, verb
        self.outbox, self.spool = folder / "c1/out", folder / "spool"
        self.kept = self.spool / "done" if verb.shared else self.outbox.parent / "done"

    def prepare(self) -> None:
        for path in (self.outbox.parent, self.spool):
            shutil.rmtree(path, ignore_errors=True)
        self.outbox.mkdir(parents=True)
        (self.folder / "run/c1").mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spool.mkdir(mode=0o755)
        for key, nodes in self.verb.outbox.items():
            for node, record in nodes.items():
                (self.outbox / f"{key}.{node}.json").write_text(json.dumps(record))
        for key, nodes in self.verb.spool.items():
            (self.spool / key).mkdir(mode=0o700)
            for node, record in nodes.items():
                (self.spool / key / f"{node}.json").write_text(json.dumps(record))
        self.age()

    def age(self) -> None:
        then = time.time() - OLD_S
        for path in [*self.outbox.iterdir(), *self.spool.rglob("*")]:
            os.utime(path, (then, then))

    def run(self, words: tuple[str, ...], environment: dict[str, str]) -> int:
        spool = [f"spool={self.spool}"] if self.verb.shared else []
        done = subprocess.run(
            [helper(), words[0], "--outbox", self.outbox, "--state", self.folder / "run", *words[1:], *spool,
             "sink=file"],
            env={"PATH": os.environ["PATH"], "SLURMD_NODENAME": "c1", **environment},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2), f"exit status {done.returncode}: {done.stderr!r}"
        return done.returncode

    def play_undisturbed(self) -> dict[str, Any]:
        """Runs the command without faults. Returns the record that is kept of every job."""
        self.prepare()
        assert self.run(self.verb.words, {}) == 0
        self.age()
        assert self.run(("sweep",), {}) == 0
        kept = self.stored()
        assert kept.keys() == self.verb.jobs.keys()
        return kept

    def stored(self) -> dict[str, Any]:
        """Returns the kept records by key. Asserts that every file with a final name is whole."""
        found = {}
        for path in self.kept.glob("*.json") if self.kept.exists() else []:
            document = json.loads(path.read_text())
            validate(document)
            found[path.stem] = document
        return found

    def waiting(self) -> Files:
        """Returns the node records that still wait in the outbox or in the spool. Asserts that they are whole."""
        found: Files = {}
        for key, nodes in self.verb.jobs.items():
            for node, record in nodes.items():
                for path in (self.outbox / f"{key}.{node}.json", self.spool / key / f"{node}.json"):
                    if path.exists():
                        assert json.loads(path.read_text()) == record, f"{path.name} is not what it was"
                        found.setdefault(key, {})[node] = record
        return found

    def judge(self, status: int, wanted: dict[str, Any]) -> None:
        stored, waiting = self.stored(), self.waiting()
        for key, nodes in self.verb.jobs.items():
            assert stored.get(key) == wanted[key] or waiting.get(key) == nodes, f"{key} is lost: {stored.get(key)}"
        if status == 0 and self.verb.stores:
            assert stored == wanted, f"exit status 0, but still waiting: {list(waiting)}"
        if status == 0:
            assert not self.verb.shared or not list(self.outbox.glob("*.json")), "exit status 0, but not moved"

    def recover(self, wanted: dict[str, Any]) -> None:
        """Runs what the next timer would. Asserts that all records are there, and nothing besides."""
        for _ in range(2):
            self.age()
            self.run(("sweep",), {})
        assert self.stored() == wanted
        left = [path for path in [*self.outbox.iterdir(), *self.spool.iterdir()] if path.name != "done"]
        assert [path.name for path in left if not path.name.startswith((*SERVICE, ".test-"))] == []
