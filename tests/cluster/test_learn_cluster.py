"""mpi-wait learn beside Slurm's own sacct: the names of programs, and an answer that waits for more users."""

from __future__ import annotations

import re
import time

from tests.lib import jobs
from tests.lib.throwaway import Cluster

UNBALANCED = f"{jobs.PROGRAMS}/unbalanced 5 20 3"
MPI_WAIT = "/opt/mpi-wait/bin/mpi-wait"


def test_programs_are_named_as_their_steps(cluster: Cluster) -> None:
    """A batch job has the name of its script. srun's step has the program's; that of mpirun has a daemon's."""
    options = ["-n2", "--mpi-wait-policy=nap"]
    by_srun = jobs.sbatch(cluster, f"srun hostname\nsrun {UNBALANCED}\n", [*options, "--job-name=script_a"])
    by_mpirun = jobs.sbatch(cluster, f"mpirun.openmpi -n 2 {UNBALANCED}\n", [*options, "--job-name=script_b"])
    for job in (by_srun, by_mpirun):
        assert jobs.record(cluster, job)["wait"]["ranks"] == 2
    asked, text = [MPI_WAIT, "learn", "--since", "1h", "--width", "120"], ""
    deadline = time.monotonic() + 60  # sacct finds the jobs of a young cluster by number at first, by time later
    while "script_b" not in text and time.monotonic() < deadline:
        text = cluster.run(asked, check=True, timeout=60).stdout
        time.sleep(1)
    assert re.search(r"^  unbalanced +1 +1 +2 +1 .* try$", text, re.M), text
    assert re.search(r"^  script_b +1 +1 +2 +1 .* try$", text, re.M) and "script_a" not in text, text
    assert "1 job is known by the job's name alone" in " ".join(text.split()), text
    refused = cluster.run([*asked, "--json"], timeout=60)
    assert refused.returncode == 1 and refused.stderr.startswith("mpi-wait: no program has a verdict yet")
