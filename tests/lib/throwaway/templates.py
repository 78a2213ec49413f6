"""A prepared accounting database, made once per machine and build, with schema, cluster and accounts.

A cluster copies it: making its own takes seconds. The key covers all that decides the contents: the versions of MariaDB
and Slurm, the servers' options, the accounts. Invariant: a template with its final name is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.lib.throwaway import config
from tests.lib.throwaway.inside import BUILD

FOLDER = BUILD / "database-templates"
DAEMON_FILES = ("*.pid", "ibtmp1", "mysqld.sock")


@cache
def key() -> str:
    versions = [subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout
                for program in ("mariadbd", "slurmctld")]
    parts = [*versions, *config.mariadb_arguments(), config.slurmdbd_conf(), config.ACCOUNTS_SCRIPT]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def copy(target: Path) -> bool:
    """Fills the data directory from the template; returns false if there is none."""
    source = FOLDER / key()
    if not source.is_dir():
        return False
    target.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", f"{source}/.", str(target)], check=True)
    return True


@contextmanager
def making() -> Iterator[Callable[[Path], None] | None]:
    """Holds the lock for making the template. Yields a function that keeps a data directory whose servers have ended.

    Yields None if the template exists, also if another process has just made it, or if there is no build directory.
    """
    if not os.access(BUILD, os.W_OK) or (FOLDER / key()).is_dir():
        yield None
        return
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield None if (FOLDER / key()).is_dir() else keep


def keep(data: Path) -> None:
    new = FOLDER / f"{key()}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(data, new, ignore=shutil.ignore_patterns(*DAEMON_FILES))
    new.chmod(0o700)
    for old in FOLDER.glob("????????????????"):
        shutil.rmtree(old)
    new.rename(FOLDER / key())
