"""MPI with OpenMP: threads are no ranks, and a wait of theirs sleeps as far as the MPI library's locks allow."""

from __future__ import annotations

import pytest

from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster, Fleet

pytestmark = pytest.mark.cluster
ROUNDS = 6
TWO_THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}


def checksums(printed: str) -> list[str]:
    """Each rank's line, in the ranks' order."""
    return sorted(line for line in printed.splitlines() if line.startswith("rank="))


def play(cluster: Cluster, level: str, policy: str) -> tuple[int, list[str]]:
    """Two ranks of two threads, a node each."""
    argv = ["-N2", "-n2", "-c2", f"--mpi-wait-policy={policy}", f"{PROGRAMS}/hybrid", level, str(ROUNDS)]
    job, done = jobs.srun(cluster, argv, env=TWO_THREADS)
    lines = checksums(done.stdout)
    assert [line.split()[:2] for line in lines] == [["rank=0", "threads=2"], ["rank=1", "threads=2"]]
    return job, lines


def test_one_thread_that_calls_for_all_naps(cluster: Cluster) -> None:
    """MPI_THREAD_FUNNELED: the record has the ranks' calls and waits, and nothing of the other threads."""
    job, lines = play(cluster, "funneled", "nap,profile")
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == len(wait["per_rank_s"]) == 2
    assert wait["per_rank_nodes"] == [["c1", 0, 1], ["c2", 1, 1]]
    assert wait["profile"]["MPI_Allreduce"]["calls"] == 2 * ROUNDS, "ranks, rounds"
    assert wait["naps"] > 0 and wait["asleep_s"] > 0
    assert set(wait["hooks"]) == {"opal"}
    assert not {"locked", "lanes_full", "two_mpis", "no_hook"} & set(wait.get("flags", {}))
    assert play(cluster, "funneled", "off")[1] == lines


def test_two_threads_that_call_nap_where_nothing_is_locked(cluster: Cluster) -> None:
    """MPI_THREAD_MULTIPLE with Open MPI: each thread's calls count, for two ranks; its idle call holds no lock."""
    job, lines = play(cluster, "multiple", "nap,profile")
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == len(wait["per_rank_s"]) == 2
    assert wait["profile"]["MPI_Recv"]["calls"] == 2 * 2 * ROUNDS, "ranks, threads, rounds"
    assert wait["naps"] > 0
    assert not {"locked", "lanes_full", "two_mpis", "no_hook"} & set(wait.get("flags", {}))
    assert "doubtful" not in wait and "unseen" not in wait
    assert play(cluster, "multiple", "off")[1] == lines


def test_threads_that_spin_beside_a_wait_are_in_the_record(cluster: Cluster) -> None:
    """The user's own OMP_WAIT_POLICY=active stays: the workers spin through 20 waits of 30 ms, and that is seen."""
    argv = ["-N2", "-n2", "-c2", "--mpi-wait-policy=nap", f"{PROGRAMS}/hybrid", "funneled", "20"]
    job, _ = jobs.srun(cluster, argv, env={"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "active"})
    wait = jobs.record(cluster, job)["wait"]
    assert wait["naps"] > 0 and wait["threads_s"] > 0


SHOWN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "MPI_WAIT_THREADS")
SHOW = ["sh", "-c", "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in SHOWN)]


def shown(printed: str) -> dict[str, str]:
    pairs = dict(line.split("=", 1) for line in printed.splitlines() if line.split("=", 1)[0] in SHOWN)
    return {name: value for name, value in pairs.items() if value != "unset"}


def test_openmp_is_told_by_the_sites_default_and_the_users_word_stays(cluster: Fleet) -> None:
    """What a task finds, in steps of srun; and a script, which is told nothing, so that what it exports holds."""
    with cluster.variants():
        napping = cluster.variant("default=nap")
        told = shown(jobs.srun(napping, ["-n1", *SHOW])[1].stdout)
        spins = int(told["GOMP_SPINCOUNT"])
        assert told == {"GOMP_SPINCOUNT": str(spins), "KMP_BLOCKTIME": "1",
                        "MPI_WAIT_THREADS": f"GOMP_SPINCOUNT={spins} KMP_BLOCKTIME=1"}
        assert 1000 <= spins <= 300_000
        active = shown(jobs.srun(napping, ["-n1", *SHOW], env={"OMP_WAIT_POLICY": "active"})[1].stdout)
        assert active == {"OMP_WAIT_POLICY": "active"}
        passive = shown(jobs.srun(napping, ["-n1", "--mpi-wait-policy=nap,threads=passive", *SHOW])[1].stdout)
        assert passive["OMP_WAIT_POLICY"] == "passive"
        crowded = shown(jobs.srun(napping, ["-n1", *SHOW], env={"OMP_NUM_THREADS": "99"})[1].stdout)
        assert crowded == passive
        show = SHOW[2].replace("'", "'\\''")
        script = f"{SHOW[2]}\nexport OMP_WAIT_POLICY=active\nsrun -n1 sh -c '{show}' | sed 's/^/step /'\n"
        job = jobs.sbatch(napping, script, ["-n1"])
        assert napping.wait_job(job) == "COMPLETED", jobs.output(napping, job)
        printed = jobs.output(napping, job)
        assert shown(printed) == {}
        assert shown(printed.replace("step ", "")) == {"OMP_WAIT_POLICY": "active"}
    with cluster.variants():
        keeping = cluster.variant("default=nap threads=keep")
        assert shown(jobs.srun(keeping, ["-n1", *SHOW])[1].stdout) == {}


@pytest.mark.parametrize("level", ["funneled", "multiple"])
def test_two_threads_poll_under_a_lock(cluster: Cluster, level: str) -> None:
    """MPICH waits within its lock: once a second thread has called, nothing naps there, and the record says so."""
    launch = f"mpirun.mpich -launcher fork -n 2 {PROGRAMS}/hybrid_mpich {level} {ROUNDS}\n"
    printed = {}
    for policy in ("nap", "off"):
        job = jobs.sbatch(cluster, launch, ["-N1", "-n2", f"--mpi-wait-policy={policy}"], env=TWO_THREADS)
        assert cluster.wait_job(job) == "COMPLETED", jobs.output(cluster, job)
        printed[policy] = checksums(jobs.output(cluster, job))
        if policy == "nap":
            wait = jobs.record(cluster, job)["wait"]
    assert len(printed["nap"]) == 2 and printed["nap"] == printed["off"]
    assert wait["ranks"] == len(wait["per_rank_s"]) == 2
    if level == "funneled":
        assert wait["naps"] > 0 and "locked" not in wait.get("flags", {})
    else:
        assert wait["naps"] == 0 and wait["asleep_s"] == 0
        # Noted by a rank that lacked naps: rank 0, which is always last, need not wait.
        assert 1 <= wait["flags"]["locked"] <= 2
