"""A node that runs out of what a job can use up: inodes in /run, descriptors in slurmstepd. No step fails for it, and
no clock stays changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.lib.domains import STATE, Node, helper, nodes
from tests.node.test_grant import DONE, MOST, POLICIES, Step

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "65534", "SLURM_JOB_GID": "65534", "SLURM_CLUSTER_NAME": "test"}
SITE = ["default=pstate", POLICIES, "sink=file"]
FEW_INODES, ENOUGH_INODES = 1, 24
FEW_DESCRIPTORS, ENOUGH_DESCRIPTORS = 12, 40


@pytest.fixture
def node() -> Iterator[Node]:
    for start in nodes():
        yield start(driver="intel_pstate")


def play(node: Node) -> bool:
    """A step of two tasks from begin to end, and nothing is left of it. Whether it could lower a core."""
    before = node.snapshot()
    with Step(node) as step:
        answer = step.tell("0 low 0")
        assert step.limits()[1] == MOST
        log = step.exit()
    assert node.snapshot() == before, log
    return answer.split()[0] == str(DONE)


def run_helper(node: Node, verb: str) -> None:
    done = node.run(helper(), verb, *SITE, more=JOB)
    assert done.returncode == 0, (verb, done.stderr)


def test_no_inode_is_left_in_run(node: Node) -> None:
    """Prolog, step and epilog say so and go on; with some more inodes there is a state and no lease, then both."""
    node.run("mkdir", "-p", "/run/mpi-wait")
    served = []
    for inodes in range(FEW_INODES, ENOUGH_INODES):
        node.run("mount", "-t", "tmpfs", "-o", f"mode=755,nr_inodes={inodes}", "none", "/run/mpi-wait")
        run_helper(node, "prolog")
        served.append(play(node))
        run_helper(node, "epilog")
        assert node.run("umount", "/run/mpi-wait").returncode == 0, "nothing holds it"
    assert not served[0] and served[-1], served
    run_helper(node, "prolog")
    assert play(node) and json.loads(node.path(f"{STATE}/7/job.json").read_text())["job_id"] == 7


def limited(made: Node, descriptors: int) -> Callable[..., list[str]]:
    command = Node.command

    def with_limit(*words: object) -> list[str]:
        return command(made, "prlimit", f"--nofile={descriptors}:4096", *words)

    return with_limit


def test_slurmstepd_has_no_descriptor_left(node: Node) -> None:
    """Few are left by the site's limit, or by other plugins. At each number the step begins and ends."""
    served = []
    for descriptors in range(FEW_DESCRIPTORS, ENOUGH_DESCRIPTORS):
        node.command = limited(node, descriptors)  # type: ignore[method-assign]
        served.append(play(node))
        node.command = Node.command.__get__(node)  # type: ignore[method-assign]
        run_helper(node, "epilog")
    assert not served[0] and served[-1], served
