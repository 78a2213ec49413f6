"""Under pstate an unprivileged job changes the frequency of its own cores while it waits, and of no other, ever."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib import grants, jobs
from tests.lib.grants import (
    HOSTILE,
    LONG,
    PSTATE,
    UNBALANCED,
    WAITER,
    WAITS,
    begin,
    files,
    hostile,
    is_clean,
    kill,
    lows,
    take_writes,
)
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster
DRIVERS = ["acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate-epp"]


@pytest.fixture(scope="module")
def start(cluster: Fleet) -> Iterator[grants.Start]:
    yield from grants.clusters(cluster)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_lease_lowers_and_restores(start: grants.Start, driver: str) -> None:
    cluster = start(driver=driver)
    before = files(cluster)
    job, _ = jobs.srun(cluster, ["-N1", "-n2", *WAITS])
    record = jobs.record(cluster, job)
    writes = take_writes(cluster)
    assert files(cluster) == before
    assert {file for _, file, _ in writes} == {"scaling_max_freq"}
    frequencies = {int(khz) for policy, _, khz in writes if policy == f"policy{WAITER}"}
    assert len(frequencies) == 2, "the lowest and what was found"
    grant, wait = record["grant"], record["wait"]
    assert (grant["mode"], grant["cores"], "refused" in grant) == ("lease", 2, False)
    assert grant["transitions"] % 2 == 0, "low, and back"
    if grants.check_changes(record, waits=4):
        assert 0.9 * wait["low_s"] <= grant["low_s"] <= 1.1 * wait["low_s"] + 0.02
        assert grant["low_s"] > 0.5 * wait["per_rank_s"][WAITER]
    assert wait["asleep_s"] == 0
    assert record["policy"] == {"asked": "pstate", "used": "pstate", "by": "job"}


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_domain_for_all_cores(start: grants.Start, driver: str) -> None:
    """A task that has all of them may lower it, while it is the only one of its threads that runs there."""
    cluster = start(driver=driver, domain_size=4)
    before = files(cluster)
    assert hostile(cluster, "low", argv=["-c2"]) == {"own": "0", "low": "done", "restore": "done"}
    writes = take_writes(cluster)
    assert {(policy, file) for policy, file, _ in writes} == {("policy0", "scaling_max_freq")}
    assert is_clean(cluster, before)
    job, process = begin(cluster, ["-N1", "-n1", "-c2", PSTATE, *HOSTILE, "renew", "30"])
    wait_for(lambda: files(cluster) != before)
    kill(cluster, job, "slurmstepd")
    process.communicate(timeout=60)
    assert is_clean(cluster, before)


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
    assert answers.pop(own) == "done" and set(answers.values()) == {"not yours"} and len(answers) > 0
    assert {policy for policy, _, khz in take_writes(cluster) if khz == "1000000"} == {f"policy{own}"}


def test_a_thread_that_may_run_elsewhere_is_refused(start: grants.Start) -> None:
    assert hostile(start(), "wide", argv=["-c2"]) == {"low": "not now"}


def test_a_core_where_another_thread_computes_stays(start: grants.Start) -> None:
    answers = hostile(start(), "crowded")
    assert "not now" in answers["busy"] and answers["alone"] == "done"


@pytest.mark.parametrize("verb", ["0", "3", "1023"])
def test_what_is_no_request_costs_the_core_its_low_frequency(start: grants.Start, verb: str) -> None:
    cluster = start()
    before = files(cluster)
    answers = hostile(cluster, "garbage", verb)
    assert (answers["first"], answers["then"], answers["at last"]) == ("done", "over", "done")
    writes = [khz for policy, _, khz in take_writes(cluster) if policy == f"policy{answers['own']}"]
    assert writes[:4] == ["1000000", "2400000", "1000000", "2400000"], "back at once, and lowered anew"
    assert is_clean(cluster, before)


def test_other_threads_have_no_say(start: grants.Start) -> None:
    cluster = start()
    assert set(hostile(cluster, "others").values()) == {"not yours"}
    assert [khz for _, _, khz in take_writes(cluster) if khz == "1000000"] == []


def test_a_flood_is_bounded_and_never_blocks(start: grants.Start) -> None:
    cluster = start()
    before = files(cluster)
    seen = hostile(cluster, "flood")
    changes = len(take_writes(cluster))
    print(seen, changes)
    assert seen["rings"] > 2000 and seen["stepd_s"] < 2.0
    assert is_clean(cluster, before)
    assert hostile(cluster, "low")["restore"] == "done"


def test_a_task_that_stops_leaves_no_core_low_and_drains_no_node(start: grants.Start) -> None:
    cluster = start(conf={"UnkillableStepTimeout": "20"})
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "stop"])
    wait_for(lambda: take_writes(cluster))
    wait_for(lambda: not lows(cluster))
    cluster.run(["scancel", str(job)], check=True)
    process.communicate(timeout=60)
    cluster.wait_job(job)
    assert is_clean(cluster, before)
    state = cluster.run(["sinfo", "-h", "-n", cluster.nodes[0], "-o", "%T"]).stdout.split()
    assert state and "drain" not in " ".join(state)


def test_a_core_comes_back_by_itself(start: grants.Start) -> None:
    """While the task that lowered it is there, and does nothing."""
    cluster = start()
    job, process = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hold", "600"])
    assert wait_for(lambda: lows(cluster))
    wait_for(lambda: not lows(cluster))
    shown = cluster.run(["squeue", "-h", "-s", "-o", "%i", "-j", str(job)]).stdout
    assert process.poll() is None and f"{job}.0" in shown.split()
    cluster.run(["scancel", str(job)], check=True)
    process.communicate(timeout=60)
    cluster.wait_job(job)


def wait_for_offer(cluster: Cluster, victim: subprocess.Popen[str], path: str) -> None:
    """Waits until a job of hostile.py hand_out offers its lease. Raises AssertionError, with what it printed, if it has
    ended."""
    offer = cluster.root / "share" / Path(path).name
    wait_for(lambda: offer.exists() or victim.poll() is not None)
    assert offer.exists(), f"the victim ended: {victim.communicate()}"


@pytest.mark.parametrize("way", ["environment", "proc", "pidfd", "rights"])
@pytest.mark.parametrize("thief", ["the same user's job", "another user's job", "a second step"])
def test_a_lease_cannot_be_stolen(start: grants.Start, thief: str, way: str) -> None:
    cluster = start()
    before = files(cluster)
    path = f"{cluster.share}/{secrets.token_hex(4)}"
    job, victim = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hand_out", path, "12"])
    wait_for_offer(cluster, victim, path)
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
    assert answers["steal"] != "taken" or {answers["low"], answers["restore"]} <= {"not yours", "over", "silence"}
    if way == "rights" and thief != "a second step":
        assert answers["steal"] == "taken"
    cluster.wait_job(job)
    assert is_clean(cluster, before)


def test_a_kept_lease_is_worth_nothing(start: grants.Start) -> None:
    cluster = start()
    path = f"{cluster.share}/{secrets.token_hex(4)}"
    job, victim = begin(cluster, ["-N1", "-n1", PSTATE, *HOSTILE, "hand_out", path, "30"])
    wait_for_offer(cluster, victim, path)
    over = cluster.root / "share" / f"{Path(path).name}.over"
    argv = [*HOSTILE, "steal", "rights", path, f"{cluster.share}/{over.name}"]
    keeper_job, keeper = begin(cluster, ["-N1", "-n1", PSTATE, *argv])
    wait_for(lambda: over.with_suffix(".taken").exists(), "the thief's lease")
    cluster.run(["scancel", str(job)], check=True)
    victim.communicate(timeout=30)
    cluster.wait_job(job)
    take_writes(cluster)
    over.touch()
    out, _ = keeper.communicate(timeout=30)
    answers = json.loads(out)
    assert answers["steal"] == "taken" and answers["low"] == answers["restore"] == "closed"
    assert [write for write in take_writes(cluster) if write[2] == "1000000"] == []
    cluster.wait_job(keeper_job)


@pytest.mark.release
@pytest.mark.parametrize("how", ["scancel", "ranks", "slurmstepd"])
def test_whatever_dies_the_files_are_as_before(start: grants.Start, how: str) -> None:
    cluster = start()
    before = files(cluster)
    job, process = begin(cluster, ["-N1", "-n2", *LONG])
    assert wait_for(lambda: lows(cluster)) == [f"policy{WAITER}"]
    kill(cluster, job, how)
    process.communicate(timeout=60)
    cluster.wait_job(job)
    assert is_clean(cluster, before)


@pytest.mark.parametrize("how", ["ends", "killed", "restored"])
def test_two_jobs_share_a_node(start: grants.Start, how: str) -> None:
    """One is over while the other's core is low: the other's stays, and comes back when it ends."""
    cluster = start()
    before = files(cluster)
    renew = ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "300"]
    ends = [cluster.root / f"share/{how}.{which}" for which in ("first", "second")]
    one, first = begin(cluster, [*renew, f"{cluster.share}/{ends[0].name}"], stdout=subprocess.DEVNULL)
    low_one = wait_for(lambda: lows(cluster))
    two, second = begin(cluster, [*renew, f"{cluster.share}/{ends[1].name}"], user="bob")
    wait_for(lambda: len(lows(cluster)) == 2)
    if how == "ends":
        ends[0].touch()
    if how == "restored":
        grants.kill_processes(cluster, one, "slurmstepd")
        done = cluster.node_run(cluster.nodes[0], [jobs.HELPER, "restore"])
        assert (done.returncode, len(lows(cluster))) == (0, 1), done.stderr
    if how == "killed":
        grants.kill_processes(cluster, one, "slurmstepd")
    if how != "ends":
        cluster.run(["scancel", str(one)])
    first.communicate(timeout=60)
    cluster.wait_job(one)
    assert len(low := lows(cluster)) == 1 and low != low_one
    ends[1].touch()
    out, _ = second.communicate(timeout=60)
    assert '"last": "done", "restore": "done"' in out
    cluster.wait_job(two)
    assert is_clean(cluster, before)


def test_a_later_step_takes_over(start: grants.Start) -> None:
    """The first loses its lease of the core that both have, and neither restores what is the other's."""
    cluster = start()
    before = files(cluster)
    enough = cluster.root / "share/taken-over"
    argv = ["-N1", "-n1", PSTATE, *HOSTILE, "renew", "300", f"{cluster.share}/{enough.name}"]
    job, first = begin(cluster, argv, stdout=subprocess.PIPE)
    own = wait_for(lambda: lows(cluster))
    _, done = jobs.srun(cluster, [f"--jobid={job}", "--overlap", "-n1", PSTATE, *HOSTILE, "low"])
    assert json.loads(done.stdout)["low"] == json.loads(done.stdout)["restore"] == "done"
    assert own and not lows(cluster)
    enough.touch()
    out, _ = first.communicate(timeout=60)
    assert json.loads(out)["last"] == "over"
    cluster.wait_job(job)
    assert is_clean(cluster, before)
