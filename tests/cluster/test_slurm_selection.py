"""What a job is given and with whom: whole sockets, single CPUs, cores that another job has too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import frequencies, held, lows, wait_until_waited
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = pytest.mark.cluster

NAP = "--mpi-wait-policy=nap,profile"
PSTATE = "--mpi-wait-policy=pstate"
CPUS = os.cpu_count() or 1


def affinities(text: str) -> dict[str, str]:
    """By rank, the CPUs on which it may run."""
    return dict(re.findall(r"rank=(\d+) .*?affinity=([\d,]+)", text))


def check_selection(cluster: Cluster, single_has_all: bool) -> None:
    """As many ranks as CPUs have one each; a single one has what Slurm gives it, and its record is of that share."""
    every, done = jobs.srun(cluster, ["-N1", f"-n{CPUS}", PSTATE, f"{PROGRAMS}/where"])
    assert sorted(affinities(done.stdout).values()) == [str(cpu) for cpu in range(CPUS)], done.stdout
    single, done = jobs.srun(cluster, ["-N1", "-n1", PSTATE, f"{PROGRAMS}/where"])
    _, bare = jobs.srun(cluster, ["-N1", "-n1", f"{PROGRAMS}/where"])
    own = CPUS if single_has_all else 1
    assert len(affinities(done.stdout)["0"].split(",")) == own, done.stdout
    assert affinities(bare.stdout) == affinities(done.stdout), "we took or gave what Slurm did not"
    scopes = {every: "node", single: "node" if single_has_all or CPUS == 1 else "share"}
    for job, cores in ((every, CPUS), (single, own)):
        record = jobs.record(cluster, job)
        assert record["energy"]["scope"] == scopes[job] and record["energy"]["joules"] > 0
        assert record["grant"]["cores"] == cores and "refused" not in record["grant"]


@pytest.fixture(scope="module", params=["CR_CPU", "CR_Socket"])
def selecting(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    conf = {"SelectTypeParameters": request.param}
    cluster = start_or_skip(Cluster(nodes=1, slurm_conf=conf, **project_cluster_arguments()))
    yield cluster
    cluster.stop()


def test_binding_and_record_by_what_is_selected(selecting: Cluster, request: pytest.FixtureRequest) -> None:
    check_selection(selecting, request.node.callspec.params["selecting"] == "CR_Socket")


@pytest.fixture
def forced(cluster: Cluster) -> Iterator[Cluster]:
    """With a partition whose cores have two jobs at a time."""
    create = ["scontrol", "create", "PartitionName=forced", "Nodes=c1", "OverSubscribe=FORCE:2"]
    cluster.run(create, user="root", check=True)
    yield cluster
    wait_for(lambda: not cluster.run(["squeue", "-h", "-p", "forced", "-o", "%i"]).stdout, timeout_s=60)
    cluster.run(["scontrol", "delete", "PartitionName=forced"], user="root", check=True)


def test_two_jobs_on_the_same_cores(forced: Cluster) -> None:
    """Ranks that share their cores are bound as if they were alone, jobs wait at the same time, and each record is its
    own job's."""
    argv = ["-p", "forced", "-n2", NAP]
    with held(forced, argv) as first:
        _, done = jobs.srun(forced, [*argv, f"{PROGRAMS}/where"])
        assert len(set(affinities(done.stdout).values())) == 2, done.stdout
        with held(forced, argv) as second:
            for job in (first, second):
                wait_until_waited(forced, "c1", job.job)
            states = forced.run(["squeue", "-h", "-p", "forced", "-o", "%T %N"]).stdout.splitlines()
            assert states == ["RUNNING c1"] * 2
            second.end()
        first.end()
    for job in (first, second):
        record = jobs.record(forced, job.job)
        assert record["policy"]["used"] == "nap" and record["nodes"] == {"reported": 1, "of": 1}
        assert record["wait"]["ranks"] == 2 and record["wait"]["naps"] > 0 and record["wait"]["max"]["rank"] == 1
        assert [(step["id"], step["ranks"]) for step in record["steps"]] == [("0", 2)]


def test_a_core_that_two_jobs_have_is_not_low(forced: Cluster) -> None:
    """A job without a policy that comes to a lowered core has it at full speed a second later. One that asks for the
    same ends the first one's lease, and is granted none."""
    before = frequencies(forced, "c1")
    fast = ("for file in /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq; do "
            "until [ $(cat $file) = 2400000 ]; do sleep 0.05; done; done")
    with held(forced, ["-p", "forced", "-n2", PSTATE]) as job:
        wait_for(lambda: lows(forced, "c1") == ["policy1"])
        jobs.srun(forced, ["-p", "forced", "-n2", "timeout", "60", "sh", "-c", fast])
        wait_for(lambda: lows(forced, "c1") == ["policy1"], "that the core goes low again")
        with held(forced, ["-p", "forced", "-n2", PSTATE]) as second:
            wait_for(lambda: lows(forced, "c1") == [])
            second.end()
        job.end()
    record, other = jobs.record(forced, job.job), jobs.record(forced, second.job)
    assert frequencies(forced, "c1") == before
    assert record["grant"]["cores"] == 2 and record["grant"]["low_s"] > 0
    assert record["grant"]["transitions"] >= 3, "low, back, and low; then the second job, or the first, puts it back"
    assert other["grant"]["cores"] == 0 and other["grant"]["refused"] == {"another job has the core": 2}
