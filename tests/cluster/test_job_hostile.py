"""A job that attacks what it can reach: nothing of it changes another job's record, another's core or root's files.

What a task may try against its lease and against cpufreq's files is tests/cluster/test_job_grant.py's.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.record_tools import BUILD
from tests.lib.throwaway import FINISHED, Cluster

pytestmark = pytest.mark.cluster

PYTHON = "/usr/bin/python3"
PROGRAM = "/srv/cluster/lib/tests/lib/programs/hostile_job.py"
PRECIOUS = "/run/precious"
ROOT_FILES = f"""
sha256sum {PRECIOUS} /etc/passwd /etc/shadow /srv/cluster/etc/* /opt/mpi-wait/lib/*/* /opt/mpi-wait/sbin/* 2>/dev/null
stat -c '%n %u %g %a' {PRECIOUS} /run/mpi-wait /var/spool/mpi-wait
cd /sys/devices/system/cpu/cpufreq && grep . policy*/scaling_m??_freq policy*/scaling_governor
stat -c '%n %u %g %a' policy*/scaling_*
"""
VICTIM = ["-N1", "-n1", "-w", "c1", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "40", "50", "2"]


def attack(cluster: Cluster, *words: str, argv: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    job, done = jobs.srun(cluster, ["-N1", "-n1", "-w", "c1", "--mpi-wait-policy=nap,profile", *argv, PYTHON, PROGRAM,
                                    *words])
    return job, json.loads(done.stdout.splitlines()[-1])


def prepare(cluster: Cluster) -> str:
    cluster.node_run("c1", ["sh", "-c", f"echo precious >{PRECIOUS}; chmod 600 {PRECIOUS}; mkdir -p -m 700"
                            " /run/mpi-wait; mkdir -p /var/spool/mpi-wait"], check=True)
    return files_of_root(cluster)


def files_of_root(cluster: Cluster) -> str:
    return cluster.node_run("c1", ["sh", "-c", ROOT_FILES]).stdout


def beside_a_victim(cluster: Cluster, *words: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What the attack printed, its record, and that of another user's job on the same node at the same time."""
    before = prepare(cluster)
    victims, victim = jobs.begin(cluster, VICTIM, user="bob", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cluster.wait_job(victims, (*FINISHED, "RUNNING"))
    job, tried = attack(cluster, *words)
    _, complaint = victim.communicate(timeout=60)
    assert victim.returncode == 0, complaint
    own, other = jobs.record(cluster, job), jobs.record(cluster, victims)
    cluster.wait_nodes()
    assert files_of_root(cluster) == before
    return tried, own, other


def check_victim(record: dict[str, Any]) -> None:
    assert record["wait"]["ranks"] == 1 and record["wait"]["total_s"] < 10
    assert record["energy"]["joules"] > 0 and "flags" not in record["wait"]


def test_a_segment_that_is_rewritten_while_root_reads(cluster: Cluster) -> None:
    """It may forge its own waits. Its energy, and the size of the segment, are not its to change."""
    tried, own, other = beside_a_victim(cluster, "segment", "3")
    assert tried == {"truncate": "PermissionError", "extend": "PermissionError", "seal": "PermissionError"}
    assert own["energy"]["joules"] > 0 and own["policy"]["used"] == "nap"
    check_victim(other)


def test_a_segment_that_is_replaced(cluster: Cluster) -> None:
    tried, own, other = beside_a_victim(cluster, "replace", "2")
    assert tried == {"reopen": "done", "replace": "done", "stepd": "PermissionError"}
    assert own["wait"] is None and own["energy"]["joules"] > 0
    check_victim(other)


@pytest.mark.soak
def test_very_many_processes(cluster: Cluster) -> None:
    """All of them hold the segment; the step ends, and the node is usable."""
    tried, own, other = beside_a_victim(cluster, "forks", "1")
    assert int(tried["started"]) > 100 and own["energy"]["joules"] > 0
    check_victim(other)
    assert cluster.node_run("c1", ["pgrep", "-f", "hostile_job.py"]).stdout == ""


def test_every_variable_of_ours_set_by_the_user(cluster: Cluster) -> None:
    """What slurmstepd sets wins, and what it does not set is not believed."""
    forged = {
        "MPI_WAIT_CONFIG": "v=1;rungs=nap;segment=0:1:1", "LD_PRELOAD": "/tmp/libmpiwait.so",
        "_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy": "pstate,csv=/root",
        "SPANK_MPI_WAIT_POLICY": "../../root", "MPI_WAIT_LEASE": "0", "SLURM_SPANK_MPI_WAIT": "x" * 100_000,
    }
    job, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi-wait-policy=nap", "sh", "-c", "echo $LD_PRELOAD; echo"
                                    " $MPI_WAIT_CONFIG"], env=forged)
    preload, config = done.stdout.splitlines()[-2:]
    assert preload.startswith("/opt/mpi-wait/") and preload.split(":")[0].endswith(LIBRARY)
    assert "segment=0:1:1" not in config and "rungs=pause+nap" in config
    assert jobs.record(cluster, job)["policy"] == {"asked": "nap", "used": "nap", "by": "job"}


@pytest.mark.parametrize("value", ["nap\nprofile", "na'p", 'na"p', "nap,csv=$(id)\n", "../../etc/passwd", "../nap",
                                   "nap,csv=../../../root", "x" * 120_000, "nap," + "profile," * 5000, "\x1b[2J", "é"])
def test_option_values_that_are_none(cluster: Cluster, value: str) -> None:
    """Refused in words that a terminal survives; or, a path for csv=, opened as the user who may not."""
    done = cluster.run(["srun", "-N1", "-n1", f"--mpi-wait-policy={value}", "true"])
    assert "\x1b" not in done.stderr and len(done.stderr) < 4000
    if "csv=../" not in value:
        assert done.returncode != 0 and "mpi-wait" in done.stderr, done.stderr


@pytest.mark.parametrize("value", ["../../root/x", "nap\nx", "x" * 60_000, "nap,csv=/root,slowdown=nan"])
def test_a_forged_option_of_any_shape(cluster: Cluster, value: str) -> None:
    """Past the client's check, as a variable that the user set: the node parses it again."""
    job, done = jobs.srun(cluster, ["-n1", "sh", "-c", "echo ${LD_PRELOAD:-none}"],
                          env={"_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy": value})
    assert done.stdout == "none\n"
    assert jobs.has_no_record(cluster, job)


def test_a_fake_of_our_library(cluster: Cluster) -> None:
    """The user's own library of our name is loaded behind ours, into the user's own program, and that is all."""
    fake = cluster.put(BUILD / "preload/libmpiwait.so", "libmpiwait.so")
    job, done = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "3", "10", "2"],
                          env={"LD_PRELOAD": fake})
    assert done.returncode == 0
    assert jobs.record(cluster, job)["wait"]["ranks"] <= 2


def test_links_in_a_directory_of_its_own(cluster: Cluster) -> None:
    """csv= names a directory whose entries turn into links to root's files, all through the step and its end."""
    place = f"{cluster.share}/links"
    cluster.run(["mkdir", "-p", f"{place}/csv"], check=True)
    before = prepare(cluster)
    racer = cluster.node_run("c1", ["sh", "-c", f"chmod 777 {place}"])
    assert racer.returncode == 0
    race = cluster.popen(["srun", "--job-name=race", "-N1", "-n1", "-w", "c1", PYTHON, PROGRAM, "links", "6", place],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(3):
        jobs.srun(cluster, ["-N1", "-n1", "-w", "c1", f"--mpi-wait-policy=nap,csv={place}/csv",
                            f"{PROGRAMS}/unbalanced", "2", "10", "2"], check=False)
    race.communicate(timeout=60)
    assert files_of_root(cluster) == before
    assert cluster.node_run("c1", ["cat", PRECIOUS]).stdout == "precious\n"
