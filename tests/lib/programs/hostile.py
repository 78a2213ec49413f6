"""What a task might try against its lease. Standard library only; prints one JSON line.

    hostile.py COMMAND [ARGUMENT...]

A task finds its end of the lease in MPI_WAIT_CONFIG. `low CPU` asks as a well-behaved rank does, bound to that CPU.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import functools
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

MAGIC = 0x314C574D
LOW, RESTORE = 1, 2
ANSWERS = ("done", "not yours", "not now", "busy", "over")
LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438


def lease(config: str | None = None) -> socket.socket:
    found = re.search(r"cpufreq=lease:(\d+):", config or os.environ["MPI_WAIT_CONFIG"])
    assert found, "no lease"
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, int(found.group(1)))


def packet(verb: int, cpu: int, serial: int = 7, magic: int = MAGIC) -> bytes:
    return struct.pack("5I", magic, verb, cpu, int(LIBC.gettid()), serial)


def ask(end: socket.socket, verb: int, cpu: int, wait_s: float = 1.0) -> str:
    end.settimeout(wait_s)
    try:
        end.send(packet(verb, cpu))
        reply = end.recv(64)
    except socket.timeout:
        return "silence"
    except OSError as error:
        return type(error).__name__
    if not reply:
        return "closed"
    magic, serial, answer, _ = struct.unpack("4I", reply)
    assert (magic, serial) == (MAGIC, 7)
    return ANSWERS[answer]


def bind() -> int:
    """To one CPU of those that it may use; returns it."""
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    return cpu


def every_cpu() -> dict[str, str]:
    """Asks for each CPU of the machine."""
    own, end = bind(), lease()
    answers = {str(cpu): ask(end, LOW, cpu) for cpu in range(os.cpu_count() or 1)}
    answers["65536"] = ask(end, LOW, 65536)
    answers["4294967295"] = ask(end, LOW, 2**32 - 1)
    ask(end, RESTORE, own)
    return {"own": str(own), **answers}


def by_path() -> dict[str, str]:
    """Opens every cpufreq file for writing, by path and again through each descriptor that it holds."""
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
    """Sends what is no request, one kind per fresh child that is told which."""
    kind, end, own = sys.argv[2], lease(), bind()
    first = ask(end, LOW, own)
    junk = {"short": b"x", "long": b"x" * 4096, "empty": b"", "magic": packet(LOW, own, magic=1),
            "verb": packet(99, own)}
    if kind == "descriptors":
        rights = array.array("i", [0] * 200).tobytes()
        end.sendmsg([packet(LOW, own)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    else:
        end.send(junk[kind])
    time.sleep(0.2)
    return {"first": first, "then": ask(end, LOW, own)}


def flood() -> dict[str, float]:
    """Sends as fast as it can for two seconds, and never reads."""
    end, own, sent, refused = lease(), bind(), 0, 0
    end.setblocking(False)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        try:
            end.send(packet(LOW if sent % 2 else RESTORE, own))
            sent += 1
        except BlockingIOError:
            refused += 1
            time.sleep(0.001)
    stepd = os.getppid()
    ticks = os.sysconf("SC_CLK_TCK")
    with open(f"/proc/{stepd}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return {"sent": sent, "refused": refused, "stepd_s": (int(fields[11]) + int(fields[12])) / ticks}


def hold() -> dict[str, str]:
    """Lowers its core once, and then does nothing for some seconds."""
    end, own = lease(), bind()
    answer = ask(end, LOW, own)
    time.sleep(float(sys.argv[2]))
    return {"own": str(own), "low": answer}


def granted() -> int:
    """The descriptor of either kind of grant."""
    found = re.search(r"cpufreq=(?:lease|fd):(\d+):", os.environ["MPI_WAIT_CONFIG"])
    assert found, "no grant"
    return int(found.group(1))


def hand_out() -> dict[str, str]:
    """Writes down its environment, offers what it was granted to anybody who connects, and stays."""
    own, descriptor = bind(), granted()
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
            socket.send_fds(client, [b"x"], [descriptor])
            client.close()
    return {"own": str(own)}


def await_file(made: str, awaited: str) -> None:
    """Makes the one file, and returns when the other is there, or after a minute."""
    with open(made, "w"):
        until = time.monotonic() + 60
    while not os.path.exists(awaited) and time.monotonic() < until:
        time.sleep(0.02)


def steal() -> dict[str, str]:
    """Takes another process's end, by the way that it is told, and asks for that process's core: where a file is named,
    once it is there."""
    way, path = sys.argv[2], sys.argv[3]
    with open(path + ".env") as file:
        other = json.load(file)
    found = re.search(r"cpufreq=lease:(\d+):", other["config"])
    assert found
    try:
        if way == "environment":
            end = lease(other["config"])
        elif way == "proc":
            descriptor = os.open(f"/proc/{other['pid']}/fd/{found.group(1)}", os.O_RDWR)
            end = socket.socket(fileno=descriptor)
        elif way == "pidfd":
            pidfd = LIBC.syscall(PIDFD_OPEN, other["pid"], 0)
            descriptor = LIBC.syscall(PIDFD_GETFD, pidfd, int(found.group(1)), 0)
            if descriptor < 0:
                return {"steal": os.strerror(ctypes.get_errno())}
            end = socket.socket(fileno=descriptor)
        else:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.connect(path)
            _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
            end = socket.socket(fileno=descriptors[0])
    except OSError as error:
        return {"steal": type(error).__name__}
    if len(sys.argv) > 4:
        await_file(path + ".taken", sys.argv[4])
    return {"steal": "taken", "low": ask(end, LOW, other["own"]), "restore": ask(end, RESTORE, other["own"])}


def keep() -> dict[str, str]:
    """Takes a scaling_setspeed that another process hands out, or has, and writes to it what stdin says, until its
    end. For processes outside the job."""
    way, path = sys.argv[2], sys.argv[3]
    with open(path + ".env") as file:
        other = json.load(file)
    found = re.search(r"cpufreq=fd:(\d+):", other["config"])
    assert found

    def attempt(action: Callable[[], object]) -> str:
        try:
            action()
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "done"
    if way == "rights":
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(path)
        descriptor = socket.recv_fds(client, 1, 1)[1][0]
    else:
        pidfd = LIBC.syscall(PIDFD_OPEN, other["pid"], 0)
        descriptor = LIBC.syscall(PIDFD_GETFD, pidfd, int(found.group(1)), 0)
    proc = f"/proc/{other['pid']}/fd/{found.group(1)}"
    answers = {"taken": str(descriptor >= 0), "proc": attempt(lambda: os.open(proc, os.O_WRONLY))}
    if descriptor >= 0:
        answers["again"] = attempt(lambda: os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY))
    print(json.dumps(answers), flush=True)
    for text in map(str.encode, sys.stdin):
        print(attempt(functools.partial(os.pwrite, descriptor, text, 0)), flush=True)
    return {}


def low() -> dict[str, str]:
    """One request, as a well-behaved rank's."""
    own, end = bind(), lease()
    return {"own": str(own), "low": ask(end, LOW, own), "restore": ask(end, RESTORE, own)}


def renew() -> dict[str, str]:
    """Keeps its core low, as a rank in a long wait does: so many seconds, or until there is a file.

    Asks once more after that."""
    own, end = bind(), lease()
    until, enough = time.monotonic() + float(sys.argv[2]), False
    while not enough:
        time.sleep(0.1)
        enough = time.monotonic() > until or any(map(os.path.exists, sys.argv[3:]))
        answer = ask(end, LOW, own)
    return {"own": str(own), "last": answer, "restore": ask(end, RESTORE, own)}


def wide() -> dict[str, str]:
    """While it may run on several cores."""
    return {"low": ask(lease(), LOW, min(os.sched_getaffinity(0)))}


def crowded() -> dict[str, str]:
    """While another thread of it computes on that core; a child, which is another process, is in order."""
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
    signal.alarm(60)
    print(json.dumps(COMMANDS[sys.argv[1]]()), flush=True)


if __name__ == "__main__":
    main()
