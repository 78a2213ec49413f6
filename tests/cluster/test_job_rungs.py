"""umwait and mwaitx from option to sacct, on nodes whose processor is given the instructions by emulation.

The slurmstepds run under the emulator, so that root's side finds the bits; the ranks do, so that the instructions run.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import jobs
from tests.lib.emulate import emulation
from tests.lib.jobs import PROGRAMS
from tests.lib.record_tools import BUILD
from tests.lib.throwaway import Cluster, Fleet, project_cluster_arguments

EMULATOR = BUILD / "tests/lib/emulate/libmpiwait-emulate.so"
PREFIX = "/opt/mpi-wait"
SHOWN = f"{Cluster.share}/{EMULATOR.name}"
SLURMSTEPD = "/usr/sbin/slurmstepd"
FEATURES = f"{Cluster.share}/features"
FEATURE = {"umwait": "waitpkg", "mwaitx": "monitorx"}

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not EMULATOR.exists(), reason=f"not built: {EMULATOR}"),
    pytest.mark.skipif(bool(emulation.clock_reason()), reason=emulation.clock_reason() or "-"),
]


def environment(counters: str) -> dict[str, str]:
    stage = project_cluster_arguments()["binds"].get(PREFIX)
    if not stage:
        pytest.skip("nothing is staged")
    files = [Path(stage) / "lib/mpi-wait/libmpiwait.so", Path(stage) / "lib/slurm/spank_mpi_wait.so"]
    return {**emulation.environment(f"@{FEATURES}", counters, files), "LD_PRELOAD": SHOWN}


@pytest.fixture(scope="module")
def emulating_cluster(cluster: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """
    One node whose slurmstepd runs under the emulator, also as the prolog, to which slurmd hands no environment.
    Its tasks keep others off their cores, as it does itself (emulation.undisturbed).
    """
    cluster.put(EMULATOR)
    stepd = tmp_path_factory.mktemp("emulate") / "slurmstepd"
    variables = [f"{k}={shlex.quote(v)}" for k, v in environment(f"{Cluster.share}/nowhere").items()]
    command = " ".join([*emulation.undisturbed(), "env", *variables, SLURMSTEPD])
    stepd.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    with cluster.variants():
        yield cluster.variant(slurmd_arguments=["-d", cluster.put(stepd)])


def processor(cluster: Cluster, features: str) -> None:
    """From the next step on, the node's processor has these."""
    path = cluster.root / "share" / Path(FEATURES).name
    path.write_text(features)
    path.chmod(0o644)


def emulated(cluster: Cluster, argv: list[str]) -> tuple[int, str, dict[int, dict[str, int]]]:
    """Runs a job; returns its id, what it printed, and the emulator's counters by process id."""
    name = f"counters-{secrets.token_hex(4)}"
    folder = cluster.root / "share" / name
    folder.mkdir()
    folder.chmod(0o777)
    job, done = jobs.srun(cluster, argv, env=environment(f"{Cluster.share}/{name}"))
    return job, done.stdout, emulation.counters_read(folder)


def config_seen(cluster: Cluster, policy: str) -> dict[str, str]:
    """What a task is told, by key."""
    show = ["sh", "-c", "echo $MPI_WAIT_CONFIG"]
    _, done = jobs.srun(cluster, ["-n1", f"--mpi-wait-policy={policy}", *show])
    return dict(field.split("=") for field in done.stdout.strip().split(";"))


@pytest.mark.parametrize("policy", ["umwait", "mwaitx"])
def test_the_record_agrees_with_the_emulator(emulating_cluster: Cluster, policy: str) -> None:
    cluster = emulating_cluster
    processor(cluster, FEATURE[policy])
    program = [f"{PROGRAMS}/late_sender", "1000"]
    job, printed, counters = emulated(cluster, ["-N1", "-n2", f"--mpi-wait-policy={policy}", *program])
    executed = {key: sum(each[key] for each in counters.values()) for key in emulation.FIELDS}
    _, bare = jobs.srun(cluster, ["-N1", "-n2", *program])
    assert printed.split("checksum")[1].split()[0] == bare.stdout.split("checksum")[1].split()[0]
    record = jobs.record(cluster, job)
    assert record["policy"] == {"asked": policy, "used": policy, "by": "job"}
    dozes = executed["tpause" if policy == "umwait" else "mwaitx"]
    rested_s = sum(executed[key] for key in ("c01_ns", "c02_ns", "c1_ns")) / 1e9
    wait = record["wait"]
    print(f"{dozes} dozes, {rested_s:.4f} s in the instruction, {wait['asleep_s']:.4f} s recorded")
    assert wait["naps"] == dozes > 0
    # The way into the emulator and out of it is the rank's, not the instruction's.
    assert 0.999 * rested_s <= wait["asleep_s"] <= rested_s + 100e-6 * dozes + 0.01
    assert executed["limited"] == executed["woken"] == executed["umwait"] == 0
    assert max(each["longest_ticks"] for each in counters.values()) <= emulation.MAX_TIME
    assert executed["monitorx"] == (dozes if policy == "mwaitx" else 0)


@pytest.mark.parametrize(
    ("features", "rungs"),
    [
        ("waitpkg", "pause+umwait+nap"),
        ("monitorx", "pause+mwaitx+nap"),
        ("waitpkg,monitorx", "pause+umwait+mwaitx+nap"),
        ("none", "pause+nap"),
    ],
)
def test_auto_has_what_is_there(emulating_cluster: Cluster, features: str, rungs: str) -> None:
    processor(emulating_cluster, features)
    fields = config_seen(emulating_cluster, "auto")
    assert fields["rungs"] == rungs
    assert ("tsc_khz" in fields) == (features != "none")
    assert ("umwait_max_ns" in fields) == ("umwait" in rungs)
    if "umwait" in rungs:
        ticks = int(fields["umwait_max_ns"]) * int(fields["tsc_khz"]) // 1000000
        assert ticks <= emulation.MAX_TIME


@pytest.mark.parametrize(("max_time", "c02"), [(40000, 1), (0, 0)])
def test_the_kernels_limits_are_passed_on(
    emulating_cluster: Cluster, max_time: int, c02: int
) -> None:
    processor(emulating_cluster, "waitpkg")
    control = "/sys/devices/system/cpu/umwait_control"
    script = f"mkdir -p {control} && echo {max_time} >{control}/max_time && echo {c02} >{control}/enable_c02"
    (node,) = emulating_cluster.nodes
    emulating_cluster.node_run(node, ["sh", "-c", script], check=True)
    try:
        fields = config_seen(emulating_cluster, "umwait")
    finally:
        emulating_cluster.node_run(node, ["rm", "-r", control], check=True)
    ticks = int(fields["umwait_max_ns"]) * int(fields["tsc_khz"]) / 1000000
    assert max_time - 5 < ticks <= max_time and fields["umwait_c02"] == str(c02)


@pytest.mark.parametrize(
    ("policy", "features", "why"),
    [("umwait", "monitorx", "no waitpkg"), ("mwaitx", "waitpkg", "no mwaitx")],
)
def test_the_other_ones_bit_is_no_use(
    emulating_cluster: Cluster, policy: str, features: str, why: str
) -> None:
    processor(emulating_cluster, features)
    job, _, counters = emulated(
        emulating_cluster,
        ["-N1", "-n2", f"--mpi-wait-policy={policy}", f"{PROGRAMS}/unbalanced", "3", "10", "2"],
    )
    assert counters == {}
    assert jobs.record(emulating_cluster, job)["policy"] == {
        "asked": policy,
        "used": "nap",
        "by": "job",
        "why": why,
    }


def test_help_says_what_the_host_has(emulating_cluster: Cluster) -> None:
    processor(emulating_cluster, "waitpkg")
    done = emulating_cluster.run(
        ["srun", "--mpi-wait-policy=help"], env=environment(f"{Cluster.share}/nowhere")
    )
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert "no waitpkg" not in lines["umwait"] and "no mwaitx" in done.stdout
