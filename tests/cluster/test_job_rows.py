"""Which row of slurmdbd a record goes to: arrays, heterogeneous, resized jobs; and what is in no record."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.spool_jobs import record_of
from tests.lib.throwaway import Cluster
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
NAP = "--mpi-wait-policy=nap"
REPORT = ["/opt/mpi-wait/bin/mpi-wait", "report"]
MARK = "qjxmarkxjq"
LIAR = ["/usr/bin/python3", "/srv/cluster/lib/tests/lib/programs/liar.py"]


def numbered(record: dict[str, Any]) -> list[str]:
    return [step["id"] for step in record["steps"] if step["id"].isdigit()]


def rows(cluster: Cluster, job: int) -> list[dict[str, str]]:
    """All runs of a job, those before it was resized too; the first that ended first."""
    found = cluster.sacct(job, ["State", "End", "NodeList", "AdminComment"], extra=["-X", "-D"])
    return sorted(found, key=lambda row: row["End"])


def test_each_task_of_an_array_has_its_own(cluster: Cluster) -> None:
    """Task i runs i + 1 steps. One task's raw id is the array's: a bare id there means them all."""
    script = f"for i in $(seq 0 $SLURM_ARRAY_TASK_ID); do srun -n1 {PROGRAMS}/unbalanced 2 2 2; done\n"
    array = jobs.sbatch(cluster, script, ["-N1", "-n1", "--array=0-4", NAP, "--output=/dev/null"])
    cluster.wait_job(array, timeout=180)
    found = {task: jobs.record(cluster, f"{array}_{task}", timeout=90) for task in range(5)}
    assert {task: len(numbered(record)) for task, record in found.items()} == {i: i + 1 for i in range(5)}
    assert len({json.dumps(record) for record in found.values()}) == 5
    raw = cluster.sacct(array, ["JobIDRaw", "JobID"], extra=["-X"])
    assert str(array) in {row["JobIDRaw"] for row in raw}, "no task has the array's id: nothing was tested"


def test_an_array_is_one_table(cluster: Cluster) -> None:
    """By the array's number, by its tasks' numbers on standard input and by the names of their output files."""
    folder = f"{cluster.share}/array"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", folder], check=True)
    argv = ["-N1", "-n2", "--array=0-3", NAP, f"--output={folder}/slurm-%A_%a.out"]
    array = jobs.sbatch(cluster, f"srun {PROGRAMS}/unbalanced 20 5 2\n", argv)
    cluster.wait_job(array, timeout=180)
    tasks = [f"{array}_{task}" for task in range(4)]
    joules = [jobs.record(cluster, task, timeout=90)["energy"]["joules"] for task in tasks]
    answer = json.loads(cluster.run([*REPORT, "--json", str(array)], check=True).stdout)
    assert [job["job"] for job in answer["jobs"]] == tasks and {job["ranks"] for job in answer["jobs"]} == {2}
    assert [job["joules"] for job in answer["jobs"]] == joules and answer["sums"]["with_record"] == 4
    assert answer["sums"]["joules"] == pytest.approx(sum(joules)) and answer["unknown"] == []
    assert answer["spread"]["joules"]["most"] == max(joules)
    text = cluster.run([*REPORT, str(array)], check=True).stdout
    assert text.startswith(f"Array {array}  ") and "4 COMPLETED" in text and re.search(r"^  total +4 jobs", text, re.M)
    raw = [row["JobIDRaw"] for row in cluster.sacct(array, ["JobIDRaw"], extra=["-X"])]
    for numbers in (tasks, [*raw, "4000000000"]):
        listed = cluster.run([*REPORT, "--json", "-"], input="\n".join(numbers), check=True).stdout
        assert json.loads(listed) == {**answer, "unknown": numbers[4:]}
    assert json.loads(cluster.run([*REPORT, "--json", folder], check=True).stdout) == answer
    brief = cluster.run([*REPORT, "--brief", str(array)], check=True).stdout.splitlines()
    assert len([line for line in brief if line.startswith(f"  {array}_")]) == 4 and "total" in brief[-1]


def test_each_component_of_a_het_job_has_its_own(cluster: Cluster) -> None:
    first, second = f"srun --het-group=0 -n1 {PROGRAMS}", f"srun --het-group=1 -n1 {PROGRAMS}"
    script = f"{first}/unbalanced 2 2 2\n{second}/unbalanced 2 2 2\n{second}/unbalanced 2 2 2\n"
    argv = ["-N1", "-n1", "-w", "c1", NAP, ":", "-N1", "-n1", "-w", "c2", NAP]
    job = jobs.sbatch(cluster, script, argv)
    cluster.wait_job(job, timeout=90)
    found = [jobs.record(cluster, f"{job}+{component}", timeout=90) for component in range(2)]
    assert [record["nodes"] for record in found] == [{"reported": 1, "of": 1}] * 2
    assert [len(numbered(record)) for record in found] == [1, 2], found
    assert [record["wait"]["max"]["node"] for record in found] == ["c1", "c2"]


def test_a_resized_job_is_one_record_on_its_last_row(cluster: Cluster) -> None:
    """The node that was given back reports long before the others, by another node list. The middle of the run is in
    the row that it had before."""
    script = (
        f"srun -N2 -n2 {PROGRAMS}/unbalanced 2 10 2\nsleep 8\n"
        "scontrol update jobid=$SLURM_JOB_ID numnodes=1 >/dev/null\n"
        ". ./slurm_job_${SLURM_JOB_ID}_resize.sh; rm -f slurm_job_*\nsleep 4\n"
        f"srun -n1 {PROGRAMS}/unbalanced 2 10 2\n"
    )
    job = jobs.sbatch(cluster, script, ["-N2", "-n2", NAP])
    cluster.wait_job(job, timeout=90)

    def stored() -> str:
        jobs.flush(cluster)
        return rows(cluster, job)[-1]["AdminComment"]
    wait_for(stored, "the record on the last row")
    last = rows(cluster, job)[-1]
    first = rows(cluster, job)[0]
    assert (first["State"], first["AdminComment"]) == ("RESIZING", "") and last["NodeList"] == "c1"
    record = record_of(last["AdminComment"])
    assert record["nodes"] == {"reported": 2, "of": 2}
    assert {step["id"]: step["ranks"] for step in record["steps"] if step["id"].isdigit()} == {"0": 2, "1": 1}


def test_a_job_that_is_shorter_than_slurmdbds_patience(cluster: Cluster) -> None:
    """slurmctld tells slurmdbd of a job seconds later: until then there is no row."""
    job, _ = jobs.srun(cluster, ["-N1", "-n1", NAP, "true"])
    assert jobs.record(cluster, job)["nodes"] == {"reported": 1, "of": 1}


def test_a_job_without_steps(cluster: Cluster) -> None:
    job = int(cluster.run(["salloc", "-N1", "-n1", NAP, "printenv", "SLURM_JOB_ID"]).stdout)
    record = jobs.record(cluster, job)
    assert record["nodes"] == {"reported": 1, "of": 1} and record["wait"] is None and record["steps"] == []


def test_nothing_that_the_user_wrote_is_in_the_record(cluster: Cluster) -> None:
    """A job whose every name, option and variable is a marker."""
    folder = f"{cluster.share}/{MARK}"
    cluster.run(["mkdir", "-p", folder], check=True)
    program = f"{folder}/{MARK}"
    cluster.run(["cp", f"{PROGRAMS}/unbalanced", program], check=True)
    names = ["--job-name", "--comment", "--wckey"]
    argv = [f"{name}={MARK}" for name in names] + [f"--chdir={folder}", f"--output={folder}/{MARK}.out"]
    argv += ["-N2", "-n2", f"--mpi-wait-policy=nap,csv={folder}/{MARK}", f"--export=ALL,{MARK}={MARK}"]
    script = f"export MPI_WAIT_{MARK.upper()}={MARK}\nsrun --job-name={MARK} {program} 2 5 2 {MARK}\n"
    job = jobs.sbatch(cluster, script, argv, env={MARK.upper(): MARK, "SLURM_JOB_COMMENT": MARK})
    record = jobs.record(cluster, job)
    assert record["wait"]["ranks"] == 2
    # a row that is of the step's making is named "allocation" until the job's comes
    wait_for(lambda: jobs.comment(cluster, job, "JobName") == MARK, "the job's own row")
    (row,) = cluster.sacct(job, ["JobName", "AdminComment", "SystemComment"], extra=["-X"])
    assert row["JobName"] == MARK and MARK not in (row["AdminComment"] + row["SystemComment"]).lower()


@pytest.mark.parametrize("kind", ["ones", "nan", "negative", "noise", "claims"])
def test_a_rank_that_lies_is_bounded_and_marked(cluster: Cluster, kind: str) -> None:
    job, done = jobs.srun(cluster, ["-N1", "-n1", NAP, *LIAR, kind])
    assert "lied" in done.stdout and "slurmstepd" not in done.stderr
    text = json.dumps(record := jobs.record(cluster, job))
    assert "NaN" not in text and "Infinity" not in text and len(text) <= 60_000
    wait = record["wait"]
    if kind == "claims":
        assert wait is None or wait["unseen"] <= 1_000_000
        return
    assert wait["doubtful"] > 0
    assert wait["max"]["s"] <= record["elapsed_s"] * 8, "eight threads at most, as long as the job"
