"""A core that another job has too, whose processes descend from another slurmstepd, is not slowed down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lib.domains import STATE, Node, helper, nodes
from tests.lib.waiting import wait_for
from tests.node.test_grant import DONE, LEAST, MOST, NOT_NOW, POLICIES, Step

UID = 65534
HAS = "another job has the core"
MAY_HAVE = "Slurm may give the core to two jobs"
# A slurmstepd, by its name and its title, of whoever runs it, with a task that sleeps on the CPUs that it is told, or
# on any. It says which process the task is, and ends with its input.
STEPD = textwrap.dedent("""
    import ctypes, os, signal, sys, time
    cpus, owner = sys.argv[1:3]
    ctypes.CDLL(None).prctl(15, b"slurmstepd")
    os.setgroups([])
    if owner == "user":
        os.setresuid(65534, 65534, 65534)
    task = os.fork()
    if task == 0:
        ctypes.CDLL(None).prctl(15, b"task")
        if os.getuid() == 0:
            os.setresuid(65533, 65533, 65533)
        if cpus != "any":
            os.sched_setaffinity(0, map(int, cpus.split(",")))
        print(os.getpid(), flush=True)
        signal.pause()
    sys.stdin.read()
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
""")


@pytest.fixture
def node() -> Iterator[Node]:
    """With a UTS namespace of its own: other tests' nodes are on this machine, too."""
    keeper = subprocess.Popen(["unshare", "-u", "cat"], stdin=subprocess.PIPE)
    try:
        wait_for(lambda: os.readlink(f"/proc/{keeper.pid}/ns/uts") != os.readlink("/proc/self/ns/uts"))
        for start in nodes():
            made = start(driver="intel_pstate")
            enter, made_command = uts(keeper.pid), made.command

            def command(
                *words: object, outer: list[str] = enter, inner: Callable[..., list[str]] = made_command
            ) -> list[str]:
                return inner(*outer, *words)

            made.command = command  # type: ignore[method-assign]
            made.keeper = keeper.pid  # type: ignore[attr-defined]
            yield made
    finally:
        keeper.communicate()


def uts(pid: int) -> list[str]:
    return ["nsenter", f"--uts=/proc/{pid}/ns/uts"]


@contextmanager
def neighbour(node: Node | None, cpus: str = "0", job: int = 99, owner: str = "root") -> Iterator[int]:
    """A job of that number on the same node, or with None on one of its own: in the namespace of this machine it would
    be a neighbour of what other tests do there meanwhile. Yields its task."""
    enter = uts(node.keeper) if node else ["unshare", "--uts"]  # type: ignore[attr-defined]
    title = ["bash", "-c", 'exec -a "$0" "$@"', f"slurmstepd: [{job}.0]", sys.executable, "-c", STEPD, cpus, owner]
    stepd = subprocess.Popen([*enter, *title], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert stepd.stdout
        yield int(stepd.stdout.readline())
    finally:
        stepd.communicate(timeout=60)


def refused(node: Node) -> object:
    """How many cores a step of two tasks is refused, by the reason."""
    with Step(node) as step:
        step.exit()
        return step.grant()["refused"]


def test_a_core_on_which_another_job_may_run_is_not_granted(node: Node) -> None:
    """Though it sleeps: Slurm has bound it there."""
    with neighbour(node):
        assert refused(node) == {HAS: 1}
    assert refused(node) == {}


@pytest.mark.parametrize("whose", [{"job": 7}, {"owner": "user"}, {"cpus": "any"}], ids=["own", "no root's", "unbound"])
def test_what_is_no_other_job_s(node: Node, whose: dict[str, object]) -> None:
    """The job's own other step, what a user calls a slurmstepd, and what sleeps and may run anywhere."""
    with neighbour(node, **whose):  # type: ignore[arg-type]
        assert refused(node) == {}


def test_what_is_on_another_node(node: Node) -> None:
    """Several slurmds may be on one machine; each has its own host name."""
    with neighbour(None):
        assert refused(node) == {}


def test_a_job_that_is_stopped_has_no_core(node: Node) -> None:
    """Suspended, until another job is done or its turn is over."""
    with neighbour(node) as task:
        os.kill(task, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{task}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
        assert refused(node) == {}


def test_a_job_that_comes_later_is_not_slowed_down(node: Node) -> None:
    """What is low comes back, nothing is lowered while the other job is there, and both cores can be afterwards."""
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        with neighbour(node):
            wait_for(lambda: step.ask("0 low 0")[0] == NOT_NOW, "that the other job is seen")
            assert step.limits() == (MOST, MOST)
            assert step.ask("1 low 1") == (DONE, 1)
            assert step.ask("0 low 0") == (NOT_NOW, 0)
        wait_for(lambda: step.ask("0 low 0")[0] == DONE, "that the other job is gone")
        assert step.limits()[0] == LEAST


@pytest.mark.parametrize(("said", "may"), [
    ({}, False),
    ({"SLURM_JOB_OVERSUBSCRIBE": "NO"}, False),
    ({"SLURM_JOB_OVERSUBSCRIBE": "OK"}, False),
    ({"SLURM_JOB_OVERSUBSCRIBE": "USER"}, False),
    ({"SLURM_JOB_OVERSUBSCRIBE": "YES"}, True),
    ({"SLURM_JOB_OVERSUBSCRIBE": "NO", "SLURM_JOB_EXCLUSIVE": "NO"}, False),
    ({"SLURM_JOB_OVERSUBSCRIBE": "OK", "SLURM_JOB_EXCLUSIVE": "NO"}, True),
    ({"SLURM_JOB_OVERSUBSCRIBE": "YES", "SLURM_JOB_EXCLUSIVE": "NO"}, True),
], ids=lambda value: " ".join(value.values()) or "before 24.05" if isinstance(value, dict) else "")
@pytest.mark.parametrize("default", ["off", "nap"])
def test_what_the_prolog_is_told(node: Node, default: str, said: dict[str, str], may: bool) -> None:
    """The words of 24.05 to 25.11, in which OK is every job's, and those of 26.05, in which it is said of a partition
    that gives a core to several jobs. A step may come with a policy, whether the job has one or not."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(UID), "SLURM_JOB_GID": str(UID), "SLURM_CLUSTER_NAME": "test"}
    assert node.run(helper(), "prolog", f"default={default}", POLICIES, more={**job, **said}).returncode == 0
    assert node.path(f"{STATE}/7/job.json").exists() == (may or default == "nap")
    assert refused(node) == ({MAY_HAVE: 2} if may else {})


@pytest.mark.parametrize("harm", ["echo '{' >", "truncate -s 0", "ln -sf x", "rm"])
def test_a_note_of_the_prolog_that_cannot_be_read_may_say_that_cores_are_shared(node: Node, harm: str) -> None:
    """The first step makes the note anew, and the second finds there what the first had to suppose. A job without any
    note shares nothing."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(UID), "SLURM_JOB_GID": str(UID), "SLURM_CLUSTER_NAME": "test"}
    assert node.run(helper(), "prolog", "default=nap", POLICIES, more=job).returncode == 0
    node.run("sh", "-c", f"{harm} {STATE}/7/job.json")
    expected = {} if harm == "rm" else {MAY_HAVE: 2}
    assert [refused(node), refused(node)] == [expected, expected]


def test_where_no_clock_is_changed_nothing_is_noted(node: Node) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(UID), "SLURM_JOB_OVERSUBSCRIBE": "YES"}
    assert node.run(helper(), "prolog", "grant=off", more=job).returncode == 0
    assert not node.path(f"{STATE}/7").exists()


def show_occupants(node: Node, text: str, next_s: float, ago_s: float = 0) -> None:
    """As a step of the node writes what it has seen just now, or some time ago, and when the next one may look
    again."""
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - round(ago_s * 10**9)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    path = node.path(f"{STATE}/occupants")
    path.with_suffix(".new").write_text(
        f"mpi-wait-occupants 1 boot {boot} at {now_ns} next {now_ns + round(next_s * 10**9)}\n{text}")
    path.with_suffix(".new").rename(path)


def test_one_look_is_all_steps(node: Node) -> None:
    """A step uses the look of another step of the node until the next look is due; any step may take that one."""
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)

        def is_seen() -> bool:
            """Shown again and again: what the step itself saw first may just be written."""
            show_occupants(node, "7 0-1\n99 0\n", 1000)
            return step.ask("0 low 0")[0] == NOT_NOW

        wait_for(is_seen, "that what another step saw is read")
        assert step.ask("1 low 1") == (DONE, 1)
        seen = node.path(f"{STATE}/occupants").read_text()
        for _ in range(100):
            assert step.ask("0 low 0") == (NOT_NOW, 0)
        assert node.path(f"{STATE}/occupants").read_text() == seen


def test_an_earlier_look_does_not_replace_a_later_one(node: Node) -> None:
    """The step has checked by itself that both cores are its own. A second later it reads what another one saw before
    that."""
    with Step(node) as step:
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            show_occupants(node, "99 0\n", 1000, ago_s=60)
            assert step.ask("0 low 0")[0] == DONE


def test_a_step_looks_when_it_is_time(node: Node) -> None:
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        show_occupants(node, "99 0\n", 0)

        def has_looked() -> bool:
            """Asked again and again: the step may have looked for the first request before the file was written."""
            step.ask("0 low 0")
            return "\n99 " not in node.path(f"{STATE}/occupants").read_text()

        wait_for(has_looked, "that it looks, and tells")


def test_what_is_no_sight_is_no_reason(node: Node) -> None:
    """A file of another boot, of the future or cut off is not used: the step looks by itself."""
    refused(node)
    path = node.path(f"{STATE}/occupants")
    for damage in ("", "mpi-wait-occupants 1 boot", "mpi-wait-occupants 1 boot x at 0 next 9999999999999\n99 0\n"):
        path.write_text(damage)
        assert refused(node) == {}
    for text in ("99", "99 0", "99 x\n", "x 0\n"):
        show_occupants(node, text, 1000)
        assert refused(node) == {}


NOT_SEEN = "other jobs are not seen from this PID namespace"


@pytest.mark.parametrize("said", [{}, {"SLURM_JOB_OVERSUBSCRIBE": "NO", "SLURM_JOB_EXCLUSIVE": "NO"}],
                         ids=["before", "26.05"])
def test_where_other_jobs_are_not_seen(node: Node, said: dict[str, str]) -> None:
    """In a PID namespace that is not the prolog's a step has a core's clock only if Slurm says whose the core is."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(UID), "SLURM_JOB_GID": str(UID), "SLURM_CLUSTER_NAME": "test"}
    assert node.run(helper(), "prolog", "default=nap", POLICIES, more={**job, **said}).returncode == 0
    noted = node.path(f"{STATE}/namespace")
    assert noted.read_text() == f"{os.stat('/proc/self/ns/pid').st_ino}\n"
    noted.write_text("1\n")
    with neighbour(node):
        assert refused(node) == ({} if said else {NOT_SEEN: 2})
