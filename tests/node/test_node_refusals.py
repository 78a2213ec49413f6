"""What mpi-wait-node refuses, and what an administrator finds in its log: unsafe places, names that are none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.lib.record_tools import PROGRAMS, REPOSITORY, node_record

JOB = {"SLURMD_NODENAME": "c1", "SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "1000",
       "SLURM_CLUSTER_NAME": "test", "SLURM_JOB_NODELIST": "c1"}
SITE = f"default=nap policies={REPOSITORY}/policies sink=file"
PLACES = "mount -t tmpfs -o mode=755 none /run; mount -t tmpfs -o mode=755 none /var/spool; exec 2>&1"

NOTHING = "test ! -e /run/mpi-wait && ls /var/spool"


def node(*lines: str, **environment: str) -> tuple[int, str]:
    """Shell lines on a node of its own; `node` in them is mpi-wait-node. What it logs goes to a terminal."""
    script = "\n".join([PLACES, *lines]).replace("node ", f"{PROGRAMS['mpi-wait-node']} ")
    done = subprocess.run(["unshare", "-m", "script", "-qec", f"sh -c '{script}'", "/dev/null"], capture_output=True,
                          text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **JOB, **environment})
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 300], ids=["path", "dots", "long"])
def test_what_is_no_node(name: str) -> None:
    """No directory of such a name is made, and prologs and epilogs do not fail."""
    status, text = node("node drain", SLURMD_NODENAME=name)
    assert status == 1 and "neither SLURMD_NODENAME nor the host's name is a node name" in text
    assert node(f"node prolog {SITE} && node epilog {SITE}", NOTHING, SLURMD_NODENAME=name) == (0, "")


@pytest.mark.parametrize("number", ["", "x", "7x", "-1", "4294967296", "0"])
def test_a_prolog_without_a_job(number: str) -> None:
    assert node(f"node prolog {SITE} && node epilog {SITE}", NOTHING, SLURM_JOB_ID=number) == (0, "")


@pytest.mark.parametrize("mode", ["777", "775"])
def test_state_in_a_place_where_others_may_write(mode: str) -> None:
    status, text = node(f"mkdir -m {mode} /run/mpi-wait", f"node prolog {SITE}", "ls /run/mpi-wait")
    assert status == 0 and "job 7" in text and "Operation not permitted" in text


def test_state_in_a_place_of_somebody_else() -> None:
    status, text = node("mkdir -m 755 /run/mpi-wait; chown 1000 /run/mpi-wait", f"node prolog {SITE}")
    assert status == 0 and "Operation not permitted" in text
    status, text = node("mkdir /run/other && ln -s other /run/mpi-wait", f"node prolog {SITE}", f"node epilog {SITE}",
                        "ls /run/other/c1")
    assert status != 0 and "Not a directory" in text


def test_a_cluster_s_name_that_is_no_file_s() -> None:
    """The record cannot be named, and nothing of the job is left behind."""
    status, text = node(f"node prolog {SITE}", f"node epilog {SITE}", f"node drain {SITE}", SLURM_CLUSTER_NAME="../x")
    assert status == 1 and 'cluster name "../x" cannot be part of a file name' in text


def test_an_outbox_where_others_may_write(tmp_path: Path) -> None:
    status, text = node("mkdir -p -m 777 /var/spool/mpi-wait/out; chmod 777 /var/spool/mpi-wait/out",
                        f"node prolog {SITE}", f"node epilog {SITE}", f"node drain {SITE}")
    assert status == 1 and 'outbox "/var/spool/mpi-wait/out": Operation not permitted' in text
    status, text = node(f"mkdir -m 777 {tmp_path}/out", f"node sweep --outbox {tmp_path}/out")
    assert status == 1 and "Operation not permitted" in text


def test_a_policy_that_is_gone_or_refused() -> None:
    """A prolog never fails for it; the job is one that asked for nothing, and the log says why."""
    status, text = node("node prolog default=nap policies=/nonexistent", "ls /run")
    assert status == 0 and "policy" in text
    status, text = node(f"node prolog {SITE}", SPANK_MPI_WAIT_POLICY="nap,slowdown=900")
    assert status == 0 and "from 0.01 to 50" in text


@pytest.mark.parametrize("words", ["show 7", "sweep --what", "sweep --state", "sweep --collect 86401", "probe -- what"])
def test_words_that_it_does_not_know(words: str) -> None:
    assert node(f"node {words}")[0] == 64


def test_a_spool_s_user_who_is_none(tmp_path: Path) -> None:
    status, text = node(f"node sweep sink=file spool={tmp_path} spool_user=nobody-here")
    assert status == 1 and 'spool_user "nobody-here" is no user of this host' in text


def test_more_node_lists_than_a_job_can_have(tmp_path: Path) -> None:
    """Each node of a job that was resized may name another list, but not any number of them."""
    folder = tmp_path / "spool/test-7-0"
    folder.mkdir(parents=True, mode=0o700)
    for number in range(1, 80):
        record = node_record(f"c{number}", f"c[1-{number + 1}]")
        (folder / f"c{number}.json").write_text(json.dumps(record))
    status, text = node(f"node sweep --now --partial --outbox {tmp_path}/out sink=file spool={tmp_path}/spool")
    assert status == 0 and "too many different node lists" in text
