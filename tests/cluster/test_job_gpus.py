"""GPUs' energy from the driver's counters to sacct and the report: a real cluster, a double of NVIDIA's library, files
in place of Intel's driver."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.throwaway.inside import BUILD
from tests.lib.waiting import wait_for

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


INTEL = "/sys/class/drm/renderD128/device"
SHOW_INTEL = f"""umount /proc/driver
mkdir -p {INTEL}/hwmon/hwmon5
echo 0x8086 > {INTEL}/vendor; echo xe > {INTEL}/hwmon/hwmon5/name; echo 1000000 > {INTEL}/hwmon/hwmon5/energy1_input"""
NOTE = "/run/mpi-wait/c1/intel"


def note_of(cluster: Cluster) -> dict[str, int]:
    note: dict[str, int] = json.loads(cluster.read("c1", NOTE))
    return note


def test_intels_counter_is_read_while_a_step_runs(gpus: Cluster) -> None:
    """The last test here, because the node has no device of NVIDIA's afterwards. A reading of a minute ago is due."""
    gpus.node_run("c1", ["sh", "-ec", SHOW_INTEL], check=True)
    go = f"{gpus.share}/go"
    job = jobs.sbatch(gpus, f"srun --mpi-wait-policy=profile sh -c 'while ! test -e {go}; do sleep 0.1; done'",
                      ["-N1", "-n1", "--gres=gpu:1"])
    wait_for(lambda: jobs.steps(gpus, "c1", job), "a step")
    since_us = note_of(gpus)["since_us"]
    old = {"since_us": since_us, "latest_us": since_us - 61_000_000}
    gpus.node_run("c1", ["tee", NOTE], input=json.dumps(old), check=True)
    wait_for(lambda: note_of(gpus)["latest_us"] > since_us, "a reading by the step's sampler")
    gpus.node_run("c1", ["sh", "-ec", f"echo 31000000 > {INTEL}/hwmon/hwmon5/energy1_input; touch {go}"], check=True)
    energy = jobs.record(gpus, job)["energy"]
    assert (energy["gpu_joules"], energy["gpus"]["counted"], energy["gpus"]["given"]) == (30, 1, 1)
    assert gpus.sacct(job, ["State", "ExitCode"])[0] == {"State": "COMPLETED", "ExitCode": "0:0"}
    assert "Intel GPU" in report(gpus, job) and "whole node" not in report(gpus, job)
