"""The daemons of the cluster: how each is started, when it is ready, how it is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lib.throwaway import config, processes
from tests.lib.throwaway.errors import ClusterError
from tests.lib.throwaway.inside import Sandbox
from tests.lib.throwaway.requirements import DEBIAN_PYTHON
from tests.lib.throwaway.sandbox import ROOT, SUBMIT

POLL_S = (0.05, 0.2)
"""Pauses between two checks, first and longest: looking for a listening port takes the kernel milliseconds, and delays
the daemon."""
READY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Daemon:
    """A daemon: its command, where it runs, and a check that is true when it serves."""

    name: str
    argv: list[str]
    is_ready: Callable[[Sandbox], bool]
    host: str = SUBMIT
    cwd: str = "/"
    socket: str = ""
    """A file that shows that the daemon is ready, and that a killed daemon leaves behind."""
    env: Mapping[str, str] = field(default_factory=dict)


def munge() -> Daemon:
    argv = ["munged", "--foreground", f"--key-file={ROOT}/etc/munge.key",
            f"--socket={config.MUNGE_SOCKET}", f"--log-file={ROOT}/log/munge.log",
            "--pid-file=/run/munge/munged.pid", f"--seed-file={ROOT}/state/munge.seed"]
    return Daemon("munge", argv, lambda inside: inside.path(config.MUNGE_SOCKET).is_socket(),
                  socket=config.MUNGE_SOCKET)


def mariadb() -> Daemon:
    """Initialises its data directory and serves it, on a socket only.

    Makes slurmdbd's database too: libmariadb3 of MariaDB 11.8.9 forgets its own limits when a connection is tried
    again, which slurmdbd does when it finds no database.
    """
    options = config.mariadb_arguments()
    install = ["mariadb-install-db", *options, "--auth-root-authentication-method=socket",
               "--auth-root-socket-user=root", "--skip-test-db"]
    serve = ["mariadbd", *options, "--skip-networking", f"--socket={config.DATABASE_SOCKET}",
             "--init-file=/run/mysqld/init.sql"]
    script = ('test -d "$0/mysql" || {} >&2 || exit 1; echo "{}" >/run/mysqld/init.sql; exec {}'.format(
        " ".join(install), "CREATE DATABASE IF NOT EXISTS slurm;", " ".join(serve)))
    argv = ["sh", "-c", script, f"{ROOT}/database/data"]
    return Daemon("mariadb", argv, lambda inside: inside.path(config.DATABASE_SOCKET).is_socket(),
                  socket=config.DATABASE_SOCKET)


def slurmdbd(env: Mapping[str, str]) -> Daemon:
    return Daemon("slurmdbd", ["slurmdbd", "-D"], lambda inside: processes.is_listening(
        inside.init, config.SLURMDBD_PORT), env=env)


def slurmctld(env: Mapping[str, str], conf: str) -> Daemon:
    """conf: slurmctld's configuration file in etc, which may say more than the one that all others read."""
    return Daemon("slurmctld", ["slurmctld", "-D", "-f", f"{ROOT}/etc/{conf}"], lambda inside: processes.is_listening(
        inside.init, config.SLURMCTLD_PORT), env=env)


def slurmd(node: str, index: int, arguments: Sequence[str], env: Mapping[str, str]) -> Daemon:
    port = config.FIRST_SLURMD_PORT + index
    return Daemon(f"slurmd-{node}", ["slurmd", "-D", "-N", node, *arguments],
                  lambda inside: processes.is_listening(inside.init, port), host=node, env=env)


def simnode(node: str, model: dict[str, Any]) -> Daemon:
    """Returns the simulated hardware of a node. It is ready when its marker can be read on the node."""
    argv = [DEBIAN_PYTHON, "-m", "tests.lib.simnode", json.dumps(model)]
    return Daemon(f"simnode-{node}", argv, lambda inside: inside.path(
        "/sys/class/powercap/SIMULATED", node).exists(), host=node, cwd=f"{ROOT}/lib")


def holder(node: str, files: dict[str, str]) -> Daemon:
    """Returns the process that holds a node's namespaces. It is ready when they stand."""
    ready = f"{ROOT}/pid/ready-{node}"

    def stands(inside: Sandbox) -> bool:
        path = inside.path(ready)
        return path.exists() and path.read_text() == "ready"
    argv = [DEBIAN_PYTHON, "-m", "tests.lib.throwaway.holder", node, ready, json.dumps(files)]
    return Daemon(f"holder-{node}", argv, stands, cwd=f"{ROOT}/lib", socket=ready)


def polls() -> Iterator[None]:
    """Yields for each poll, and sleeps ever longer between two polls."""
    pause_s, most_s = POLL_S
    while True:
        yield
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, most_s)


class Daemons:
    """The running daemons of one cluster, by name."""

    def __init__(self, inside: Sandbox, daemons: list[Daemon]) -> None:
        self._inside = inside
        self._daemons = {daemon.name: daemon for daemon in daemons}

    def add(self, daemon: Daemon) -> None:
        """Adds a daemon, in place of one of the same name."""
        self._daemons[daemon.name] = daemon

    def start(self, name: str) -> None:
        """Starts a daemon without waiting until it is ready; its output goes to log/NAME.out."""
        daemon = self._daemons[name]
        pid_file = f"{ROOT}/pid/{name}"
        for stale in filter(None, (pid_file, daemon.socket)):
            self._inside.path(stale).unlink(missing_ok=True)
        starter = self._inside.popen(
            daemon.argv, host=daemon.host, cwd=daemon.cwd, env=daemon.env, detach=pid_file,
            output=f"{ROOT}/log/{name}.out")
        _, complaint = starter.communicate(timeout=READY_TIMEOUT_S)
        if starter.returncode:
            raise ClusterError(f"{name} could not be started: {complaint}")

    def wait(self, name: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Returns when the daemon serves. Raises ClusterError if it ends instead, or takes too long."""
        deadline = time.monotonic() + timeout_s
        for _ in polls():
            if self._daemons[name].is_ready(self._inside):
                return
            if not self.is_running(name):
                raise ClusterError(f"{name} ended at once:\n{self.log(name)[-3000:]}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} is not ready after {timeout_s:.0f} s:\n"
                                   f"{self.log(name)[-3000:]}")

    def pid(self, name: str) -> int | None:
        """Returns the daemon's pid inside the cluster; None until its starter has written it."""
        try:
            return int(self._inside.path(f"{ROOT}/pid/{name}").read_text())
        except FileNotFoundError:
            return None

    def is_running(self, name: str) -> bool:
        """Returns true also between the start and the moment when the pid is known."""
        pid = self.pid(name)
        if pid is None:
            return True
        return not processes.has_ended(self._inside.path(f"/proc/{pid}/stat"))

    def kill(self, name: str, number: int = signal.SIGTERM) -> None:
        """Sends a signal; if it is SIGTERM or SIGKILL, returns when the daemon is gone."""
        if name not in self._daemons:
            raise ClusterError(f"no daemon '{name}' (there are {', '.join(self._daemons)})")
        outside = processes.host_pids(self._inside.init).get(self.pid(name) or 0)
        if outside is None:
            return
        with suppress(ProcessLookupError):  # the daemon has just ended, by itself or by an earlier signal
            os.kill(outside, number)
        deadline = time.monotonic() + 15
        for _ in polls():
            if number not in (signal.SIGTERM, signal.SIGKILL) or not self.is_running(name):
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} is still there 15 s after signal {number}")

    def log(self, name: str) -> str:
        """Returns the daemon's log, or its output if it keeps no log."""
        path = self._log_file(name)
        return path.read_text(errors="replace") if path else ""

    def log_sizes(self) -> dict[str, int]:
        """Returns the size of every log, in bytes."""
        names = {path.stem for path in self._inside.path(f"{ROOT}/log").iterdir()}
        found = {name: self._log_file(name) for name in names}
        return {name: path.stat().st_size for name, path in found.items() if path}

    def _log_file(self, name: str) -> Path | None:
        for ending in ("log", "out"):
            path = self._inside.path(f"{ROOT}/log/{name}.{ending}")
            if path.exists() and path.stat().st_size:
                return path
        return None
