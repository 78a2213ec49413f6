"""Throw-away copies of a fresh Debian 12 with Slurm, in namespaces: each is an overlay in memory over a tree that is
made once.

The tree is kept in build/chroots (or $MPI_WAIT_CACHE).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lib.site.tree import make_tree, sources

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("MPI_WAIT_CACHE", ROOT / "build/chroots"))
SUITE = "bookworm"
SLURM = ("slurmd", "slurmctld", "slurmdbd", "slurm-client", "slurm-wlm-mysql-plugin", "munge", "mariadb-server")
NODE = "node1"
# Process 1 of the namespaces: bash, because it reaps the daemons whose parents ended.
INIT = """
mount -t tmpfs -o mode=755 site "$1" && mkdir "$1/upper" "$1/work" "$1/root" || exit
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" site "$1/root" && cd "$1/root" || exit
mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev && mkdir -p run/lock shared || exit
[ -z "$5" ] || mount --bind "$5" shared || exit
hostname "$3" && ip link set lo up && ip address add "$4/8" dev lo || exit
cp /etc/resolv.conf etc/resolv.conf && cp /etc/hosts etc/hosts || exit
printf "127.0.0.2 node1\\n127.0.0.3 node2\\n" >>etc/hosts || exit
exec chroot . bash -c 'echo ready; exec >&-; while :; do sleep 3600 & wait $!; done'
"""


def fresh_tree(packages: Sequence[str] = SLURM, suite: str = SUITE) -> Path:
    """Returns the tree with these packages and their dependencies, made once."""
    names = " ".join([*sorted(packages), *sources(suite)])
    tree = CACHE / f"{suite}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.is_dir():
            make_tree(tree, suite, packages)
    return tree


class Site:
    """A running copy. Its processes and files end with it. Only commands with `network` reach other machines."""

    def __init__(self, process: subprocess.Popen[str], pid: int, folder: Path) -> None:
        self._process, self._pid, self._folder = process, pid, folder

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self._pid}/root")

    def run(self, script: str, *, network: bool = False, check: bool = True,
            timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Runs a bash script as root in the copy, stderr into stdout. check: a failure raises AssertionError with the
        output."""
        spaces = ["-m", "-u", "-i", "-p", "-r", "-w"] + ([] if network else ["-n"])
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(["nsenter", "-t", str(self._pid), *spaces, "bash", "-c", script], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace", timeout=timeout)
        if check and done.returncode:
            raise AssertionError(f"{script!r} ended with {done.returncode}:\n{done.stdout[-6000:]}")
        return done

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text(errors="replace")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
        self._folder.rmdir()


@contextmanager
def site(tree: Path, shared: Path | None = None, first: Site | None = None) -> Iterator[Site]:
    """Yields a copy. first: the copy whose network this one joins as its second host. shared: the directory shown at
    /shared."""
    folder = Path(tempfile.mkdtemp(prefix="mpi-wait-site-"))
    network, host = (["nsenter", "-t", str(first.pid), "-n", "unshare"], "node2 127.0.0.3") if first else (
        ["unshare", "-n"], f"{NODE} 127.0.0.2")
    words = [*network, "-m", "-u", "-i", "-p", "--fork", "--kill-child", "bash", "-c", INIT, "init", str(folder),
             str(tree), *host.split(), str(shared or "")]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.wait(timeout=30)
        folder.rmdir()
        raise RuntimeError("the namespaces could not be set up; see standard error")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    copy = Site(process, int(children[0]), folder)
    try:
        yield copy
    finally:
        copy.stop()
