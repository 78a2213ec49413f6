"""mpi-wait report --watch at a real job, whose rank 0 keeps the others in Barrier."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Iterator

import pytest

from tests.lib import jobs
from tests.lib.held import Held, held
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
WATCH = ["/opt/mpi-wait/bin/mpi-wait", "report", "--watch"]
RANK = r"^ +([0-9]+) +(c[0-9]+) +(MPI_\w+) +[0-9.]+ m?s +"


def left(cluster: Cluster) -> str:
    """Processes of watchers that run on the submit host or a node."""
    looks = [cluster.node_run(host, ["pgrep", "-af", "[w]atch-node|report --[w]atch"]).stdout
             for host in ("submit", *cluster.nodes)]
    return "".join(looks)


def once(cluster: Cluster, job: int | str, user: str = "alice") -> tuple[int, str]:
    done = cluster.run([*WATCH, "--once", str(job)], user=user, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_a_job_without_a_policy_and_one_that_is_over(cluster: Fleet) -> None:
    with held(cluster, ["-N1", "-n2", "--mpi-wait-policy=off"]) as running:
        status, text = once(cluster, running.job)
        assert status == 1 and "is under a wait policy now: it was submitted without --mpi-wait-policy" in text
        running.end()
    cluster.wait_job(running.job)
    status, text = once(cluster, running.job)
    assert status == 1 and ("does not run" in text or "knows no job" in text) and "mpi-wait report" in text


def read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, seen
        try:
            seen += os.read(terminal, 1 << 16)
        except OSError:
            break
    return seen


def test_it_ends_with_the_job_and_leaves_nothing(cluster: Fleet) -> None:
    with held(cluster, ["-N2", "-n4", "--mpi-wait-policy=nap"]) as running:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        wait_for(lambda: once(cluster, running.job)[0] == 0, "a look", timeout_s=120)
        watcher = cluster.popen([*WATCH, str(running.job)], env={"TERM": "xterm"}, stdin=theirs, stdout=theirs)
        os.close(theirs)
        read_until(ours, b"MPI_Barrier")
        running.end()
        rest = read_until(ours, b"has ended")
        assert watcher.wait(timeout=60) == 0
        os.close(ours)
    assert b"\x1b[?1049l" in rest
    wait_for(lambda: not left(cluster), lambda: f"the end of {left(cluster)}")
    record = jobs.record(cluster, running.job)
    assert record["wait"]["ranks"] == 4 and record["nodes"] == {"reported": 2, "of": 2}
    assert [step["ranks"] for step in record["steps"] if step["id"] == "0"] == [4]


@pytest.fixture(scope="module")
def job(cluster: Fleet) -> Iterator[Held]:
    """Of the tests from here on: it has all of both nodes."""
    with held(cluster, ["-N2", "-n4", "--mpi-wait-policy=nap"]) as running:
        yield running


def test_the_right_ranks_wait_in_the_right_call(cluster: Fleet, job: Held) -> None:
    def shown() -> str:
        """Ranks that are still in MPI_Init are not there yet."""
        status, text = once(cluster, job.job)
        return text if status == 0 and "3 of 4 ranks" in text else ""
    text = wait_for(shown, "three ranks that wait", timeout_s=120)
    print(text)
    rows = {rank: (node, call) for rank, node, call in re.findall(RANK, text, re.M)}
    first, second = cluster.nodes
    assert rows == {"1": (first, "MPI_Barrier"), "2": (second, "MPI_Barrier"), "3": (second, "MPI_Barrier")}
    assert f"rank 0 on {first} waits least" in text and "\x1b" not in text
    assert re.search(rf"^ +{first} +2 +1 ", text, re.M) and re.search(rf"^ +{second} +2 +2 ", text, re.M)
    wait_for(lambda: not left(cluster), lambda: f"the end of {left(cluster)}")


def test_a_step_of_it(cluster: Fleet, job: Held) -> None:
    status, text = once(cluster, f"{job.job}.0")
    assert status == 0 and f"Job {job.job}, step 0" in text
    status, text = once(cluster, f"{job.job}.7")
    assert status == 1 and f"no task of step 7 of job {job.job} is under a wait policy now" in text


@pytest.mark.parametrize("user", ["bob", "root"])
def test_another_users_job_is_refused(cluster: Fleet, job: Held, user: str) -> None:
    assert once(cluster, job.job, user) == (1, f"mpi-wait: job {job.job} is alice's: only its owner can watch it\n")
