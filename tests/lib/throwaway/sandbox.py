"""The cluster's private view of the machine: the mounts of init and nodes, and the users.

This code runs in processes forked by the keeper, as root, in fresh namespaces. All that it writes lives in memory and
ends with the namespaces.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.lib.throwaway import cgroups, kernel

ROOT = Path("/srv/cluster")
"""The directory that all hosts share: etc, home, log, pid, share, spool, state."""

SUBMIT = "submit"
ADDRESS = "127.0.0.2"
"""Address of every host, on the loopback interface of the cluster's own network namespace."""
FIRST_UID = 20001
USERS = ("alice", "bob", "carol")
NODE_TMPFS = {"/run": 0o755, "/tmp": 0o1777, "/var/tmp": 0o1777, "/var/spool": 0o755,
              "/dev/shm": 0o1777}


@dataclass(frozen=True)
class Spec:
    """The controller's request to the keeper. binds: target in the cluster to host path. own_cgroups: version of the
    cluster's own cgroups, 0 for none."""

    name: str
    nodes: list[str]
    own_cgroups: int = 0
    binds: dict[str, str] = field(default_factory=dict)
    spares: list[str] = field(default_factory=list)
    """Host names of nodes that may be made later (holder.py)."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def run_init(spec: Spec, ready: int) -> NoReturn:
    """Runs process 1 of the cluster: builds the shared view, forks the node holders, reaps orphans.

    Writes a line to `ready` when all nodes stand, or the reason why not.
    """
    kernel.set_death_signal(signal.SIGKILL)
    os.setsid()
    build_shared(spec)
    holders = [start_holder(node) for node in spec.nodes]
    os.write(ready, (" ".join(map(str, holders)) + "\n").encode())
    os.close(ready)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            signal.pause()


def start_holder(node: str) -> int:
    """Forks the process that holds a node's namespaces; returns its pid once the node stands."""
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(ready_write, 3)
        os.closerange(4, 1024)  # most of all the pipe on which init reports
        kernel.set_death_signal(signal.SIGKILL)
        os.setsid()
        try:
            hold_node(node, 3)
        except BaseException as error:
            os.write(3, str(error).encode())
            os._exit(1)
    os.close(ready_write)
    with os.fdopen(ready_read) as report:
        if (text := report.read()) != "ready":
            raise RuntimeError(f"node {node} could not be set up: {text}")
    return pid


def build_shared(spec: Spec) -> None:
    """Makes the namespaces, mounts, users and host names that all nodes share."""
    hierarchies = cgroups.of(spec.own_cgroups).hierarchies() if spec.own_cgroups else []
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET
    kernel.unshare(flags | (kernel.CLONE_NEWCGROUP if spec.own_cgroups else 0))
    kernel.make_mounts_private()
    kernel.mount("proc", "/proc", "proc")
    if spec.own_cgroups:
        cgroups.of(spec.own_cgroups).mount_own(hierarchies)
    kernel.raise_loopback(ADDRESS)
    become_host(SUBMIT)
    sources = {Path(target): os.open(source, os.O_PATH | os.O_CLOEXEC)
               for target, source in spec.binds.items()}
    kernel.tmpfs("/srv")
    for name, mode in {"etc": 0o755, "home": 0o755, "log": 0o755, "pid": 0o755, "share": 0o1777,
                       "spool": 0o755, "state": 0o700, "database": 0o700, "overlay": 0o700}.items():
        make_directory(ROOT / name, mode)
    mount_private_tmpfs()
    make_directory(Path("/run/munge"), 0o755)
    make_directory(Path("/run/mysqld"), 0o755)
    Path("/run/mariadbd").symlink_to("mysqld")  # path that later clients of MariaDB use
    make_writable(Path("/etc"))
    for target, source in sorted(sources.items()):
        bind_descriptor(source, target)
    write_etc([*spec.nodes, *spec.spares])


def hold_node(node: str, ready: int, files: Mapping[str, str] | None = None) -> NoReturn:
    """Makes a node, and holds it: the shared view with its own host name, IPC, /run, /tmp, spool and shared memory.

    files: path to the file of the shared view that is shown there instead.
    """
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
    kernel.make_mounts_private()
    become_host(node)
    munge = os.open("/run/munge", os.O_PATH | os.O_CLOEXEC)
    mount_private_tmpfs()
    bind_descriptor(munge, Path("/run/munge"))
    for target, source in (files or {}).items():
        kernel.bind(source, target)
    os.write(ready, b"ready")
    os.close(ready)
    while True:
        signal.pause()


def become_host(name: str) -> None:
    socket.sethostname(name)
    kernel.set_process_name(f"node-{name}")


def mount_private_tmpfs() -> None:
    for path, mode in NODE_TMPFS.items():
        kernel.tmpfs(path, mode)
    make_directory(Path("/run/lock"), 0o1777)
    make_directory(Path("/run/mpi-wait"), 0o755)
    make_directory(Path("/var/spool/mpi-wait"), 0o700)
    make_directory(Path("/var/spool/slurmd"), 0o755)


def make_directory(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def make_writable(folder: Path) -> None:
    """Puts an overlay on the directory (once), so that files made in it stay in the cluster."""
    scratch = ROOT / "overlay" / str(folder).strip("/").replace("/", "-")
    if not scratch.exists():
        kernel.overlay(folder, scratch)


def bind_descriptor(source: int, target: Path) -> None:
    """Binds an O_PATH descriptor at `target`. Makes a missing target in an overlay."""
    if not target.exists():
        parent = next(path for path in target.parents if path.exists())
        if os.stat(parent).st_dev != os.stat("/srv").st_dev:
            make_writable(parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        if Path(f"/proc/self/fd/{source}").is_dir():
            target.mkdir()
        else:
            target.touch()
    kernel.bind(f"/proc/self/fd/{source}", target)
    os.close(source)


def write_etc(nodes: list[str]) -> None:
    """Writes the users, their homes, host names, and /etc/slurm of the cluster."""
    passwd, shadow, group = [], [], []
    for uid, user in enumerate(USERS, FIRST_UID):
        home = ROOT / "home" / user
        passwd.append(f"{user}:x:{uid}:{uid}:{user}:{home}:/bin/bash\n")
        shadow.append(f"{user}:*:1:0:99999:7:::\n")  # su, which --get-user-env runs, refuses without it
        group.append(f"{user}:x:{uid}:\n")
        make_directory(home, 0o700)
        os.chown(home, uid, uid)
    for path, lines in (("/etc/passwd", passwd), ("/etc/shadow", shadow), ("/etc/group", group)):
        with open(path, "a", encoding="ascii") as file:
            file.writelines(lines)
    Path("/etc/hosts").write_text(
        "127.0.0.1 localhost\n::1 ip6-localhost\n" + "".join(
            f"{ADDRESS} {name}\n" for name in [SUBMIT, *nodes]))
    make_directory(Path("/etc/slurm"), 0o755)
    kernel.bind(ROOT / "etc", "/etc/slurm")
