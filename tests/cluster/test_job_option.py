"""The option and the site's line: who decides, what is refused, and what a job without it notices."""

from __future__ import annotations

import re

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, Fleet

pytestmark = pytest.mark.cluster

ENVIRONMENT = ["sh", "-c", "env | grep -E '^(LD_PRELOAD|MPI_WAIT_)' || echo clean"]


@pytest.mark.release
@pytest.mark.parametrize("command", [["srun"], ["sbatch", "--wrap=true"], ["salloc", "true"]])
def test_a_typo_is_refused_at_submit(cluster: Cluster, command: list[str]) -> None:
    before = cluster.run(["squeue", "-h", "-t", "all"]).stdout
    done = cluster.run(
        [command[0], "--mpi-wait-policy=umwiat", *command[1:]]
        + (["true"] if command == ["srun"] else [])
    )
    assert done.returncode != 0
    assert "unknown policy 'umwiat'" in done.stderr and "did you mean 'umwait'" in done.stderr
    assert cluster.run(["squeue", "-h", "-t", "all"]).stdout == before


def test_a_wrong_key_and_a_wrong_variable_are_refused(cluster: Cluster) -> None:
    key = cluster.run(["srun", "--mpi-wait-policy=nap,slodown=3", "true"])
    assert key.returncode != 0 and "did you mean 'slowdown'" in key.stderr
    variable = cluster.run(["srun", "true"], env={"MPI_WAIT_POLICY": "nope"})
    assert variable.returncode != 0 and "MPI_WAIT_POLICY" in variable.stderr


def test_a_broken_file_is_named_to_who_names_its_policy(cluster: Cluster) -> None:
    folder, plugstack = f"{cluster.share}/policies", cluster.root / "etc/plugstack.conf"
    broken = f"mkdir -p {folder} && echo '{{}}' | tee {folder}/mine.json >{folder}/nap.json"
    cluster.node_run("submit", ["sh", "-c", broken], check=True)
    text = plugstack.read_text()
    plugstack.write_text(f"{text.rstrip()} policies={folder}\n")
    try:
        mine, nap, other, listed = (
            cluster.run(["srun", "-n1", f"--mpi-wait-policy={name}", "true"])
            for name in ("mine", "nap", "yield", "help")
        )
    finally:
        plugstack.write_text(text)
    assert mine.returncode != 0 and "nothing was submitted" in mine.stderr
    assert f"--mpi-wait-policy: policy '{folder}/mine.json' left out: 'version' is missing" in mine.stderr
    assert nap.returncode == 0 and "the shipped 'nap' takes its place" in nap.stderr
    assert f"policy '{folder}/nap.json' left out: 'version' is missing" in nap.stderr
    assert other.returncode == 0 and folder not in other.stderr
    assert listed.returncode == 0 and "\n  nap " in listed.stdout
    assert re.search(rf"policy '{folder}/(mine|nap)\.json' left out: 'version' is missing", listed.stderr)


@pytest.mark.release
def test_help(cluster: Cluster) -> None:
    done = cluster.run(["srun", "--mpi-wait-policy=help"])
    assert done.returncode == 0
    for name in ("off", "profile", "nap", "yield", "auto", "umwait", "mwaitx", "event"):
        assert f"\n  {name} " in done.stdout
    assert "--mpi-wait-policy=NAME" in cluster.run(["srun", "--help"]).stdout


@pytest.mark.release
def test_without_the_option_nothing_happens(cluster: Cluster) -> None:
    plain = [
        "sh",
        "-c",
        "env | grep -E '^(LD_PRELOAD|MPI_WAIT_)'; ls -l /proc/self/fd | grep -c memfd;"
        "grep Cpus_allowed_list /proc/self/status",
    ]
    job, done = jobs.srun(cluster, ["-N1", "-n2", "-l", *plain])
    plugstack = cluster.root / "etc/plugstack.conf"
    text = plugstack.read_text()
    plugstack.write_text("")
    try:
        _, bare = jobs.srun(cluster, ["-N1", "-n2", "-l", *plain])
    finally:
        plugstack.write_text(text)
    assert sorted(done.stdout.splitlines()) == sorted(bare.stdout.splitlines())
    assert jobs.has_no_record(cluster, job)


@pytest.mark.release
def test_site_default_and_off(cluster: Fleet) -> None:
    with cluster.variants():
        play_site_default(cluster.variant("default=nap"))


def play_site_default(cluster: Cluster) -> None:
    job, _ = jobs.srun(cluster, ["-N1", "-n2", f"{PROGRAMS}/unbalanced", "3", "10", "2"])
    assert jobs.record(cluster, job)["policy"] == {"asked": "nap", "used": "nap", "by": "site"}
    off, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi-wait-policy=off", *ENVIRONMENT])
    assert done.stdout == "clean\n"
    assert jobs.has_no_record(cluster, off)
    batch = jobs.sbatch(
        cluster,
        "env | grep -E '^(LD_PRELOAD|MPI_WAIT_CONFIG)' || echo clean\n",
        ["--mpi-wait-policy=off", "--export=NONE"],
    )
    assert jobs.has_no_record(cluster, batch)
    assert jobs.output(cluster, batch) == "clean\n"


def test_off_leaves_its_energy_where_all_is_recorded(cluster: Fleet) -> None:
    with cluster.variants():
        play_energy_of_off(cluster.variant("record=all"))


def play_energy_of_off(cluster: Cluster) -> None:
    off, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi-wait-policy=off", *ENVIRONMENT])
    assert done.stdout == "clean\n"
    record = jobs.record(cluster, off)
    assert record["policy"] == {"asked": "off", "used": "off", "by": "job"} and record["wait"] is None
    assert record["energy"]["joules"] > 0 and [step["ranks"] for step in record["steps"]] == [0]
    untold, done = jobs.srun(cluster, ["-N1", "-n1", *ENVIRONMENT])
    assert done.stdout == "clean\n" and jobs.has_no_record(cluster, untold)


def test_malformed_arguments_make_it_inert(cluster: Fleet) -> None:
    with cluster.variants():
        spoilt = cluster.variant("default=nap colour=red")
        job, done = jobs.srun(spoilt, ["-n1", *ENVIRONMENT])
        assert done.stdout == "clean\n" and jobs.has_no_record(spoilt, job)
        assert "'colour=red' (no such argument)" in spoilt.logs(f"slurmd-{spoilt.nodes[0]}") + done.stderr


def test_the_environments_default(cluster: Cluster) -> None:
    _, done = jobs.srun(cluster, ["-n1", *ENVIRONMENT], env={"MPI_WAIT_POLICY": "nap"})
    assert LIBRARY in done.stdout and "rungs=pause+nap" in done.stdout
    _, beaten = jobs.srun(
        cluster, ["-n1", "--mpi-wait-policy=yield", *ENVIRONMENT], env={"MPI_WAIT_POLICY": "nap"}
    )
    assert "rungs=pause+yield" in beaten.stdout


@pytest.mark.release
def test_sbatch_reaches_srun_and_srun_overrides(cluster: Cluster) -> None:
    script = "\n".join(
        f"echo {name}; srun -n1 {option} sh -c \"env | grep -E '^(LD_PRELOAD|MPI_WAIT_CONFIG)' || echo clean\""
        for name, option in (
            ("inherited", ""),
            ("own", "--mpi-wait-policy=yield"),
            ("none", "--mpi-wait-policy=off"),
        )
    )
    job = jobs.sbatch(
        cluster, "env | grep -c LD_PRELOAD\n" + script, ["-N1", "-n1", "--mpi-wait-policy=nap"]
    )
    cluster.wait_job(job)
    _, inherited = jobs.output(cluster, job).split("inherited\n")
    inherited, own = inherited.split("own\n")
    own, none = own.split("none\n")
    assert "rungs=pause+nap" in inherited and inherited.count(LIBRARY) == 1
    assert "rungs=pause+yield" in own and own.count(LIBRARY) == 1
    assert none == "clean\n"
    record = jobs.record(cluster, job)
    assert record["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    assert {step["id"]: step.get("policy", record["policy"])["used"] for step in record["steps"]} == {
        "batch": "nap",
        "0": "nap",
        "1": "yield",
        "2": "off",
    }
    own = [step for step in record["steps"] if step["id"] == "2"]
    assert own[0]["joules"] > 0 and own[0]["ranks"] == 0, "its energy, and nothing else"


@pytest.mark.release
@pytest.mark.parametrize(("command", "rungs"), [("srun", "none"), ("sbatch", "pause+yield")])
def test_the_components_of_a_heterogeneous_step_have_one_policy(cluster: Cluster, command: str, rungs: str) -> None:
    """srun's last one, sbatch's first one: Slurm keeps one option for all."""
    one, other = ["-n1", "-w", "c1", "--mpi-wait-policy=yield"], ["-n1", "-w", "c2", "--mpi-wait-policy=profile"]
    show = ["printenv", "MPI_WAIT_CONFIG"]
    if command == "srun":
        _, done = jobs.srun(cluster, [*one, *show, ":", *other, *show])
        found = done.stdout
    else:
        job = jobs.sbatch(cluster, f"srun --het-group=0,1 {' '.join(show)}\n", [*one, ":", *other])
        assert cluster.wait_job(job) == "COMPLETED"
        found = jobs.output(cluster, job)
    assert found.count(f"v=1;rungs={rungs};") == len(found.splitlines()) == 2


def test_only_an_inner_srun_asks(cluster: Cluster) -> None:
    job = jobs.sbatch(
        cluster,
        f"srun true\nsrun --mpi-wait-policy=nap {PROGRAMS}/unbalanced 3 10 2\n",
        ["-N1", "-n2"],
    )
    record = jobs.record(cluster, job)
    assert record["policy"]["asked"] == "nap" and record["policy"]["by"] == "step"
    assert [step["id"] for step in record["steps"]] == ["1"] and record["wait"]["ranks"] == 2


def test_what_the_user_preloads_stays(cluster: Cluster) -> None:
    _, done = jobs.srun(
        cluster,
        ["-n1", "--mpi-wait-policy=nap", "sh", "-c", "echo $LD_PRELOAD"],
        env={"LD_PRELOAD": "libm.so.6"},
    )
    ours, _, theirs = done.stdout.strip().partition(":")
    assert ours.endswith(LIBRARY) and theirs == "libm.so.6"


def test_a_forged_option_counts_for_nothing(cluster: Cluster) -> None:
    """The client checks for kindness; the node checks because users can set these variables themselves."""
    _, done = jobs.srun(
        cluster,
        ["-n1", *ENVIRONMENT],
        env={"_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy": "../../etc/passwd"},
    )
    assert LIBRARY not in done.stdout
