"""A node of two sockets, two cores each, two threads each, as hwloc and Slurm see it: who is bound where, and whose
frequency is whose.

The machine that plays it need have two CPUs only. slurmd takes its topology from HWLOC_XMLFILE, where CPU n and CPU
n + 4 are the threads of core n, and its affinities from tests/lib/doubles/wide_affinity.c, which also asks the kernel
for those of the CPUs that it has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import start_or_skip
from tests.lib import grants, jobs
from tests.lib.grants import PSTATE, UNBALANCED
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = pytest.mark.cluster
REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
NODE = "c1"
XML = "tests/lib/topology/two_sockets_smt.xml"
MASKS = "/run/wide-affinity"
TOPOLOGY = "CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2"
CONF = {"SlurmdParameters": "config_overrides", "TaskPluginParam": "none"}
CORES = ["0,4", "1,5", "2,6", "3,7"]
DOMAINS = [[0, 4], [1, 5], [2, 6], [3, 7]]
# What the ranks' own half reads of the machine, which has other threads, or none.
SIBLINGS = """
cd /sys/devices/system/cpu
for core in 0 1 2 3; do
    for cpu in $core $((core + 4)); do
        mkdir -p cpu$cpu/topology
        rm -f cpu$cpu/topology/thread_siblings_list
        echo $core,$((core + 4)) > cpu$cpu/topology/thread_siblings_list
    done
done
mkdir -p {}
"""


@contextmanager
def wide(topology: str) -> Iterator[Cluster]:
    project = project_cluster_arguments()
    project["binds"]["/opt/mpi-wait-doubles"] = BUILD / "tests/lib/doubles"
    environment = {
        "HWLOC_XMLFILE": f"{Cluster.spool}/../lib/{XML}", "WIDE_AFFINITY": MASKS,
        "LD_PRELOAD": "/opt/mpi-wait-doubles/libwide-affinity.so",
    }
    cluster = Cluster(nodes=1, slurm_conf=CONF, topology=topology, model={"domains": DOMAINS},
                      daemon_environment=environment, **project)
    start_or_skip(cluster)
    cluster.node_run(NODE, ["sh", "-ec", SIBLINGS.format(MASKS)], check=True)
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def wide_cluster() -> Iterator[Cluster]:
    with wide(TOPOLOGY) as cluster:
        yield cluster


def asked_for(cluster: Cluster, argv: list[str]) -> list[str]:
    """The CPUs that each task was bound to last, in the tasks' order, before it ran; "" if to none."""
    cluster.node_run(NODE, ["rm", "-f", f"{MASKS}/log"], check=True)
    _, done = jobs.srun(cluster, ["-N1", *argv, "sh", "-c", "echo $SLURM_PROCID $$"])
    log = cluster.node_run(NODE, ["sh", "-c", f"cat {MASKS}/log || true"]).stdout
    bound = dict(line.split() for line in log.splitlines())
    pids = dict(line.split() for line in done.stdout.splitlines())
    return [bound.get(pids[str(task)], "") for task in range(len(pids))]


@pytest.mark.parametrize(("argv", "cpus"), [
    (["-n4", "-c2"], CORES),
    (["-n2", "-c2"], CORES[:2]),
    (["-n2", "-c4"], ["0,1,4,5", "2,3,6,7"]),
    (["-n1", "-c8"], [""]),
    (["-n8"], [""] * 8),
], ids=["a core each", "two of four cores", "a socket each", "a launcher alone", "a thread each"])
def test_tasks_that_nobody_bound_get_whole_cores(wide_cluster: Cluster, argv: list[str], cpus: list[str]) -> None:
    """Both threads of each core; a single task keeps all, and two tasks on one core are left where Slurm put them."""
    assert asked_for(wide_cluster, [*argv, "--mpi-wait-policy=nap"]) == cpus


@pytest.mark.parametrize("argv", [["--mpi-wait-policy=off"], ["--mpi-wait-policy=nap,pin=none"]])
def test_nobody_is_bound_unasked(wide_cluster: Cluster, argv: list[str]) -> None:
    assert asked_for(wide_cluster, ["-n4", "-c2", *argv]) == [""] * 4


def test_what_slurm_bound_to_threads_stays(wide_cluster: Cluster) -> None:
    argv = ["-n2", "-c1", "--cpu-bind=threads"]
    slurm_s = asked_for(wide_cluster, [*argv, "--mpi-wait-policy=off"])
    assert len(slurm_s) == 2 and all(len(cpus) == 1 for cpus in slurm_s)
    assert asked_for(wide_cluster, [*argv, "--mpi-wait-policy=nap"]) == slurm_s


def test_a_task_lowers_both_threads_of_its_core(wide_cluster: Cluster) -> None:
    """The domain of CPU 0 is CPU 4's too: both are the task's."""
    cluster = wide_cluster
    before = grants.files(cluster)
    answers = grants.hostile(cluster, "low", argv=["-c2"])
    assert answers == {"own": "0", "low": "done", "restore": "done"}
    assert {policy for policy, _, _ in grants.take_writes(cluster)} == {"policy0"}
    assert grants.is_clean(cluster, before)


def test_ranks_on_cores_of_their_own_lower_them(wide_cluster: Cluster) -> None:
    cluster = wide_cluster
    before = grants.files(cluster)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "-c2", *UNBALANCED])
    record = jobs.record(cluster, job)
    assert record["grant"]["cores"] == 2 and "refused" not in record["grant"]
    grants.check_changes(record, waits=1)
    assert {policy for policy, _, _ in grants.take_writes(cluster)} <= {"policy0", "policy1"}
    assert grants.is_clean(cluster, before)


@pytest.mark.parametrize(("argv", "cores", "refused"), [
    (["-n4", "-c2"], 4, {}),
    (["-n2", "-c4"], 4, {}),
    (["-n1", "-c1", "--cpu-bind=threads"], 1, {}),
    (["-n2", "-c1", "--cpu-bind=threads"], 0, {"tasks share the core": 1}),
    (["-n3", "-c1", "--cpu-bind=threads"], 1, {"tasks share the core": 1}),
], ids=["cores", "sockets", "one thread of a core", "two tasks on a core", "one of them alone"])
def test_whose_cores_may_be_lowered(
    wide_cluster: Cluster, argv: list[str], cores: int, refused: dict[str, int]
) -> None:
    """A core whose threads are two tasks' is nobody's; one of which a task has one thread only is that task's."""
    job, _ = jobs.srun(wide_cluster, ["-N1", *argv, PSTATE, "true"])
    grant = jobs.record(wide_cluster, job)["grant"]
    assert (grant["cores"], grant.get("refused", {})) == (cores, refused)


def test_the_record_has_a_share_of_the_node_s_four_cores(wide_cluster: Cluster) -> None:
    """Hardware threads are no cores: two CPUs of eight are one core of four."""
    cluster = wide_cluster
    quarter, _ = jobs.srun(cluster, ["-N1", "-n1", "-c2", "--mpi-wait-policy=nap", "sleep", "0.2"])
    whole, _ = jobs.srun(cluster, ["-N1", "-n4", "-c2", "--mpi-wait-policy=nap", "sleep", "0.2"])
    energy = jobs.record(cluster, quarter)["energy"]
    assert energy["scope"] == "share"
    assert jobs.record(cluster, whole)["energy"]["scope"] == "node"


def test_hardware_threads_that_slurm_counts_as_cores() -> None:
    """CPUs= alone: two jobs have a thread each of some cores. Each has its part of the energy, and nobody is bound."""
    with wide("CPUs=8") as cluster:
        first, process = jobs.begin(cluster, ["-n4", "-c1", "--mpi-wait-policy=nap", "sleep", "3"])
        cluster.wait_job(first, ["RUNNING"])
        bound = asked_for(cluster, ["-n2", "-c1", "--mpi-wait-policy=nap"])
        assert len(set(bound)) == 1 and len(bound) == 2, "what Slurm itself asked for, all of the job's"
        assert process.wait(60) == 0
        energy = jobs.record(cluster, first)["energy"]
        assert (energy["scope"], energy["joules"]) == ("share", pytest.approx(energy["node_joules"] / 2, rel=0.01))
        assert "mpi-wait:" not in cluster.logs(f"slurmd-{NODE}")
