"""sacct's own energy figures, through acct_gather_energy/mpi_wait on a real cluster with simulated counters."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.throwaway import Cluster, Fleet, project_cluster_arguments
from tests.lib.waiting import wait_for

PLUGIN = "lib/slurm/energy/acct_gather_energy_mpi_wait.so"
CONF = {
    "AcctGatherEnergyType": "acct_gather_energy/mpi_wait",
    "AcctGatherNodeFreq": "1",
    "PluginDir": "/usr/lib/x86_64-linux-gnu/slurm-wlm:/opt/mpi-wait/lib/slurm/energy",
}
SPEED = 5.0
# They wrap early, and then each two minutes or more: only a reader that is later than that would miss one.
WRAPPING = {"speed": SPEED, "range_uj": 120_000_000_000, "start_uj": 119_950_000_000}
USED_J = 320
# Time all but stands still for the counters: one that does for ten seconds is taken for broken.
CRAWL = 1e-5
ABSENT = [f"{jobs.PROGRAMS}/absent"]
FILES = "/run/simnode/fs"
MISSING = "acct_gather_energy/mpi_wait: no powercap zones"

pytestmark = pytest.mark.cluster


def staged() -> dict[str, Any]:
    arguments = project_cluster_arguments()
    stage = arguments["binds"].get("/opt/mpi-wait")
    if not stage or not (stage / PLUGIN).exists():
        pytest.skip("the energy plugin is not staged")
    return arguments


@pytest.fixture(scope="module", params=["linuxproc", "cgroup"])
def accounting(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster: slurmctld asks for the nodes' watts where its own slurm.conf has an energy plugin."""
    cluster = Cluster(2, request.param, model=WRAPPING, slurm_conf=CONF, **staged())
    yield start_or_skip(cluster)
    cluster.stop()


@pytest.fixture(scope="module")
def bare(cluster: Fleet) -> Iterator[Cluster]:
    """Without the simulator there are no counters on this machine, or they are real."""
    staged()
    with cluster.variants():
        yield cluster.variant(slurm_conf=CONF, simulated=False)


def control(cluster: Cluster, **words: Any) -> None:
    for node in cluster.nodes:
        cluster.node_run(node, ["tee", f"{FILES}/control"], input=json.dumps(words), check=True)


def truth_j(cluster: Cluster, node: str) -> float:
    """What the model says that the node's packages and memory have used."""
    zones = json.loads(cluster.read(node, f"{FILES}/truth"))["zones"].values()
    counted = (zone for zone in zones if zone["name"].startswith(("package", "dram")))
    return sum(zone["total_uj"] for zone in counted) / 1e6


def until(cluster: Cluster, path: str, count: int) -> None:
    wait_for(lambda: len(list(cluster.root.glob(f"share/{path}"))) >= count, path)


def live_j(cluster: Cluster, job: int) -> int:
    argv = ["sstat", "-n", "-P", "-j", f"{job}.0", "-o", "ConsumedEnergyRaw"]
    return int(cluster.node_run("submit", argv).stdout.strip() or 0)


def play(cluster: Cluster, nodes: int) -> tuple[int, float]:
    """A job in which the counters run for a while: its id, and the joules of its nodes. sstat says the same of it."""
    name = f"e{secrets.token_hex(4)}"
    control(cluster, speed=CRAWL)
    before = {node: truth_j(cluster, node) for node in cluster.nodes}
    flag = f"{cluster.share}/{name}"
    script = f"touch {flag}.$SLURM_PROCID; until test -e {flag}.go; do sleep .1; done"
    running = cluster.popen(
        ["srun", f"-N{nodes}", f"-n{nodes}", "--exclusive", f"--job-name={name}"]
        + ["--mpi-wait-policy=nap", "sh", "-c", script]
    )
    until(cluster, f"{name}.[0-9]", nodes)
    job = jobs.job_named(cluster, name)
    live_j(cluster, job)  # each slurmstepd looks at the counters once before they run
    control(cluster, speed=SPEED)
    mine = wait_for(lambda: nodes_of(cluster, job), "the job's nodes")
    wait_for(lambda: min(truth_j(cluster, node) - before[node] for node in mine) > USED_J, f"{USED_J} J")
    control(cluster, speed=CRAWL)
    used_j = sum(truth_j(cluster, node) - before[node] for node in mine)
    assert len(mine) == nodes
    wait_for(lambda: live_j(cluster, job) == pytest.approx(used_j, abs=1 + nodes),
             lambda: f"{used_j} J of sstat, which says {live_j(cluster, job)},")
    (cluster.root / f"share/{name}.go").touch()
    assert running.wait(30) == 0
    cluster.wait_job(job)
    cluster.wait_accounted(job)
    return job, used_j


@pytest.mark.release
@pytest.mark.parametrize("nodes", [1, 2])
def test_sacct_shows_the_models_joules(accounting: Cluster, nodes: int) -> None:
    """Time stands still for the counters but while the step runs, so that job, step and model must agree."""
    job, used_j = play(accounting, nodes)
    energy = jobs.record(accounting, job)["energy"]
    rows = {
        row["JobID"]: int(row["ConsumedEnergyRaw"] or 0)
        for row in accounting.sacct(job, ["JobID", "ConsumedEnergyRaw"])
    }
    assert used_j > 300
    assert rows[f"{job}.0"] == pytest.approx(used_j, abs=1 + nodes)
    assert rows[str(job)] == pytest.approx(used_j, abs=1 + nodes)
    assert energy["joules"] == pytest.approx(used_j, abs=1)
    assert energy["scope"] == "node" and "gaps" not in energy and "dropped" not in energy
    control(accounting, speed=SPEED)


def nodes_of(cluster: Cluster, job: int) -> list[str]:
    listed = cluster.node_run("submit", ["squeue", "-h", "-t", "all", "-o", "%N", "-j", str(job)], check=True)
    shown = cluster.node_run("submit", ["scontrol", "show", "hostnames", listed.stdout.strip()], check=True)
    return shown.stdout.split()


def test_the_node_shows_its_watts(accounting: Cluster) -> None:
    """46 W idle, two CPUs that may be busy with 32 W each, and the model's time goes five times as fast."""
    control(accounting, speed=SPEED)

    def is_plausible() -> bool:
        shown = accounting.node_run("submit", ["scontrol", "-o", "show", "node", "c1"]).stdout
        watts = dict(word.split("=", 1) for word in shown.split() if "=" in word)["CurrentWatts"]
        return watts.isdigit() and 200 <= int(watts) < 1000
    wait_for(is_plausible, "200 to 1000 W")


def test_throttling_reaches_the_record(accounting: Cluster) -> None:
    name = f"t{secrets.token_hex(4)}"
    flag = f"{accounting.share}/{name}"
    script = f"touch {flag}.$SLURM_PROCID; until test -e {flag}.go; do sleep .1; done"
    running = accounting.popen(
        ["srun", "-N2", "-n2", f"--job-name={name}", "--mpi-wait-policy=nap", "sh", "-c", script]
    )
    until(accounting, f"{name}.[0-9]", 2)
    words = {"throttle": {"cpu0": {"core_throttle_count": 3, "package_power_limit_count": 1}}}
    accounting.node_run("c2", ["tee", f"{FILES}/control"], input=json.dumps(words), check=True)
    (accounting.root / f"share/{name}.go").touch()
    assert running.wait(60) == 0
    record = jobs.record(accounting, jobs.job_named(accounting, name))
    assert record["throttle"] == {
        "core_throttle": 3,
        "package_throttle": 0,
        "core_power_limit": 0,
        "package_power_limit": 1,
        "most": "c2",
    }


def test_samples_reach_the_record(accounting: Cluster) -> None:
    """The power over time is the same energy."""
    job, _ = jobs.srun(
        accounting,
        ["-N1", "-n2", "--mpi-wait-policy=nap", *ABSENT, "16", "200", "3"],
    )
    record = jobs.record(accounting, job)
    energy = record["energy"]
    print(energy, record["elapsed_s"])
    power = energy["power_w"]
    if None not in power and "gaps" not in energy:
        assert sum(power) / len(power) * record["elapsed_s"] == pytest.approx(energy["joules"], rel=0.02)
    assert any(power) and 2 <= len(power) <= record["elapsed_s"]


@pytest.fixture(scope="module")
def sharing(cluster: Fleet) -> Iterator[Cluster]:
    """A node of one package, whose counters do not wrap while somebody is late."""
    with cluster.variants():
        yield cluster.variant(model={"packages": 1, "package_idle_w": 40.0})


def share_of(cluster: Cluster, count: int) -> tuple[float, list[dict[str, Any]]]:
    """What the node uses for a while in which so many jobs of one core run, and what their records say of it."""
    control(cluster, speed=CRAWL)
    (node,) = cluster.nodes
    before = truth_j(cluster, node)
    name = f"s{secrets.token_hex(4)}"
    flag = f"{cluster.share}/{name}"
    script = f"touch {flag}.$SLURM_JOB_ID; until test -e {flag}.go; do sleep .1; done"
    argv = ["srun", "-N1", "-n1", "--mpi-wait-policy=nap", "sh", "-c", script]
    running = [cluster.popen(argv) for _ in range(count)]
    until(cluster, f"{name}.[0-9]*", count)
    control(cluster, speed=1)
    wait_for(lambda: truth_j(cluster, node) - before > 130, "130 J")
    control(cluster, speed=CRAWL)
    (cluster.root / f"share/{name}.go").touch()
    assert [process.wait(30) for process in running] == [0] * count
    ids = [int(path.name.rsplit(".", 1)[1]) for path in cluster.root.glob(f"share/{name}.[0-9]*")]
    records = [jobs.record(cluster, job)["energy"] for job in ids]
    used_j = truth_j(cluster, node) - before
    control(cluster, speed=1)
    return used_j, records


@pytest.mark.parametrize("count", [2, 1])
def test_what_jobs_of_a_full_node_share(sharing: Cluster, count: int) -> None:
    """Two jobs of one core each: halves of the node, and together all of it; and alone, still a half, of a node of
    which the rest is nobody's."""
    used_j, shares = share_of(sharing, count)
    assert used_j > 100 and {share["scope"] for share in shares} == {"share"}
    assert not any("gaps" in share for share in shares)
    assert [share["node_joules"] for share in shares] == [pytest.approx(used_j, abs=1)] * count
    assert sum(share["joules"] for share in shares) == pytest.approx(used_j * count / 2, rel=0.01)


def test_no_user_can_read_the_counters(sharing: Cluster) -> None:
    """And nothing that runs as one needs to: these tests' jobs are alice's, and have their joules."""
    counter = "/sys/class/powercap/intel-rapl:0/energy_uj"
    assert sharing.node_run(sharing.nodes[0], ["cat", counter], user="alice").returncode != 0
    _, done = jobs.srun(sharing, ["-N1", "--mpi-wait-policy=nap", "cat", counter], check=False)
    assert "Permission denied" in done.stderr


@pytest.mark.release
def test_slurmctld_opens_nothing(accounting: Cluster) -> None:
    assert "mpi-wait" not in accounting.logs("slurmctld")
    assert accounting.node_run("submit", ["find", "/run/mpi-wait", "-mindepth", "1"]).stdout == ""


def test_without_counters_there_is_no_energy_and_one_line(bare: Cluster) -> None:
    if bare.node_run(bare.nodes[0], ["test", "-e", "/sys/class/powercap/intel-rapl"]).returncode == 0:
        pytest.skip("this machine has counters")
    for _ in range(2):
        job, _ = jobs.srun(bare, ["-N1", "true"])
    bare.wait_accounted(job)
    for row in bare.sacct(job, ["JobID", "State", "ConsumedEnergyRaw"]):
        assert row["State"] == "COMPLETED" and row["ConsumedEnergyRaw"] in ("", "0"), row
    assert bare.logs(f"slurmd-{bare.nodes[0]}").count(MISSING) == 1
    assert "drain" not in bare.node_run("submit", ["sinfo", "-h", "-o", "%T", "-p", bare.nodes[0]]).stdout


def test_without_counters_the_record_says_so(bare: Cluster) -> None:
    if bare.node_run(bare.nodes[0], ["test", "-e", "/sys/class/powercap/intel-rapl"]).returncode == 0:
        pytest.skip("this machine has counters")
    before = bare.logs(f"slurmd-{bare.nodes[0]}")
    job, _ = jobs.srun(bare, ["-N1", "-n2", "--mpi-wait-policy=nap,profile", *ABSENT, "4", "300", "3"])
    record = jobs.record(bare, job)
    assert record["energy"] is None and record["energy_why"] == "no powercap zones"
    assert bare.wait_job(job) == "COMPLETED"
    logged = bare.logs(f"slurmd-{bare.nodes[0]}").removeprefix(before)
    assert len([line for line in logged.splitlines() if "mpi-wait:" in line]) <= 1
