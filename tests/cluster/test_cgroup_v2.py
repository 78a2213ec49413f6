"""A node that has cgroup v2 alone, as Debian 12 is installed: proctrack/cgroup, task/cgroup with cores, memory and
devices constrained, PrologFlags=Contain. From the option to sacct.

One job is watched on its way, and another one is watched while it asks for more than it has. Where this machine has
cgroup v1, all of this runs in an emulated one (tests/lib/guest), on which a command takes seconds: few are run.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.guest.plugin import GROUP, TIMEOUT_S, elsewhere
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster, processes, project_cluster_arguments

pytestmark = [pytest.mark.cluster, pytest.mark.unified, pytest.mark.xdist_group(GROUP),
              pytest.mark.timeout(TIMEOUT_S + 100)]

NODE = "c1"
SCOPE = f"/sys/fs/cgroup/system.slice/{NODE}_slurmstepd.scope"
DEVICE = "/dev/full"
"""Stands for a device that is given to jobs: any job may use it that did not have to ask Slurm for it."""
CONF = {"GresTypes": "gpu", "NodeName": "DEFAULT Gres=gpu:1", "MessageTimeout": "100", "SlurmdTimeout": "300",
        "UnkillableStepTimeout": "120"}
"""With patience: on a busy machine, emulated code is slow."""
MEMORY_MIB = 150
MEMORY = f"--mem={MEMORY_MIB}M"
WAIT_S = 200
# The rank waits after MPI_Finalize, when its segment is still there and all of its memory has been used. The shell
# starts no further process, so that the cgroup's list of processes is the same whenever it is read.
RANK = f"""
{PROGRAMS}/unbalanced 5 20 2 && : >$1.$SLURM_PROCID
read line <$1.go.$SLURM_PROCID
"""
TRY_DEVICE = f"head -c 1 {DEVICE} >/dev/null 2>&1 && echo opened || echo refused\n"
GREEDY = f"""
{TRY_DEVICE}
exec /usr/bin/python3 -c 'print(len(b"x" * ({2 * MEMORY_MIB} << 20)))'
"""
GRANTED = f"""
{TRY_DEVICE}
cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.cpus.effective
exec /usr/bin/python3 /srv/cluster/lib/tests/lib/programs/hostile.py every_cpu
"""


@dataclass(frozen=True)
class Played:
    """What was seen of one job: while its ranks had waited, after its end, and in slurmdbd."""

    job: int
    groups: dict[str, list[str]]
    """The job's cgroups, relative to its own, that hold processes: their names."""
    files: dict[str, str]
    """Of the job's cgroup."""
    writers: list[str]
    """The cgroups of what writes the record, while slurmdbd does not answer."""
    left: list[str]
    """The cgroups of jobs that were still there at that time."""
    record: dict[str, Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node. Outside the guest there is none: see tests/lib/guest/plugin.py."""
    if elsewhere():
        yield None  # type: ignore[misc]
        return
    gres = tmp_path_factory.mktemp("gres") / "gres.conf"
    gres.write_text(f"Name=gpu File={DEVICE}\n")
    project = project_cluster_arguments()
    project["binds"]["/srv/cluster/etc/gres.conf"] = gres
    cluster = start_or_skip(Cluster(nodes=1, profile="cgroup2", slurm_conf=CONF, **project))
    yield cluster
    cluster.stop()


def wait_for(question: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (answer := question()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return answer


def release_gate(cluster: Cluster, name: str) -> int:
    """Makes a FIFO in the shared directory; returns a descriptor to write to. Whoever reads a line from it waits."""
    path = cluster.root / "share" / name
    os.mkfifo(path)
    path.chmod(0o666)
    return os.open(path, os.O_RDWR)


def written(cluster: Cluster) -> set[str]:
    """The cpufreq policies that were written to since the last call."""
    return {policy for _, policy, *_ in json.loads(cluster.read(NODE, "/run/simnode/fs/writes"))}


def tree(cluster: Cluster) -> Path:
    """The node's scope as this process can read it."""
    return cluster.inside.path(SCOPE, NODE)


def names(cluster: Cluster, folder: Path) -> list[str]:
    """Of the processes in a cgroup. Its file, opened from outside, has the pids of this process's own namespace. A
    process that ends meanwhile is left out."""
    pids = (folder / "cgroup.procs").read_text().split()
    return sorted(name for name in (processes.name(int(pid)) for pid in pids) if name)


def job_groups(cluster: Cluster, job: int) -> dict[str, list[str]]:
    top = tree(cluster) / f"job_{job}"
    found = {str(path.parent.relative_to(top)): names(cluster, path.parent) for path in top.rglob("cgroup.procs")}
    return {name: who for name, who in found.items() if who}


def writers(cluster: Cluster) -> list[str]:
    """The cgroups of the processes that write records, as the node's processes name them."""
    found = []
    for pid in cluster.pids_named(NODE, "mpi-wait-node"):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cgroup").read_text().strip())
    return found


@pytest.fixture(scope="module")
def played(node: Cluster) -> Played | None:
    if elsewhere():
        return None
    flag = f"{node.share}/played"
    gates = [release_gate(node, f"played.go.{rank}") for rank in range(2)]
    running = node.popen(["srun", "-n2", MEMORY, "--cpu-bind=none", "--job-name=played", "--mpi-wait-policy=nap",
                          "sh", "-c", RANK, "sh", flag])
    wait_for(lambda: len(list(node.root.glob("share/played.[0-9]"))) == 2 or running.poll() is not None)
    job = jobs.job_named(node, "played")
    folder = tree(node) / f"job_{job}"
    groups = job_groups(node, job)
    files = {name: (folder / name).read_text().strip()
             for name in ("memory.max", "memory.peak", "memory.events")}
    node.kill("slurmdbd", signal.SIGSTOP)
    for gate in gates:
        os.write(gate, b"\n")
    assert running.wait(WAIT_S) == 0, running.communicate()
    for gate in gates:
        os.close(gate)
    node.wait_job(job, timeout=WAIT_S)
    seen = wait_for(lambda: writers(node))
    left = [path.name for path in tree(node).glob("job_*")]
    node.kill("slurmdbd", signal.SIGCONT)
    return Played(job, groups, files, seen, left, jobs.record(node, job, timeout=WAIT_S))


def test_the_record_is_whole(played: Played) -> None:
    """Policy, waits, energy, and the step that PrologFlags=Contain makes."""
    record = played.record
    assert record["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    assert record["nodes"] == {"reported": 1, "of": 1} and record["wait"]["ranks"] == 2
    assert record["wait"]["by_call"]["MPI_Allreduce"]["waits"] > 0
    assert record["energy"]["joules"] > 0
    assert {step["id"] for step in record["steps"]} == {"extern", "0"}


def test_the_ranks_share_their_cgroup_with_nothing_of_ours(played: Played) -> None:
    """Besides the tasks and slurmstepd there is what Slurm itself keeps in an extern step, and nothing else."""
    assert played.groups == {
        "step_extern/slurm": ["slurmstepd"],
        "step_extern/user/task_special": ["sleep"],
        "step_0/slurm": ["slurmstepd"],
        "step_0/user/task_0": ["sh"],
        "step_0/user/task_1": ["sh"],
    }


def test_nothing_of_ours_keeps_the_cgroups_of_a_job(played: Played) -> None:
    """What writes the record lives on where slurmd is; the job's cgroups are gone by then."""
    assert len(played.writers) == 1 and played.writers[0].endswith(f"/system.slice/{NODE}_slurmstepd.scope/slurmd")
    assert played.left == []


def test_a_job_with_little_memory_has_enough_for_the_record(played: Played) -> None:
    """Library and segment count among the job's memory, and nothing was refused or killed for them."""
    assert int(played.files["memory.max"]) == MEMORY_MIB << 20
    assert 0 < int(played.files["memory.peak"]) < MEMORY_MIB << 20
    events = dict(line.split() for line in played.files["memory.events"].splitlines())
    assert {events[name] for name in ("max", "oom", "oom_kill")} == {"0"}


@pytest.fixture(scope="module")
def granted(node: Cluster) -> tuple[dict[str, Any], list[str], set[str]] | None:
    """A task with a grant on one of two cores, and with the device: its answers, what it found, what was written."""
    if elsewhere():
        return None
    written(node)
    options = ["-n1", MEMORY, "--gres=gpu:1", "--cpu-bind=none", "--mpi-wait-policy=pstate"]
    _, done = jobs.srun(node, [*options, "sh", "-c", GRANTED], timeout=WAIT_S)
    *found, answers = done.stdout.splitlines()
    return json.loads(answers), found, written(node)


def test_the_grant_is_on_the_cores_that_the_cgroup_allows(granted: Any) -> None:
    answers, found, writes = granted
    own = answers.pop("own")
    assert found[1] == own, "ConstrainCores"
    assert answers.pop(own) == "done" and list(answers.values()) == ["not yours"]
    assert writes == {f"policy{own}"}


def test_a_device_that_was_asked_for_is_there(granted: Any) -> None:
    _, found, _ = granted
    assert found[0] == "opened"


def test_what_a_job_may_not_have_it_does_not_get(node: Cluster) -> None:
    """The cgroup is in force, with a policy as without: no device, and death to who takes more memory. The record of
    that job is there all the same."""
    job, done = jobs.srun(node, ["-n1", MEMORY, "--mpi-wait-policy=nap", "sh", "-c", GREEDY], check=False,
                           timeout=WAIT_S)
    assert done.stdout == "refused\n" and done.returncode
    assert jobs.record(node, job, timeout=WAIT_S)["policy"]["used"] == "nap"
    node.wait_accounted(job)
    assert "OUT_OF_MEMORY" in {row["State"] for row in node.sacct(job, ["State"])}


def test_slurm_has_no_complaint(node: Cluster) -> None:
    """The last test: about its cgroups, in all that was run above, but for the death that was meant to be."""
    lines = [line for line in node.logs(f"slurmd-{NODE}").splitlines() if "error:" in line and "cgroup" in line.lower()]
    assert [line for line in lines if "oom-kill" not in line] == []
