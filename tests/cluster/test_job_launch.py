"""Where ranks land and who is seen: binding, and launchers other than srun."""

from __future__ import annotations

import os

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster
CORES = os.cpu_count() or 1
MPI_WAIT = "/opt/mpi-wait/bin/mpi-wait"


def affinities(text: str) -> list[str]:
    return sorted(
        line.split("affinity=")[1].split()[0] for line in text.splitlines() if "affinity=" in line
    )


def test_mpirun_in_sbatch(cluster: Cluster) -> None:
    """Ranks that mpirun starts run on different cores and are in the record."""
    job = jobs.sbatch(
        cluster,
        f"mpirun.openmpi -n 2 {PROGRAMS}/where\nmpirun.openmpi -n 2 {PROGRAMS}/unbalanced 5 5 2\n",
        ["-N1", "-n2", "--mpi-wait-policy=nap"],
    )
    record = jobs.record(cluster, job)
    where = jobs.output(cluster, job)
    assert len(set(affinities(where))) == 2, where
    assert where.count(LIBRARY) >= 2
    assert record["wait"]["ranks"] >= 2 and record["wait"]["by_call"]["MPI_Allreduce"]["waits"] > 0
    assert [step["id"] for step in record["steps"]] == ["batch"]


def test_mpirun_on_two_nodes(cluster: Cluster) -> None:
    """The other node's ranks are children of a launcher's daemon in a step of srun's."""
    job = jobs.sbatch(
        cluster,
        f"mpirun.openmpi -n 4 {PROGRAMS}/unbalanced 5 5 2\n",
        ["-N2", "-n4", "--mpi-wait-policy=nap"],
    )
    record = jobs.record(cluster, job)
    assert record["wait"]["ranks"] == 4, jobs.output(cluster, job)
    assert record["nodes"] == {"reported": 2, "of": 2}
    assert record["wait"]["worlds"] == [{"kind": "launched", "ranks": 4, "size": 4}], "one, though it came by two steps"


def test_mpirun_over_libfabric_on_two_nodes(cluster: Cluster) -> None:
    """Every message goes by libfabric. Its queue is read inside of Open MPI's own idle hook, which naps."""
    over = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp"
    job = jobs.sbatch(
        cluster,
        f"mpirun.openmpi {over} -n 4 {PROGRAMS}/unbalanced 5 20 2\n",
        ["-N2", "-n4", "--mpi-wait-policy=nap"],
    )
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == 4, jobs.output(cluster, job)
    assert wait["hooks"].keys() <= {"opal", "ofi"} and wait["hooks"]["opal"] > 0 and wait["naps"] > 0


def test_two_mpirun_at_the_same_time(cluster: Cluster) -> None:
    """Each has a rank 0 of its own, and a rank of the one does not wait for those of the other."""
    mpirun = f"mpirun.openmpi --oversubscribe -n 2 {PROGRAMS}/unbalanced 5 5 2"
    job = jobs.sbatch(cluster, f"{mpirun} & {mpirun} & wait\n", ["-N1", "-n2", "--mpi-wait-policy=nap"])
    record = jobs.record(cluster, job)
    assert record["wait"]["worlds"] == [{"kind": "launched", "ranks": 4, "worlds": 2, "size": 2}]
    text = cluster.run([MPI_WAIT, "report", str(job)], check=True).stdout
    assert "4 MPI ranks in 2 worlds" in text and "rank w2:1" in text


def test_tasks_whose_mpi_srun_does_not_start(cluster: Cluster) -> None:
    """Each is a program of one rank: the report says what is wrong, and compares none."""
    job, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi=none", "--mpi-wait-policy=nap", f"{PROGRAMS}/worlds_mpich"])
    record = jobs.record(cluster, job)
    assert record["wait"]["worlds"] == [{"kind": "singletons", "ranks": 2, "size": 1, "numbers": [[0, 2]]}]
    text = cluster.run([MPI_WAIT, "report", str(job)], check=True).stdout
    assert "MPI was not started by srun: 2 programs of one rank each" in text


def test_a_single_task_keeps_its_cores(cluster: Cluster) -> None:
    _, done = jobs.srun(
        cluster, ["-N1", "-n1", f"-c{CORES}", "--mpi-wait-policy=nap", f"{PROGRAMS}/where"]
    )
    _, bare = jobs.srun(cluster, ["-N1", "-n1", f"-c{CORES}", f"{PROGRAMS}/where"])
    assert affinities(done.stdout) == affinities(bare.stdout)


def test_slurmstepd_stays_as_it_was(cluster: Cluster) -> None:
    """hwloc's plugins bring the libraries of displays and of OpenCL with them, and its variables are other people's."""
    look = "cat /proc/$PPID/maps; tr '\\0' '\\n' </proc/$PPID/environ; env"
    _, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi=none", "--mpi-wait-policy=nap", "sh", "-c", look], user="root")
    assert "spank_mpi_wait.so" in done.stdout
    assert "/hwloc/hwloc_" not in done.stdout and "HWLOC_PLUGINS_PATH" not in done.stdout


@pytest.mark.release
def test_tasks_are_bound_where_slurm_does_not(unbinding_cluster: Cluster) -> None:
    """TaskPlugin=task/none leaves every task on every CPU: ours get a core each, unless somebody says no."""
    cluster = unbinding_cluster
    tasks = ["-N1", f"-n{CORES}"]
    _, bare = jobs.srun(cluster, [*tasks, f"{PROGRAMS}/where"])
    _, bound = jobs.srun(cluster, [*tasks, "--mpi-wait-policy=nap", f"{PROGRAMS}/where"])
    _, unpinned = jobs.srun(
        cluster, [*tasks, "--mpi-wait-policy=nap,pin=none", f"{PROGRAMS}/where"]
    )
    _, single = jobs.srun(
        cluster, ["-N1", "-n1", f"-c{CORES}", "--mpi-wait-policy=nap", f"{PROGRAMS}/where"]
    )
    assert len(set(affinities(bare.stdout))) == 1
    assert len(set(affinities(bound.stdout))) == CORES and len(affinities(bound.stdout)) == CORES
    assert (
        set(affinities(unpinned.stdout))
        == set(affinities(bare.stdout))
        == set(affinities(single.stdout))
    )
    chosen = ["sh", "-c", f"{PROGRAMS}/where # numactl -C $SLURM_LOCALID"]  # numactl fails in a task that is bound
    _, own = jobs.srun(cluster, [*tasks, "--mpi-wait-policy=nap", *chosen])
    assert set(affinities(own.stdout)) == set(affinities(bare.stdout))
    batch = jobs.sbatch(
        cluster, "grep Cpus_allowed_list /proc/self/status\n", ["-n2", "--mpi-wait-policy=nap"]
    )
    plain = jobs.sbatch(cluster, "grep Cpus_allowed_list /proc/self/status\n", ["-n2"])
    for job in (batch, plain):
        cluster.wait_job(job)
    assert jobs.output(cluster, batch) == jobs.output(cluster, plain)


@pytest.mark.release
def test_constrained_nodes_and_the_extern_step(cluster_cgroup: Cluster) -> None:
    """proctrack/cgroup, ConstrainCores, PrologFlags=Contain: the same record, and an extern step."""
    job, _ = jobs.srun(
        cluster_cgroup,
        ["-N2", "-n4", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "10", "5", "3"],
    )
    record = jobs.record(cluster_cgroup, job)
    assert record["nodes"] == {"reported": 2, "of": 2} and record["wait"]["ranks"] == 4
    assert record["energy"]["joules"] > 0
    assert {"extern", "0"} == {step["id"] for step in record["steps"]}
