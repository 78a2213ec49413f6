"""csv=DIR from option to files: two nodes, mpirun, killed ranks, places where the user may not write, a full disk."""

from __future__ import annotations

import csv
import io
import re

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]


def files(cluster: Cluster, directory: str) -> list[str]:
    return cluster.run(["ls", "-A", directory]).stdout.split()


def table(cluster: Cluster, directory: str, kind: str, job: int, node: str, step: str = "0") -> list[dict[str, str]]:
    path = f"{directory}/mpi-wait_{kind}.{job}.{step}.{node}.csv"
    return list(csv.DictReader(io.StringIO(cluster.run(["cat", path], check=True).stdout)))


def made(cluster: Cluster, name: str) -> str:
    """A directory of the user's."""
    place = f"{cluster.share}/csv-{name}"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    return place


def play_on_two_nodes(cluster: Cluster) -> None:
    place = made(cluster, "job")
    as_told = ["sh", "-c", "umask 027; cd /; exec \"$@\"", "sh", *UNBALANCED]
    job, _ = jobs.srun(cluster, ["-N2", "-n4", f"--chdir={place}", "--mpi-wait-policy=nap,csv=out", *as_told])
    record = jobs.record(cluster, job)
    assert record["wait"]["profile"]["MPI_Allreduce"]["calls"] > 0
    assert sorted(files(cluster, f"{place}/out")) == sorted(
        f"mpi-wait_{kind}.{job}.0.{node}.csv" for kind in ("time", "msg") for node in ("c1", "c2")
    )
    times = [row for node in ("c1", "c2") for row in table(cluster, f"{place}/out", "time", job, node)]
    assert {row["rank"] for row in times} == {"0", "1", "2", "3"} and {row["end"] for row in times} == {"finalized"}
    calls = {row["rank"]: int(row["calls"]) for row in times if row["function"] == "MPI_Allreduce"}
    assert sum(calls.values()) == record["wait"]["profile"]["MPI_Allreduce"]["calls"]
    sizes = table(cluster, f"{place}/out", "msg", job, "c1")
    assert sum(int(row["calls"]) for row in sizes if row["rank"] == "0" and row["function"] == "MPI_Allreduce") \
        == calls["0"]
    owner = cluster.run(["stat", "-c", "%U %a", f"{place}/out/mpi-wait_time.{job}.0.c1.csv"]).stdout.split()
    assert owner == ["alice", "640"]
    assert record["csv"] == {"written": 2}


def test_one_pair_of_files_per_node(cluster: Cluster) -> None:
    """DIR is relative to the task's directory, and made there, wherever the program goes; the profile comes with it."""
    play_on_two_nodes(cluster)


def test_the_same_where_slurm_tracks_processes_by_cgroup(cluster_cgroup: Cluster) -> None:
    play_on_two_nodes(cluster_cgroup)


def test_where_a_rank_was_killed_the_record_alone_has_the_waits(cluster: Cluster) -> None:
    place = made(cluster, "killed")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "--overcommit", f"--mpi-wait-policy=nap,csv={place}", "timeout", "-s",
                                 "KILL", "2", f"{PROGRAMS}/late_sender", "60000"], check=False)
    record = jobs.record(cluster, job)
    assert record["csv"] == {"written": 0, "failed": {"killed": 1}} and files(cluster, place) == []
    assert record["wait"]["ranks"] == 2 and record["wait"]["max"]["s"] > 0.5
    report = cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], check=True).stdout
    assert "csv= left no files on 1 of 1 node (each step counts): killed." in " ".join(report.split())


def test_a_cancelled_job_on_two_nodes_has_none(cluster: Cluster) -> None:
    place = made(cluster, "cancelled")
    argv = ["-N2", "-n2", f"--mpi-wait-policy=nap,csv={place}"]
    job = jobs.sbatch(cluster, f"srun {PROGRAMS}/late_sender 60000\n", argv)
    cluster.wait_job(job, states=["RUNNING"])
    wait_for(lambda: max(jobs.waited_s(cluster, "c2", job), default=0) > 1, "a rank that waits")
    cluster.run(["scancel", str(job)], check=True)
    record = jobs.record(cluster, job)
    assert record["csv"] == {"written": 0, "failed": {"killed": 2}} and files(cluster, place) == []
    assert record["wait"]["ranks"] == 2 and record["wait"]["max"]["s"] > 1


def test_a_second_mpirun_of_a_batch_step_writes_both(cluster: Cluster) -> None:
    """The ranks are no tasks of Slurm's there. Each time none is left, the files are those of all so far."""
    place = made(cluster, "mpirun")
    mpirun = f"mpirun.openmpi -n 2 {' '.join(UNBALANCED)}\ncut -d, -f2 {place}/mpi-wait_time.*.csv | sort -u | wc -l\n"
    job = jobs.sbatch(cluster, mpirun * 2, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={place}"])
    record = jobs.record(cluster, job)
    counts = [line for line in jobs.output(cluster, job).splitlines() if line.isdigit()]
    assert counts == ["3", "5"], "lines with a head"
    assert record["csv"] == {"written": 1} and record["wait"]["ranks"] == 4
    rows = table(cluster, place, "time", job, "c1", "batch")
    assert {row["end"] for row in rows} == {"finalized"} and {row["rank"] for row in rows} == {"0", "1"}
    assert len(files(cluster, place)) == 2


def test_the_files_are_there_when_srun_returns(cluster: Cluster) -> None:
    """In the script that called it, without a moment between; each step has its own."""
    place = made(cluster, "at-once")
    script = f"srun {' '.join(UNBALANCED)}\nls {place}\n" * 2
    job = jobs.sbatch(cluster, script, ["-N2", "-n2", f"--mpi-wait-policy=nap,csv={place}"])
    cluster.wait_job(job)
    listed = re.findall("^mpi-wait_.*$", jobs.output(cluster, job), re.M)
    first, second = (
        [f"mpi-wait_{kind}.{job}.{step}.{node}.csv" for kind in ("time", "msg") for node in cluster.nodes]
        for step in (0, 1)
    )
    assert sorted(listed) == sorted([*first, *first, *second])


def test_a_rank_that_outlives_its_task_is_in_the_files(cluster: Cluster) -> None:
    """They are written when it has ended, not with the task."""
    place = made(cluster, "outlived")
    command = f"{PROGRAMS}/held {place}/done & while [ ! -e {place}/go ]; do sleep 0.05; done"
    job, process = jobs.begin(cluster, ["-N1", "-n2", "--overcommit", f"--mpi-wait-policy=nap,csv={place}", "sh",
                                        "-c", command])
    node = cluster.nodes[0]
    wait_for(lambda: max(jobs.waited_s(cluster, node, job), default=0) > 0.5, "a rank that waits")
    cluster.node_run("submit", ["touch", f"{place}/go"], check=True)
    ended = f"[{job}.0] task "
    wait_for(lambda: sum(ended in line and "exited" in line for line in
                         cluster.logs(f"slurmd-{node}").splitlines()) == 2, "the end of both tasks")
    cluster.node_run("submit", ["touch", f"{place}/done"], check=True)
    process.wait(timeout=60)
    cluster.wait_job(job)
    rows = table(cluster, place, "time", job, node)
    assert {(row["rank"], row["end"]) for row in rows} == {("0", "finalized"), ("1", "finalized")}


NO_DIRECTORY, NOT_ALLOWED, NO_SPACE = "no such directory", "no permission to write there", "no space left"


@pytest.mark.parametrize(("make", "reason"), [
    ("mkdir -m 700 {}", NOT_ALLOWED),
    ("mkdir -m 700 {0}-target; ln -s {0}-target {0}", NOT_ALLOWED),
    ("touch {}", NO_DIRECTORY),
    ("mkfifo {}", NO_DIRECTORY),
], ids=["closed", "link", "file", "fifo"])
def test_where_the_user_may_not_write_nothing_is_written(cluster: Cluster, make: str, reason: str) -> None:
    place = f"{cluster.share}/csv-{len(make)}"
    cluster.node_run("submit", ["sh", "-ec", make.format(place)], check=True)
    job, done = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={place}", *UNBALANCED])
    assert done.stderr == "" and jobs.record(cluster, job)["csv"] == {"written": 0, "failed": {reason: 1}}
    found = cluster.node_run("submit", ["find", str(cluster.share), "-path", f"{place}*", "-name", "*mpi-wait*"])
    assert found.stdout == ""


def test_a_name_that_is_too_long(cluster: Cluster) -> None:
    job, _ = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv=/{'x' * 245}", *UNBALANCED])
    assert jobs.record(cluster, job)["csv"]["failed"] == {NOT_ALLOWED: 1}
    _, refused = jobs.srun(cluster, ["-N1", "-n1", f"--mpi-wait-policy=nap,csv=/{'x' * 300}", "true"], check=False)
    assert refused.returncode != 0 and "longer than" in refused.stderr


def test_a_directory_that_is_not_there_is_said_afterwards(cluster: Cluster) -> None:
    job, done = jobs.srun(cluster, ["--mpi-wait-policy=nap,csv=/missing/out", "-N2", "-n2", *UNBALANCED])
    assert done.stderr == ""
    assert jobs.record(cluster, job)["csv"] == {"written": 0, "failed": {NO_DIRECTORY: 2}}
    report = cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], check=True).stdout
    assert "csv= left no files on 2 of 2 nodes (each step counts): no such directory." in " ".join(report.split())


IN_PLACES = {
    "the directory vanishes": ("{0}/gone/out", "rm -rf {0}/gone", NO_DIRECTORY),
    "a full disk": ("{0}/disk", "mount -t tmpfs -o size=16k none {0}/disk; cat /dev/zero >{0}/disk/fill 2>/dev/null",
                    NO_SPACE),
    "a disk that is read-only": ("{0}/disk", "mount -t tmpfs -o ro none {0}/disk", NOT_ALLOWED),
}


@pytest.mark.parametrize("what", IN_PLACES)
def test_a_place_that_changes_before_the_end(cluster: Cluster, what: str) -> None:
    """It changes for the program alone, in whose mounts the files are to be. The program does not notice."""
    place = made(cluster, what.replace(" ", "-"))
    cluster.run(["mkdir", f"{place}/gone", f"{place}/disk"], check=True)
    directory, change, reason = IN_PLACES[what]
    command = ["unshare", "-Urm", "sh", "-c", f"{change.format(place)}; exec \"$@\"", "sh"]
    job, done = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={directory.format(place)}", *command,
                                    *UNBALANCED])
    assert "checksum=" in done.stdout and "mpi-wait" not in done.stderr
    assert jobs.record(cluster, job)["csv"] == {"written": 0, "failed": {reason: 1}}
    assert cluster.run(["find", place, "-name", "*mpi-wait*"], check=True).stdout == ""
