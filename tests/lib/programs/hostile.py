"""Attacks of a task on its lease. Standard library only; prints one JSON line.

    hostile.py COMMAND [ARGUMENT...]

A task finds its lease in MPI_WAIT_CONFIG. `low CPU` asks as a well-behaved rank does, bound to that CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

MAGIC, BOARD_HEAD, WORDS_OFFSET, WORDS = 0x324C574D, 64, 4096, 16384  # lease.h, stats.h of preload/contract
LOW, RESTORE = 1, 2
ANSWERS = ("done", "not yours", "not now", "busy", "over")
LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD, FUTEX_WAKE = 434, 438, 1
FUTEX = 202 if os.uname().machine == "x86_64" else 98
PROT_READ, MAP_SHARED = 1, 1
LIBC.mmap.restype = ctypes.c_void_p


def numbers(config: str | None = None) -> tuple[int, int]:
    """Returns the descriptors of the board and of the segment in a configuration."""
    text = config or os.environ["MPI_WAIT_CONFIG"]
    board, segment = re.search(r"cpufreq=lease:(\d+):", text), re.search(r"segment=(\d+):", text)
    assert board and segment, "no lease"
    return int(board.group(1)), int(segment.group(1))


class Lease:
    """A task's lease: a board to read and to ring at, and words to write."""

    def __init__(self, board: int, segment: int) -> None:
        size = os.fstat(board).st_size
        self.board = mmap.mmap(board, size, prot=mmap.PROT_READ)
        self.words = mmap.mmap(segment, WORDS_OFFSET + 8 * WORDS)
        magic, _, self.cpus, _ = struct.unpack_from("4I", self.board)
        assert magic == MAGIC
        self.bell = LIBC.mmap(None, ctypes.c_size_t(4096), PROT_READ, MAP_SHARED, board, ctypes.c_long(0)) + 4

    def ring(self) -> None:
        LIBC.syscall(FUTEX, ctypes.c_void_p(self.bell), FUTEX_WAKE, 2**31 - 1, None, None, 0)

    def write(self, cpu: int, word: int) -> None:
        struct.pack_into("Q", self.words, WORDS_OFFSET + 8 * cpu, word)

    def ask(self, verb: int, cpu: int, wait_s: float = 1.0, thread: int = 0) -> str:
        """Sends a request. Returns the answer, "silence" if none comes, "closed" if the board is closed. It rings ever
        more rarely: the broker's CPU time is rationed, and each ring costs some."""
        before, = struct.unpack_from("Q", self.words, WORDS_OFFSET + 8 * cpu)
        serial = (before + 1) & 0xFFFFFFFF
        self.write(cpu, verb << 54 | (thread or int(LIBC.gettid())) << 32 | serial)
        until, pause_s = time.monotonic() + wait_s, 0.0005
        while cpu < self.cpus and time.monotonic() < until:
            if struct.unpack_from("4I", self.board)[3]:
                return "closed"
            self.ring()
            reply, = struct.unpack_from("Q", self.board, BOARD_HEAD + 8 * cpu)
            if reply & 0xFFFFFFFF == serial:
                return ANSWERS[reply >> 32 & 0xFF]
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.1)
        return "silence"


def lease(config: str | None = None) -> Lease:
    return Lease(*numbers(config))


def ask(end: Lease, verb: int, cpu: int, wait_s: float = 5.0) -> str:
    return end.ask(verb, cpu, wait_s)


def bind() -> int:
    """Binds the task to the first CPU that it may use; returns it."""
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def every_cpu() -> dict[str, str]:
    """Asks for each CPU of the machine."""
    own, end = bind(), lease()
    # On an emulated processor an answer takes long, because root's CPU time for answers is rationed.
    answers = {str(cpu): ask(end, LOW, cpu, 150) for cpu in range(os.cpu_count() or 1)}
    for cpu in range(os.cpu_count() or 1, WORDS):
        end.write(cpu, LOW << 54 | int(LIBC.gettid()) << 32 | 1)
    ask(end, RESTORE, own)
    return {"own": str(own), **answers}


def by_path() -> dict[str, str]:
    """Tries to open every cpufreq file for writing, by path and again through each descriptor that the task holds."""
    tried: dict[str, str] = {}

    def attempt(name: str, path: str) -> None:
        try:
            os.close(os.open(path, os.O_WRONLY))
            tried[name] = "opened"
        except OSError as error:
            tried[name] = type(error).__name__
    root = "/sys/devices/system/cpu/cpufreq"
    for policy in sorted(os.listdir(root)):
        for file in ("scaling_max_freq", "scaling_min_freq", "scaling_setspeed", "scaling_governor"):
            attempt(f"{policy}/{file}", f"{root}/{policy}/{file}")
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if "cpufreq" in os.readlink(f"/proc/self/fd/{number}"):
                attempt(f"fd {number}", f"/proc/self/fd/{number}")
    return tried


def garbage() -> dict[str, str]:
    """Writes an invalid request while its core is low, then a valid one."""
    own, end = bind(), lease()
    first = ask(end, LOW, own)
    return {"own": str(own), "first": first, "then": ask(end, int(sys.argv[2]), own), "at last": ask(end, LOW, own)}


def others() -> dict[str, str]:
    """Asks for its own core in the name of other threads: its parent, init, one that does not exist, those in the
    arguments."""
    own, end = bind(), lease()
    return {name: end.ask(LOW, own, 5, int(name)) for name in (str(os.getppid()), "1", "4194303", *sys.argv[2:])}


def flood() -> dict[str, float]:
    """Forges all words and rings as fast as it can for two seconds."""
    end, own, rings = lease(), bind(), 0
    stepd, ticks = os.getppid(), os.sysconf("SC_CLK_TCK")

    def used() -> float:
        with open(f"/proc/{stepd}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / ticks
    before, began = used(), time.monotonic()
    while time.monotonic() < began + 2:
        for serial in range(1, 200):
            end.write(own, (1 + serial % 2) << 54 | int(LIBC.gettid()) << 32 | serial)
            end.write(serial, serial % 4 << 54 | int(LIBC.gettid()) << 32 | rings & 0xFFFFFFFF)
            end.ring()
        rings += 199
    return {"rings": rings, "stepd_s": used() - before, "s": time.monotonic() - began}


def stop() -> dict[str, str]:
    """Lowers its core, and stops."""
    own, end = bind(), lease()
    answer = ask(end, LOW, own)
    os.kill(os.getpid(), signal.SIGSTOP)
    return {"own": str(own), "low": answer}


def hold() -> dict[str, str]:
    """Lowers its core once, then sleeps for the given seconds."""
    end, own = lease(), bind()
    answer = ask(end, LOW, own)
    time.sleep(float(sys.argv[2]))
    return {"own": str(own), "low": answer}


def hand_out() -> dict[str, str]:
    """Writes down its environment, sends its descriptors to any process that connects, and stays."""
    own, descriptors = bind(), list(numbers())
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = sys.argv[2]
    server.bind(path + ".new")
    os.chmod(path + ".new", 0o777)
    server.listen(4)
    with open(path + ".env", "w") as file:
        json.dump({"config": os.environ["MPI_WAIT_CONFIG"], "pid": os.getpid(), "own": own}, file)
    os.chmod(path + ".env", 0o644)
    os.rename(path + ".new", path)
    server.settimeout(float(sys.argv[3]))
    with contextlib.suppress(socket.timeout):
        while True:
            client, _ = server.accept()
            socket.send_fds(client, [b"x"], descriptors)
            client.close()
    return {"own": str(own)}


def await_file(made: str, awaited: str) -> None:
    """Makes one file, and waits until the other exists, at most a minute."""
    with open(made, "w"):
        until = time.monotonic() + 60
    while not os.path.exists(awaited) and time.monotonic() < until:
        time.sleep(0.02)


def steal() -> dict[str, str]:
    """Takes another process's lease in the given way, and asks for that process's core. With a fourth argument it waits
    for that file first."""
    way, path = sys.argv[2], sys.argv[3]
    with open(path + ".env") as file:
        other = json.load(file)
    theirs = numbers(other["config"])
    try:
        if way == "environment":
            end = lease(other["config"])
        elif way == "proc":
            paths = [f"/proc/{other['pid']}/fd/{number}" for number in theirs]
            end = Lease(os.open(paths[0], os.O_RDONLY), os.open(paths[1], os.O_RDWR))
        elif way == "pidfd":
            pidfd = LIBC.syscall(PIDFD_OPEN, other["pid"], 0)
            taken = [LIBC.syscall(PIDFD_GETFD, pidfd, number, 0) for number in theirs]
            if min(taken) < 0:
                return {"steal": os.strerror(ctypes.get_errno())}
            end = Lease(*taken)
        else:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.connect(path)
            end = Lease(*socket.recv_fds(client, 1, 2)[1])
    except OSError as error:
        return {"steal": type(error).__name__}
    if len(sys.argv) > 4:
        await_file(path + ".taken", sys.argv[4])
    return {"steal": "taken", "low": ask(end, LOW, other["own"]), "restore": ask(end, RESTORE, other["own"])}


def low() -> dict[str, str]:
    """Asks once, as a well-behaved rank does."""
    own, end = bind(), lease()
    return {"own": str(own), "low": ask(end, LOW, own), "restore": ask(end, RESTORE, own)}


def renew() -> dict[str, str]:
    """Keeps its core low, as a rank in a long wait does: for the given seconds, or until a file exists.

    Then asks once more, and again while the answer is "not now": the plugin looks for other jobs' tasks once a second,
    and may take one that has just ended for alive.
    """
    own, end = bind(), lease()
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until and not any(map(os.path.exists, sys.argv[3:])):
        time.sleep(0.1)
        ask(end, LOW, own)
    for _ in range(100):
        time.sleep(0.1)
        answer = ask(end, LOW, own)
        if answer != "not now":
            break
    return {"own": str(own), "last": answer, "restore": ask(end, RESTORE, own)}


def wide() -> dict[str, str]:
    """Asks while it may run on several cores."""
    return {"low": ask(lease(), LOW, min(os.sched_getaffinity(0)))}


def crowded() -> dict[str, str]:
    """Asks while other threads of its own compute on that core, and again after they have ended."""
    own, end = bind(), lease()
    import threading

    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))
    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    answers = {ask(end, LOW, own) for _ in range(20)}
    stop.set()
    for thread in threads:
        thread.join()
    time.sleep(0.1)
    return {"busy": ",".join(sorted(answers)), "alone": ask(end, LOW, own)}


COMMANDS = {name: value for name, value in globals().items() if callable(value) and value is not Callable}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(180)  # an emulated processor is slow, and more so beside others
    print(json.dumps(COMMANDS[sys.argv[1]]()), flush=True)


if __name__ == "__main__":
    main()
