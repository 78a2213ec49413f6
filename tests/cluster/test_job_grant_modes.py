"""What the site, the user, the hardware and the tasks' cores allow under pstate, by every grant; and why not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lib import grants, jobs
from tests.lib.grants import (
    HOSTILE,
    LONG,
    PSTATE,
    UNBALANCED,
    WAITS,
    begin,
    files,
    hostile,
    is_clean,
    kill,
    lows,
    refused,
    take_writes,
)
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
REACHES_OUT = "frequency domain reaches outside the task's cores"


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


@pytest.mark.parametrize(
    ("driver", "ceiling", "begins"), [("acpi-cpufreq", 2_400_000, 4), ("intel_pstate", 3_500_000, 0)]
)
def test_the_users_own_frequency_is_the_ceiling(start: grants.Start, driver: str, ceiling: int, begins: int) -> None:
    """Slurm sets governor and frequency, and limits nothing with intel_pstate. It writes, first and last, what it
    writes without us, and all that lies between is ours: the limit alone, below which the governor keeps the user's
    frequency."""
    cluster = start(driver=driver)
    argv = ["-N1", "-n2", "--cpu-freq=1500000"]
    job, _ = jobs.srun(cluster, [*argv, f"{PROGRAMS}/unbalanced", "1", "10", "3"])
    cluster.wait_job(job)
    bare, slurms = files(cluster), take_writes(cluster)
    job, _ = jobs.srun(cluster, [*argv, *UNBALANCED])
    record = jobs.record(cluster, job)
    writes = take_writes(cluster)
    assert files(cluster) == bare
    ends = len(writes) - (len(slurms) - begins)
    assert writes[:begins] + writes[ends:] == slurms
    ours = writes[begins:ends]
    assert {file for _, file, _ in ours} == {"scaling_max_freq"}
    assert max(int(khz) for _, _, khz in ours) == ceiling and record["grant"]["cores"] == 2


def test_a_later_steps_own_frequency_survives_the_takeover(start: grants.Start) -> None:
    """What the first step has low is put back before Slurm looks: neither ceiling nor Slurm's reset are ours."""
    cluster = start()
    before = files(cluster)
    enough = cluster.root / "share/enough-of-the-first"
    job, first = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "300", f"{cluster.share}/{enough.name}"])
    wait_for(lambda: lows(cluster))
    show = f"cat {grants.CPUFREQ}/policy0/scaling_setspeed"
    _, done = jobs.srun(
        cluster, [f"--jobid={job}", "--overlap", "-n1", "--cpu-freq=1600000", PSTATE, "sh", "-c", show]
    )
    assert done.stdout.strip() == "1600000"
    enough.touch()
    first.communicate(timeout=60)
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


def test_grant_off_falls_back(start: grants.Start) -> None:
    cluster = start("grant=off")
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
    record = jobs.record(cluster, job)
    assert record["policy"] == {"asked": "pstate", "used": "nap", "by": "job", "why": "grant=off"}
    assert "grant" not in record and take_writes(cluster) == []


def test_the_ranks_of_mpirun_have_the_lease_of_a_batch_step(start: grants.Start) -> None:
    """Which inherit no descriptor; and those of a second mpirun have it after those of the first."""
    cluster = start()
    before = files(cluster)
    mpirun = f"mpirun.openmpi --bind-to core -n 2 {' '.join(WAITS[1:])}\n"
    job = jobs.sbatch(cluster, f"env | grep -o cpufreq=lease\n{mpirun}{mpirun}", ["-N1", "-n2", PSTATE])
    record = jobs.record(cluster, job)
    assert "cpufreq=lease" in jobs.output(cluster, job)
    grant = record["grant"]
    assert (grant["mode"], grant["cores"], "refused" in grant) == ("lease", 2, False)
    grants.check_changes(record, waits=8)
    assert {file for _, file, _ in take_writes(cluster)} == {"scaling_max_freq"}
    assert is_clean(cluster, before)


def test_a_step_of_srun_takes_the_cores_from_the_batch_step(start: grants.Start) -> None:
    cluster = start()
    before = files(cluster)
    job = jobs.sbatch(cluster, f"srun -n2 {' '.join(WAITS)}\n", ["-N1", "-n2", PSTATE])
    record = jobs.record(cluster, job)
    grants.check_changes(record, waits=4)
    assert record["grant"]["cores"] == 2, "of the step: nobody used the batch step's"
    assert is_clean(cluster, before)


def test_ranks_that_share_a_domain_are_refused_in_a_batch_step(start: grants.Start) -> None:
    cluster = start(domain_size=2)
    job = jobs.sbatch(cluster, "true\n", ["-N1", "-n2", PSTATE])
    why = "ranks of one task share the frequency domain"
    assert jobs.record(cluster, job)["grant"]["refused"] == {why: 2}
    assert take_writes(cluster) == []


def test_files_are_given_for_the_jobs_time(start: grants.Start) -> None:
    """And nobody else gets them. Ranks, also those of mpirun, change them by the lease."""
    cluster = start("grant=file")
    before = files(cluster)
    job = jobs.sbatch(
        cluster,
        f"stat -c %U:%a {grants.CPUFREQ}/policy0/scaling_m??_freq\n"
        f"mpirun.openmpi --bind-to core -n 2 {' '.join(WAITS[1:])}\n",
        ["-N1", "-n2", PSTATE],
    )
    record = jobs.record(cluster, job)
    assert "alice:644" in jobs.output(cluster, job) and "root:644" in jobs.output(cluster, job)
    grant = record["grant"]
    assert (grant["mode"], grant["cores"], "refused" in grant) == ("file", 2, False)
    grants.check_changes(record, waits=4)
    assert {file for _, file, _ in take_writes(cluster)} == {"scaling_max_freq"}
    assert is_clean(cluster, before)


@pytest.mark.parametrize("mode", ["0600", "0000", "0666"])
def test_a_user_cannot_keep_the_files(start: grants.Start, mode: str) -> None:
    """Nor a value of them: below min_khz, or above what the site had set."""
    cluster = start("grant=file min_khz=1400000")
    grants.set_file(cluster, 0, "scaling_max_freq", 2_000_000)
    before = files(cluster)
    script = f"cd {grants.CPUFREQ}\nfor f in policy*/scaling_max_freq; do [ -O $f ] || continue\n" \
        f"cat ${{f%/*}}/cpuinfo_m{'in' if mode == '0600' else 'ax'}_freq > $f; chmod {mode} $f; echo kept $f; done\n"
    job = jobs.sbatch(cluster, script, ["-N1", "-n1", PSTATE])
    cluster.wait_job(job)
    try:
        assert "kept policy0/scaling_max_freq" in jobs.output(cluster, job)
        assert is_clean(cluster, before)
    finally:
        grants.set_file(cluster, 0, "scaling_max_freq", 2_400_000)


@pytest.mark.parametrize("how", ["ranks", "slurmstepd"])
def test_files_that_are_given_are_undone_too(start: grants.Start, how: str) -> None:
    cluster = start("grant=file")
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n2", *LONG])
    wait_for(lambda: [write for write in take_writes(cluster) if write[2] == "1000000"])
    kill(cluster, job, how)
    process.communicate(timeout=60)
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def test_a_task_that_may_run_elsewhere_gets_nothing(start: grants.Start) -> None:
    cluster = start("pin=none", conf={"TaskPlugin": "task/none"})
    assert refused(cluster, ["-n1"]) == {"the task may run outside the step's cores": 1}


def test_a_core_without_a_task_is_nobodys(start: grants.Start) -> None:
    assert refused(start(), ["-n1", "-c2", "--cpu-bind=map_cpu:0"]) == {"no task runs there": 1}


def test_the_files_of_a_tasks_own_cores_are_given_whatever_their_domain_and_limits(start: grants.Start) -> None:
    cluster = start("grant=file", domain_size=2)
    owner = ["stat", "-c%U", f"{grants.CPUFREQ}/policy0/scaling_max_freq"]
    job, done = jobs.srun(cluster, ["-N1", "-n1", "-c2", PSTATE, *owner])
    assert done.stdout == "alice\n" and jobs.record(cluster, job)["grant"]["cores"] == 2


def test_a_full_disk_means_no_grant(start: grants.Start) -> None:
    """Nothing is changed that could not be written down; the job runs."""
    cluster = start()
    before = files(cluster)
    grants.small_run(cluster)
    grants.fill_run(cluster)
    try:
        job, done = jobs.srun(cluster, ["-N1", "-n2", *UNBALANCED])
        assert "checksum" in done.stdout and take_writes(cluster) == []
        log = cluster.logs(f"slurmd-{cluster.nodes[0]}")
    finally:
        grants.free_run(cluster)
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
    done = start().run(show)
    assert "pstate" in done.stdout and "no cpufreq" not in done.stdout
    assert "grant=off" in start("grant=off").run(show).stdout
