"""mpi-wait try in allocations of Slurm: its steps, their CPU time, and the energies that the job's record has later."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.lib import jobs
from tests.lib.throwaway import Cluster

MPI_WAIT = "/opt/mpi-wait/bin/mpi-wait"


def tried(cluster: Cluster, state: str, argv: list[str], tasks: int = 2) -> tuple[int, dict[str, Any]]:
    """The job, and what was found in it."""
    salloc = ["salloc", "-N1", f"-n{tasks}", "--mpi-wait-policy=profile"]
    done = cluster.run([*salloc, MPI_WAIT, "try", "--json", "--state", state, *argv], timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    job = re.search(r"Granted job allocation (\d+)", done.stderr)
    assert job, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return int(job[1]), answer


def test_a_late_sender_rests_under_nap(cluster: Cluster) -> None:
    """A rank that waits for a tenth of a second again and again burns its CPU without a policy, and none under nap. The
    energies come with the record; they are simulated, are called so, and decide nothing."""
    argv = ["--rounds", "3", "--", "srun", "-n2", f"{jobs.PROGRAMS}/late_sender", "100", "8"]
    job, answer = tried(cluster, "late.json", argv)
    nap = answer["policies"][0]
    assert answer["rounds"] == 3 and answer["energy"] is None
    assert nap["measures"]["cpu"]["high"] < 1 and nap["verdict"] in ("use", "unsure", "do not use"), nap
    record = jobs.record(cluster, job)
    assert len([step for step in record["steps"] if step["id"].isdigit()]) == 7
    done = cluster.run([MPI_WAIT, "try", "--show", "--json", "--state", "late.json"], check=True, timeout=60)
    later = json.loads(done.stdout)
    assert later["energy"] == "energy (simulated)" and not later["energy_is_measured"]
    assert later["policies"][0]["measures"]["energy"]["rounds"] == 3
    text = cluster.run([MPI_WAIT, "try", "--show", "--state", "late.json"], check=True, timeout=60).stdout
    assert "Energy is of simulated nodes, not measured" in text and "CPU time −" in text


def test_a_program_that_never_waits_is_not_advised_to(cluster: Cluster) -> None:
    """One rank, which has nobody to wait for: there is nothing to find, whatever the noise."""
    argv = ["--rounds", "3", "--", "srun", "-n1", f"{jobs.PROGRAMS}/unbalanced", "10", "20", "0"]
    _, answer = tried(cluster, "alike.json", argv, 1)
    found = answer["policies"][0]
    assert found["verdict"] != "use" and 0.8 < found["measures"]["cpu"]["ratio"] < 1.25, found


def test_in_a_batch_job_by_mpirun(cluster: Cluster) -> None:
    """Its ranks are no tasks of Slurm's: the policy goes by the environment, and CPU time is that of children."""
    program = f"mpirun.openmpi --oversubscribe -n 2 {jobs.PROGRAMS}/late_sender 100 8"
    words = f"cd {cluster.share}; {MPI_WAIT} try --rounds 2 --json --state mpirun.$SLURM_JOB_ID -- {program}\n"
    job = jobs.sbatch(cluster, words, ["-N1", "-n2", f"--error={cluster.share}/%j.err"])
    cluster.wait_job(job, timeout=100)
    answer = json.loads(jobs.output(cluster, job))
    assert answer["rounds"] == 2 and answer["policies"][0]["measures"]["cpu"]["ratio"] < 0.9, answer
