"""csv=DIR from option to files: two nodes, killed ranks, places where the user may not write, a helper that hangs."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.record_tools import BUILD
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
HELPER = "/opt/mpi-wait/libexec/mpi-wait/mpi-wait-csv"
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]


def files(cluster: Cluster, directory: str) -> list[str]:
    return cluster.run(["ls", "-A", directory]).stdout.split()


def table(cluster: Cluster, directory: str, kind: str, job: int, node: str, step: str = "0") -> list[dict[str, str]]:
    path = f"{directory}/mpi-wait_{kind}.{job}.{step}.{node}.csv"
    return list(csv.DictReader(io.StringIO(cluster.run(["cat", path], check=True).stdout)))


def complained(cluster: Cluster, job: int) -> str:
    """What the slurmstepds said of the files. They may end after srun."""
    cluster.wait_job(job)
    lines = [line for node in cluster.nodes for line in cluster.logs(f"slurmd-{node}").splitlines()]
    return "\n".join(line for line in lines if f"mpi-wait: job {job} step" in line and "csv" in line)


def home(cluster: Cluster) -> str:
    return cluster.run(["pwd"], check=True).stdout.strip()


def play_on_two_nodes(cluster: Cluster) -> None:
    place = f"{cluster.share}/csv-job"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    job, _ = jobs.srun(cluster, ["-N2", "-n4", f"--chdir={place}", "--mpi-wait-policy=nap,csv=out", *UNBALANCED])
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
    assert owner == ["alice", "600"]
    assert not complained(cluster, job)
    assert record["csv"] == {"written": 2}


def test_one_pair_of_files_per_node(cluster: Cluster) -> None:
    """DIR is relative to the job's directory, and made there; the profile comes with it."""
    play_on_two_nodes(cluster)


def test_the_same_where_slurm_tracks_processes_by_cgroup(cluster_cgroup: Cluster) -> None:
    play_on_two_nodes(cluster_cgroup)


def test_ranks_that_were_killed_are_there(cluster: Cluster) -> None:
    place = f"{cluster.share}/csv-killed"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "--overcommit", f"--mpi-wait-policy=nap,csv={place}", "timeout", "-s",
                                 "KILL", "2", f"{PROGRAMS}/late_sender", "60000"], check=False)
    cluster.wait_job(job)
    rows = table(cluster, place, "time", job, "c1")
    assert {row["end"] for row in rows} == {"died"}
    waited = [float(row["wait_s"]) for row in rows if row["function"] == "MPI_Recv"]
    assert max(waited) > 0.5


def test_a_cancelled_job_on_two_nodes_has_its_files(cluster: Cluster) -> None:
    place = f"{cluster.share}/csv-cancelled"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    argv = ["-N2", "-n2", f"--mpi-wait-policy=nap,csv={place}"]
    job = jobs.sbatch(cluster, f"srun {PROGRAMS}/late_sender 60000\n", argv)
    cluster.wait_job(job, states=["RUNNING"])
    wait_for(lambda: max(jobs.waited_s(cluster, "c2", job), default=0) > 1, "a rank that waits")
    cluster.run(["scancel", str(job)], check=True)
    assert not complained(cluster, job)
    rows = [row for node in ("c1", "c2") for row in table(cluster, place, "time", job, node)]
    assert {(row["rank"], row["end"]) for row in rows} == {("0", "died"), ("1", "died")}
    waited = [float(row["wait_s"]) for row in rows if (row["rank"], row["function"]) == ("1", "MPI_Recv")]
    assert waited and waited[0] > 1


@pytest.mark.parametrize(("make", "words"), [
    ("mkdir -m 700 {}", "Permission denied"),
    ("mkdir -m 700 {0}-target; ln -s {0}-target {0}", "Permission denied"),
    ("touch {}", "Not a directory"),
    ("mkfifo {}", "Not a directory"),
], ids=["closed", "link", "file", "fifo"])
def test_where_the_user_may_not_write_nothing_is_written(cluster: Cluster, make: str, words: str) -> None:
    place = f"{cluster.share}/csv-{len(make)}"
    cluster.node_run("submit", ["sh", "-ec", make.format(place)], check=True)
    job, done = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv={place}", *UNBALANCED])
    assert f'"{place}": {words} on this host; if it is so on the nodes' in done.stderr
    assert f'no file of csv= was written in "{place}": {words}' in complained(cluster, job)
    found = cluster.node_run("submit", ["find", str(cluster.share), "-path", f"{place}*", "-name", "*mpi-wait*"])
    assert found.stdout == ""


def test_a_name_that_is_too_long(cluster: Cluster) -> None:
    job, _ = jobs.srun(cluster, ["-N1", "-n2", f"--mpi-wait-policy=nap,csv=/{'x' * 245}", *UNBALANCED])
    assert "Permission denied" in complained(cluster, job)
    _, refused = jobs.srun(cluster, ["-N1", "-n1", f"--mpi-wait-policy=nap,csv=/{'x' * 300}", "true"], check=False)
    assert refused.returncode != 0 and "longer than" in refused.stderr


def test_a_directory_that_is_not_there_is_said_at_submission_and_afterwards(cluster: Cluster) -> None:
    """Refused where the nodes must see the same, said in the record, the report and the log where they need not."""
    argv = ["-N2", "-n2", *UNBALANCED]
    refused, done = jobs.srun(cluster, ["--mpi-wait-policy=nap,csv=missing/out", *argv], check=False)
    assert (refused, done.returncode) == (0, 1)
    assert 'csv=missing/out: "missing": No such file or directory; nothing was submitted' in done.stderr
    job, done = jobs.srun(cluster, ["--mpi-wait-policy=nap,csv=/missing/out", *argv])
    assert '"/missing": No such file or directory on this host; if it is so on the nodes' in done.stderr
    assert jobs.record(cluster, job)["csv"] == {"written": 0, "failed": {"no such directory": 2}}
    report = cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], check=True).stdout
    assert "csv= left no files on 2 of 2 nodes (each step counts): no such directory." in " ".join(report.split())
    said = complained(cluster, job)
    assert 'in "/missing/out": No such file or directory' in said and "mpi-wait-csv" not in said


def replace_helper(cluster: Fleet, folder: Path, name: str, source: str, nodes: int = 1) -> Cluster:
    """A variant whose helper is that C program: a script that users cannot read could not be run as them."""
    program = folder / f"{name}.c"
    program.write_text(f"#include <unistd.h>\nint main(int count, char **words) {{ (void)count; {source} }}\n")
    subprocess.run(["gcc", "-static", "-o", program.with_suffix(""), program], check=True)
    inside = cluster.put(program.with_suffix(""), mode=0o711)
    variant = cluster.variant(name=f"{name} helper", nodes=nodes)
    for node in variant.nodes:
        variant.node_run(node, ["mount", "--bind", inside, HELPER], check=True)
    return variant


@pytest.fixture(scope="module")
def slow_cluster(cluster: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes on which it takes a second before anything is written."""
    copy = cluster.put(BUILD / "spank/mpi-wait-csv")
    with cluster.variants():
        source = f'sleep(1); return execv("{copy}", words);'
        yield replace_helper(cluster, tmp_path_factory.mktemp("slow"), "slow", source, nodes=2)


def test_the_files_are_there_when_srun_returns(slow_cluster: Cluster) -> None:
    """In the script that called it, without a moment between."""
    cluster, place = slow_cluster, f"{slow_cluster.share}/csv-at-once"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    script = f"srun {' '.join(UNBALANCED)}\nls {place}\n"
    job = jobs.sbatch(cluster, script, ["-N2", "-n2", f"--mpi-wait-policy=nap,csv={place}"])
    cluster.wait_job(job)
    listed = re.findall("^mpi-wait_.*$", jobs.output(cluster, job), re.M)
    assert sorted(listed) == sorted(
        f"mpi-wait_{kind}.{job}.0.{node}.csv" for kind in ("time", "msg") for node in cluster.nodes
    )


def test_a_rank_that_outlives_its_task_is_in_the_files(cluster: Cluster) -> None:
    """They are written when it has ended, not with the task."""
    place = f"{cluster.share}/csv-outlived"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
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


@pytest.fixture(scope="module")
def hanging_cluster(cluster: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node on which the helper never ends: signals are ignored from the start."""
    with cluster.variants():
        yield replace_helper(cluster, tmp_path_factory.mktemp("hangs"), "hanging", "(void)words; for (;;) pause();")


def test_a_helper_that_hangs_holds_the_step_ten_seconds(hanging_cluster: Cluster) -> None:
    cluster = hanging_cluster
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap,csv=out", *UNBALANCED])
    cluster.wait_job(job, timeout=60)
    record = jobs.record(cluster, job)
    assert record["wait"]["profile"]
    assert record["csv"]["written"] == 0 and record["csv"]["failed"].keys() <= {"not done within ten seconds", "killed"}
    # By us, or before that by Slurm, which counts it among the step's processes once the job ends.
    assert re.search("was killed after 10 s|died of signal 9", complained(cluster, job))
    names = [Path(f"/proc/{pid}/comm").read_text() for pid in cluster.pids(cluster.nodes[0])]
    assert "mpi-wait-csv\n" not in names and "sleep\n" not in names
