"""What users try on the way between Slurm and their program: auditors and preloads of their own, namespaces, and the
segment in another user's hands. Each is their own affair: root runs nothing of theirs, and the record is written."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]
POLICY = "--mpi-wait-policy=nap"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that writes down which program of whom it has been loaded into, for LD_AUDIT and LD_PRELOAD."""
    source = tmp_path_factory.mktemp("tricks") / "tell.c"
    source.write_text(textwrap.dedent("""
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        unsigned la_version(unsigned version) { return version; }
        __attribute__((constructor)) static void tell(void)
        {
            char line[100];
            int file = open(PLACE, O_WRONLY | O_APPEND | O_CLOEXEC);
            int length = snprintf(line, sizeof(line), "%d %s\\n", (int)geteuid(), program_invocation_short_name);
            if (file >= 0) { write(file, line, length); close(file); }
        }
    """))
    return source


def library(cluster: Cluster, source: Path, name: str) -> tuple[str, Path]:
    """Its path, and what it writes to: a file that every user may write."""
    told = cluster.inside.path(f"{cluster.share}/{name}.told")
    told.write_text("")
    told.chmod(0o666)
    made = source.with_name(f"{name}.so")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", f'-DPLACE="{cluster.share}/{name}.told"', "-o", made, source],
                   check=True)
    return cluster.put(made), told


def loaded_by(told: Path) -> set[tuple[int, str]]:
    words = [line.split(maxsplit=1) for line in told.read_text().splitlines()]
    return {(int(uid), name) for uid, name in words}


def test_an_auditor_of_the_user_s(cluster: Cluster, built: Path) -> None:
    """It audits the user's programs, TaskProlog's like; slurmstepd is none."""
    auditor, told = library(cluster, built, "auditor")
    place = f"{cluster.share}/audited"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    job, done = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={place}", "env", f"LD_AUDIT={auditor}",
                                    *UNBALANCED])
    outer, _ = jobs.srun(cluster, ["-N1", "-n2", f"--export=ALL,LD_AUDIT={auditor}", POLICY, *UNBALANCED])
    assert jobs.record(cluster, job)["wait"]["ranks"] == 2 and jobs.record(cluster, outer)["wait"]["ranks"] == 2
    assert len(cluster.run(["ls", place]).stdout.split()) == 2, "the files of csv="
    seen = loaded_by(told)
    assert {name for _, name in seen} >= {"unbalanced"} and 0 not in {uid for uid, _ in seen}, seen
    assert not {name for _, name in seen if "mpi-wait" in name or "slurmstepd" in name}, seen


def test_namespaces_of_the_user_s_own(cluster: Cluster) -> None:
    """Ranks in a user namespace, with a file system of theirs in the place of csv=: they are measured, and the files
    are written where they see that place."""
    place = f"{cluster.share}/unshared"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    hide = f"mount -t tmpfs none {place} && exec \"$@\""
    job, _ = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={place}", "unshare", "-Urm", "sh", "-c",
                                 hide, "sh", *UNBALANCED])
    record = jobs.record(cluster, job)
    assert record["wait"]["ranks"] == 2 and record["csv"] == {"written": 1}
    assert cluster.run(["ls", "-A", place]).stdout == ""


@pytest.mark.parametrize("keeps", [True, False], ids=["added", "replaced"])
def test_a_task_prolog_that_preloads(cluster: Fleet, built: Path, keeps: bool) -> None:
    """It comes after the plugin and has the last word: what it adds to LD_PRELOAD is kept beside ours, and where it
    puts its own in place of ours the job runs without the library, and the record says of no rank that it waited."""
    own, told = library(cluster, built, f"prolog-{keeps}")
    script = built.with_name(f"task-prolog-{keeps}")
    script.write_text(f"#!/bin/sh\necho export LD_PRELOAD={own}{':$LD_PRELOAD' if keeps else ''}\n")
    with cluster.variants():
        variant = cluster.variant(slurm_conf={"TaskProlog": cluster.put(script)})
        _, done = jobs.srun(variant, ["-N1", "-n1", POLICY, "printenv", "LD_PRELOAD"])
        named = done.stdout.strip().split(":")
        assert named[0] == own and [path.endswith(LIBRARY) for path in named[1:]] == [True] * keeps
        job, done = jobs.srun(variant, ["-N1", "-n2", POLICY, *UNBALANCED])
        wait = jobs.record(variant, job)["wait"]
    assert (wait["ranks"] if keeps else wait) == (2 if keeps else None)
    assert "unbalanced" in {name for _, name in loaded_by(told)} and 0 not in {uid for uid, _ in loaded_by(told)}


TAKES_NUMBERS = "exec 200>$(mktemp) 231>$(mktemp); flock -n 200 || exit 1; exec \"$@\""
CLOSES_ALL = "import os, sys; os.closerange(3, 1 << 16); os.execv(sys.argv[1], sys.argv[1:])"


def test_what_a_task_does_to_descriptors(cluster: Cluster) -> None:
    """Locks by number cost nothing. Where all are closed the ranks are missed, and the record says why."""
    job, _ = jobs.srun(cluster, ["-N1", "-n2", POLICY, "bash", "-c", TAKES_NUMBERS, "bash", *UNBALANCED])
    lost, _ = jobs.srun(cluster, ["-N1", "-n2", POLICY, "/usr/bin/python3", "-c", CLOSES_ALL, *UNBALANCED])
    record = jobs.record(cluster, job)
    assert record["wait"]["ranks"] == 2 and "missed" not in record
    record = jobs.record(cluster, lost)
    assert record["wait"] is None and record["missed"] == {"lost": 2}


GIVE = """
import os, re, socket, sys, time
fd = int(re.search(r"segment=(\\d+):", os.environ["MPI_WAIT_CONFIG"]).group(1))
to = socket.socket(socket.AF_UNIX)
to.connect(sys.argv[1])
socket.send_fds(to, [b"x"], [fd])
to.recv(1)
"""
TAKE = """
import mmap, os, socket, sys
here = socket.socket(socket.AF_UNIX)
here.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
here.listen()
link, _ = here.accept()
_, (fd,), _, _ = socket.recv_fds(link, 1, 1)
size = os.fstat(fd).st_size
for resize in (0, size // 2, 2 * size):
    try:
        os.ftruncate(fd, resize)
        print("resized", flush=True)
    except PermissionError:
        pass
os.pwrite(fd, b"\\xff" * (1 << 20), 4096)
os.pwrite(fd, b"\\xff" * 64, 0)
try:
    os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    print("reopened", flush=True)
except PermissionError:
    pass
link.send(b"x")
print("spoilt", flush=True)
sys.stdin.read()
os.pwrite(fd, b"\\x01" * (1 << 20), 0)
print("kept", flush=True)
"""


def test_the_segment_in_another_user_s_hands(cluster: Cluster) -> None:
    """Who is handed it may write what its owner could: claims about that step's waits. Its size is sealed, it cannot be
    opened anew, and once the step is over nothing reads it."""
    give, take = (cluster.inside.path(f"{cluster.share}/{name}.py") for name in ("give", "take"))
    give.write_text(GIVE)
    take.write_text(TAKE)
    place = "/tmp/segment.socket"
    taker = cluster.inside.popen(["/usr/bin/python3", f"{cluster.share}/take.py", place], host="c1", user="bob",
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        wait_for(lambda: cluster.node_run("c1", ["test", "-S", place]).returncode == 0, "bob's socket")
        giver = ["/usr/bin/python3", f"{cluster.share}/give.py", place]
        job, done = jobs.srun(cluster, ["-N1", "-w", "c1", "-n1", POLICY, *giver])
        assert done.stderr == ""
        record = jobs.record(cluster, job)
        assert record["energy"]["joules"] > 0 and record["nodes"] == {"reported": 1, "of": 1}
        rest, _ = taker.communicate(timeout=60)
        assert rest.split() == ["spoilt", "kept"]
    finally:
        taker.kill()
        taker.communicate()
        cluster.node_run("c1", ["rm", "-f", place])
    assert jobs.record(cluster, job) == record
