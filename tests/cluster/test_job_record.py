"""One job from option to sacct: what a user sees, on a real cluster with simulated energy counters."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator

import jsonschema
import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS, SCHEMA
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
ABSENT = [f"{PROGRAMS}/absent"]


@pytest.mark.release
def test_two_nodes_four_ranks(cluster: Cluster) -> None:
    """One record with both nodes' energy and all ranks' waits; who is away longest waits least."""
    job, done = jobs.srun(
        cluster, ["-N2", "-n4", "--mpi-wait-policy=nap", *ABSENT, "2", "100", "20"]
    )
    record = jobs.record(cluster, job)
    assert record["nodes"] == {"reported": 2, "of": 2}
    assert record["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    wait = record["wait"]
    assert wait["ranks"] == 4 and len(wait["per_rank_s"]) == 4
    assert wait["per_rank_nodes"] == [["c1", 0, 2], ["c2", 2, 2]]
    assert wait["min"]["rank"] == 3 and min(wait["per_rank_s"]) == wait["per_rank_s"][3]
    assert wait["by_call"]["MPI_Allreduce"]["waits"] > 0
    energy = record["energy"]
    assert energy["source"] == "simulated" and energy["scope"] == "node"
    assert energy["joules"] > 0 and "nodes" not in energy
    assert set(energy["zones_j"]) >= {"package", "dram"}
    assert [step["id"] for step in record["steps"]] == ["0"]
    assert "mpi-wait" not in done.stderr and "mpi-wait" not in done.stdout


@pytest.mark.release
def test_sacct_json_parses(cluster: Cluster) -> None:
    job, _ = jobs.srun(
        cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "3", "10", "2"]
    )
    jobs.record(cluster, job)
    shown = json.loads(cluster.run(["sacct", "--json", "-j", str(job)], user="root").stdout)
    text = shown["jobs"][0]["comment"]["administrator"]
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    assert "\n" not in text and len(text) <= 60000


@pytest.mark.release
@pytest.mark.parametrize("end", ["scancel", "segfault", "kill"])
def test_killed_programs_count(cluster: Cluster, end: str) -> None:
    """The waits up to the end are there, whatever the end."""
    program = [f"{PROGRAMS}/crash", "1500" if end == "segfault" else "600000"]
    argv = ["-K1", "-N1", "-n2", "--mpi-wait-policy=nap", *program]
    job, background = jobs.begin(cluster, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if end != "segfault":
        wait_until_waited(cluster, ranks=1, seconds=1)
        if end == "scancel":
            cluster.run(["scancel", str(job)], check=True)
        else:
            cluster.node_run("c1", ["pkill", "-KILL", "-x", "crash"], check=True)
    background.communicate(timeout=60)
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == 2
    assert wait["max"]["s"] > 0.9
    assert "MPI_Barrier" in wait["by_call"]


def wait_until_waited(cluster: Cluster, ranks: int, seconds: float) -> None:
    """Returns when so many ranks have been in the wait that they are in for longer than that."""
    def waiting() -> int:
        return sum(wait_s > seconds for node in cluster.nodes for wait_s in jobs.open_waits_s(cluster, node))
    wait_for(lambda: waiting() >= ranks, f"{ranks} ranks that have waited for {seconds} s")


def test_a_killed_slurmstepd_costs_an_interval(cluster: Cluster) -> None:
    """Under profile the sampler writes each second: what it wrote is in the record, and the node stays usable."""
    argv = ["-N1", "-n2", "-w", "c1", "--mpi-wait-policy=nap,profile", f"{PROGRAMS}/crash", "600000"]
    job, background = jobs.begin(cluster, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: max(jobs.waited_s(cluster, "c1", job), default=0) > 2, "a wait of two seconds that was sampled")
    cluster.node_run("c1", ["pkill", "-KILL", "-f", rf"slurmstepd: \[{job}\."], check=True)
    cluster.run(["scancel", str(job)])
    background.communicate(timeout=60)
    wait = jobs.record(cluster, job, timeout=60)["wait"]
    assert wait["ranks"] == 2 and wait["max"]["s"] > 2
    cluster.wait_nodes()


@pytest.fixture(scope="module")
def limited(cluster: Fleet) -> Iterator[tuple[Cluster, int]]:
    """A job that runs into its limit while the other tests run, on a node of its own. Slurm looks twice a minute."""
    with cluster.variants():
        node = cluster.variant(name="limited")
        argv = ["-N1", "-n2", "-t", "10", "--mpi-wait-policy=nap"]
        job = jobs.sbatch(node, f"srun {PROGRAMS}/late_sender 600000\n", argv)
        node.wait_job(job, states=["RUNNING"])
        node.node_run("submit", ["scontrol", "update", f"jobid={job}", "endtime=now+25"], check=True)
        yield node, job


@pytest.fixture(scope="module", autouse=True)
def limited_first(limited: tuple[Cluster, int]) -> None:
    """Before the first test, so that the last one need not wait."""


@pytest.mark.parametrize("program", ["late_sender", "late_f08", "late_mpi4py.py"])
def test_every_language_shows_its_waits(cluster: Cluster, program: str) -> None:
    """Rank 1 waits in Recv for a rank 0 that comes 700 ms late."""
    python = ["/usr/bin/python3"] if program.endswith(".py") else []
    absence = ["env", f"LATE_ABSENCE={PROGRAMS}/absence.so"]
    cell = [] if program == "late_sender" else ["1", "Recv"]
    argv = ["-N1", "-n2", "--mpi-wait-policy=nap", *absence, *python, f"{PROGRAMS}/{program}", "700", *cell]
    job, _ = jobs.srun(cluster, argv)
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == 2
    assert wait["max"]["s"] > 0.5 and wait["max"]["rank"] == 1
    assert any(name in wait["by_call"] for name in ("MPI_Recv", "MPI_Mrecv", "MPI_Mprobe"))


NAPS = 100  # of some tenths of a millisecond each, and on a busy machine of some milliseconds


def test_the_waiter_sleeps_and_the_result_is_the_same(cluster: Cluster) -> None:
    """Waiting is napping, by our count and by the kernel's, which counts how often the rank leaves its core by itself.
    How much CPU time it costs, a benchmark says: where naps end late it is more, since a late rung has to rest."""
    argv = [f"{PROGRAMS}/late_sender", "2000"]
    _, bare = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=off", *argv])
    job, done = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", *argv])
    off, nap = (dict(word.split("=") for word in each.stdout.split() if "=" in word) for each in (bare, done))
    wait = jobs.record(cluster, job)["wait"]
    assert off["checksum"] == nap["checksum"]
    assert wait["naps"] >= NAPS and 0 < wait["per_rank_asleep_s"][1] <= wait["per_rank_s"][1]
    assert int(nap["left"]) >= NAPS and int(off["left"]) < NAPS / 2 and 0 < wait["cpu_share"] < 1


BYSTANDERS = """
import os, resource, subprocess

def faults(env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    subprocess.run(["/bin/true"], env=env, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before

bare = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "MPI_WAIT_CONFIG")}
print("faults", faults(dict(os.environ)), faults(bare))
"""


def test_bystanders_show_nothing(cluster: Cluster) -> None:
    """bash, tee and python beside the program leave no trace, and starting one touches a few pages more."""
    script = """/usr/bin/python3 -c 'print("python", sum(range(1000)))' | tee /dev/null; /usr/bin/python3 -c "$0" """
    argv = ["-N1", "-n1", "--mpi-wait-policy=nap", "bash", "-c", script, BYSTANDERS]
    job, done = jobs.srun(cluster, argv)
    assert jobs.record(cluster, job)["wait"] is None
    assert "python 499500" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("faults")]
    preloaded, bare = map(int, line.split()[1:])
    assert 0 < bare < preloaded < 1.5 * bare, "was it preloaded?"


@pytest.mark.release
def test_a_node_without_a_step_is_in_the_record(cluster: Cluster) -> None:
    """Without PrologFlags it has had no prolog either: its energy is missing, and that is said."""
    job = jobs.sbatch(cluster, "sleep 1\n", ["-N2", "-n2", "--mpi-wait-policy=nap"])
    record = jobs.record(cluster, job)
    assert record["nodes"] == {"reported": 2, "of": 2}
    assert record["energy"]["nodes"] == 1 and record["wait"] is None


def requeued_start(cluster: Cluster, job: int) -> str:
    """Starts a requeued job early, and waits for its end. slurmctld puts its start off by two minutes, and does so
    again when the last epilog of the first run is through: a slurmd takes no credential that is of the second of the
    end, so the start is put to a later one."""
    seen, requeued_s = [""], time.monotonic()

    def over() -> bool:
        seen[0] = cluster.run(["squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job)]).stdout.strip()
        if seen[0] == "PENDING" and time.monotonic() - requeued_s > 2:
            cluster.node_run("submit", ["scontrol", "update", f"jobid={job}", "starttime=now"])
        return seen[0] in ("COMPLETED", "FAILED")
    wait_for(over, lambda: f"the end of a job that is {seen[0]}", timeout_s=200, pause_s=0.5)
    return seen[0]


@pytest.mark.release
def test_each_run_of_a_requeued_job_has_its_record(cluster: Cluster) -> None:
    """The first run has four ranks, the second two."""
    script = (
        f"((${{SLURM_RESTART_COUNT:-0}} > 0)) && exec srun -N2 -n2 {PROGRAMS}/unbalanced 10 20 2\n"
        f"srun -N2 -n4 {PROGRAMS}/crash 600000\n"
    )
    job = jobs.sbatch(cluster, script, ["-N2", "-n4", "--requeue", "--mpi-wait-policy=nap"])
    cluster.wait_job(job, states=["RUNNING"])
    wait_until_waited(cluster, ranks=3, seconds=0)
    cluster.node_run("submit", ["scontrol", "requeue", str(job)], check=True)
    cluster.wait_job(job, states=["PENDING"])
    again = requeued_start(cluster, job)
    assert again == "COMPLETED", jobs.output(cluster, job) + cluster.run(["scontrol", "show", "job", str(job)]).stdout

    def all_there() -> list[str]:
        jobs.flush(cluster)
        texts = jobs.comments_of_all_runs(cluster, job)
        return texts if all(texts) else []
    records = [json.loads(text)["mpi_wait"] for text in wait_for(all_there, "the records of both runs")]
    assert [record["wait"]["ranks"] for record in records] == [4, 2]
    assert all(record["nodes"]["reported"] == 2 for record in records)


def test_a_step_s_restart_count_is_not_believed(cluster: Cluster) -> None:
    """It is the user's: the second node's part of the energy would be missing."""
    script = "srun -N1 -n1 --overlap -w c1 true\nSLURM_RESTART_COUNT=7 srun -N1 -n1 --overlap -w c2 true\n"
    job = jobs.sbatch(cluster, script, ["-N2", "-n2", "-w", "c1,c2", "--mpi-wait-policy=nap"])
    record = jobs.record(cluster, job)
    assert record["nodes"] == {"reported": 2, "of": 2} and "nodes" not in record["energy"]
    assert {step["id"] for step in record["steps"]} >= {"0", "1"}


def test_fallback_is_said(cluster: Cluster) -> None:
    job, _ = jobs.srun(
        cluster,
        ["-N1", "-n2", "--mpi-wait-policy=umwait", f"{PROGRAMS}/unbalanced", "3", "10", "2"],
    )
    policy = jobs.record(cluster, job)["policy"]
    assert policy["asked"] == "umwait"
    if policy["used"] != "umwait":
        assert policy["used"] == "nap" and policy["why"]


def test_the_report(cluster: Cluster) -> None:
    job, _ = jobs.srun(
        cluster, ["-N2", "-n4", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "10", "5", "3"]
    )
    jobs.record(cluster, job)
    shown = cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], user="root")
    assert shown.returncode == 0, shown.stderr
    assert "simulated" in shown.stdout and "MPI_Allreduce" in shown.stdout
    parsed = json.loads(
        cluster.run(
            ["/opt/mpi-wait/bin/mpi-wait", "report", "--json", str(job)], user="root"
        ).stdout
    )
    assert parsed["mpi_wait"]["wait"]["ranks"] == 4


def test_a_profile_has_times_bytes_and_sizes(cluster: Cluster) -> None:
    """contrib/unbalanced is a loop of Allreduces."""
    argv = ["-N2", "-n4", "--mpi-wait-policy=nap,profile", f"{PROGRAMS}/unbalanced", "5", "5", "2"]
    job, _ = jobs.srun(cluster, argv)
    wait = jobs.record(cluster, job)["wait"]
    call = wait["profile"]["MPI_Allreduce"]
    assert call["calls"] == wait["by_call"]["MPI_Allreduce"]["calls"] == sum(call["sizes"].values())
    assert call["time_s"] >= call["wait_s"] > 0 and call["bytes"] >= 4 * call["calls"]
    plain, _ = jobs.srun(cluster, [*argv[:2], "--mpi-wait-policy=nap", *argv[3:]])
    assert "profile" not in jobs.record(cluster, plain)["wait"]


def test_waits_are_told_by_the_phases_that_the_program_names(cluster: Cluster) -> None:
    """Ten waits for rank 0 in phase 3, five for rank 3 in phase 4; what follows a level is in no record."""
    job, _ = jobs.srun(cluster, ["-N2", "-n4", "--mpi-wait-policy=nap,profile", f"{PROGRAMS}/phases"])
    wait = jobs.record(cluster, job)["wait"]
    phases = wait["phases"]
    assert set(phases) == {"3", "4", "none"} and "business" not in json.dumps(wait)
    assert sum(phase["waits"] for phase in phases.values()) == sum(call["waits"] for call in wait["by_call"].values())
    assert phases["3"]["time_s"] >= 4 * 9 * 0.02 and phases["4"]["time_s"] >= 4 * 4 * 0.02
    assert 0 < phases["3"]["max"]["s"] <= phases["3"]["wait_s"] <= phases["3"]["time_s"]
    text = cluster.node_run("submit", ["/opt/mpi-wait/bin/mpi-wait", "report", str(job)]).stdout
    assert "Phases ──" in text
    plain, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/phases"])
    assert "phases" not in jobs.record(cluster, plain)["wait"]


def test_waits_are_told_by_the_places_that_the_program_called_from(cluster: Cluster) -> None:
    """The program has been compiled with -g, and what ran is told from all else by its build-id."""
    job, _ = jobs.srun(cluster, ["-N2", "-n4", "--mpi-wait-policy=nap,sites", f"{PROGRAMS}/phases"])
    wait = jobs.record(cluster, job)["wait"]
    assert {site["module"] for site in wait["sites"]} == {"phases"} and "profile" not in wait
    assert sum(site["waits"] for site in wait["sites"]) == sum(call["waits"] for call in wait["by_call"].values())
    most = wait["sites"][0]
    assert most["call"] == "MPI_Barrier" and 0 < most["max"]["s"] <= most["wait_s"]
    report = ["/opt/mpi-wait/bin/mpi-wait", "report", str(job), "--width", "120", "--exe", f"{PROGRAMS}/phases"]
    assert re.search(r"(steps|main) phases\.c:\d+ +MPI_Barrier", cluster.node_run("submit", report).stdout)
    plain, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/phases"])
    assert "sites" not in jobs.record(cluster, plain)["wait"]


@pytest.mark.parametrize(
    ("distribution", "within", "between"), [("block", 2, 6), ("cyclic", 4, 4)]
)
def test_messages_within_a_node_are_told_from_those_between_nodes(
    cluster: Cluster, distribution: str, within: int, between: int
) -> None:
    """Each rank sends to the next two. A message counts at both ends; only MPI_COMM_WORLD's do."""
    asked = ["-N2", "-n4", f"--distribution={distribution}", "--mpi-wait-policy=profile"]
    job, _ = jobs.srun(cluster, [*asked, f"{PROGRAMS}/ring"])
    wait = jobs.record(cluster, job)["wait"]
    assert wait["profile"]["MPI_Send"]["bytes"] == wait["profile"]["MPI_Irecv"]["bytes"] == 4 * 3000
    assert wait["point_to_point"] == {
        "within_nodes_bytes": 2000 * within,
        "between_nodes_bytes": 2000 * between,
    }
    text = cluster.node_run("submit", ["/opt/mpi-wait/bin/mpi-wait", "report", str(job)]).stdout
    share = round(100 * within / 8)
    assert f"16.0 kB point to point by MPI_COMM_WORLD: {share} % within nodes" in " ".join(text.split())


def test_where_all_ranks_are_on_one_node_nothing_is_said_of_places(cluster: Cluster) -> None:
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=profile", f"{PROGRAMS}/ring"])
    assert "point_to_point" not in jobs.record(cluster, job)["wait"]


def test_time_limit_counts(limited: tuple[Cluster, int]) -> None:
    node, job = limited
    assert node.wait_job(job, timeout=180) == "TIMEOUT"
    wait = jobs.record(node, job)["wait"]
    assert wait["ranks"] == 2 and wait["max"]["s"] > 3
