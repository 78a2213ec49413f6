"""Policies by program: who decides, in srun's steps and below mpirun, and what the record says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, Fleet

pytestmark = pytest.mark.cluster

WORDS = ["3", "10", "2"]
ROWS = [
    {"names": ["wrf.exe", "vasp_*"], "policy": "nap,slowdown=2"},
    {"names": ["lmp*"], "policy": "off"},
    {"names": ["cp2k"], "policy": "profile"},
    {"names": ["run*"], "policy": "profile"},
]
ENVIRONMENT = "env | grep -E '^(LD_PRELOAD|MPI_WAIT_CONFIG)' || echo clean"
NAP = {"asked": "nap", "used": "nap", "by": "program"}
PROFILE = {"asked": "profile", "used": "profile", "by": "program"}
OFF = {"asked": "off", "used": "off", "by": "program"}


def put(cluster: Cluster, name: str, text: str) -> str:
    path = f"{cluster.share}/programs/{name}"
    script = f"mkdir -p {cluster.share}/programs && cat >{path} && chmod 755 {path}"
    cluster.node_run("submit", ["sh", "-c", script], input=text, check=True)
    return path


@pytest.fixture(scope="module")
def programs(cluster: Fleet) -> str:
    """The folder with the file and with one MPI program by three names."""
    put(cluster, "programs.json", json.dumps({"v": 1, "programs": ROWS, "wrappers": ["my_wrapper"]}))
    put(cluster, "run.sh", f"#!/bin/sh\nexec {cluster.share}/programs/\"$@\"\n")
    folder = f"{cluster.share}/programs"
    for name in ("wrf.exe", "lmp_mpi", "cp2k", "other"):
        cluster.node_run("submit", ["cp", f"{PROGRAMS}/unbalanced", f"{folder}/{name}"], check=True)
    return folder


@pytest.fixture(scope="module")
def by_program(cluster: Fleet, programs: str) -> Iterator[Cluster]:
    with cluster.variants():
        yield cluster.variant(f"programs={programs}/programs.json")


@pytest.mark.release
@pytest.mark.parametrize("command", [
    "{0}/wrf.exe", "env A=1 {0}/wrf.exe", "nice -n 1 {0}/wrf.exe", "{0}/run.sh wrf.exe",
])
def test_the_command_of_srun_tells_its_program(by_program: Cluster, programs: str, command: str) -> None:
    job, _ = jobs.srun(by_program, ["-N1", "-n2", *command.format(programs).split(), *WORDS])
    record = jobs.record(by_program, job)
    assert record["policy"] == NAP and record["wait"]["ranks"] == 2


def test_so_does_a_shells_text(by_program: Cluster, programs: str) -> None:
    text = f"exec {programs}/cp2k {' '.join(WORDS)}"
    job, _ = jobs.srun(by_program, ["-N1", "-n2", "bash", "-c", text])
    assert jobs.record(by_program, job)["policy"] == PROFILE


@pytest.mark.release
def test_programs_of_one_step_choose_by_themselves(by_program: Cluster, programs: str) -> None:
    lines = "".join(f"{task} {programs}/wrf.exe {' '.join(WORDS)}\n" for task in range(2))
    job, _ = jobs.srun(by_program, ["-N1", "-n2", "--multi-prog", put(by_program, "multi.conf", lines)])
    assert jobs.record(by_program, job)["policy"] == NAP


def test_off_and_what_no_name_matches_is_left_alone(by_program: Cluster, programs: str) -> None:
    for program in (f"{programs}/lmp_mpi", f"{programs}/other"):
        job, _ = jobs.srun(by_program, ["-N1", "-n2", program, *WORDS])
        assert jobs.has_no_record(by_program, job)


def test_a_binary_with_a_name_is_told_no_others(by_program: Cluster, programs: str) -> None:
    """Of its own row the task has the policy alone; one that is off has nothing."""
    shells = "; ".join(f"cp /bin/bash {programs}/{name}" for name in ("cp2k_shell", "lmp_shell", "vasp_shell"))
    by_program.node_run("submit", ["sh", "-c", shells], check=True)
    seen = {
        name: jobs.srun(by_program, ["-n1", f"{programs}/{name}", "-c", ENVIRONMENT])[1].stdout
        for name in ("vasp_shell", "lmp_shell", "cp2k_shell")
    }
    assert seen["lmp_shell"] == "clean\n"
    assert LIBRARY in seen["vasp_shell"] and ";slowdown_ppm=20000;" in seen["vasp_shell"]
    assert "|" not in seen["vasp_shell"] and "off=1" not in seen["vasp_shell"]
    assert "off=1" in seen["cp2k_shell"] and "|wrf.exe:1,vasp_*:1,lmp*:2,cp2k:3,run*:3" in seen["cp2k_shell"]


def test_the_ranks_of_mpirun_choose(by_program: Cluster, programs: str) -> None:
    words = " ".join(WORDS)
    one, mixed, off = (
        jobs.sbatch(by_program, "\n".join(f"mpirun.openmpi -n 2 {programs}/{name} {words}" for name in names),
                    ["-N1", "-n2"])
        for names in (["wrf.exe"], ["cp2k", "wrf.exe", "lmp_mpi", "cp2k", "lmp_mpi", "lmp_mpi"], ["lmp_mpi", "other"])
    )
    record = jobs.record(by_program, one)
    assert record["policy"] == NAP and record["wait"]["ranks"] == 2
    assert [step["id"] for step in record["steps"]] == ["batch"]
    record = jobs.record(by_program, mixed)
    assert record["policy"] == {**PROFILE, "why": "other programs of the step have other policies"}
    assert record["wait"]["ranks"] == 6, "those under off leave none"
    assert jobs.has_no_record(by_program, off)


def test_the_users_word_wins(by_program: Cluster, programs: str) -> None:
    job, _ = jobs.srun(by_program, ["-N1", "-n2", "--mpi-wait-policy=yield", f"{programs}/wrf.exe", *WORDS])
    assert jobs.record(by_program, job)["policy"] == {"asked": "yield", "used": "yield", "by": "job"}
    _, done = jobs.srun(by_program, ["-n1", "--mpi-wait-policy=yield", "sh", "-c", ENVIRONMENT])
    assert "rungs=pause+yield" in done.stdout and "|" not in done.stdout
    batch = jobs.sbatch(by_program, f"mpirun.openmpi -n 2 {programs}/wrf.exe {' '.join(WORDS)}",
                        ["-N1", "-n2", "--mpi-wait-policy=off"])
    assert jobs.has_no_record(by_program, batch)


def test_under_another_default_off_is_noted(cluster: Fleet, programs: str) -> None:
    with cluster.variants():
        play_default(cluster.variant(f"default=nap programs={programs}/programs.json"), programs)


def play_default(cluster: Cluster, programs: str) -> None:
    words = ["-N1", "-n2"]
    step, _ = jobs.srun(cluster, [*words, f"{programs}/lmp_mpi", *WORDS])
    batch = jobs.sbatch(cluster, f"mpirun.openmpi -n 2 {programs}/lmp_mpi {' '.join(WORDS)}", words)
    for job in (step, batch):
        record = jobs.record(cluster, job)
        assert record["policy"] == OFF and record["wait"] is None
    other, _ = jobs.srun(cluster, [*words, f"{programs}/other", *WORDS])
    assert jobs.record(cluster, other)["policy"] == {"asked": "nap", "used": "nap", "by": "site"}


def test_enforce_wins(cluster: Fleet, programs: str) -> None:
    """Also over a word that the submitting command has not seen."""
    forged = ["-N1", "-n2", "--export=ALL,MPI_WAIT_POLICY=off", f"{programs}/wrf.exe", *WORDS]
    with cluster.variants():
        free = cluster.variant(f"default=yield programs={programs}/programs.json")
        job, _ = jobs.srun(free, forged)
        assert jobs.record(free, job)["wait"] is None
        enforced = cluster.variant(f"default=yield enforce=yes programs={programs}/programs.json")
        refused = enforced.run(["srun", "-n1", "--mpi-wait-policy=off", "true"])
        assert refused.returncode != 0 and "is not allowed at this site (allowed: yield)" in refused.stderr
        job, _ = jobs.srun(enforced, forged)
        record = jobs.record(enforced, job)
        assert record["policy"] == NAP and record["wait"]["ranks"] == 2


@pytest.mark.release
def test_a_broken_file_is_said_once_a_step(cluster: Fleet, programs: str) -> None:
    broken = put(cluster, "broken.json", '{"v": 1, "program": []}')
    with cluster.variants():
        spoilt = cluster.variant(f"default=yield programs={broken}")
        job, done = jobs.srun(spoilt, ["-N1", "-n2", f"{programs}/wrf.exe", *WORDS])
        assert jobs.record(spoilt, job)["policy"] == {"asked": "yield", "used": "yield", "by": "site"}
        said = spoilt.logs(f"slurmd-{spoilt.nodes[0]}") + done.stderr
    line = rf"job {job} step 0: programs '{broken}' left out: unknown key 'program' .*did you mean 'programs'"
    assert len(re.findall(line, said)) == 1, said


@pytest.mark.release
def test_help_says_what_a_program_would_get(by_program: Cluster, programs: str) -> None:
    def said(*words: str) -> tuple[int, str]:
        done = by_program.run(["srun", *words])
        return done.returncode, done.stdout

    status, text = said("-n", "2", "--mpi-wait-policy=help", "-N", "1", "env", "A=1", f"{programs}/wrf.exe", "-x")
    assert status == 0 and text.count("\n  nap ") == 1
    assert f"Program 'wrf.exe': nap,slowdown=2, by 'wrf.exe' in {programs}/programs.json.\n" in text
    assert "Program 'other': off, the site's default" in said("--mpi-wait-policy=help", "./other")[1]
    assert "does not tell its program for certain" in said("--mpi-wait-policy=help", "bash", "x.sh")[1]
    status, text = said("-n2", "--mpi-wait-policy=help", "-N1")
    assert status == 0 and text.count("\n  nap ") == 1 and "rogram '" not in text
    by_program.node_run("submit", ["chmod", "600", f"{programs}/programs.json"], check=True)
    try:
        _, hidden = said("--mpi-wait-policy=help", "./wrf.exe")
    finally:
        by_program.node_run("submit", ["chmod", "644", f"{programs}/programs.json"], check=True)
    assert "\n  nap " in hidden and re.search("by program cannot be read here: .* \\(Permission denied\\)", hidden)


@pytest.mark.release
def test_a_user_is_told_once_what_became_of_the_policy(cluster: Fleet) -> None:
    with cluster.variants():
        two = cluster.variant("grant=off", nodes=2)
        _, asked = jobs.srun(two, ["-N2", "-n2", "--mpi-wait-policy=pstate", "true"])
        assert re.findall("mpi-wait: .*", asked.stderr) == [
            "mpi-wait: policy 'pstate' is not possible on this node (grant=off), 'nap' is used; "
            "'srun --mpi-wait-policy=help' on a node says what is possible there"
        ]
        _, held = jobs.srun(two, ["-N2", "-n2", "--mpi-wait-policy=nap", "true"])
        assert "mpi-wait" not in held.stderr
        default = cluster.variant("grant=off default=pstate", nodes=2)
        _, untold = jobs.srun(default, ["-N2", "-n2", "true"])
        assert "mpi-wait" not in untold.stderr
