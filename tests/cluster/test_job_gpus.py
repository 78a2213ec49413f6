"""GPUs' energy from the driver's counters to sacct and the report: a real cluster, a double of NVIDIA's library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.throwaway.inside import BUILD

pytestmark = pytest.mark.cluster
GPU_W = 100.0
DOUBLES = "/opt/mpi-wait-doubles"
GRES = {"GresTypes": "gpu", "NodeName": "DEFAULT Gres=gpu:2"}
ABSENT = [f"{jobs.PROGRAMS}/absent", "2", "100", "20"]


@pytest.fixture(scope="module")
def gpus() -> Iterator[Cluster]:
    """One node with two GPUs."""
    arguments = project_cluster_arguments()
    arguments["binds"][DOUBLES] = BUILD / "tests/lib/doubles"
    model = {"gpus": 2, "gpu_w": GPU_W, "gpu_library": f"{DOUBLES}/libnvidia-ml.so.1"}
    cluster = Cluster(1, "linuxproc", model=model, slurm_conf=GRES,
                      etc={"gres.conf": "Name=gpu File=/run/simnode/nvidia[0-1]\n"}, **arguments)
    yield start_or_skip(cluster)
    cluster.stop()


def report(cluster: Cluster, job: int) -> str:
    return " ".join(cluster.run(["/opt/mpi-wait/bin/mpi-wait", "report", str(job)], check=True).stdout.split())


@pytest.mark.parametrize("count", [1, 2])
def test_gpus_of_a_job(gpus: Cluster, count: int) -> None:
    job, _ = jobs.srun(gpus, ["-N1", "-n2", f"--gres=gpu:{count}", "--mpi-wait-policy=nap", *ABSENT])
    record = jobs.record(gpus, job)
    energy = record["energy"]
    told = energy["gpus"]
    assert (told["given"], told["counted"], told["present"], told["source"]) == (count, count, 2, "simulated")
    assert [device["name"] for device in told["devices"]] == ["Simulated GPU"] * count
    assert "not_counted" not in energy
    # The counters run by the clock: from a sample after the job's begin to one before its end, or a little around.
    assert 0 < energy["gpu_joules"] <= count * GPU_W * (record["elapsed_s"] + 10)
    text = report(gpus, job)
    assert "(Simulated GPU), by their own counters" in text and "whole node" not in text


def test_gpus_that_are_not_the_jobs(gpus: Cluster) -> None:
    """A job without GPUs on a node with some: whether it used them, nobody knows."""
    job, _ = jobs.srun(gpus, ["-N1", "-n2", "--mpi-wait-policy=nap", *ABSENT])
    energy = jobs.record(gpus, job)["energy"]
    assert energy["not_counted"] == ["gpus"] and "gpus" not in energy
    assert "GPUs not counted" in report(gpus, job)


def test_driver_that_hangs(gpus: Cluster) -> None:
    """The job runs and has its record, which says so; one process hangs at most, and not for long."""
    library = "/usr/lib/x86_64-linux-gnu/nvml"
    devices = gpus.read("c1", library)
    gpus.node_run("c1", ["sh", "-c", f"echo hang >> {library}"], check=True)
    try:
        job, done = jobs.srun(gpus, ["-N1", "-n2", "--gres=gpu:1", "--mpi-wait-policy=nap", *ABSENT])
        energy = jobs.record(gpus, job)["energy"]
    finally:
        gpus.node_run("c1", ["tee", library], input=devices + "\n", check=True)
    assert done.returncode == 0 and energy["joules"] > 0 and energy["not_counted"] == ["gpus"]
    assert energy["gpus"]["why"] == "a meter's driver hangs or crashed"
