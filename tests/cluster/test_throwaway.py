"""The throw-away cluster keeps its promises: it works, and nothing of it remains."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lib.throwaway import Cluster, ClusterError, MissingRequirements, ProfileUnavailable, registry
from tests.lib.throwaway.inside import REPOSITORY
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster

CHROOTS = re.compile(r" /\S*/build/(chroots|matrix)/")
LIBMOUNT = ("/run", "mount")
MPI_HELLO = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank = 0, size = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d sum %d\n", rank, size, sum);
    return MPI_Finalize();
}
"""
CONTROLLER = """
import signal, sys, time
from tests.lib.throwaway import Cluster
from tests.lib.waiting import wait_for
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
cluster = Cluster(nodes=1, simulated=True, profile=sys.argv[1]).start()
busy = cluster.popen(["srun", "sleep", "600"])
wait_for(lambda: cluster.run(["squeue", "-h", "-t", "R"]).stdout, "a running job")
print(cluster.inside.init, flush=True)
try:
    time.sleep(600)
finally:
    cluster.stop()
"""


class Trace(NamedTuple):
    """How a cluster's remains would be known: its PID namespace and, if any, its cgroups' name.

    held: a descriptor of the namespace, until this process ends: meanwhile no other gets its number."""

    pid_namespace: str
    cgroup: str
    held: int = -1


class Machine:
    """What a cluster must leave as it was."""

    def __init__(self) -> None:
        self.before = self.state()

    @staticmethod
    def state() -> dict[str, object]:
        return {
            # Chroots are other tests', of this tree or of another one, which make them meanwhile.
            "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines()
                       if not CHROOTS.search(line)],
            "users": Path("/etc/passwd").read_text() + Path("/etc/group").read_text(),
            # /run/mount is libmount's, from the first mount on that anybody makes.
            "directories": [sorted(f"{folder}/{name}" for name in os.listdir(folder) if (folder, name) != LIBMOUNT)
                            for folder in ("/srv", "/opt", "/run", "/etc")],
        }

    def check_untouched(self, trace: Trace) -> None:
        """Raises when something differs, or a process or a cgroup of the cluster is left."""
        assert self.state() == self.before
        assert processes_in(trace) == []
        if trace.cgroup:
            assert not list(Path("/sys/fs/cgroup").glob(f"**/{trace.cgroup}"))


def processes_in(trace: Trace) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "ns/pid") == trace.pid_namespace:
                found.append((entry / "comm").read_text())
        except OSError:
            continue
    return found


def trace_of(init: int) -> Trace:
    names = re.findall("/(mpi-wait-[0-9a-f]+)", Path(f"/proc/{init}/cgroup").read_text())
    held = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY)
    return Trace(os.readlink(f"/proc/{init}/ns/pid"), names[0] if names else "", held)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def started(cluster: Cluster) -> Cluster:
    try:
        return cluster.start()
    except (MissingRequirements, ProfileUnavailable) as error:
        pytest.skip(str(error))


@pytest.fixture(params=["linuxproc", "cgroup"])
def controller(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], Trace]]:
    """A process that holds a cluster with a running job; and the cluster's trace."""
    started(Cluster(nodes=1, simulated=False, profile=request.param)).stop()
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER, request.param], cwd=REPOSITORY,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout
    yield process, trace_of(int(process.stdout.readline()))
    process.kill()
    process.wait()
    process.stdout.close()


def wait_empty(trace: Trace, timeout_s: float = 60) -> None:
    wait_for(lambda: not processes_in(trace), lambda: f"the end of {processes_in(trace)}", timeout_s)


def test_srun_reaches_both_nodes_as_the_job_user(cluster: Cluster) -> None:
    result = cluster.run(["srun", "-N2", "sh", "-c", "echo $(hostname) $(id -un) $(id -u)"])
    assert sorted(result.stdout.splitlines()) == ["c1 alice 20001", "c2 alice 20001"]


def test_sacct_knows_the_job_and_its_step(cluster: Cluster) -> None:
    submit = ["sbatch", "--parsable", "--wrap", "srun hostname"]
    job = cluster.run(submit, check=True).stdout.strip()
    assert cluster.wait_job(job) == "COMPLETED"
    cluster.wait_accounted(job)
    rows = cluster.sacct(job, ["JobID", "State", "User"])
    assert {"JobID": job, "State": "COMPLETED", "User": "alice"} in rows
    assert f"{job}.0" in [row["JobID"] for row in rows]


@pytest.mark.parametrize("options", [["-n4", "-N2"], ["-n2", "-N1"]])
def test_open_mpi_program_runs(cluster: Cluster, tmp_path: Path, options: list[str]) -> None:
    compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
    if not compiler:
        pytest.skip("no mpicc")
    (tmp_path / "hello.c").write_text(MPI_HELLO)
    subprocess.run([compiler, "hello.c", "-o", "hello"], cwd=tmp_path, check=True)
    result = cluster.run(["srun", *options, cluster.put(tmp_path / "hello")], check=True)
    size = int(options[0][2:])
    expected = [f"rank {rank} of {size} sum {size * (size - 1) // 2}" for rank in range(size)]
    assert sorted(result.stdout.splitlines()) == expected


def test_nodes_are_private_but_for_the_shared_directory(cluster: Cluster) -> None:
    name = f"mpi-wait-{secrets.token_hex(8)}"
    for folder, shared in (("/tmp", False), ("/run/mpi-wait", False), ("/dev/shm", False),
                           (cluster.spool, True)):
        path = f"{folder}/{name}"
        cluster.node_run("c1", ["touch", path], check=True)
        seen = cluster.node_run("c2", ["test", "-e", path]).returncode == 0
        assert seen is shared, path
        assert not Path(path).exists()
        cluster.node_run("c1", ["rm", path], check=True)
    modes = cluster.node_run("c1", ["stat", "-c", "%a %U", "/run/mpi-wait", "/var/spool/mpi-wait",
                                    cluster.spool]).stdout
    run, *others = modes.splitlines()
    assert run in ("755 root", "700 root") and others == ["700 root", "755 root"]


def test_command_status_signal_and_timeout(cluster: Cluster) -> None:
    assert cluster.run(["sh", "-c", "exit 7"]).returncode == 7
    assert cluster.run(["no-such-program"]).returncode == 127
    assert cluster.run(["cat"], input="text").stdout == "text"
    assert cluster.run(["sh", "-c", "kill -USR1 $$"]).returncode == -signal.SIGUSR1
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run(["sleep", "100"], timeout=0.5)
    name, doings = registry.LATE[-1]
    assert "'sleep 100'" in name
    assert re.search(r"^ *\d+ +\d+ S +0\.\d\d s  sleep ", doings, re.MULTILINE), doings
    assert not shutil.which("gdb") or "clock_nanosleep" in doings
    with pytest.raises(ClusterError, match="ended with 1: oops"):
        cluster.run(["sh", "-c", "echo oops >&2; exit 1"], check=True)


def test_signals_pass_to_a_background_command(cluster: Cluster) -> None:
    process = cluster.popen(["sh", "-c", "trap 'echo got; exit 3' TERM; echo up; while :; do "
                             "sleep 0.1; done"])
    assert process.stdout and process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0] == "got\n"
    assert process.returncode == 3


def test_daemons_restart_and_die(cluster: Cluster) -> None:
    cluster.kill("slurmdbd", signal.SIGKILL)
    assert cluster.run(["sacct"]).returncode != 0
    cluster.restart("slurmdbd")
    assert cluster.run(["sacct"]).returncode == 0
    cluster.restart("slurmd-c1")
    assert cluster.run(["srun", "-N2", "hostname"]).returncode == 0
    with pytest.raises(ClusterError, match="no daemon 'x' "):
        cluster.kill("x")


def test_cgroup_profile_confines_a_task(cluster_cgroup: Cluster) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one CPU cannot be divided")
    script = "cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status"
    result = cluster_cgroup.run(["srun", "-n1", "--cpu-bind=none", "sh", "-c", script])
    assert "/slurm_c1/uid_20001/job_" in result.stdout
    assert "mpi-wait" not in result.stdout  # the cluster's own cgroup namespace
    assert result.stdout.splitlines()[-1].split()[-1].isdigit()
    assert cluster_cgroup.run(["srun", "-N2", "-n2", "hostname"]).returncode == 0


def test_two_clusters_side_by_side(cluster_cgroup: Cluster, machine: Machine) -> None:
    other = started(Cluster(nodes=1, profile=cluster_cgroup.profile))
    trace = trace_of(other.inside.init)
    names = [each.run(["srun", "hostname"], check=True).stdout for each in (cluster_cgroup, other)]
    assert names == ["c1\n", "c1\n"]
    other.stop()
    machine.check_untouched(trace)
    assert "c1" in cluster_cgroup.run(["srun", "hostname"], check=True).stdout


def test_binds_hide_nothing_and_leave_nothing(machine: Machine, tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "tool").mkdir(parents=True)
    (private / "tool/file").write_text("from outside")
    private.chmod(0o700)
    binds = {"/opt/tool": private / "tool", "/usr/lib/new-folder/file": private / "tool/file"}
    with started(Cluster(nodes=1, simulated=False, binds=binds)) as cluster:
        trace = trace_of(cluster.inside.init)
        for path in ("/opt/tool/file", "/usr/lib/new-folder/file"):
            assert cluster.run(["srun", "cat", path]).stdout == "from outside"
    machine.check_untouched(trace)
    assert not Path("/usr/lib/new-folder").exists()


def test_nothing_is_left_after_an_error(machine: Machine) -> None:
    trace = Trace("", "")
    with pytest.raises(ZeroDivisionError), started(Cluster(nodes=1)) as cluster:
        trace = trace_of(cluster.inside.init)
        raise ZeroDivisionError
    machine.check_untouched(trace)
    assert "slurmctld version" in cluster.logs("slurmctld")


def test_a_boot_that_fails_says_why_and_leaves_nothing(machine: Machine) -> None:
    started(Cluster(nodes=1, simulated=False)).stop()
    with pytest.raises(ClusterError, match="(?s)slurmctld ended at once.*no-such-plugin"):
        Cluster(nodes=1, slurm_conf={"SelectType": "select/no-such-plugin"}).start()
    assert machine.state() == machine.before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_controller_dies(
    machine: Machine, controller: tuple[subprocess.Popen[str], Trace], number: int
) -> None:
    process, trace = controller
    assert len(processes_in(trace)) > 5
    process.send_signal(number)
    process.wait(20)
    wait_empty(trace)
    # The keeper removes the cgroups, and is gone after that.
    wait_for(lambda: not trace.cgroup or not list(Path("/sys/fs/cgroup").glob(f"**/{trace.cgroup}")), "no cgroups")
    machine.check_untouched(trace)


def test_command_line_ends_with_the_status_of_the_command(machine: Machine) -> None:
    started(Cluster(nodes=1, simulated=False)).stop()
    command = [sys.executable, "-m", "tests.lib.throwaway", "run", "--nodes", "1", "--plain", "--",
               "sh", "-c", "srun hostname; exit 5"]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (5, "c1\n")
    assert "  munge, mariadb ..." in result.stderr
    assert machine.state() == machine.before
