"""Records on their way to slurmdbd when something is in the way: it is down, the spool is not as it should be."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from tests.lib import jobs, spool_jobs
from tests.lib.jobs import HELPER, PROGRAMS
from tests.lib.record_tools import node_record
from tests.lib.spool_jobs import OUTBOX, record_of
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
NAP = "--mpi-wait-policy=nap"


@pytest.fixture(scope="module")
def sweeping(cluster: Fleet) -> Iterator[Cluster]:
    """Two nodes that never contact slurmdbd: writer=sweep."""
    with cluster.variants():
        yield cluster.variant("writer=sweep", nodes=2)


def moved(cluster: Cluster, job: int, nodes: int = 1) -> list[str]:
    """The job's files in the spool, once that many are there."""
    wait_for(lambda: len(spool_jobs.handed_in(cluster, job)) >= nodes, f"{nodes} files of job {job} in the spool")
    return spool_jobs.handed_in(cluster, job)


def writers(cluster: Cluster) -> list[int]:
    """The processes of ours on its nodes."""
    return [pid for node in cluster.nodes for pid in cluster.pids_named(node, "mpi-wait-node")]


def sweep(cluster: Cluster, *words: str) -> int:
    """On a terminal, to which it says what elsewhere it says to syslog."""
    spool_jobs.make_old(cluster, "submit", cluster.spool)
    done = spool_jobs.helper(cluster, "submit", "sweep", *words, terminal=True)
    print(done.stdout)
    return done.returncode


def swept(cluster: Cluster, job: int) -> dict[str, object]:
    """The job's record, after sweeps until slurmctld has told slurmdbd of the job."""
    cluster.wait_accounted(job)
    sweep(cluster)
    return record_of(jobs.comment(cluster, job))


def test_twenty_jobs_end_while_slurmdbd_is_down(sweeping: Cluster) -> None:
    """slurmctld keeps its own records meanwhile; when it has sent them, one sweep brings all of ours."""
    sweeping.kill("slurmdbd", signal.SIGKILL)
    script = f"srun -n1 {PROGRAMS}/unbalanced 2 5 2\n"
    submitted = [jobs.sbatch(sweeping, script, ["-N1", "-n1", NAP]) for _ in range(20)]
    for job in submitted:
        sweeping.wait_job(job, timeout=120)
        moved(sweeping, job)
    spool_jobs.make_old(sweeping, "submit", sweeping.spool)
    assert spool_jobs.helper(sweeping, "submit", "sweep").returncode == 1
    sweeping.restart("slurmdbd")
    for job in submitted:
        sweeping.wait_accounted(job, timeout=60)
    assert sweep(sweeping) == 0
    assert [record_of(jobs.comment(sweeping, job))["wait"]["ranks"] for job in submitted] == [1] * 20
    assert spool_jobs.spool_left(sweeping) == []


def test_nodes_only_move_under_writer_sweep(sweeping: Cluster) -> None:
    job, _ = jobs.srun(sweeping, ["-N2", "-n2", NAP, f"{PROGRAMS}/unbalanced", "2", "5", "2"])
    assert moved(sweeping, job, 2) == [f"{node}.json" for node in sweeping.nodes]
    wait_for(lambda: not writers(sweeping), "the end of what moves the records")
    assert jobs.comment(sweeping, job) == ""
    assert swept(sweeping, job)["nodes"] == {"reported": 2, "of": 2}


@pytest.mark.parametrize(
    ("held", "field"),
    [
        ("a note of somebody", "SystemComment"),
        ("JS1:H4sIAAAAAAAA/6tWKkktLlGyUlAqSy0qzszPU7JSqAUA", "SystemComment"),
        ('["a", "list"]', "SystemComment"),
        ('{"site": {"rack": 7, "ratio": 0.5}}', "AdminComment"),
    ],
)
def test_what_a_field_holds_already(sweeping: Cluster, held: str, field: str) -> None:
    """Text of somebody else's stays as it is, an object gets our key; the other field is left alone."""
    job, _ = jobs.srun(sweeping, ["-N1", "-n1", NAP, "true"])
    moved(sweeping, job)
    sweeping.wait_accounted(job)
    spool_jobs.sql(sweeping, f"update throwaway_job_table set admin_comment='{held}' where id_job={job}")
    assert sweep(sweeping) == 0
    text = jobs.comment(sweeping, job, field)
    assert record_of(text)["nodes"]["reported"] == 1
    if field == "AdminComment":
        assert {**json.loads(text), "mpi_wait": 0} == {**json.loads(held), "mpi_wait": 0}
    else:
        assert jobs.comment(sweeping, job) == held


@pytest.mark.parametrize(
    ("job", "second_nodes", "second_s", "told", "lost_s"),
    [
        (900_001, "None assigned", 0, ["n[1-3]"] * 3, 0),
        (900_002, "None assigned", 0, ["n[1-3]", "n2", "n3"], 2000),
        (900_003, "None assigned", 0, ["n1", "n[2-3]", "n[1-3]"], 2000),
        (900_004, "n[1-3]", 30, ["n[1-3]"] * 3, 0),
    ],
    ids=["cancelled", "lost", "first lost", "ran"],
)
def test_a_run_that_was_requeued_at_once(
    sweeping: Cluster, job: int, second_nodes: str, second_s: int, told: list[str], lost_s: float
) -> None:
    """Run twice within seconds. The first's record is of the first; lost nodes end it late, told of themselves."""
    lost = spool_jobs.NODE_FAIL
    (run,) = spool_jobs.make_rows(sweeping, job, 1, "n[1-3]", 3, length_s=2, ago_s=3000, state=lost)
    ago_s = int(time.time()) - int(run["end_s"]) - second_s
    spool_jobs.make_rows(
        sweeping, job, 1, second_nodes, length_s=second_s, ago_s=ago_s, state=spool_jobs.CANCELLED
    )
    ends = [run["end_s"] + 1.4 + (0 if nodes == "n[1-3]" else lost_s) for nodes in told]
    spool_jobs.fill(sweeping, job, [
        node_record(f"n{i + 1}", told[i], None, job, cluster="throwaway", start_s=run["start_s"], end_s=ends[i])
        for i in range(3)
    ])  # fmt: skip
    assert sweep(sweeping) == 0
    held = spool_jobs.sql(
        sweeping, f"select nodelist, admin_comment from throwaway_job_table where id_job={job} order by time_start"
    )
    assert [row[0] for row in held] == ["n[1-3]", second_nodes] and held[1][1] == "NULL"
    assert record_of(held[0][1])["nodes"] == {"reported": 3, "of": 3}


def test_a_run_that_was_resized_long_after_its_begin(sweeping: Cluster) -> None:
    """The record is of the last row, however far that is from where the run began; what was given back is in it too."""
    job, state = 900_011, [spool_jobs.RESIZING, spool_jobs.RESIZING, spool_jobs.COMPLETED]
    lists, now = ["n[1-4]", "n[1-3]", "n1"], int(time.time())
    for index, (nodes, ago_s) in enumerate(zip(lists, (2400, 1800, 1200))):
        late_s = int(time.time()) - now
        spool_jobs.make_rows(sweeping, job, 1, nodes, length_s=600, ago_s=ago_s + late_s, state=state[index])
    left = [("n1", "n1", 1200), ("n2", "n[2-3]", 1800), ("n3", "n[2-3]", 1800), ("n4", "n4", 2400)]
    spool_jobs.fill(sweeping, job, [
        node_record(node, nodes, None, job, cluster="throwaway", start_s=now - 2999.5, end_s=now - ago_s + 0.5)
        for node, nodes, ago_s in left
    ])  # fmt: skip
    assert sweep(sweeping) == 0
    held = spool_jobs.sql(
        sweeping, f"select nodelist, admin_comment from throwaway_job_table where id_job={job} order by time_start"
    )
    assert [row[0] for row in held] == lists and [row[1] for row in held[:2]] == ["NULL"] * 2
    assert record_of(held[2][1])["nodes"] == {"reported": 4, "of": 4}


def test_no_field_is_free(sweeping: Cluster) -> None:
    """Nothing is overwritten, and the record is kept."""
    job, _ = jobs.srun(sweeping, ["-N1", "-n1", NAP, "true"])
    moved(sweeping, job)
    sweeping.wait_accounted(job)
    where = f"where id_job={job}"
    spool_jobs.sql(sweeping, f"update throwaway_job_table set admin_comment='x', system_comment='y' {where}")
    assert sweep(sweeping) == 2
    assert moved(sweeping, job)[0].removesuffix(".json") in sweeping.nodes
    spool_jobs.sql(sweeping, f"update throwaway_job_table set admin_comment='' {where}")
    assert swept(sweeping, job)["nodes"] == {"reported": 1, "of": 1}


def test_the_clocks_of_nodes_are_wrong(sweeping: Cluster) -> None:
    """By four minutes, as far as munge lets them be; the job is found by its length once it is over for long.

    slurmctld does not know it: it may tell slurmdbd a job's times once more, seconds after the end."""
    job = 900_021
    (run,) = spool_jobs.make_rows(sweeping, job, 1, "n1", length_s=2, ago_s=5)
    for skew_s, ago_s in ((240, 0), (-240, 0), (240, 1200)):
        if ago_s:
            when = f"time_start=time_start-{ago_s}, time_end=time_end-{ago_s}"
            spool_jobs.sql(sweeping, f"update throwaway_job_table set {when} where id_job={job}")
        told = {name: run[name] + skew_s - ago_s for name in ("start_s", "end_s")}
        spool_jobs.fill(sweeping, job, [node_record("n1", "n1", None, job, cluster="throwaway", **told)])
        assert sweep(sweeping) == (0 if ago_s else 2)
    assert spool_jobs.records(sweeping, job, 1)[job]["nodes"] == {"reported": 1, "of": 1}


def test_wrong_permissions_keep_the_record_on_its_node(sweeping: Cluster) -> None:
    """The job does not notice; the log says what to do; when it is done, the next timer brings the record."""
    sweeping.node_run("submit", ["chmod", "0777", sweeping.spool], check=True)
    job, done = jobs.srun(sweeping, ["-N1", "-n1", "-w", sweeping.nodes[0], NAP, "true"])
    assert done.returncode == 0 and done.stderr == ""
    left = ["find", OUTBOX, "-name", f"*-{job}-0.{sweeping.nodes[0]}.json"]
    wait_for(lambda: sweeping.node_run(sweeping.nodes[0], left).stdout, "the record in the outbox")
    said = spool_jobs.helper(sweeping, sweeping.nodes[0], "sweep", "--only-move", "writer=sweep", terminal=True)
    assert said.returncode == 1 and "chmod go-w" in said.stdout, said.stdout
    sweeping.node_run("submit", ["chmod", "0755", sweeping.spool], check=True)
    spool_jobs.make_old(sweeping, sweeping.nodes[0], OUTBOX)
    assert spool_jobs.helper(sweeping, sweeping.nodes[0], "sweep", "--only-move").returncode == 0
    assert sweeping.node_run(sweeping.nodes[0], left).stdout == ""
    assert swept(sweeping, job)["nodes"] == {"reported": 1, "of": 1}


def test_the_spool_is_full(sweeping: Cluster) -> None:
    """What is there stays, what is new stays on its node, and comes when there is room."""
    small = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "none", sweeping.spool]
    sweeping.node_run(sweeping.nodes[0], small, check=True)
    sweeping.node_run(sweeping.nodes[0], ["sh", "-c", f"head -c 1M /dev/zero > {sweeping.spool}/old"])
    job, done = jobs.srun(sweeping, ["-N1", "-n1", "-w", sweeping.nodes[0], NAP, "true"])
    assert done.returncode == 0 and done.stderr == ""
    sweeping.wait_job(job)
    command = f"sleep 1; {HELPER} sweep --now spool={sweeping.spool} writer=sweep"
    said = sweeping.node_run(sweeping.nodes[0], ["script", "-qec", command, "/dev/null"])
    assert said.returncode == 2 and "No space left on device; the record stays in" in said.stdout, said.stdout
    assert "old" in sweeping.node_run(sweeping.nodes[0], ["ls", sweeping.spool]).stdout
    sweeping.node_run(sweeping.nodes[0], ["umount", sweeping.spool], check=True)
    spool_jobs.make_old(sweeping, sweeping.nodes[0], OUTBOX)
    assert spool_jobs.helper(sweeping, sweeping.nodes[0], "sweep", "--only-move").returncode == 0
    assert swept(sweeping, job)["nodes"] == {"reported": 1, "of": 1}
    sweeping.wait_nodes()


def test_root_is_nobody_in_the_spool(sweeping: Cluster) -> None:
    """A file server that squashes root: the directory is the spool user's, 0700, and root may do nothing there. Played
    by a root without the capabilities that a squashed one lacks."""
    folder = f"{sweeping.share}/squashed"
    sweeping.node_run("submit", ["install", "-d", "-m", "0700", "-o", "carol", folder], check=True)
    job, _ = jobs.srun(sweeping, ["-N1", "-n1", "-w", sweeping.nodes[0], NAP, "true"])
    (name,) = moved(sweeping, job)
    sweeping.wait_accounted(job)
    key = f"throwaway-{job}-0"
    sweeping.node_run(sweeping.nodes[0], ["mv", f"{sweeping.spool}/{key}/{name}", f"{OUTBOX}/{key}.{name}"], check=True)
    squash = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown,-fsetid"]
    command = [*squash, HELPER, "sweep", "--now", f"spool={folder}", "spool_user=carol"]
    assert sweeping.node_run(sweeping.nodes[0], [*squash, "ls", folder]).returncode == 2
    assert sweeping.node_run(sweeping.nodes[0], [*squash, HELPER, "sweep", "--now", f"spool={folder}"]).returncode == 1
    done = sweeping.node_run(sweeping.nodes[0], command)
    assert done.returncode == 0, done.stderr
    assert record_of(jobs.comment(sweeping, job))["nodes"] == {"reported": 1, "of": 1}
    assert sweeping.node_run(sweeping.nodes[0], ["find", folder, "-mindepth", "1", "!", "-name", ".*"]).stdout == ""
    assert set(sweeping.node_run(sweeping.nodes[0], ["find", folder, "-printf", "%u\n"]).stdout.split()) == {"carol"}


def test_records_as_files(cluster: Fleet) -> None:
    """sink=file: the first node merges as ever; the record is for the job's group; slurmdbd hears nothing of it."""
    with cluster.variants():
        play_files(cluster.variant("sink=file", nodes=2))


def play_files(site: Cluster) -> None:
    job, _ = jobs.srun(site, ["-N2", "-n2", NAP, f"{PROGRAMS}/unbalanced", "2", "5", "2"])
    path = f"{site.spool}/done/throwaway-{job}-0.json"
    wait_for(lambda: site.inside.path(path).exists(), "the file")
    assert record_of(site.read("submit", path))["nodes"] == {"reported": 2, "of": 2}
    group = site.run(["id", "-g"]).stdout.strip()
    assert site.node_run("submit", ["stat", "-c", "%a %g", path]).stdout.split() == ["640", group]
    assert json.loads(site.run(["cat", path], check=True).stdout)["mpi_wait"]["v"] == 1
    assert site.run(["cat", path], user="bob").returncode != 0
    site.wait_accounted(job)
    assert jobs.comment(site, job) == ""
