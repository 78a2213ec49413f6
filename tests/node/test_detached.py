"""The drain runs in slurmd's mount namespace where Slurm runs the epilog in the job's: 22.05 to 23.11 do so with
job_container/tmpfs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.lib.record_tools import NO_POWERCAP, PROGRAMS, driver, settings
from tests.lib.waiting import wait_for

# A process of that name and user, whose child becomes a command of root's.
PARENT = textwrap.dedent("""
    import ctypes, os, sys
    name, user, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(15, name.encode())
    turn, mine = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        os.read(turn, 1)
        os.execvp(command[0], command)
    os.setresuid(int(user), int(user), int(user))
    os.close(mine)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")


def namespaces(tmp_path: Path, name: str, user: int, script: str = "exec", before: str = "") -> tuple[str, str, str]:
    """Runs the end of a job in a mount namespace of its own, below a process of that name and user. Returns the
    namespaces of that process, of the job, and of what the end starts. before: runs first in the job's namespace."""
    helper, seen, job = tmp_path / "bin/helper", tmp_path / "seen", tmp_path / "job"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\nreadlink /proc/$$/ns/mnt > {seen}.new\nmv {seen}.new {seen}\n")
    helper.chmod(0o755)
    driver("begin", tmp_path / "run", 7, 4, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP)
    end = [PROGRAMS["driver"], "finish", tmp_path / "run", 7, tmp_path / "out", helper]
    inside = f"set -e\nreadlink /proc/$$/ns/mnt > {job}\n{before}\n{script} {' '.join(map(str, end))}\nexit\n"
    parent = [sys.executable, "-c", PARENT, name, str(user), "unshare", "-m", "sh", "-c", inside]
    done = subprocess.run(parent, capture_output=True, text=True, timeout=120, env=settings(), check=False)
    assert done.returncode == 0, done.stderr
    wait_for(seen.exists)
    return os.readlink("/proc/self/ns/mnt"), job.read_text().strip(), seen.read_text().strip()


@pytest.mark.parametrize("script", ["exec", ""], ids=["of slurmd's", "of a script of the site's"])
def test_the_drain_leaves_the_jobs_namespace(tmp_path: Path, script: str) -> None:
    slurmd, job, drain = namespaces(tmp_path, "slurmd", 0, script=script)
    assert drain == slurmd != job


@pytest.mark.parametrize(("name", "user"), [("slurmd", 65534), ("slurmstepd", 0), ("sh", 0)])
def test_the_drain_enters_no_other_namespace(tmp_path: Path, name: str, user: int) -> None:
    """A user's process may be called slurmd; root may run the epilog by hand, in any namespace."""
    parent, job, drain = namespaces(tmp_path, name, user)
    assert drain == job != parent


def test_the_drain_stays_where_its_program_is(tmp_path: Path) -> None:
    """The job's namespace may have mounts that slurmd's lacks."""
    place, away = tmp_path / "bin", tmp_path / "away"
    mount = f"mkdir {away}\nmount -t tmpfs none {away}\nmv {place}/helper {away}\nmount --bind {away} {place}"
    slurmd, job, drain = namespaces(tmp_path, "slurmd", 0, before=mount)
    assert drain == job != slurmd
