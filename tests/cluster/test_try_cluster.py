"""mpi-wait try in allocations of Slurm: its steps, their CPU time, and the energies that the job's record has later."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.lib import jobs
from tests.lib.throwaway import Cluster

MPI_WAIT = "/opt/mpi-wait/bin/mpi-wait"
NAPS = 50  # in the 1.2 s that a run waits: of some tenths of a millisecond each, on a busy machine of milliseconds


def submitted(cluster: Cluster, state: str, argv: list[str]) -> int:
    """The job, after its end."""
    words = [MPI_WAIT, "try", "--sbatch", "-N1 -n2", "--json", "--state", state, *argv]
    done = cluster.run(words, cwd=cluster.share, timeout=60)
    job = re.match(r"job (\d+): ", done.stdout)
    assert done.returncode == 0 and job, done.stdout + done.stderr
    cluster.wait_job(int(job[1]), timeout=90)
    return int(job[1])


def shown(cluster: Cluster, state: str, *words: str) -> str:
    return cluster.run([MPI_WAIT, "try", "--show", "--state", state, *words], cwd=cluster.share, check=True).stdout


def test_a_late_sender_rests_under_nap(cluster: Cluster) -> None:
    """A rank that waits for tenths of a second again and again: in three pairs, it sleeps under nap. How much CPU time
    that saves is this machine's, and decides nothing; nor do the energies, which are simulated, and are called so."""
    argv = ["--rounds", "3", "--", "srun", "-n2", f"{jobs.PROGRAMS}/late_sender", "150", "8"]
    job = submitted(cluster, "late.json", argv)
    assert jobs.record(cluster, job)["wait"]["naps"] >= 3 * NAPS
    answer: dict[str, Any] = json.loads(shown(cluster, "late.json", "--json"))
    nap = answer["policies"][0]
    cpu = nap["measures"]["cpu"]
    assert answer["rounds"] == cpu["rounds"] == 3 and 0 < cpu["low"] <= cpu["ratio"] <= cpu["high"]
    assert nap["verdict"] in ("use", "unsure", "do not use", "alike"), nap
    assert answer["energy"] == "energy (simulated)" and not answer["energy_is_measured"]
    assert nap["measures"]["energy"]["rounds"] == 3
    text = shown(cluster, "late.json")
    assert "Energy is of simulated nodes, not measured" in text
    assert nap["verdict"] == "alike" or re.search("CPU time [−+0-9]", text)


def test_a_program_that_never_waits_is_not_advised_to(cluster: Cluster) -> None:
    """One rank, which has nobody to wait for: it saves no CPU time. How long three rounds take is the machine's."""
    argv = ["--rounds", "3", "--", "srun", "-n1", f"{jobs.PROGRAMS}/unbalanced", "10", "20", "0"]
    words = ["salloc", "-N1", "-n1", MPI_WAIT, "try", "--json", "--state", "alike.json", *argv]
    done = cluster.run(words, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    found = answer["policies"][0]
    was_uneven = found["measures"]["time"]["high"] < 1
    assert (found["verdict"] != "use" or was_uneven) and 0.8 < found["measures"]["cpu"]["ratio"] < 1.25, found


def test_in_a_batch_job_by_mpirun(cluster: Cluster) -> None:
    """Its ranks are no tasks of Slurm's: the policy goes by the environment, and CPU time is that of children. By the
    kernel's count the rank that waits leaves its core by itself under nap only, and not in the run that warms up."""
    says = f"{cluster.share}/mpirun.left"
    program = f"sh -c 'mpirun.openmpi --oversubscribe -n 2 {jobs.PROGRAMS}/late_sender 150 8 | tee -a {says}'"
    words = f"cd {cluster.share}; {MPI_WAIT} try --rounds 2 --json --state mpirun.$SLURM_JOB_ID -- {program}\n"
    job = jobs.sbatch(cluster, words, ["-N1", "-n2", f"--error={cluster.share}/%j.err"])
    cluster.wait_job(job, timeout=100)
    answer = json.loads(jobs.output(cluster, job))
    left = sorted(int(count) for count in re.findall(r" left=(\d+) ", cluster.read("submit", says)))
    assert len(left) == 5 and left[2] < NAPS / 2 and left[3] >= NAPS, left
    assert answer["rounds"] == 2 and answer["policies"][0]["measures"]["cpu"]["rounds"] == 2, answer
