"""A site where jobs keep to themselves: PrivateData=jobs, and a /tmp of each job's own (job_container/tmpfs)."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import default_way, jobs
from tests.lib.grants import wait_for
from tests.lib.held import held
from tests.lib.jobs import PROGRAMS
from tests.lib.namespaces import make_nodes_older
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = pytest.mark.cluster
CONF = {"JobContainerType": "job_container/tmpfs", "PrologFlags": "Contain", "PrivateData": "jobs"}
CONTAINERS = "/var/spool/job_containers"
ETC = {"job_container.conf": f"AutoBasePath=true\nBasePath={CONTAINERS}\n", "slurmdbd.conf": "PrivateData=jobs\n"}
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]
REPORT = ["/opt/mpi-wait/bin/mpi-wait", "report"]


@pytest.fixture(scope="module")
def private_cluster() -> Iterator[Cluster]:
    """Two nodes."""
    cluster = Cluster(nodes=2, slurm_conf=CONF, etc=ETC, **project_cluster_arguments())
    make_nodes_older(start_or_skip(cluster))
    yield cluster
    cluster.stop()


def test_a_job_with_a_tmp_of_its_own_has_its_record_and_its_rows(private_cluster: Cluster) -> None:
    """The segment reaches the ranks, csv= in a directory that only the job's own /tmp has is written there, and nothing
    of ours remains on the nodes."""
    cluster = private_cluster
    show = "cat /tmp/own/out/mpi-wait_time.*.0.c1.csv"
    script = (f"mkdir /tmp/own\n"
              f"srun -N1 -n2 -w c1 --chdir=/tmp/own --mpi-wait-policy=nap,csv=out {' '.join(UNBALANCED)}\n{show}\n"
              f"srun -N2 -n4 {' '.join(UNBALANCED)}\n")
    job = jobs.sbatch(cluster, script, ["-N2", "-n4", "--mpi-wait-policy=nap"])
    assert cluster.wait_job(job) == "COMPLETED", jobs.output(cluster, job)
    record = jobs.record(cluster, job)
    assert record["nodes"] == {"reported": 2, "of": 2} and record["energy"]["joules"] > 0
    steps = {step["id"]: step for step in record["steps"]}
    assert steps["0"]["ranks"] == 2 and steps["1"]["ranks"] == 4
    printed = jobs.output(cluster, job)
    table = printed[printed.index("rank,pid"):].splitlines()
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in table if line.count(",") == 8))))
    calls = [int(row["calls"]) for row in rows if row["function"] == "MPI_Allreduce"]
    assert calls == [5, 5] and {row["end"] for row in rows} == {"finalized"}
    for node in cluster.nodes:
        places = f"/tmp/out /tmp/own /run/mpi-wait/*/{job} {CONTAINERS}/{job} /var/spool/mpi-wait/out/*-{job}-*"
        assert cluster.node_run(node, ["sh", "-c", f"ls -d {places} 2>/dev/null"]).stdout == "", node


@pytest.fixture(scope="module")
def alices_job(private_cluster: Cluster) -> int:
    job, _ = jobs.srun(private_cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", *UNBALANCED])
    jobs.record(private_cluster, job)
    return job


@pytest.mark.parametrize("user", ["alice", "root"])
def test_the_owner_and_root_see_the_record(private_cluster: Cluster, alices_job: int, user: str) -> None:
    shown = private_cluster.run(["sacct", "-n", "-X", "-P", "-j", str(alices_job), "-o", "AdminComment"], user=user)
    assert json.loads(shown.stdout)["mpi_wait"]["wait"]["ranks"] == 2
    report = private_cluster.run([*REPORT, str(alices_job)], user=user)
    assert report.returncode == 0 and "MPI_Allreduce" in report.stdout, report.stderr


def test_another_user_sees_neither_job_nor_record(private_cluster: Cluster, alices_job: int) -> None:
    """Not by name, not among all jobs, not with the report, and in no file of ours."""
    cluster = private_cluster
    for asked in (["-j", str(alices_job)], ["--allusers"], ["--user=alice"]):
        shown = cluster.run(["sacct", "-n", "-P", *asked, "-o", "JobID,AdminComment"], user="bob")
        assert shown.stdout == "", asked
    report = cluster.run([*REPORT, str(alices_job)], user="bob")
    assert report.returncode != 0 and report.stdout == "" and str(alices_job) in report.stderr
    as_json = cluster.run([*REPORT, "--json", str(alices_job)], user="bob")
    assert as_json.returncode != 0 and "mpi_wait\"" not in as_json.stdout


def test_what_waits_to_be_written_is_closed_to_others(private_cluster: Cluster) -> None:
    """Records that are on their way lie in files, for as long as slurmdbd does not answer."""
    cluster = private_cluster
    look = ["grep", "-rl", "MPI_Allreduce", cluster.spool, "/var/spool/mpi-wait", "/run/mpi-wait"]
    cluster.kill("slurmdbd", signal.SIGSTOP)
    try:
        job, _ = jobs.srun(cluster, ["-N2", "-n4", "--mpi-wait-policy=nap", *UNBALANCED])
        cluster.wait_job(job)
        wait_for(lambda: cluster.spool in cluster.node_run("c1", look).stdout)
        for node in cluster.nodes:
            assert cluster.node_run(node, look, user="bob").stdout == "", node
        assert cluster.spool in cluster.node_run("c1", look).stdout, "else nothing was looked at"
    finally:
        cluster.kill("slurmdbd", signal.SIGCONT)
    assert jobs.record(cluster, job)["wait"]["ranks"] == 4


def kill_extern(cluster: Cluster, job: int) -> None:
    """Kills the slurmstepd and the task of the step that Slurm adds to each job. That slurmstepd would remove the job's
    mount namespace at its end; slurmd does not wait for this before it starts the epilog."""
    found = cluster.node_run("submit", ["pgrep", "-f", rf"slurmstepd: \[{job}\.extern\]"], check=True).stdout.split()
    tasks = cluster.node_run("submit", ["ps", "-o", "pid=", "--ppid", ",".join(found)], check=True).stdout.split()
    cluster.node_run("submit", ["kill", "-9", *found, *tasks], check=True)


def test_what_a_job_left_in_memory_does_not_last_as_long_as_the_drain(private_cluster: Cluster) -> None:
    """Where the job's mount namespace is still there, Slurm until 23.11 runs the epilog in it. The drain, which waits
    for slurmdbd, is in slurmd's."""
    cluster = private_cluster
    cluster.kill("slurmdbd", signal.SIGSTOP)
    try:
        with held(cluster, ["-N1", "-n2", "-w", "c1", "--mpi-wait-policy=nap"]) as job:
            job.await_ranks(1)
            kill_extern(cluster, job.job)
            job.end()
        drains = [row[0] for row in wait_for(lambda: default_way.writers(cluster))]
        links = [f"/proc/{pid}/ns/mnt" for pid in (cluster.daemons.pid("slurmd-c1"), *drains)]
        slurmd, *theirs = cluster.node_run("submit", ["readlink", *links], check=True).stdout.split()
        kept = ["sh", "-c", f"stat -L -c 'mnt:[%i]' {CONTAINERS}/c1/{job.job}/.ns"]
        assert cluster.node_run("c1", kept, check=True).stdout.strip() != slurmd
        assert theirs == [slurmd] * len(drains)
    finally:
        cluster.kill("slurmdbd", signal.SIGCONT)
    assert jobs.record(cluster, job.job)["wait"]["ranks"] == 2
