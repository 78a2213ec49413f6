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
"""At first, and at most: to look for a listening port takes the kernel milliseconds, and it holds up the daemon."""
READY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Daemon:
    """A program that stays: where it runs, and the question whose yes means that it serves."""

    name: str
    argv: list[str]
    is_ready: Callable[[Sandbox], bool]
    host: str = SUBMIT
    cwd: str = "/"
    socket: str = ""
    """A file that says "ready", and that a killed daemon leaves behind."""
    env: Mapping[str, str] = field(default_factory=dict)


def munge() -> Daemon:
    argv = ["munged", "--foreground", f"--key-file={ROOT}/etc/munge.key",
            f"--socket={config.MUNGE_SOCKET}", f"--log-file={ROOT}/log/munge.log",
            "--pid-file=/run/munge/munged.pid", f"--seed-file={ROOT}/state/munge.seed"]
    return Daemon("munge", argv, lambda inside: inside.path(config.MUNGE_SOCKET).is_socket(),
                  socket=config.MUNGE_SOCKET)


def mariadb() -> Daemon:
    """Initialises its data directory and serves it, on a socket only.

    With slurmdbd's database: libmariadb3 of MariaDB 11.8.9 forgets its own limits when a connection is tried anew,
    which is how slurmdbd finds out that it has to make one.
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
    """conf: its configuration in etc, which may say more than the one that all others read."""
    return Daemon("slurmctld", ["slurmctld", "-D", "-f", f"{ROOT}/etc/{conf}"], lambda inside: processes.is_listening(
        inside.init, config.SLURMCTLD_PORT), env=env)


def slurmd(node: str, index: int, arguments: Sequence[str], env: Mapping[str, str]) -> Daemon:
    port = config.FIRST_SLURMD_PORT + index
    return Daemon(f"slurmd-{node}", ["slurmd", "-D", "-N", node, *arguments],
                  lambda inside: processes.is_listening(inside.init, port), host=node, env=env)


def simnode(node: str, model: dict[str, Any]) -> Daemon:
    """The simulated hardware of a node; ready when its marker can be read there."""
    argv = [DEBIAN_PYTHON, "-m", "tests.lib.simnode", json.dumps(model)]
    return Daemon(f"simnode-{node}", argv, lambda inside: inside.path(
        "/sys/class/powercap/SIMULATED", node).exists(), host=node, cwd=f"{ROOT}/lib")


def holder(node: str, files: dict[str, str]) -> Daemon:
    """Not a daemon of the node's, but what holds its namespaces: ready when they stand."""
    ready = f"{ROOT}/pid/ready-{node}"

    def stands(inside: Sandbox) -> bool:
        path = inside.path(ready)
        return path.exists() and path.read_text() == "ready"
    argv = [DEBIAN_PYTHON, "-m", "tests.lib.throwaway.holder", node, ready, json.dumps(files)]
    return Daemon(f"holder-{node}", argv, stands, cwd=f"{ROOT}/lib", socket=ready)


def polls() -> Iterator[None]:
    """Sleeps ever longer between one and the next."""
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
        """One more; of the same name, in its place."""
        self._daemons[daemon.name] = daemon

    def start(self, name: str) -> None:
        """Starts it without waiting for it; its own output goes to log/NAME.out."""
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
        """Returns when it serves; raises ClusterError when it ends instead, or takes too long."""
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
        """The daemon's pid inside the cluster, once its starter has written it."""
        try:
            return int(self._inside.path(f"{ROOT}/pid/{name}").read_text())
        except FileNotFoundError:
            return None

    def is_running(self, name: str) -> bool:
        """True also between the start and the moment that the pid is known."""
        pid = self.pid(name)
        if pid is None:
            return True
        return not processes.has_ended(self._inside.path(f"/proc/{pid}/stat"))

    def kill(self, name: str, number: int = signal.SIGTERM) -> None:
        """Sends a signal; with a fatal one, returns when the daemon is gone."""
        if name not in self._daemons:
            raise ClusterError(f"no daemon '{name}' (there are {', '.join(self._daemons)})")
        outside = processes.host_pids(self._inside.init).get(self.pid(name) or 0)
        if outside is None:
            return
        with suppress(ProcessLookupError):  # it has just ended by itself, or of an earlier signal
            os.kill(outside, number)
        deadline = time.monotonic() + 15
        for _ in polls():
            if number not in (signal.SIGTERM, signal.SIGKILL) or not self.is_running(name):
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} is still there 15 s after signal {number}")

    def log(self, name: str) -> str:
        """The daemon's log, or its own output where it keeps none."""
        path = self._log_file(name)
        return path.read_text(errors="replace") if path else ""

    def log_sizes(self) -> dict[str, int]:
        """In bytes, of every log that there is."""
        names = {path.stem for path in self._inside.path(f"{ROOT}/log").iterdir()}
        found = {name: self._log_file(name) for name in names}
        return {name: path.stat().st_size for name, path in found.items() if path}

    def _log_file(self, name: str) -> Path | None:
        for ending in ("log", "out"):
            path = self._inside.path(f"{ROOT}/log/{name}.{ending}")
            if path.exists() and path.stat().st_size:
                return path
        return None
