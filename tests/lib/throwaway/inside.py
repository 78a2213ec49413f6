"""Runs commands inside a cluster, and starts and ends the keeper that holds it.

`Sandbox` knows namespaces, users and environments, but not Slurm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.lib.throwaway import processes, registry, sandbox
from tests.lib.throwaway.errors import ClusterError
from tests.lib.throwaway.sandbox import ROOT, SUBMIT

REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
ENTER = BUILD / "tests/lib/throwaway/enter"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GRACE_S = 5.0
"""How long a command that has timed out may take to end after SIGTERM before it is killed."""

File = int | IO[Any] | None


class Sandbox:
    """A running set of namespaces: one submit host and the nodes, each with its holder process."""

    def __init__(self, spec: sandbox.Spec) -> None:
        """Starts the namespaces. Raises ClusterError with the keeper's reason if that fails."""
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.lib.throwaway.keeper"], cwd=REPOSITORY, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._keeper.stdin and self._keeper.stdout
        try:
            self._keeper.stdin.write(json.dumps(spec.as_dict()) + "\n")
            self._keeper.stdin.flush()
            answer = json.loads(self._keeper.stdout.readline() or '{"error": "the keeper died"}')
        except BaseException:
            self.stop()
            raise
        if "error" in answer:
            self.stop()
            raise ClusterError(f"cannot set up the namespaces: {answer['error']}")
        self.init: int = answer["init"]
        self.holders: dict[str, int] = {SUBMIT: self.init, **answer["nodes"]}

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends everything; returns when nothing is left. May be called again."""
        if self._keeper.stdin and not self._keeper.stdin.closed:
            try:
                self._keeper.stdin.write("stop\n")
                self._keeper.stdin.close()
            except BrokenPipeError:
                pass
        self._keeper.wait(timeout_s)
        if self._keeper.stdout:
            self._keeper.stdout.close()

    def add_holder(self, host: str, pid: int) -> None:
        """Registers a node that was made after the start. pid: its holder's, as the cluster sees it."""
        self.holders[host] = processes.host_pids(self.init)[pid]

    def path(self, inside: str | Path, host: str = SUBMIT) -> Path:
        """Returns the path by which the controller reaches a file on a host of the cluster."""
        return Path(f"/proc/{self.holders[host]}/root{inside}")

    def account(self, user: str) -> dict[str, Any]:
        """Returns uid, gid, groups and home of a user as the cluster sees them."""
        rows = [line.split(":") for line in self.path("/etc/passwd").read_text().splitlines()]
        row = next((row for row in rows if row[0] == user), None)
        if row is None:
            raise ClusterError(f"no user '{user}' in the cluster (it has {sandbox.USERS} and root)")
        gid, groups = int(row[3]), [int(row[3])]
        for line in self.path("/etc/group").read_text().splitlines():
            fields = line.split(":")
            if user in fields[3].split(",") and int(fields[2]) != gid:
                groups.append(int(fields[2]))
        return {"uid": int(row[2]), "gid": gid, "groups": groups, "home": row[5]}

    def environment(self, user: str, home: str) -> dict[str, str]:
        """Returns a fresh login's environment, with the variables that Slurm and Open MPI need in this cluster."""
        return {
            "PATH": SEARCH_PATH, "HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash",
            "LANG": "C.UTF-8", "SLURM_CONF": str(ROOT / "etc/slurm.conf"),
            "OMPI_MCA_btl_tcp_if_include": "lo",
        }

    def popen(
        self, argv: Sequence[str], *, host: str = SUBMIT, user: str = "root",
        env: Mapping[str, str] | None = None, cwd: str | None = None, terminal: bool = False,
        detach: str | None = None, output: str | None = None, stdin: File = subprocess.DEVNULL,
        stdout: File = subprocess.PIPE, stderr: File = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Starts a command on a host of the cluster; see enter.c for how it lives and dies."""
        account = self.account(user)
        options = ["-t"] if terminal else ["-d", detach, output] if detach else []
        return subprocess.Popen(
            [ENTER, str(self.holders[host]), str(account["uid"]), str(account["gid"]),
             ",".join(map(str, account["groups"])), cwd or account["home"], *options, "--", *map(str, argv)],
            env={**self.environment(user, account["home"]), **(env or {})}, text=True,
            start_new_session=not terminal, stdin=stdin, stdout=stdout, stderr=stderr)

    def run(
        self, argv: Sequence[str], *, timeout: float | None = 60, input: str | None = None,
        check: bool = False, **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, like subprocess.run with captured text."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        process = self.popen(argv, stdin=stdin, **options)
        try:
            stdout, stderr = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            registry.note_late(argv, processes.doings(self.init))
            stdout, stderr = end_late(process)
            raise subprocess.TimeoutExpired(argv, timeout or 0, stdout, stderr) from None
        except BaseException:
            registry.note_late(argv, processes.doings(self.init))
            process.kill()
            process.wait()
            raise
        result = subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)
        if check and result.returncode:
            raise ClusterError(f"'{' '.join(map(str, argv))}' ended with {result.returncode}: "
                               f"{stderr.strip() or stdout.strip()}")
        return result


def end_late(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Ends a command that has timed out, by SIGTERM first; returns what it had written."""
    process.terminate()
    for _ in range(2):
        try:
            return process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    return "", "(its output pipes were still held when it had been killed)"


