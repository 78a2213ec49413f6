"""mpi-wait learn beside Slurm's own sacct: the names of programs, and an answer that waits for more users."""

from __future__ import annotations

import re
import time

from tests.lib import jobs
from tests.lib.throwaway import Cluster

PROGRAM, WORK = f"{jobs.PROGRAMS}/unbalanced", "5 20 3"
MPI_WAIT = "/opt/mpi-wait/bin/mpi-wait"


def test_programs_are_named_as_their_steps(cluster: Cluster) -> None:
    """A batch job has the name of its script. srun's step has the program's; that of mpirun has a daemon's. Other
    tests' jobs run beside these two."""
    options = ["-n2", "-N1", "--mpi-wait-policy=nap"]
    copied = f"folder=$(mktemp -d)\ncp {PROGRAM} $folder/learn_a\n"
    by_srun = jobs.sbatch(cluster, f"{copied}srun hostname\nsrun $folder/learn_a {WORK}\nrm -r $folder\n",
                          [*options, "--job-name=learn_script"])
    by_mpirun = jobs.sbatch(cluster, f"mpirun.openmpi -n 2 {PROGRAM} {WORK}\n", [*options, "--job-name=learn_b"])
    for job in (by_srun, by_mpirun):
        assert jobs.record(cluster, job)["wait"]["ranks"] == 2
    asked, text = [MPI_WAIT, "learn", "--since", "1h", "--name", "learn_*", "--width", "120"], ""
    deadline = time.monotonic() + 60  # sacct finds the jobs of a young cluster by number at first, by time later
    while "learn_b" not in text and time.monotonic() < deadline:
        text = cluster.run(asked, check=True, timeout=60).stdout
        time.sleep(1)
    assert re.search(r"^  learn_a +1 +1 +2 +1 .* try$", text, re.M), text
    assert re.search(r"^  learn_b +1 +1 +2 +1 .* try$", text, re.M) and "learn_script" not in text, text
    assert re.search("[0-9]+ jobs? (is|are) known by the job's name alone", " ".join(text.split())), text
    refused = cluster.run([*asked, "--json"], timeout=60)
    assert refused.returncode == 1 and refused.stderr.startswith("mpi-wait: no program has a verdict yet")
