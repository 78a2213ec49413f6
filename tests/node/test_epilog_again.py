"""slurmctld has an epilog run again if it was away when the first one was done. The record stays as that left it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lib.domains import Node, helper, nodes
from tests.lib.faults import walk
from tests.node.test_faults_record import records
from tests.node.test_grant import POLICIES

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "65534", "SLURM_JOB_GID": "65534", "SLURM_CLUSTER_NAME": "test",
       "SLURM_JOB_NODELIST": "c1"}
SITE = ["default=nap", POLICIES, "writer=sweep"]
ROOT, OUTBOX = "/run/mpi-wait", "/var/spool/mpi-wait/out"
REMEMBERED_S = 3600


@pytest.fixture
def node() -> Iterator[Node]:
    for start in nodes():
        made = start(driver="acpi-cpufreq")
        assert made.run("mount", "-t", "tmpfs", "none", "/var/spool").returncode == 0
        yield made


def play(node: Node, *verbs: str) -> list[Any]:
    """Runs prologs, epilogs and drains. Returns the outbox's records."""
    for verb in verbs:
        done = node.run(helper(), verb, *SITE, more=JOB)
        assert done.returncode == 0, (verb, done.stderr)
    return records(node, OUTBOX)


def states(node: Node) -> list[str]:
    return sorted(path.name for path in node.path(f"{ROOT}/c1").iterdir() if path.name[0].isdigit())


def forget_records(node: Node) -> None:
    for path in node.path(OUTBOX).iterdir():
        path.unlink()


def first_run(node: Node) -> Any:
    """Plays a job with a step, which is its record's."""
    play(node, "prolog")
    assert node.run(walk.RECORD_DRIVER, "step", ROOT, 7, 0, 30, 1).returncode == 0
    (record,) = play(node, "epilog", "drain")
    assert [step["id"] for step in record["steps"]] == ["0"] and not record["timeless"]
    return record


@pytest.mark.parametrize("begun_anew", [False, True], ids=["once", "and of the next run"])
def test_a_second_epilog_leaves_the_record(node: Node, begun_anew: bool) -> None:
    record = first_run(node)
    assert play(node, "epilog", "drain") == [record] and states(node) == []
    if begun_anew:
        play(node, "prolog")
        assert states(node) == ["7"]
        assert len(play(node, "epilog", "drain", "epilog", "drain")) == 2 and states(node) == []


def test_a_run_without_a_prolog_or_a_step_reports(node: Node) -> None:
    """Its epilog makes the state. So does that of the job's next run, which is none that runs again."""
    ends = node.path(f"{ROOT}/c1/.ends")
    for _ in range(2):
        (record,) = play(node, "epilog", "drain")
        assert record["timeless"] and not ends.exists()
        forget_records(node)


def test_a_run_without_a_prolog_is_another_one_after_a_while(node: Node) -> None:
    first_run(node)
    ends = node.path(f"{ROOT}/c1/.ends")
    job, at_s = struct.unpack_from("=II", ends.read_bytes(), 7 * 8)
    assert job == 7
    forget_records(node)
    ends.write_bytes(ends.read_bytes()[: 7 * 8] + struct.pack("=II", job, (at_s - REMEMBERED_S) % 2**32))
    (record,) = play(node, "epilog", "drain")
    assert record["timeless"] and record["steps"] == []
