"""Ways to submit and to launch: interactive step, #SBATCH lines, --multi-prog, --bcast, a signal before the limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.held import file_name, program, release, wait_until_waited
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster

pytestmark = pytest.mark.cluster

NAP = "--mpi-wait-policy=nap"
FIRST = ["-w", "c1", "-n2"]
"""The node that the job of `warned` leaves free."""


class Warned(NamedTuple):
    job: int
    file: str


@pytest.fixture(scope="module", autouse=True)
def warned(cluster: Cluster) -> Iterator[Warned]:
    """A job on the second node that is to be told five minutes before its end. That is at once when its limit has been
    lowered to that, but slurmctld looks at limits every 30 s only: the tests on the first node run meanwhile."""
    file = file_name(cluster)
    argv = ["-w", "c2", "-n2", "-t10", "--signal=USR1@300", f"{NAP},profile"]
    job = jobs.sbatch(cluster, f"srun {' '.join(program(file))}\n", argv)
    wait_until_waited(cluster, "c2", job)
    cluster.run(["scontrol", "update", f"jobid={job}", "timelimit=5"], check=True)
    yield Warned(job, file)
    release(cluster, file)
    cluster.wait_job(job)


def test_salloc_with_an_interactive_step(cluster: Cluster) -> None:
    """The shell is a step on the node. It inherits the option, hands it to the srun inside, and is in the record."""
    folder = cluster.root / "share/interactive"
    folder.mkdir(mode=0o755)
    conf = (cluster.root / "etc/slurm.conf").read_text()
    (folder / "slurm.conf").write_text(conf + "LaunchParameters=use_interactive_step\n")
    (folder / "shell").write_text(f"#!/bin/bash\nhostname\ntty\necho \"shell $LD_PRELOAD\"\n"
                                  f"srun {PROGRAMS}/where\nsrun {PROGRAMS}/unbalanced 5 5 3\n")
    (folder / "shell").chmod(0o755)
    inside = f"{cluster.share}/interactive"
    salloc = f"env SHELL={inside}/shell salloc --job-name=interactive {' '.join(FIRST)} {NAP}"
    done = cluster.run(["script", "-qec", salloc, "/dev/null"], env={"SLURM_CONF": f"{inside}/slurm.conf"}, timeout=120)
    text = done.stdout.replace("\r", "")
    assert done.returncode == 0, text
    assert "c1\n" in text and "/dev/pts" in text and "2 ranks, 5 iterations" in text
    assert re.search(rf"shell \S+/{LIBRARY}\n", text), "what the shell starts itself is not seen"
    assert text.count(LIBRARY) == 3 and text.count("rungs=pause+nap") == 2
    record = jobs.record(cluster, jobs.job_named(cluster, "interactive"))
    assert record["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    ranks = {step["id"]: step["ranks"] for step in record["steps"]}
    assert ranks == {"interactive": 0, "0": 2, "1": 2}
    assert record["wait"]["by_call"]["MPI_Allreduce"]["waits"] > 0


def test_a_line_of_the_script_asks(cluster: Cluster) -> None:
    """The script's own line, which the command's option overrides."""
    script = f"#SBATCH {NAP}\nsrun {PROGRAMS}/unbalanced 3 10 2\n"
    own = jobs.sbatch(cluster, script, FIRST)
    overridden = jobs.sbatch(cluster, script, [*FIRST, "--mpi-wait-policy=yield"])
    first, second = (jobs.record(cluster, job) for job in (own, overridden))
    assert first["policy"] == {"asked": "nap", "used": "nap", "by": "job"} and first["wait"]["ranks"] == 2
    assert [step["id"] for step in first["steps"]] == ["batch", "0"]
    assert second["policy"] == {"asked": "yield", "used": "yield", "by": "job"} and second["wait"]["ranks"] == 2


def test_a_typo_in_a_line_of_the_script_is_refused_at_submit(cluster: Cluster) -> None:
    before = cluster.run(["squeue", "-h", "-t", "all", "-o", "%i"]).stdout
    done = cluster.run(["sbatch"], input="#!/bin/sh\n#SBATCH --mpi-wait-policy=umwiat\ntrue\n")
    assert done.returncode != 0 and done.stdout == ""
    assert "unknown policy 'umwiat'" in done.stderr and "did you mean 'umwait'" in done.stderr
    assert cluster.run(["squeue", "-h", "-t", "all", "-o", "%i"]).stdout == before


def test_a_job_submitted_within_a_job(cluster: Cluster) -> None:
    """Its own option, then MPI_WAIT_POLICY, then what the job around it was submitted with."""
    inner = f"-w c1 -n1 -o /dev/null --wrap {PROGRAMS}/where"
    script = (f"MPI_WAIT_POLICY=yield sbatch -J inner-variable {inner}\nsbatch -J inner-neither {inner}\n"
              f"MPI_WAIT_POLICY=yield sbatch -J inner-option --mpi-wait-policy=profile {inner}\n"
              "MPI_WAIT_POLICY=yield srun printenv MPI_WAIT_CONFIG\n")
    outer = jobs.sbatch(cluster, script, ["-w", "c1", "-n1", NAP])
    assert cluster.wait_job(outer) == "COMPLETED"
    assert "rungs=pause+nap" in jobs.output(cluster, outer), "a step belongs to the job that has the option"
    asked = {}
    for name in ("variable", "neither", "option"):
        job = jobs.job_named(cluster, f"inner-{name}")
        cluster.wait_job(job)
        asked[name] = jobs.record(cluster, job)["policy"]["asked"]
    assert asked == {"variable": "yield", "neither": "nap", "option": "profile"}


def test_ranks_of_different_programs_are_told_apart(cluster: Cluster) -> None:
    """--multi-prog: rank 0 computes longer than rank 1, by its own line, so rank 1's waits are the longest."""
    unbalanced = f"{PROGRAMS}/unbalanced"
    lines = f"0 {unbalanced} 6 100 0\n1 /usr/bin/env BESIDE=1 {unbalanced} 6 5 0\n"
    (cluster.root / "share/programs.conf").write_text(lines)
    job, done = jobs.srun(cluster, [*FIRST, NAP, "--multi-prog", f"{cluster.share}/programs.conf"])
    assert "2 ranks, 6 iterations" in done.stdout
    wait = jobs.record(cluster, job)["wait"]
    assert wait["ranks"] == 2 and wait["max"]["rank"] == 1
    assert wait["naps"] > 0 and wait["per_rank_asleep_s"][1] > 0


def test_a_program_that_srun_brings_along(cluster: Cluster) -> None:
    """--bcast: each node runs its own copy, under the library and in the record. srun picks the nodes that are free."""
    copy = "/tmp/brought-along"
    argv = [*FIRST, NAP, f"--bcast={copy}", f"{PROGRAMS}/where"]
    job, done = jobs.srun(cluster, argv)
    where = [line for line in done.stdout.splitlines() if line.startswith("rank=")]
    assert len(where) == 2 and all(LIBRARY in line for line in where)
    assert cluster.node_run("c1", ["cmp", copy, f"{PROGRAMS}/where"]).returncode == 0
    assert cluster.node_run("submit", ["test", "-e", copy]).returncode != 0, "nothing was copied to a node's own /tmp"
    cluster.node_run("c1", ["rm", copy], check=True)
    assert jobs.record(cluster, job)["wait"]["ranks"] == 2


def test_a_signal_before_the_limit_reaches_a_rank_that_naps(cluster: Cluster, warned: Warned) -> None:
    """--signal: the handler runs inside of the wait, the wait goes on, and the job ends by itself."""
    told = ["rank 0: SIGUSR1 outside", "rank 1: SIGUSR1 in Barrier"]
    wait_for(lambda: sorted(jobs.output(cluster, warned.job).splitlines()) == told, timeout_s=60)
    release(cluster, warned.file)
    assert cluster.wait_job(warned.job) == "COMPLETED"
    assert sorted(jobs.output(cluster, warned.job).splitlines()) == told, "nothing more, and no limit"
    wait = jobs.record(cluster, warned.job)["wait"]
    assert wait["ranks"] == 2 and wait["naps"] > 0 and wait["max"]["rank"] == 1
    assert wait["by_call"]["MPI_Barrier"]["waits"] >= 1
