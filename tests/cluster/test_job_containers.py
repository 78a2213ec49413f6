"""Steps in other roots and in environments that are not the submitter's: they run, and are served where that can be."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, Fleet, project_cluster_arguments
from tests.lib.throwaway.project import PREFIX, REPOSITORY

pytestmark = pytest.mark.cluster
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]
POLICY = "--mpi-wait-policy=nap"
# Starts a program without the descriptors that it does not know, and says how the library is named.
CLOSING = ["python3", "-c", "import subprocess; subprocess.run(['printenv', 'LD_PRELOAD'])"]
COMPLAINT = "cannot be preloaded"
# A root in which the library's path does not exist, as its container runtime would make it.
RUNTIME = """#!/bin/bash
preload=$LD_PRELOAD
unset LD_PRELOAD
exec unshare --map-current-user --keep-caps -m bash -c '{} && LD_PRELOAD='$preload' exec "$@"' bash "$@"
"""
HIDE = f"mount -t tmpfs none {PREFIX}"


def runtime(cluster: Cluster, name: str, script: str) -> str:
    path = f"{cluster.share}/{name}"
    inside = cluster.inside.path(path)
    inside.write_text(RUNTIME.format(script))
    inside.chmod(0o755)
    return path


def test_a_root_without_the_library_s_path(cluster: Cluster) -> None:
    """Under a runtime that hands descriptors on, the ranks have the library, and nothing complains."""
    run = runtime(cluster, "ch-run", HIDE)
    job, done = jobs.srun(cluster, ["-N1", "-n2", POLICY, run, *UNBALANCED])
    assert COMPLAINT not in done.stderr
    record = jobs.record(cluster, job)
    assert record["wait"]["ranks"] == 2 and record["wait"]["by_call"]["MPI_Allreduce"]["waits"] > 0
    _, done = jobs.srun(cluster, ["-N1", "-n1", POLICY, run, *CLOSING])
    assert re.fullmatch("/proc/[0-9]+/fd/[0-9]+\n", done.stdout) and not done.stderr


def test_a_runtime_that_closes_descriptors(cluster: Cluster) -> None:
    """ld.so prints a line for each program, and the job runs; with the directory bound it is served."""
    run = runtime(cluster, "closing-run", HIDE)
    _, done = jobs.srun(cluster, ["-N1", "-n1", POLICY, run, "true"])
    assert f"'{PREFIX}/lib/mpi-wait/{LIBRARY}' from LD_PRELOAD {COMPLAINT}" in done.stderr
    job, done = jobs.srun(cluster, ["-N1", "-n2", POLICY, run, *UNBALANCED])
    assert jobs.record(cluster, job)["wait"] is None
    folder = f"{PREFIX}/lib/mpi-wait"
    keep = f"mkdir -p /tmp/kept && mount --bind {folder} /tmp/kept"
    run = runtime(cluster, "closing-run", f"{keep} && {HIDE} && mkdir -p {folder} && mount --bind /tmp/kept {folder}")
    job, done = jobs.srun(cluster, ["-N1", "-n2", POLICY, run, *UNBALANCED])
    assert COMPLAINT not in done.stderr
    assert jobs.record(cluster, job)["wait"]["ranks"] == 2


def behind(cluster: Cluster, directory: str) -> str:
    """plugstack.conf with a plugin behind ours that gives each task a root of its own, where the directory is empty."""
    mover = cluster.put(BUILD / "tests/lib/doubles/mover.so", "mover.so", 0o755)
    return f"{project_cluster_arguments()['plugstack']}optional {mover} {directory}\n"


def test_a_plugin_behind_ours_that_moves_the_task(cluster: Fleet) -> None:
    """As pyxis does: the ranks have the library all the same."""
    with cluster.variants():
        node = cluster.variant(plugstack=behind(cluster, PREFIX))
        job, done = jobs.srun(node, ["-n2", POLICY, *UNBALANCED])
        assert COMPLAINT not in done.stderr and jobs.record(node, job)["wait"]["ranks"] == 2
        _, done = jobs.srun(node, ["-n1", POLICY, *CLOSING])
        assert re.fullmatch("/proc/[0-9]+/fd/[0-9]+\n", done.stdout) and not done.stderr


def test_a_plugin_behind_ours_that_leaves_the_library_there(cluster: Fleet) -> None:
    """Programs that close descriptors start others as if that plugin did not stand there."""
    with cluster.variants():
        node = cluster.variant(plugstack=behind(cluster, "/mnt"))
        _, done = jobs.srun(node, ["-n1", POLICY, *CLOSING])
        assert (done.stdout, done.stderr) == (f"{PREFIX}/lib/mpi-wait/{LIBRARY}\n", "")


def test_a_step_in_a_step_in_a_container_is_cleaned(cluster: Cluster) -> None:
    """What an outer step's descriptor was named is nothing to an inner one."""
    job = jobs.sbatch(
        cluster,
        "export LD_PRELOAD=/proc/self/fd/230\nsrun --mpi-wait-policy=nap printenv LD_PRELOAD\n"
        "srun --mpi-wait-policy=off printenv LD_PRELOAD || echo none\n",
        ["-N1", "-n1"],
    )
    jobs.record(cluster, job)
    lines = [line for line in jobs.output(cluster, job).splitlines() if COMPLAINT not in line]
    assert lines == [f"{PREFIX}/lib/mpi-wait/{LIBRARY}", "none"]


@pytest.mark.parametrize("option", ["--export=NONE", "--export=NIL", "--export=HOME"])
def test_without_the_submitter_s_environment(cluster: Cluster, option: str) -> None:
    _, done = jobs.srun(cluster, ["-N1", "-n1", option, POLICY, "/usr/bin/printenv", "LD_PRELOAD"])
    assert done.stdout.strip().endswith(LIBRARY)


def test_an_environment_module_that_purges(cluster: Cluster) -> None:
    """What a purge takes away (paths, lists) is none of ours."""
    script = "unset LD_LIBRARY_PATH LIBRARY_PATH CPATH MANPATH PKG_CONFIG_PATH LOADEDMODULES _LMFILES_; exec \"$@\""
    job, _ = jobs.srun(cluster, ["-N1", "-n2", POLICY, "bash", "-c", script, "bash", *UNBALANCED])
    assert jobs.record(cluster, job)["wait"]["ranks"] == 2


def test_an_emptied_environment_runs_without_the_policy(cluster: Cluster) -> None:
    job, done = jobs.srun(cluster, ["-N1", "-n1", POLICY, "env", "-i", "/usr/bin/env"])
    assert done.stdout.strip() == ""
    assert jobs.record(cluster, job)["policy"]["used"] == "nap"


def test_setuid_programs_are_left_alone(cluster: Cluster) -> None:
    """ld.so itself passes over a library that is named by a path there, without a word."""
    _, done = jobs.srun(cluster, ["-N1", "-n1", POLICY, "passwd", "-S"])
    assert COMPLAINT not in done.stderr and done.stdout.startswith("alice ")


def test_static_programs_run(cluster: Cluster, tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
    program = cluster.inside.path(f"{cluster.share}/static")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "static", source], check=True)
    program.write_bytes((tmp_path / "static").read_bytes())
    os.chmod(program, 0o755)
    job, done = jobs.srun(cluster, ["-N1", "-n1", POLICY, f"{cluster.share}/static"])
    said = "mpi-wait: policy 'nap': the program is linked statically and runs without it; link it dynamically\n"
    assert (done.stdout, done.stderr) == ("ran\n", said)
    assert jobs.record(cluster, job)["wait"] is None
