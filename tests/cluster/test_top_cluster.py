"""mpi-wait top, and mpi-wait report of several jobs, beside Slurm's own sacct."""

from __future__ import annotations

import json
import time

from tests.lib import jobs
from tests.lib.throwaway import Cluster


def test_a_job_that_has_ended_is_listed(cluster: Cluster) -> None:
    program = f"{jobs.PROGRAMS}/unbalanced"
    job, _ = jobs.srun(cluster, ["-n2", "--mpi-wait-policy=nap", program, "5", "20", "3"])
    jobs.record(cluster, job)
    asked = ["/opt/mpi-wait/bin/mpi-wait", "top", "--since", "1h"]
    mine: list[dict[str, object]] = []
    deadline = time.monotonic() + 60  # sacct finds the jobs of a young cluster by number at first, by time later
    while not mine and time.monotonic() < deadline:
        done = cluster.run([*asked, "--json"], timeout=60)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        mine = [line for line in answer["rows"] if line["name"] == str(job)]
        time.sleep(1)
    assert len(mine) == 1 and mine[0]["wait_s"] > 0 and mine[0]["simulated"]
    text = cluster.run([*asked, "--by", "user"], check=True).stdout
    assert "Energy spent waiting awake, by user" in text and "Traceback" not in text
    name = str(mine[0]["job_name"])
    trend = cluster.run([*asked, "--mine", "--name", name], check=True).stdout
    assert trend.startswith(f"1 run of {name}") and str(job) in trend
    assert mine[0]["state"] == "COMPLETED" and mine[0]["nodes"] == 1


def test_off_and_nap_are_compared(cluster: Cluster) -> None:
    """As the manual says to: the job under off has left no record, and sacct has its time."""
    program = f"{jobs.PROGRAMS}/unbalanced"
    off, _ = jobs.srun(cluster, ["-n2", "--mpi-wait-policy=off", program, "5", "20", "3"])
    nap, _ = jobs.srun(cluster, ["-n2", "--mpi-wait-policy=nap", program, "5", "20", "3"])
    jobs.record(cluster, nap)
    report = ["/opt/mpi-wait/bin/mpi-wait", "report", str(off), str(nap)]
    text = cluster.run(report, check=True, timeout=60).stdout
    assert f"{off} (no record)" in text and f"{nap} (nap)" in text and "left no record" in text
    of_off, of_nap = json.loads(cluster.run([*report, "--json"], check=True, timeout=60).stdout)
    assert of_off["mpi_wait"] is None and of_off["sacct"]["elapsed_s"] is not None
    assert of_nap["mpi_wait"]["v"] == 1 and set(of_nap["sacct"]) == set(of_off["sacct"])
    steps = cluster.run([*report[:2], f"{off}.0", f"{nap}.0"], check=True, timeout=60).stdout
    assert f"{off}.0 (no record)" in steps and f"{nap}.0 (nap)" in steps
