"""Plays mpi4py's own test suite on one MPI under one policy, or without the library."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.lib.launches import NAP, environment_of, napping
from tests.lib.libraries import BUILD, MEMORY, MPI4PY, PYTHON, Mpi, Unavailable, execute, locked, wheel_path

SHA256 = "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02"
RANKS = 2
TEST_S = 240  # no test takes so long unless it hangs, not even beside a busy machine
LAUNCH_S = 7200
HANGS = 3  # of one module; the rest of it is left out then
EVENT = NAP.replace("rungs=pause+nap", "rungs=pause+nap+event")
POLICIES = {"bare": None, "nap": NAP, "profile": "rungs=none;profile=1", "event": EVENT}
# What hangs without the library, at times or always, by option of the suite's.
LEFT_OUT = {
    "openmpi": (("-e", "test_spawn"), "two ranks that spawn in the same moment wait for ever, now and then"),
    "mpich": (("-e", "test_util_sync"), "three of its tests find their own mutex held, and wait for ever"),
}
OUTCOMES = Path(__file__).with_name("outcomes.py")


@dataclass
class Played:
    """What became of each test, by rank and name, with the reason; "no end" where it hung, or its rank died."""

    outcomes: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    seconds: float = 0

    def counts(self) -> Counter[str]:
        return Counter(outcome for outcome, _ in self.outcomes.values())

    def differences(self, other: Played) -> list[str]:
        """Of which the reasons count where a test was skipped."""
        def told(played: Played, key: tuple[int, str]) -> str:
            outcome, why = played.outcomes.get(key, ("absent", ""))
            return f"{outcome} ({why})" if outcome == "skipped" else outcome

        keys = sorted({*self.outcomes, *other.outcomes})
        return [f"rank {key[0]}, {key[1]}: {told(self, key)}, without the library {told(other, key)}"
                for key in keys if told(self, key) != told(other, key)]


def suite() -> Path:
    """The tests of that version's source, which the wheel does not have."""
    path = wheel_path(f"{MPI4PY}-source")
    with locked("wheels"):
        if not (path / "test/main.py").exists():
            with tempfile.TemporaryDirectory(dir=BUILD) as folder:
                pip = [PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py", "-d", folder]
                done = subprocess.run([*pip, MPI4PY], capture_output=True, text=True, timeout=300, check=False)
                found = next(Path(folder).glob("*.tar.gz"), None)
                if done.returncode != 0 or not found:
                    raise Unavailable(f"{MPI4PY}'s source could not be had: {done.stderr.strip()[-200:]}")
                if hashlib.sha256(found.read_bytes()).hexdigest() != SHA256:
                    raise Unavailable(f"{found.name} is not the one that is known")
                with tarfile.open(found) as archive:
                    archive.extractall(folder)  # noqa: S202
                path.parent.mkdir(exist_ok=True)
                next(Path(folder).glob("mpi4py-*/")).rename(path)
    return path


def read(folder: Path) -> dict[tuple[int, str], tuple[str, str]]:
    """The last word on each test: an error after a success is one, too."""
    found = {}
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            name, outcome, why = json.loads(line)
            found[int(path.name), name] = (outcome, why)
    return found


def launch(mpi: Mpi, policy: str, folder: Path, options: list[str]) -> None:
    config = POLICIES[policy]
    rank = {**mpi.below_mpi4py(), **(napping(config) if config else {})}
    program = [PYTHON, OUTCOMES, folder, TEST_S, suite() / "test/main.py", "--no-builddir", "--quiet", *options]
    words = [*mpi.launcher(), "-n", RANKS, "env", *(f"{key}={value}" for key, value in rank.items()), *program]
    execute(list(map(str, words)), environment_of(mpi), LAUNCH_S, folder.parent)


def module_of(name: str) -> str:
    return name.partition(".")[0]


def left_out(mpi: Mpi, hung: list[str]) -> list[str]:
    """The options that leave out what hangs or hung: the test, or the module of many."""
    known = LEFT_OUT.get(mpi.name, ((), ""))[0]
    modules = [name for name, times in Counter(map(module_of, hung)).items() if times >= HANGS]
    tests = (word for name in hung for word in ("-x", name))
    return [*known, *tests, *(word for name in modules for word in ("-e", name))]


def play(mpi: Mpi, policy: str) -> Played:
    """A launch that a test has hung or crashed is gone on with behind it."""
    played, hung, done = Played(), [], set()
    began = time.monotonic()
    while True:
        with tempfile.TemporaryDirectory(prefix="mpi4py-", dir=MEMORY) as root:
            folder = Path(root) / "outcomes"
            folder.mkdir()
            finished = [word for name in sorted(done) for word in ("-e", name)]
            launch(mpi, policy, folder, [*left_out(mpi, hung), *finished])
            seen = read(folder)
        stuck = sorted({name for (_, name), (outcome, _) in seen.items() if outcome == "began"})
        played.outcomes.update(seen)
        if not stuck:
            break
        for rank in range(RANKS):
            played.outcomes.update({(rank, name): ("no end", "") for name in stuck})
        hung += stuck
        done |= {module_of(name) for _, name in seen} - set(map(module_of, stuck))
        print(f"  {mpi.name}, {policy}: no end of {', '.join(stuck)}", file=sys.stderr, flush=True)
    played.seconds = time.monotonic() - began
    return played
