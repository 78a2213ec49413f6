"""Under pstate an unprivileged job changes the frequency of its own cores while it waits, and of no other, ever."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import grants, jobs
from tests.cluster import Cluster
from tests.grants import NODE, files, take_writes
from tests.jobs import PROGRAMS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PSTATE = "--mpi-wait-policy=pstate"
UNBALANCED = [PSTATE, f"{PROGRAMS}/unbalanced", "4", "30", "3"]
LONG = [PSTATE, f"{PROGRAMS}/unbalanced", "1", "500", "60"]
HOSTILE = ["/usr/bin/python3", "/srv/cluster/lib/tests/programs/hostile.py"]
DRIVERS = ["acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate-epp"]
REACHES_OUT = "frequency domain reaches outside the task's cores"


@pytest.fixture(scope="module")
def start() -> Iterator[grants.Start]:
    yield from grants.clusters()


def hostile(cluster: Cluster, *command: str, argv: list[str] | None = None, **how: Any) -> dict[str, Any]:
    """Runs one task that tries something; returns what it printed."""
    _, done = jobs.srun(cluster, ["-N1", "-n1", *(argv or []), PSTATE, *HOSTILE, *command], **how)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def wait_for(question: Callable[[], Any], timeout_s: float = 20) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (answer := question()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


def lows(cluster: Cluster) -> list[str]:
    """The domains whose maximum is the lowest frequency now."""
    return [
        line.split("/")[0]
        for line in files(cluster).splitlines()
        if "scaling_max_freq" in line and line.endswith(" 1000000")
    ]


def begin(cluster: Cluster, argv: list[str], **how: Any) -> tuple[int, subprocess.Popen[str]]:
    """Starts a job in the background; returns its id."""
    name = f"t{secrets.token_hex(6)}"
    process = cluster.popen(["srun", f"--job-name={name}", *argv], **how)
    return wait_for(lambda: jobs.job_named(cluster, name)), process


def is_clean(cluster: Cluster, before: str) -> bool:
    wait_for(lambda: not grants.left(cluster))
    return files(cluster) == before


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_lease_lowers_and_restores(start: grants.Start, driver: str) -> None:
    cluster = start(driver=driver)
    before = files(cluster)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    record = jobs.record(cluster, job)
    writes = take_writes(cluster)
    assert files(cluster) == before
    assert {file for _, file, _ in writes} == {"scaling_max_freq"}
    frequencies = {int(khz) for policy, _, khz in writes if policy == "policy0"}
    assert len(frequencies) == 2, "the lowest and what was found"
    grant, wait = record["grant"], record["wait"]
    assert (grant["mode"], grant["cores"], "refused" in grant) == ("lease", 2, False)
    assert grant["transitions"] >= 8 and grant["transitions"] % 2 == 0, "each wait of four, and back"
    # What the ranks say agrees with what root saw.
    assert grant["transitions"] == wait["transitions"]
    assert 0.9 * wait["low_s"] <= grant["low_s"] <= 1.1 * wait["low_s"] + 0.02
    assert grant["low_s"] > 0.5 * wait["per_rank_s"][0] and wait["asleep_s"] == 0
    assert record["policy"] == {"asked": "pstate", "used": "pstate", "by": "job"}


def test_results_are_the_same(start: grants.Start) -> None:
    cluster = start()
    argv = ["-N1", "-n2", *UNBALANCED]
    _, lowered = jobs.srun(cluster, argv)
    _, bare = jobs.srun(cluster, [word for word in argv if word != PSTATE])
    assert lowered.stdout == bare.stdout and "checksum" in bare.stdout


def test_nothing_can_be_opened(start: grants.Start) -> None:
    cluster = start()
    tried = hostile(cluster, "by_path")
    assert len(tried) >= 8 and set(tried.values()) == {"PermissionError"}


def test_only_the_own_core_obeys(start: grants.Start) -> None:
    cluster = start()
    answers = hostile(cluster, "every_cpu")
    own = answers.pop("own")
    assert answers.pop(own) == "done" and set(answers.values()) == {"not yours"}
    assert {policy for policy, _, khz in take_writes(cluster) if khz == "1000000"} == {f"policy{own}"}


def test_a_thread_that_may_run_elsewhere_is_refused(start: grants.Start) -> None:
    assert hostile(start(), "wide", argv=["-c2"]) == {"low": "not now"}


def test_a_core_where_another_thread_computes_stays(start: grants.Start) -> None:
    answers = hostile(start(), "crowded")
    assert "not now" in answers["busy"] and answers["alone"] == "done"


@pytest.mark.parametrize("kind", ["short", "long", "empty", "magic", "verb"])
def test_what_is_no_request_ends_the_lease(start: grants.Start, kind: str) -> None:
    cluster = start()
    before = files(cluster)
    answers = hostile(cluster, "garbage", kind)
    assert answers["first"] == "done" and answers["then"] in ("closed", "BrokenPipeError", "ConnectionResetError")
    assert is_clean(cluster, before)


def test_descriptors_that_are_sent_find_no_room(start: grants.Start) -> None:
    answers = hostile(start(), "garbage", "descriptors")
    assert answers["first"] == "done" and answers["then"] in ("closed", "BrokenPipeError", "ConnectionResetError")


def test_a_flood_is_bounded_and_never_blocks(start: grants.Start) -> None:
    cluster = start()
    before = files(cluster)
    seen = hostile(cluster, "flood")
    changes = len(take_writes(cluster))
    print(seen, changes)
    assert seen["refused"] > 0 and seen["sent"] < 5000 and seen["stepd_s"] < 1.0
    assert is_clean(cluster, before)
    assert hostile(cluster, "low")["restore"] == "done"


def test_a_core_comes_back_by_itself(start: grants.Start) -> None:
    cluster = start()
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hold", "4"])
    assert wait_for(lambda: lows(cluster))
    began = time.monotonic()
    wait_for(lambda: not lows(cluster))
    assert time.monotonic() - began < 2.5
    process.communicate(timeout=30)
    cluster.wait_job(job)


@pytest.mark.parametrize("way", ["environment", "proc", "pidfd", "rights"])
@pytest.mark.parametrize("thief", ["the same user's job", "another user's job", "a second step"])
def test_a_lease_cannot_be_stolen(start: grants.Start, thief: str, way: str) -> None:
    cluster = start()
    before = files(cluster)
    path = f"{cluster.share}/{secrets.token_hex(4)}"
    job, victim = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hand_out", path, "12"])
    wait_for(lambda: (cluster.root / "share" / Path(path).name).exists())
    take_writes(cluster)
    argv, how = ["-N1", "-n1"], {"user": "bob" if thief.startswith("another") else "alice"}
    if thief == "a second step":
        argv += [f"--jobid={job}", "--overlap", "--mpi-wait-policy=off"]
    else:
        argv += [PSTATE]
    try:
        _, done = jobs.srun(cluster, [*argv, *HOSTILE, "steal", way, path], **how)
        answers = json.loads(done.stdout)
        low = [write for write in take_writes(cluster) if write[2] == "1000000"]
    finally:
        victim.terminate()
        victim.communicate(timeout=30)
    print(answers)
    assert low == []
    # At the victim's number the thief's own lease may be, which has its own core only.
    unheard = {"silence"} | ({"not yours"} if way == "environment" else set())
    assert answers["steal"] != "taken" or {answers["low"], answers["restore"]} <= unheard
    if way == "rights" and thief != "a second step":
        assert answers["steal"] == "taken"
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def test_a_kept_end_is_worth_nothing(start: grants.Start) -> None:
    cluster = start()
    path = f"{cluster.share}/{secrets.token_hex(4)}"
    job, victim = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hand_out", path, "30"])
    wait_for(lambda: (cluster.root / "share" / Path(path).name).exists())
    keeper_job, keeper = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "steal", "rights", path, "4"])
    time.sleep(1.5)
    cluster.run(["scancel", str(job)], check=True)
    victim.communicate(timeout=30)
    cluster.wait_job(job)
    take_writes(cluster)
    out, _ = keeper.communicate(timeout=30)
    answers = json.loads(out)
    assert answers["steal"] == "taken" and answers["low"] in ("closed", "BrokenPipeError", "ConnectionResetError")
    assert [write for write in take_writes(cluster) if write[2] == "1000000"] == []
    cluster.wait_job(keeper_job)


def stepd_of(cluster: Cluster, job: int) -> int:
    """The process id of the job's first step's slurmstepd, in the cluster."""
    found = cluster.node_run(NODE, ["pgrep", "-f", rf"slurmstepd: \[{job}\.0\]"]).stdout.split()
    return int(found[0]) if found else 0


def kill(cluster: Cluster, job: int, how: str) -> None:
    stepd = stepd_of(cluster, job)
    assert stepd
    if how == "ranks":
        ranks = cluster.node_run(NODE, ["pgrep", "-P", str(stepd)]).stdout.split()
        cluster.node_run(NODE, ["kill", "-9", *ranks], check=True)
    if how == "slurmstepd":
        cluster.node_run(NODE, ["kill", "-9", str(stepd)], check=True)
    if how != "ranks":
        cluster.run(["scancel", str(job)])


@pytest.mark.parametrize("how", ["scancel", "ranks", "slurmstepd"])
def test_whatever_dies_the_files_are_as_before(start: grants.Start, how: str) -> None:
    cluster = start()
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n2", *LONG])
    assert wait_for(lambda: lows(cluster)) == ["policy0"]
    kill(cluster, job, how)
    process.communicate(timeout=60)
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def test_two_jobs_share_a_node(start: grants.Start) -> None:
    """One is killed while the other's core is low: the other's stays, and comes back when it ends."""
    cluster = start()
    before = files(cluster)
    one, first = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "20"])
    low_one = wait_for(lambda: lows(cluster))
    two, second = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "6"], user="bob")
    wait_for(lambda: len(lows(cluster)) == 2)
    kill(cluster, one, "slurmstepd")
    first.communicate(timeout=60)
    cluster.wait_job(one)
    assert len(low := lows(cluster)) == 1 and low != low_one
    second.communicate(timeout=60)
    cluster.wait_job(two)
    assert is_clean(cluster, before)


@pytest.mark.parametrize("driver", ["acpi-cpufreq", "intel_pstate"])
def test_the_users_own_frequency_is_the_ceiling(start: grants.Start, driver: str) -> None:
    cluster = start(driver=driver)
    before = files(cluster)
    argv = ["-N1", "-n2", "--cpu-freq=1500000"]
    job, _ = jobs.srun(cluster, [*argv, f"{PROGRAMS}/unbalanced", "1", "10", "3"])
    cluster.wait_job(job)
    bare, touched = files(cluster), take_writes(cluster)
    job, _ = jobs.srun(cluster, [*argv, *UNBALANCED])
    record = jobs.record(cluster, job)
    writes = take_writes(cluster)
    print(touched, writes, sep="\n")
    assert files(cluster) == bare
    ours = writes[len(touched) // 2 : len(writes) - len(touched) // 2]
    found = {line.split("/")[1].split()[0]: line.split()[-1] for line in before.splitlines()}
    # Slurm itself limits nothing with intel_pstate.
    ceiling = 1_600_000 if driver == "acpi-cpufreq" else int(found["scaling_max_freq"])
    assert all(int(khz) <= ceiling for _, file, khz in ours if "freq" in file or "speed" in file)
    assert record["grant"]["cores"] == 2
    assert before.count("\n") == bare.count("\n")


def test_a_later_steps_own_frequency_survives_the_takeover(start: grants.Start) -> None:
    """What the first step has low is put back before Slurm looks: neither ceiling nor Slurm's reset are ours."""
    cluster = start()
    before = files(cluster)
    job, first = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "12"])
    wait_for(lambda: lows(cluster))
    show = f"cat {grants.CPUFREQ}/policy0/scaling_setspeed"
    _, done = jobs.srun(
        cluster, [f"--jobid={job}", "--overlap", "-n1", "--cpu-freq=1600000", PSTATE, "sh", "-c", show]
    )
    assert done.stdout.strip() == "1600000"
    first.communicate(timeout=30)
    cluster.wait_job(job)
    wait_for(lambda: not grants.left(cluster))
    assert files(cluster).replace("userspace", "schedutil") == before or files(cluster) == before


def test_a_domain_of_several_tasks_is_refused(start: grants.Start) -> None:
    cluster = start(domain_size=4)
    before = files(cluster)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    assert jobs.record(cluster, job)["grant"]["refused"] == {REACHES_OUT: 2}
    assert take_writes(cluster) == [] and files(cluster) == before
    assert hostile(cluster, "every_cpu", argv=["-c2"])["0"] == "done"


def test_a_domain_that_reaches_into_another_job_is_refused(start: grants.Start) -> None:
    cluster = start(domain_size=4)
    job, _ = jobs.srun(cluster, ["-N1", "-n1", PSTATE, "env"])
    assert jobs.record(cluster, job)["grant"] == {
        "mode": "lease", "cores": 0, "refused": {REACHES_OUT: 1}, "transitions": 0, "low_s": 0,
    }


def test_tasks_that_share_cores_are_refused(start: grants.Start) -> None:
    cluster = start()
    job, done = jobs.srun(cluster, ["-N1", "-n4", "--overcommit", PSTATE, "env"])
    assert "cpufreq=" not in done.stdout
    assert jobs.record(cluster, job)["grant"]["refused"].keys() == {"tasks share the core"}


def test_the_sites_least_frequency_holds(start: grants.Start) -> None:
    cluster = start("min_khz=1400000")
    jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    assert {khz for _, _, khz in take_writes(cluster)} == {"1400000", "2400000"}


def test_nothing_below_the_present_frequency(start: grants.Start) -> None:
    cluster = start("min_khz=2400000")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", PSTATE, "true"])
    why = "no frequency below the present one is allowed"
    assert jobs.record(cluster, job)["grant"]["refused"] == {why: 2}


def test_the_governor_is_set_where_the_site_allows_it(start: grants.Start) -> None:
    cluster = start("governor=userspace")
    before = files(cluster)
    jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    writes = take_writes(cluster)
    assert {file for _, file, _ in writes} == {"scaling_governor", "scaling_setspeed"}
    assert ("policy0", "scaling_setspeed", "1000000") in writes
    wait_for(lambda: not grants.left(cluster))
    assert files(cluster) == before


def test_grant_off_falls_back(start: grants.Start) -> None:
    cluster = start("grant=off")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    record = jobs.record(cluster, job)
    assert record["policy"] == {"asked": "pstate", "used": "nap", "by": "job", "why": "grant=off"}
    assert "grant" not in record and take_writes(cluster) == []


def test_a_batch_step_gets_no_lease(start: grants.Start) -> None:
    cluster = start()
    job = jobs.sbatch(cluster, "env | grep cpufreq; true\n", ["-n2", PSTATE])
    cluster.wait_job(job)
    assert "cpufreq=" not in jobs.output(cluster, job)


def test_a_descriptor_is_handed_down(start: grants.Start) -> None:
    cluster = start("grant=fd governor=userspace")
    before = files(cluster)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    record = jobs.record(cluster, job)
    writes = take_writes(cluster)
    assert ("policy0", "scaling_setspeed", "1000000") in writes
    assert {file for _, file, _ in writes} == {"scaling_governor", "scaling_setspeed"}
    assert record["grant"] == {"mode": "fd", "cores": 2}
    assert record["wait"]["transitions"] >= 8 and record["wait"]["low_s"] > 0.5 * record["wait"]["per_rank_s"][0]
    assert files(cluster) == before


def test_a_descriptor_cannot_be_opened_again(start: grants.Start) -> None:
    cluster = start("grant=fd governor=userspace")
    tried = hostile(cluster, "by_path")
    assert len(tried) == 9 and set(tried.values()) == {"PermissionError"}, "eight paths, one descriptor"


def test_a_descriptor_needs_the_userspace_governor(start: grants.Start) -> None:
    cluster = start("grant=fd")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    assert jobs.record(cluster, job)["grant"] == {
        "mode": "fd", "cores": 0, "refused": {"governor is not userspace": 2}
    }
    assert take_writes(cluster) == []


def test_a_descriptor_needs_a_driver_that_has_it(start: grants.Start) -> None:
    cluster = start("grant=fd governor=userspace", driver="intel_pstate")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", PSTATE, "true"])
    assert jobs.record(cluster, job)["grant"]["refused"] == {"no userspace governor": 2}


def test_a_descriptor_is_for_a_task_of_one_core(start: grants.Start) -> None:
    cluster = start("grant=fd governor=userspace")
    job, done = jobs.srun(cluster, ["-N1", "-n1", "-c2", PSTATE, "env"])
    assert "cpufreq=" not in done.stdout
    assert jobs.record(cluster, job)["grant"]["refused"] == {"grant=fd is for tasks of one core": 2}


def test_files_are_given_for_the_jobs_time(start: grants.Start) -> None:
    """Also to ranks that mpirun started; and nobody else gets them."""
    cluster = start("grant=file")
    before = files(cluster)
    job = jobs.sbatch(
        cluster,
        f"stat -c %U:%a {grants.CPUFREQ}/policy0/scaling_m??_freq\n"
        f"mpirun.openmpi -n 2 {PROGRAMS}/unbalanced 4 30 3\n",
        ["-N1", "-n2", PSTATE],
    )
    record = jobs.record(cluster, job)
    assert "alice:644" in jobs.output(cluster, job) and "root:644" in jobs.output(cluster, job)
    assert record["grant"] == {"mode": "file", "cores": 2}
    assert record["wait"]["transitions"] >= 8
    assert {file for _, file, _ in take_writes(cluster)} == {"scaling_max_freq"}
    assert is_clean(cluster, before)


@pytest.mark.parametrize("arguments", ["grant=file", "grant=fd governor=userspace"])
@pytest.mark.parametrize("how", ["ranks", "slurmstepd"])
def test_other_grants_are_undone_too(start: grants.Start, arguments: str, how: str) -> None:
    cluster = start(arguments)
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n2", *LONG])
    wait_for(lambda: [write for write in take_writes(cluster) if write[2] == "1000000"])
    kill(cluster, job, how)
    process.communicate(timeout=60)
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def test_a_suspended_job_gives_its_core_back(start: grants.Start) -> None:
    """A second job on that core runs at the found frequency, and may have a lease; after resume the first goes on."""
    cluster = start()
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n2", *LONG[:-2], "700", "14"])
    assert wait_for(lambda: lows(cluster)) == ["policy0"]
    cluster.run(["scontrol", "suspend", str(job)], user="root", check=True)
    wait_for(lambda: not lows(cluster), timeout_s=3)
    other, done = jobs.srun(cluster, ["-N1", "-n1", "--mpi-wait-policy=off", "sleep", "1"])
    assert not lows(cluster)
    claims = hostile(cluster, "low")
    assert claims == {"own": "0", "low": "done", "restore": "done"} and not lows(cluster)
    cluster.run(["scontrol", "resume", str(job)], user="root", check=True)
    assert process.wait(timeout=60) == 0
    cluster.wait_job(job)
    cluster.wait_job(other)
    assert is_clean(cluster, before)
    record = jobs.record(cluster, job)
    assert record["grant"]["low_s"] < record["elapsed_s"] - 1, "suspended time is not low time"


def test_a_later_step_takes_over(start: grants.Start) -> None:
    """The first loses its lease of the core that both have, and neither restores what is the other's."""
    cluster = start()
    before = files(cluster)
    job, first = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "12"], stdout=subprocess.PIPE)
    own = wait_for(lambda: lows(cluster))
    _, done = jobs.srun(
        cluster, [f"--jobid={job}", "--overlap", "-n1", PSTATE, *HOSTILE, "low"]
    )
    assert json.loads(done.stdout)["low"] == json.loads(done.stdout)["restore"] == "done"
    assert own and not lows(cluster)
    out, _ = first.communicate(timeout=30)
    assert json.loads(out)["last"] == "over"
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def refused(cluster: Cluster, argv: list[str]) -> dict[str, int]:
    job, _ = jobs.srun(cluster, ["-N1", *argv, PSTATE, "true"])
    reasons: dict[str, int] = jobs.record(cluster, job)["grant"].get("refused", {})
    return reasons


def test_a_task_that_may_run_elsewhere_gets_nothing(start: grants.Start) -> None:
    cluster = start("pin=none", conf={"TaskPlugin": "task/none"})
    assert refused(cluster, ["-n1"]) == {"the task may run outside the step's cores": 1}


def test_a_core_without_a_task_is_nobodys(start: grants.Start) -> None:
    assert refused(start(), ["-n1", "-c2", "--cpu-bind=map_cpu:0"]) == {"no task runs there": 1}


def test_a_file_is_for_a_domain_of_one_core(start: grants.Start) -> None:
    cluster = start("grant=file", domain_size=4)
    assert refused(cluster, ["-n1", "-c2"]) == {"grant=file is for domains of one core": 2}


def test_files_of_different_limits_are_not_given_together(start: grants.Start) -> None:
    cluster = start("grant=file")
    grants.set_file(cluster, 1, "scaling_max_freq", 1_800_000)
    try:
        assert refused(cluster, ["-n1", "-c2"]) == {"limits differ between the task's cores": 1}
    finally:
        grants.set_file(cluster, 1, "scaling_max_freq", 2_400_000)


def test_a_full_disk_means_no_grant(start: grants.Start) -> None:
    """Nothing is changed that could not be written down; the job runs."""
    cluster = start()
    before = files(cluster)
    grants.fill_run(cluster)
    try:
        job, done = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
        assert "checksum" in done.stdout and take_writes(cluster) == []
        log = cluster.logs(f"slurmd-{NODE}")
    finally:
        grants.empty_run(cluster)
    cluster.wait_job(job)
    assert "No space left" in log or "no grant" in log
    assert files(cluster) == before


def test_a_node_without_cpufreq_falls_back(start: grants.Start) -> None:
    cluster = start(simulated=False)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    assert jobs.record(cluster, job)["policy"] == {
        "asked": "pstate", "used": "nap", "by": "job", "why": "no cpufreq"
    }


def test_help_says_whether_the_host_can(start: grants.Start) -> None:
    show = ["srun", "--mpi-wait-policy=help"]
    plain = start(simulated=False)
    assert "no cpufreq" in plain.run(show).stdout
    cluster = start()
    done = cluster.node_run(NODE, show)
    assert "pstate" in done.stdout and "no cpufreq" not in done.stdout
    assert "grant=off" in start("grant=off").node_run(NODE, show).stdout
