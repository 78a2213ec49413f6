"""The machine as check looks at it: files with a bound, commands with a time limit. Changes nothing.

Everything is below root, so that a tree of files can stand for a machine.
"""

from __future__ import annotations

import os
import selectors
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..text.units import safe

TEXT_MAX = 1 << 20
OUTPUT_MAX = 16 << 20
TIMEOUT_S = 10
SIMULATED = "/sys/class/powercap/SIMULATED"


@dataclass(frozen=True)
class Ran:
    """How a command ended. problem is "" or says why it did not run to its end; missing: there is no such command."""

    status: int
    out: str
    problem: str = ""
    missing: bool = False

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
        """A file's text, cut at TEXT_MAX; None where there is no such file. PermissionError goes to the caller."""
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
            except OSError:  # attributes of the kernel's may have nothing to say
                return None

    def line(self, path: str) -> str | None:
        text = self.text(path)
        return None if text is None else text.split("\n", 1)[0].strip()

    def number(self, path: str) -> int | None:
        line = self.line(path) or ""
        return int(line) if line.isascii() and line.isdigit() and len(line) < 20 else None

    def names(self, path: str) -> list[str] | None:
        """What a directory holds; None where there is none. PermissionError goes to the caller."""
        try:
            return sorted(os.listdir(self.at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def status(self, path: str) -> os.stat_result | None:
        """Of the path itself, not of what a link points to."""
        try:
            return os.lstat(self.at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def run(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> Ran:
        """Runs a command, without Slurm's variables that change formats. Its output is cut at OUTPUT_MAX. descriptors:
        those that it gets, besides the usual three."""
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
        lines = [line for line in said.splitlines() if line.strip()]
        lines = [line for line in lines if "fatal" in line] or lines or [f"{command}: exit status {status}"]
        return Ran(status, out, safe(lines[0], 500) if status else "")


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leaves nothing of the process: not itself, and no pipe that a child of it may still hold."""
    try:
        yield
    finally:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.kill()
        process.wait()


def _drain(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, str, str] | None:
    """
    Exit status and what the process wrote, once it has ended; None: it did not in that time. More than OUTPUT_MAX is
    enough: then the status is 0.
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
