"""A double of sacct with prepared answers, and a record to answer with."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

from tests.lib.doubles.command_server import server

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = ROOT / "contrib" / "mpi-wait"
BUILD = pathlib.Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
SCHEMA = json.loads((ROOT / "spank/record/record.schema.json").read_text())
DELIMITER = "\x1f"
"""A delimiter that a user's text may contain. The command must choose another one for each call."""
FIELDS = [
    "JobID",
    "State",
    "Elapsed",
    "ElapsedRaw",
    "User",
    "Submit",
    "Start",
    "End",
    "NNodes",
    "NodeList",
    "AllocCPUS",
    "ConsumedEnergyRaw",
    "JobName",
    "AdminComment",
    "SystemComment",
    "Extra",
    "JobIDRaw",
]

FAKE_SACCT = BUILD / "tests/lib/doubles/fake_sacct"

POLICY = {"asked": "umwait", "used": "nap", "why": "no waitpkg", "by": "job"}


def make_record(per_rank: list[float] | None = None) -> dict[str, Any]:
    waits = per_rank if per_rank is not None else [9.5, 10.0, 9.0, 0.5]
    body = {
        "v": 1,
        "policy": dict(POLICY),
        "nodes": {"reported": 2, "of": 2},
        "elapsed_s": 25.0,
        "energy": {
            "joules": 4500.0,
            "scope": "share",
            "node_joules": 9000.0,
            "source": "simulated",
            "zones_j": {"package": 8000.0, "core": 5000.0, "dram": 1000.0},
        },
        "wait": {
            "ranks": len(waits),
            "total_s": sum(waits),
            "mean_s": sum(waits) / len(waits),
            "share": 0.29,
            "asleep_s": sum(waits) * 0.9,
            "cpu_share": 0.06,
            "late": 40,
            "late_s": 0.002,
            "min": {"rank": waits.index(min(waits)), "s": min(waits), "node": "n2"},
            "max": {"rank": waits.index(max(waits)), "s": max(waits), "node": "n1"},
            "by_call": {
                "MPI_Barrier": {"calls": 5, "waits": 5, "wait_s": 1.0, "longest_s": 0.5},
                "other": {"calls": 9, "waits": 9, "wait_s": 2.0},
                "MPI_Allreduce": {
                    "calls": 12000,
                    "waits": 11000,
                    "wait_s": 26.0,
                    "longest_s": 0.0121,
                },
            },
            "per_rank_s": waits,
            "per_rank_asleep_s": [wait * 0.9 for wait in waits],
        },
        "steps": [
            {
                "id": "0",
                "policy": dict(POLICY),
                "nodes": 2,
                "ranks": len(waits),
                "elapsed_s": 24.0,
                "wait_s": sum(waits),
                "joules": 4400.0,
            }
        ],
    }
    return {"mpi_wait": body}


def make_row(text: str = "", **changes: str) -> dict[str, str]:
    row = dict.fromkeys(FIELDS, "")
    row.update(
        JobID="123",
        State="COMPLETED",
        Elapsed="00:00:25",
        ElapsedRaw="25",
        User="ada",
        Submit="2026-01-02T03:03:00",
        Start="2026-01-02T03:03:40",
        End="2026-01-02T03:04:05",
        NNodes="2",
        NodeList="n[1-2]",
        AllocCPUS="4",
        ConsumedEnergyRaw="0",
        JobName="solver",
        AdminComment=text,
        JobIDRaw="123",
    )
    row.update(changes)
    return row


class Report:
    """Runs the command with the double of sacct. With `env`, the command runs in a process of its own. `settings` are
    variables that nothing reads before the command does."""

    command = "report"

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        shutil.copy(FAKE_SACCT, folder / "sacct")
        self.canned = folder / "canned.json"

    def __call__(
        self, *argv: str, rows: Any = (), stdin: str = "", **options: Any
    ) -> subprocess.CompletedProcess[str]:
        canned = {"rows": list(rows), "latest": 1, "helpformat": FIELDS, "stderr": "", "status": 0}
        environment = {
            **os.environ,
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "FAKE_SACCT": str(self.canned),
        }
        environment.update(LC_ALL="C.UTF-8", NO_COLOR="")
        environment.pop("COLUMNS", None)
        own = options.pop("env", {})
        environment.update({**options.pop("settings", {}), **own})
        canned.update(options)
        self.canned.write_text(json.dumps(canned))
        (self.folder / "canned.json.helpformat").write_text(" ".join(canned["helpformat"]) + "\n")
        if not own:
            return server().run([self.command, *argv], stdin, environment, self.folder)
        return subprocess.run(
            [str(COMMAND), self.command, *argv],
            input=stdin,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def delimiter(self) -> str:
        """Returns the delimiter of the latest call of sacct."""
        return next(word for word in self.asked() if word.startswith("--delimiter="))[12:]

    def asked(self) -> list[str]:
        return json.loads((self.folder / "canned.json.argv").read_text())


def shown(result: subprocess.CompletedProcess[str]) -> str:
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def refused(result: subprocess.CompletedProcess[str], status: int = 1) -> str:
    assert result.returncode == status and result.stdout == ""
    assert "Traceback" not in result.stderr
    if status == 1:
        assert re.fullmatch(r"mpi-wait: [^\n]+\n", result.stderr)
    return result.stderr
