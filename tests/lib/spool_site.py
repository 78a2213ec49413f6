"""An outbox per node and one spool, as a site with sink=file has them; mpi-wait-node works in them as any user."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.lib.record_tools import PROGRAMS, settings, validate

KEY = "test-7-0"
ME = "me"


class Site:
    """A site. The spool's owner is the user who runs the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.spool = folder, folder / "spool"
        self.spool.mkdir(mode=0o755)
        folder.chmod(0o755)

    def outbox(self, node: str) -> Path:
        return self.folder / node / "out"

    def put(self, record: Any, node: str = "c1", key: str = KEY) -> Path:
        self.outbox(node).mkdir(parents=True, exist_ok=True)
        path = self.outbox(node) / f"{key}.{node}.json"
        path.write_text(record if isinstance(record, str) else json.dumps(record))
        return path

    def command(self, *words: str, node: str = "c1", spool: bool = True) -> list[str]:
        site = [f"spool={self.spool}"] if spool else []
        site += [] if any(word.startswith("spool_user=") for word in words) else [f"spool_user={ME}"]
        (self.folder / "run" / node).mkdir(mode=0o700, parents=True, exist_ok=True)
        program = str(PROGRAMS["mpi-wait-node"])
        places = ["--outbox", str(self.outbox(node)), "--state", str(self.folder / "run")]
        return [program, words[0], *places, *words[1:], *site, "sink=file"]

    def node(
        self, *words: str, node: str = "c1", spool: bool = True, meanwhile: list[str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs mpi-wait-node with a terminal for its log; its pauses take no time. meanwhile: a command that runs in
        the first pause."""
        words_of_other = f"SLURMD_NODENAME=c2 {' '.join(meanwhile)}" if meanwhile else ""
        environment = settings(node, now_s=time.time(), meanwhile=words_of_other) | {"MPIWAIT_ME": ME}
        return subprocess.run(
            ["script", "-qec", " ".join(self.command(*words, node=node, spool=spool)), "/dev/null"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )

    def done(self, key: str = KEY, spool: bool = True, node: str = "c1") -> dict[str, Any]:
        folder = self.spool / "done" if spool else self.outbox(node).parent / "done"
        path = folder / f"{key}.json"
        assert path.stat().st_mode & 0o777 == 0o640
        document = json.loads(path.read_text())
        validate(document)
        return document["mpi_wait"]
