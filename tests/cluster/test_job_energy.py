"""sacct's own energy figures, through acct_gather_energy/mpi_wait on a real cluster with simulated counters."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.throwaway import Cluster, project_cluster_arguments

PLUGIN = "lib/slurm/energy/acct_gather_energy_mpi_wait.so"
CONF = {
    "AcctGatherEnergyType": "acct_gather_energy/mpi_wait",
    "AcctGatherNodeFreq": "1",
    "PluginDir": "/usr/lib/x86_64-linux-gnu/slurm-wlm:/opt/mpi-wait/lib/slurm/energy",
}
SPEED = 5.0
WRAPPING = {"speed": SPEED, "range_uj": 2_000_000_000, "start_uj": 1_950_000_000}
# Time all but stands still for the counters: one that does for ten seconds is taken for broken.
CRAWL = 1e-5
FILES = "/run/simnode/fs"
MISSING = "acct_gather_energy/mpi_wait: no powercap zones"

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def energy_cluster(nodes: int, profile: str, simulated: bool) -> Iterator[Cluster]:
    arguments = project_cluster_arguments()
    stage = arguments["binds"].get("/opt/mpi-wait")
    if not stage or not (stage / PLUGIN).exists():
        pytest.skip("the energy plugin is not staged")
    model = WRAPPING if simulated else {}
    cluster = Cluster(
        nodes, profile, simulated=simulated, model=model, slurm_conf=CONF, **arguments
    )
    yield start_or_skip(cluster)
    cluster.stop()


@pytest.fixture(scope="module", params=["linuxproc", "cgroup"])
def accounting(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from energy_cluster(2, request.param, True)


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """Without the simulator there are no counters on this machine, or they are real."""
    yield from energy_cluster(1, "linuxproc", False)


def control(cluster: Cluster, **words: Any) -> None:
    for node in cluster.nodes:
        cluster.node_run(node, ["tee", f"{FILES}/control"], input=json.dumps(words), check=True)


def truth_j(cluster: Cluster, node: str) -> float:
    """What the model says that the node's packages and memory have used."""
    zones = json.loads(cluster.read(node, f"{FILES}/truth"))["zones"].values()
    counted = (zone for zone in zones if zone["name"].startswith(("package", "dram")))
    return sum(zone["total_uj"] for zone in counted) / 1e6


def until(cluster: Cluster, path: str, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(list(cluster.root.glob(f"share/{path}"))) < count:
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.1)


def play(cluster: Cluster, nodes: int) -> tuple[int, float, int]:
    """A job in which the counters run for 2.5 s of it: its id, the joules of its nodes, and what sstat said of them."""
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
    time.sleep(0.5)
    control(cluster, speed=SPEED)
    time.sleep(2.5)
    control(cluster, speed=CRAWL)
    job = jobs.job_named(cluster, name)
    used_j = [truth_j(cluster, node) - before[node] for node in nodes_of(cluster, job)]
    assert len(used_j) == nodes and min(used_j) > 0
    time.sleep(2 * int(CONF["AcctGatherNodeFreq"]))
    live = cluster.node_run("submit", ["sstat", "-n", "-P", "-j", f"{job}.0", "-o", "ConsumedEnergyRaw"]).stdout
    (cluster.root / f"share/{name}.go").touch()
    assert running.wait(30) == 0
    cluster.wait_job(job)
    cluster.wait_accounted(job)
    return job, sum(used_j), int(live.strip() or 0)


@pytest.mark.release
@pytest.mark.parametrize("nodes", [1, 2])
def test_sacct_shows_the_models_joules(accounting: Cluster, nodes: int) -> None:
    """Time stands still for the counters but while the step runs, so that job, step and model must agree. A record of
    counters that were looked at too late says so, and is tried again."""
    for _ in range(5):
        job, used_j, live_j = play(accounting, nodes)
        energy = jobs.record(accounting, job)["energy"]
        if "gaps" not in energy:
            break
    rows = {
        row["JobID"]: int(row["ConsumedEnergyRaw"] or 0)
        for row in accounting.sacct(job, ["JobID", "ConsumedEnergyRaw"])
    }
    assert used_j > 300
    assert rows[f"{job}.0"] == pytest.approx(used_j, abs=1 + nodes)
    assert rows[str(job)] == pytest.approx(used_j, abs=1 + nodes)
    assert live_j == pytest.approx(used_j, abs=1 + nodes)
    assert energy["joules"] == pytest.approx(used_j, abs=1)
    assert energy["scope"] == "node" and "gaps" not in energy and "dropped" not in energy
    control(accounting, speed=SPEED)


def nodes_of(cluster: Cluster, job: int) -> list[str]:
    listed = cluster.sacct(job, ["NodeList"], extra=["-X"])[0]["NodeList"]
    shown = cluster.node_run("submit", ["scontrol", "show", "hostnames", listed], check=True)
    return shown.stdout.split()


def test_the_node_shows_its_watts(accounting: Cluster) -> None:
    """46 W idle, two CPUs that may be busy with 32 W each, and the model's time goes five times as fast."""
    control(accounting, speed=SPEED)
    deadline = time.monotonic() + 20
    while True:
        shown = accounting.node_run("submit", ["scontrol", "-o", "show", "node", "c1"]).stdout
        words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        watts = words["CurrentWatts"]
        if watts.isdigit() and 200 <= int(watts) < 1000:
            break
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)


def test_throttling_reaches_the_record(accounting: Cluster) -> None:
    name = f"t{secrets.token_hex(4)}"
    script = f"touch {accounting.share}/{name}.$SLURM_PROCID; sleep 2"
    running = accounting.popen(
        ["srun", "-N2", "-n2", f"--job-name={name}", "--mpi-wait-policy=nap", "sh", "-c", script]
    )
    until(accounting, f"{name}.[0-9]", 2)
    words = {"throttle": {"cpu0": {"core_throttle_count": 3, "package_power_limit_count": 1}}}
    accounting.node_run("c2", ["tee", f"{FILES}/control"], input=json.dumps(words), check=True)
    assert running.wait(30) == 0
    record = jobs.record(accounting, jobs.job_named(accounting, name))
    assert record["throttle"] == {
        "core_throttle": 3,
        "package_throttle": 0,
        "core_power_limit": 0,
        "package_power_limit": 1,
        "most": "c2",
    }


def test_samples_reach_the_record(accounting: Cluster) -> None:
    """On a machine that others load the fit may find nothing significant; it must have seen the ranks, and say so. The
    power over time is the same energy."""
    job, _ = jobs.srun(
        accounting,
        ["-N1", "-n2", "--mpi-wait-policy=nap", f"{jobs.PROGRAMS}/unbalanced", "8", "200", "3"],
    )
    record = jobs.record(accounting, job)
    watts, energy = record["watts"], record["energy"]
    print(energy, record["elapsed_s"])
    power = energy["power_w"]
    if None not in power and "gaps" not in energy:
        assert sum(power) / len(power) * record["elapsed_s"] == pytest.approx(energy["joules"], rel=0.02)
    assert any(power) and 2 <= len(power) <= record["elapsed_s"]
    assert watts["packages"] >= 1
    assert watts["known"] == watts["packages"] or watts["why"] in (
        "too few samples",
        "not significant",
        "the ranks' states did not vary",
    )


KNOWN_W = {"asleep": 3.0, "spinning": 9.0, "computing": 14.0}
IDLE_W = 40.0


@pytest.fixture(scope="module")
def knowing() -> Iterator[Cluster]:
    """A node of one package, whose model goes by what each rank does. Its counters wrap every 2.4 s, so that it is
    looked at every 0.8 s."""
    model = {"packages": 1, "range_uj": int(2.4 * 150e6), "package_idle_w": IDLE_W, "package_busy_w": 0.0}
    cluster = Cluster(nodes=1, model=model | {"rank_w": list(KNOWN_W.values())}, **project_cluster_arguments())
    yield start_or_skip(cluster)
    cluster.stop()


@pytest.mark.timed
def test_a_job_finds_the_models_watts(knowing: Cluster) -> None:
    """Each rank's own, and its half of what the package draws idle. A margin of a twentieth: model, counters and ranks
    are looked at one after the other, on a loaded machine some tens of ms apart."""
    argv = ["-N1", "-n2", "--mpi-wait-policy=nap", f"{jobs.PROGRAMS}/unbalanced", "8", "400", "3"]
    for _ in range(4):  # what a machine does that is away half of the time is not significant
        job, _ = jobs.srun(knowing, argv, timeout=400)
        record = jobs.record(knowing, job)
        watts, wait = record["watts"], record["wait"]
        if "why" not in watts:
            break
    print(watts, wait["total_s"], wait["asleep_s"])
    assert (watts["packages"], watts["known"], "why" in watts) == (1, 1, False)
    for state in ("asleep", "computing"):
        value, half = watts[state]
        truth = KNOWN_W[state] + IDLE_W / 2
        assert abs(value - truth) <= half + truth / 20 and half < truth / 4
    waiting_j, half_j = watts["waiting_j"]
    awake_s = wait["total_s"] - wait["asleep_s"]
    truth_j = wait["asleep_s"] * KNOWN_W["asleep"] + awake_s * KNOWN_W["spinning"] + wait["total_s"] * IDLE_W / 2
    assert abs(waiting_j - truth_j) <= half_j + 0.05 * truth_j
    assert record["energy"]["source"] == "simulated"


def share_of(cluster: Cluster, count: int) -> tuple[float, list[dict[str, Any]]]:
    """What the node uses in three seconds while so many jobs of one core run, and what their records say of it."""
    control(cluster, speed=CRAWL)
    before = truth_j(cluster, "c1")
    name = f"s{secrets.token_hex(4)}"
    flag = f"{cluster.share}/{name}"
    script = f"touch {flag}.$SLURM_JOB_ID; until test -e {flag}.go; do sleep .1; done"
    argv = ["srun", "-N1", "-n1", "--mpi-wait-policy=nap", "sh", "-c", script]
    running = [cluster.popen(argv) for _ in range(count)]
    until(cluster, f"{name}.[0-9]*", count)
    time.sleep(0.5)
    control(cluster, speed=1)
    time.sleep(3)
    control(cluster, speed=CRAWL)
    (cluster.root / f"share/{name}.go").touch()
    assert [process.wait(30) for process in running] == [0] * count
    ids = [int(path.name.rsplit(".", 1)[1]) for path in cluster.root.glob(f"share/{name}.[0-9]*")]
    records = [jobs.record(cluster, job)["energy"] for job in ids]
    used_j = truth_j(cluster, "c1") - before
    control(cluster, speed=1)
    return used_j, records


@pytest.mark.parametrize("count", [2, 1])
def test_what_jobs_of_a_full_node_share(knowing: Cluster, count: int) -> None:
    """Two jobs of one core each: halves of the node, and together all of it; and alone, still a half, of a node of
    which the rest is nobody's. A record of counters that were looked at too late says so, and is tried again."""
    for _ in range(5):
        used_j, shares = share_of(knowing, count)
        assert used_j > 100 and {share["scope"] for share in shares} == {"share"}
        if not any("gaps" in share for share in shares):
            break
    assert [share["node_joules"] for share in shares] == [pytest.approx(used_j, abs=1)] * count
    assert sum(share["joules"] for share in shares) == pytest.approx(used_j * count / 2, rel=0.01)


def test_no_user_can_read_the_counters(knowing: Cluster) -> None:
    """And nothing that runs as one needs to: these tests' jobs are alice's, and have their joules."""
    counter = "/sys/class/powercap/intel-rapl:0/energy_uj"
    assert knowing.node_run("c1", ["cat", counter], user="alice").returncode != 0
    _, done = jobs.srun(knowing, ["-N1", "--mpi-wait-policy=nap", "cat", counter], check=False)
    assert "Permission denied" in done.stderr


@pytest.mark.release
def test_slurmctld_opens_nothing(accounting: Cluster) -> None:
    assert "mpi-wait" not in accounting.logs("slurmctld")
    assert accounting.node_run("submit", ["find", "/run/mpi-wait", "-mindepth", "1"]).stdout == ""


def test_without_counters_there_is_no_energy_and_one_line(bare: Cluster) -> None:
    if bare.node_run("c1", ["test", "-e", "/sys/class/powercap/intel-rapl"]).returncode == 0:
        pytest.skip("this machine has counters")
    for _ in range(2):
        job, _ = jobs.srun(bare, ["-N1", "sleep", "2"])
    bare.wait_accounted(job)
    for row in bare.sacct(job, ["JobID", "State", "ConsumedEnergyRaw"]):
        assert row["State"] == "COMPLETED" and row["ConsumedEnergyRaw"] in ("", "0"), row
    assert bare.logs("slurmd-c1").count(MISSING) == 1
    assert "drain" not in bare.node_run("submit", ["sinfo", "-h", "-o", "%T"]).stdout


def test_without_counters_the_record_says_so(bare: Cluster) -> None:
    if bare.node_run("c1", ["test", "-e", "/sys/class/powercap/intel-rapl"]).returncode == 0:
        pytest.skip("this machine has counters")
    before = bare.logs("slurmd-c1")
    job, _ = jobs.srun(bare, ["-N1", "-n2", "--mpi-wait-policy=nap,profile", f"{jobs.PROGRAMS}/unbalanced", "4", "300"])
    record = jobs.record(bare, job)
    assert record["energy"] is None and record["energy_why"] == "no powercap zones" and "watts" not in record
    assert bare.wait_job(job) == "COMPLETED"
    ours = [line for line in bare.logs("slurmd-c1").removeprefix(before).splitlines() if "mpi-wait:" in line]
    assert len(ours) <= 1
