"""Reads files of this machine up to a bound, and runs commands under a time limit. Changes nothing.

All paths are below Host.root, so that in tests a tree of files can stand for a machine.
"""

from __future__ import annotations

import os
import selectors
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..text.units import safe

TEXT_MAX = 1 << 20
LINE_MAX = 256
OUTPUT_MAX = 16 << 20
TIMEOUT_S = 10
SIMULATED = "/sys/class/powercap/SIMULATED"
PREFIXES = ("/usr", "/opt/mpi-wait")  # used by the packages, and by a build by hand


def find_installed(path: str) -> str:
    """Returns where a program of this project is, "" if it is nowhere: below the prefix of this command, or below that
    of the packages or of a build by hand. path is relative to the prefix."""
    own = os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0])))
    paths = [os.path.join(prefix, path) for prefix in (own, *PREFIXES)]
    return next((found for found in paths if os.path.isfile(found)), "")


def own_command() -> list[str]:
    """Returns the words that start this command on another host: its path, behind the Python that runs it here if that
    is not the one of the file's first line, which may be too old, or without the packages of a virtual environment."""
    path = os.path.realpath(sys.argv[0])
    try:
        with open(path, "rb") as file:
            first = file.readline(LINE_MAX).decode("utf-8", "replace").strip()
    except OSError:
        first = ""
    named = first[2:].strip() if first.startswith("#!") else ""
    alike = sys.prefix == sys.base_prefix and os.path.realpath(named) == os.path.realpath(sys.executable)
    return [path] if alike or not sys.executable else [sys.executable, path]


@dataclass(frozen=True)
class Ran:
    """The end of a command."""

    status: int
    out: str  # its standard output
    problem: str = ""  # why it failed, "" if it did not
    missing: bool = False  # True if the command does not exist

    @property
    def done(self) -> bool:
        return self.status == 0 and not self.problem


class Host:
    def __init__(self, root: str = "/", user: int | None = None) -> None:
        self.root = root.rstrip("/")
        self.user = os.geteuid() if user is None else user

    @property
    def is_root(self) -> bool:
        return self.user == 0

    @property
    def name(self) -> str:
        return socket.gethostname()

    @property
    def simulated(self) -> bool:
        return os.path.exists(self.at(SIMULATED))

    def at(self, path: str) -> str:
        return self.root + path

    def text(self, path: str) -> str | None:
        """Returns a file's text, cut at TEXT_MAX; None if there is no such file. Raises PermissionError."""
        try:
            descriptor = os.open(self.at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return None
            try:
                return file.read(TEXT_MAX).decode("utf-8", "replace")
            except PermissionError:
                raise
            except OSError:  # a file of sysfs may exist and yet refuse to be read
                return None

    def line(self, path: str) -> str | None:
        text = self.text(path)
        return None if text is None else text.split("\n", 1)[0].strip()

    def number(self, path: str) -> int | None:
        line = self.line(path) or ""
        return int(line) if line.isascii() and line.isdigit() and len(line) < 20 else None

    def names(self, path: str) -> list[str] | None:
        """Returns the names in a directory, sorted; None if there is no such directory. Raises PermissionError."""
        try:
            return sorted(os.listdir(self.at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def status(self, path: str) -> os.stat_result | None:
        """Returns the status of path, of the link itself if it is one; None if there is nothing at path."""
        try:
            return os.lstat(self.at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def run(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> Ran:
        """Runs a command without the variables that change the output of Slurm's commands. Cuts its output at
        OUTPUT_MAX. descriptors are handed to the command besides the usual three."""
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("SACCT_", "SLURM_TIME_", "SINFO_", "SQUEUE_"))
        }
        environment["PATH"] = environment.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        command = os.path.basename(argv[0])
        try:
            process = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
            )
        except FileNotFoundError:
            return Ran(127, "", f"{command} was not found", True)
        except OSError as error:
            return Ran(126, "", f"{command} cannot be run: {error.strerror}")
        with _ended(process):
            taken = _drain(process, TIMEOUT_S)
        if taken is None:
            return Ran(124, "", f"{command} did not answer within {TIMEOUT_S} s")
        status, out, said = taken
        lines = [line for line in said.split("\n") if line.strip()]
        lines = [line for line in lines if "fatal" in line] or lines or [f"{command}: exit status {status}"]
        return Ran(status, out, safe(lines[0], 500) if status else "")


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills the process at the end, and closes our ends of its pipes, which a child of it may still hold."""
    try:
        yield
    finally:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.kill()
        process.wait()


def _drain(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, str, str] | None:
    """Waits until the process ends; returns its exit status, standard output and standard error. None if it runs longer
    than seconds. Stops at OUTPUT_MAX of output; the status is 0 then.
    """
    deadline = time.monotonic() + seconds
    taken: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                taken[stream.fileno()] = bytearray()
                selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and max(map(len, taken.values())) <= OUTPUT_MAX:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                taken[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
        flooded = bool(selector.get_map())
    try:
        status = 0 if flooded else process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    out, said = (text[:OUTPUT_MAX].decode("utf-8", "replace") for text in taken.values())
    return status, out, said
