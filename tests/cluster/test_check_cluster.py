"""mpi-wait check on the nodes of the throw-away cluster, as root and as a user, with real daemons and records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lib.jobs import record, srun
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.cluster

COMMAND = "/opt/mpi-wait/bin/mpi-wait"
PLUGIN = "/opt/mpi-wait/lib/slurm/spank_mpi_wait.so"
OUTBOX = "/var/spool/mpi-wait/out"


def check(cluster: Cluster, user: str = "root", node: str = "", status: int = 0) -> dict[str, dict[str, Any]]:
    """The findings by "section/name"; of several of one name, the last."""
    done = cluster.node_run(node or cluster.nodes[0], [COMMAND, "check", "--json"], user=user)
    assert done.returncode == status, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["simulated"] and answer["root"] == (user == "root")
    return {f"{one['section']}/{one['name']}": one for one in answer["findings"]}


def unwell(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: one["status"] for name, one in found.items() if one["status"] != "OK"}


@pytest.fixture(scope="module")
def breakable(cluster: Fleet) -> Iterator[Cluster]:
    """A node whose plugstack.conf may be spoilt."""
    with cluster.variants():
        yield cluster.variant(name="breakable")


def test_root_sees_a_node_that_is_well(cluster: Cluster) -> None:
    found = check(cluster)
    count = len(cluster.node_run("submit", ["scontrol", "-o", "show", "node"], check=True).stdout.splitlines())
    # the cluster has no PrologFlags, and its spool is in memory, though all of it sees the same
    assert {name for name, status in unwell(found).items() if status == "WARN"} == {
        "Slurm/PrologFlags",
        "Records/spool",
    }
    assert not [name for name, status in unwell(found).items() if status == "FAIL"]
    assert found["Energy/RAPL reading"]["what"].endswith("were read through libpowercap (simulated)")
    assert found["Frequency/cpufreq driver"]["what"] == "acpi-cpufreq, 2 frequency domains (simulated)"
    assert found["Plugin/slurmd"]["what"] == "has loaded the plugin"
    assert found["Plugin/arguments"]["what"] == f"spool={cluster.spool}"
    assert found["Slurm/slurmctld"]["what"] == f"cluster throwaway, {count} nodes"
    assert found["Slurm/slurmdbd"]["what"].startswith("22.05.8, answered in ")
    assert found["Policies/nap"]["what"] == "runs here"
    assert f"on tmpfs, and the cluster has {count} nodes" in found["Records/spool"]["what"]


def test_a_user_is_told_what_was_not_seen(cluster: Cluster) -> None:
    cluster.node_run("c1", ["install", "-d", "-m", "0700", OUTBOX, "/run/mpi-wait"], check=True)
    found = check(cluster, user="alice")
    hidden = {name for name, status in unwell(found).items() if status == "NOT SEEN"}
    assert hidden == {
        "Energy/RAPL reading",
        "Plugin/slurmd",
        "Records/outbox",
        "Records/job states",
        "Records/clocks",
    }
    assert all("as root" in found[name]["do"] for name in hidden)
    assert not [name for name, status in unwell(found).items() if status == "FAIL"]


def test_for_people_it_says_that_the_node_is_simulated(cluster: Cluster) -> None:
    done = cluster.node_run("c1", [COMMAND, "check"])
    assert done.stdout.startswith("c1, seen by root, a simulated node\n")
    assert "No failure, 2 warnings" in done.stdout


def test_on_the_submit_host_too(cluster: Cluster) -> None:
    done = cluster.run([COMMAND, "check", "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    said = {one["name"]: one["what"] for one in json.loads(done.stdout)["findings"]}
    assert said["plugstack line"].endswith("plugstack.conf:1, optional")


def test_the_records_of_the_last_day_are_counted(cluster: Cluster) -> None:
    job, _ = srun(cluster, ["--mpi-wait-policy=profile", "-w", "c2", "true"])
    record(cluster, job)
    wait_for(lambda: "0 records" not in check(cluster, node="c2")["Records/stored"]["what"], "a record")
    assert check(cluster, node="c2")["Records/job states"]["what"] == "none"


def test_a_running_job_is_no_leftover_and_a_state_without_a_job_is(cluster: Cluster) -> None:
    running = cluster.popen(["srun", "--mpi-wait-policy=profile", "-w", "c2", "sleep", "60"])
    try:
        wait_for(lambda: "1 job under a policy" in check(cluster, node="c2")["Records/job states"]["what"], "the job")
    finally:
        running.terminate()
        running.wait()
    cluster.node_run("c2", ["mkdir", "/run/mpi-wait/c2/999999"], check=True)
    try:
        found = check(cluster, node="c2")["Records/job states"]
        assert found["status"] == "WARN" and "(job 999999)" in found["what"]
    finally:
        cluster.node_run("c2", ["rmdir", "/run/mpi-wait/c2/999999"], check=True)


def test_contain_is_well(cluster_cgroup: Cluster) -> None:
    found = check(cluster_cgroup)["Slurm/PrologFlags"]
    assert found["status"] == "OK" and "contain" in found["what"].lower()


SPOILT = {
    f"optional {PLUGIN} spool=relative tuesday=1": (
        "Plugin/arguments",
        "FAIL",
        "'spool=relative' (accepted: spool=an absolute path), 'tuesday=1' (no such argument)",
    ),
    f"optional {PLUGIN} default=nop": ("Policies/default", "FAIL", "'nop' is no policy of this host"),
    f"optional {PLUGIN} default=umwait": ("Policies/umwait", "WARN", "becomes nap here: no waitpkg (the default)"),
    f"optional {PLUGIN} policies=/srv/cluster/share": ("Policies/site's own", "FAIL", "has mode 1777"),
    f"required {PLUGIN}": ("Plugin/plugstack line", "WARN", "says 'required'"),
    "optional /opt/none/spank_mpi_wait.so": ("Plugin/plugin", "FAIL", "'/opt/none/spank_mpi_wait.so' does not exist"),
    "": ("Plugin/plugstack line", "FAIL", "names spank_mpi_wait.so"),
}


@pytest.mark.parametrize("line", SPOILT, ids=[line or "no line" for line in SPOILT])
def test_what_an_administrator_may_write(breakable: Cluster, line: str) -> None:
    name, status, what = SPOILT[line]
    (breakable.root / "etc/plugstack.conf").write_text(line + "\n")
    found = check(breakable, status=1 if status == "FAIL" else 0)[name]
    assert found["status"] == status and what in found["what"]


def test_a_policy_that_does_not_parse_is_named(breakable: Cluster) -> None:
    folder = breakable.root / "etc/policies"
    folder.mkdir()
    (folder / "bad.json").write_text('{"version": 1, "name": "bad"}')
    (folder / "worse.json").write_text("{")
    (breakable.root / "etc/plugstack.conf").write_text(f"optional {PLUGIN} policies=/srv/cluster/etc/policies\n")
    found = check(breakable, status=1)["Policies/policy files"]
    assert "left out: " in found["what"]
    assert "bad" in found["what"] and "worse" in found["what"]


def test_a_plugstack_that_users_may_not_read(breakable: Cluster) -> None:
    plugstack = breakable.root / "etc/plugstack.conf"
    plugstack.write_text(f"optional {PLUGIN}\n")
    plugstack.chmod(0o600)
    try:
        found = check(breakable, user="alice")
        assert found["Plugin/plugstack line"]["status"] == "NOT SEEN"
        assert "cannot be read: Permission denied" in found["Plugin/plugstack line"]["what"]
        assert found["Records/spool"]["status"] == "NOT SEEN"
    finally:
        plugstack.chmod(0o644)


def test_what_users_may_not_enter(breakable: Cluster) -> None:
    for folder in ("hidden", "own"):
        (breakable.root / "etc" / folder).mkdir(mode=0o700)
    line = f"optional {PLUGIN} spool=/srv/cluster/etc/own\n"
    (breakable.root / "etc/plugstack.conf").write_text(line)
    assert "may not be entered by uid" in check(breakable, user="alice")["Records/spool"]["what"]
    (breakable.root / "etc/plugstack.conf").write_text("optional /srv/cluster/etc/hidden/spank_mpi_wait.so\n")
    found = check(breakable, user="alice", status=1)["Plugin/plugin"]
    assert found["what"] == "'/srv/cluster/etc/hidden/spank_mpi_wait.so' cannot be read: Permission denied"


def test_daemons_that_are_away(breakable: Cluster) -> None:
    breakable.kill("slurmdbd")
    (breakable.root / "etc/plugstack.conf").write_text(f"optional {PLUGIN} spool={breakable.spool}\n")
    try:
        found = check(breakable, status=1)
        assert found["Slurm/slurmdbd"]["status"] == "FAIL"
        assert found["Slurm/slurmdbd"]["what"].startswith("does not serve this host: ")
    finally:
        breakable.restart("slurmdbd")
    breakable.kill("slurmctld")
    try:
        found = check(breakable, status=1)
        assert found["Slurm/slurmctld"]["status"] == "FAIL"
        assert found["Slurm/slurmctld"]["what"].startswith("does not answer: ")
        assert found["Plugin/plugstack line"]["what"].startswith("/srv/cluster/etc/plugstack.conf:1")
    finally:
        breakable.restart("slurmctld")
