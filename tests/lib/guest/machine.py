"""Runs one command in an emulated machine with cgroup v2 alone, and returns its reports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lib.guest import initramfs, share
from tests.lib.guest.kernel import BUILD, FOLDER, REPOSITORY, GuestError, kernel

QEMU = "qemu-system-x86_64"
PACKAGES = {QEMU: "qemu-system-x86", share.DAEMON: "qemu-system-common", str(initramfs.SHELL): "busybox-static"}
PYTHON = "/usr/bin/python3"
TAG = "machine"
CPUS = 2
MEMORY_MIB = 3072
INSIDE = "MPI_WAIT_GUEST"
"""The environment variable that is set inside the guest."""
REPORTS = "/dev/ttyS1"
PASSED_ON = ("MPI_WAIT_STAGE", "MPI_WAIT_BUILD", "PYTHONPYCACHEPREFIX")
# The guest needs no mitigations against leaks of a real processor, and its clock is the host's.
COMMAND_LINE = ("console=ttyS0 panic=-1 quiet mitigations=off nokaslr audit=0 tsc=reliable clocksource=tsc"
                " random.trust_cpu=on")
SHARE_TIMEOUT_S = 30
NOT_ALONE = ("setpriv", "--pdeathsig", "KILL", "--")
"""A prefix for a command that must end with the process that started it, however that process ends."""


def missing() -> list[str]:
    return [f"{program}: install the package {package}" for program, package in PACKAGES.items()
            if not shutil.which(program)]


def emulator(image: Path, initrd: Path, socket: Path, reports: Path) -> list[str]:
    """Returns QEMU's command. It always emulates, also where there is KVM: every machine then does the same, and some
    kinds of KVM run no ordinary kernel."""
    memory = f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"
    return [*NOT_ALONE, QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "pc",
            "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", f"{CPUS},sockets=1,cores={CPUS},threads=1",
            "-m", str(MEMORY_MIB), "-object", memory, "-numa", "node,memdev=memory",
            "-chardev", f"socket,id=files,path={socket}", "-device", f"vhost-user-fs-pci,chardev=files,tag={TAG}",
            "-serial", "stdio", "-serial", f"file:{reports}",
            "-kernel", str(image), "-initrd", str(initrd), "-append", COMMAND_LINE]


@contextmanager
def shared_files(folder: Path) -> Iterator[Path]:
    """Runs virtiofsd while the context lasts; yields its socket."""
    socket, root = folder / "files.socket", folder / "root"
    root.mkdir()
    with (folder / "files.log").open("w") as log:
        argv = [PYTHON, "-m", "tests.lib.guest.share", str(socket), str(root), str(REPOSITORY), str(BUILD)]
        server = subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SHARE_TIMEOUT_S
        while not socket.exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise GuestError(f"virtiofsd does not serve: {(folder / 'files.log').read_text()[-2000:]}")
            time.sleep(0.02)
        yield socket
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


def run(argv: Sequence[str], timeout_s: float) -> tuple[str, str]:
    """Runs a command as the guest's root, in the repository; returns the texts that it wrote to REPORTS and to the
    console.

    Raises GuestError with the end of the console's text if the guest does not start, or does not end within the time.
    """
    if lacking := missing():
        raise GuestError("; ".join(lacking))
    found = kernel()
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=FOLDER))
    try:
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        env |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                "LANG": "C.UTF-8", INSIDE: "1"}
        request, initrd, reports = folder / "request.json", folder / "initrd", folder / "reports"
        request.write_text(json.dumps({"argv": list(argv), "cwd": str(REPOSITORY), "env": env}))
        start = f"{PYTHON} {Path(__file__).with_name('inside.py')} {request}"
        initrd.write_bytes(initramfs.archive(found.modules, TAG, start))
        with shared_files(folder) as socket:
            done = subprocess.run(emulator(found.image, initrd, socket, reports), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False)
        return reports.read_text(), done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        console = (error.stdout or b"").decode(errors="replace")
        raise GuestError(f"the guest was still there after {timeout_s:.0f} s:\n{console[-3000:]}") from None
    finally:
        shutil.rmtree(folder)
