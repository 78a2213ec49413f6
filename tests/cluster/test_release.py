"""What differs between releases of Slurm, and the same job under each MPI of the machine (tests/soak/releases/run)."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.conftest import start_or_skip
from tests.lib import grants, jobs
from tests.lib.jobs import HELPER, PROGRAMS, REPOSITORY, SCHEMA
from tests.lib.throwaway import Cluster, ClusterError, Fleet, project_cluster_arguments
from tests.lib.throwaway.requirements import has_plugin
from tests.lib.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.release]

HAS_EXTRA = (23, 2)
HAS_RUN_IN_JOB = (24, 5)
HAS_TRES = (25, 11)
UNBALANCED = ["-N2", "-n4", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "10", "5", "3"]
HOOK = "#!/bin/sh\nexec {helper} {name} spool={spool}\n"
LOWERED_S = 0.005  # policies/pstate.json
PACKAGED = Path("/usr/lib/slurm/spank_mpi_wait.so")

Site = Callable[[str], Cluster]


def release() -> tuple[int, int]:
    """(22, 5) for "slurm-wlm 22.05.8"."""
    shown = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    major, minor, *_ = shown.split()[-1].split(".")
    return int(major), int(minor)


@pytest.fixture
def site(cluster: Fleet) -> Iterator[Site]:
    """Two nodes with more on the plugstack line; jobs.flush knows nothing of that: stored(), below, does."""
    with cluster.variants():
        yield lambda words: cluster.variant(words, nodes=2)


def stored(cluster: Cluster, job: int, words: str, fields: list[str], full: Callable[[dict[str, str]], bool],
           ) -> dict[str, str]:
    """The job's row once it is `full`; every node hands in what it has, as the site says."""
    cluster.wait_job(job)

    def handed_in() -> dict[str, str] | None:
        for node in reversed(cluster.nodes):
            cluster.node_run(node, [HELPER, "sweep", "--now", f"spool={cluster.spool}", *words.split()])
        rows = cluster.sacct(job, fields, extra=["-X"])
        return rows[0] if rows and full(rows[0]) else None
    row = wait_for(handed_in, f"a full row of job {job}")
    assert row
    return row


def test_energy_tres(site: Site) -> None:
    """The writer sets the job's own ConsumedEnergy where slurmdbd takes it, and nowhere else."""
    cluster = site("energy_tres=on")
    job, _ = jobs.srun(cluster, UNBALANCED)
    row = stored(cluster, job, "energy_tres=on", ["AdminComment", "ConsumedEnergyRaw"],
                 lambda row: row["AdminComment"] != "")
    record = json.loads(row["AdminComment"])
    jsonschema.validate(record, SCHEMA)
    joules = record["mpi_wait"]["energy"]["joules"]
    assert joules > 0
    if release() >= HAS_TRES:
        assert abs(int(row["ConsumedEnergyRaw"]) - joules) <= 1
    else:
        assert row["ConsumedEnergyRaw"] in ("", "0")


def test_without_energy_tres_consumed_energy_stays(cluster: Cluster) -> None:
    job, _ = jobs.srun(cluster, UNBALANCED)
    assert jobs.record(cluster, job)["energy"]["joules"] > 0
    assert cluster.sacct(job, ["ConsumedEnergyRaw"], extra=["-X"])[0]["ConsumedEnergyRaw"] in ("", "0")


def test_the_field_extra(site: Site) -> None:
    if release() < HAS_EXTRA:
        shown = site("").run(["sacct", "-o", "Extra"])
        assert shown.returncode != 0 and "Extra" in shown.stderr
        return
    cluster = site("field=extra")
    job, _ = jobs.srun(cluster, UNBALANCED)
    row = stored(cluster, job, "field=extra", ["AdminComment", "Extra"], lambda row: row["Extra"] != "")
    assert row["AdminComment"] == ""
    jsonschema.validate(json.loads(row["Extra"]), SCHEMA)


def run_in_job(hooks: dict[str, str]) -> Cluster:
    return Cluster(nodes=2, slurm_conf={"PrologFlags": "RunInJob", **hooks}, **project_cluster_arguments())


def test_run_in_job_with_our_prolog_and_epilog() -> None:
    """Slurm calls no SPANK prolog and epilog then; mpi-wait-node does the same from Prolog= and Epilog=."""
    places = {"Prolog": f"{Cluster.share}/prolog", "Epilog": f"{Cluster.share}/epilog"}
    if release() < HAS_RUN_IN_JOB:
        with pytest.raises(ClusterError, match="PrologFlags"):
            run_in_job(places).start()
        return
    cluster = start_or_skip(run_in_job(places))

    def hook_write(path: str, text: str) -> None:
        cluster.inside.path(path).write_text(text)
        cluster.inside.path(path).chmod(0o755)

    try:
        for path in places.values():
            hook_write(path, "#!/bin/sh\nexit 0\n")
        bare, _ = jobs.srun(cluster, UNBALANCED)
        cluster.wait_job(bare)
        jobs.flush(cluster)
        assert jobs.comment(cluster, bare) == "", "now Slurm calls the hooks: the manual says otherwise"
        for name, path in places.items():
            hook_write(path, HOOK.format(helper=HELPER, name=name.lower(), spool=cluster.spool))
        job, _ = jobs.srun(cluster, UNBALANCED)
        record = jobs.record(cluster, job)
        assert record["nodes"] == {"reported": 2, "of": 2} and record["wait"]["ranks"] == 4
        assert record["energy"]["joules"] > 0
        # the extern step runs our prolog, and so knew of no policy when it began
        assert [step["id"] for step in record["steps"]] == ["0"]
    finally:
        cluster.stop()


def test_a_lease_with_this_mpi(cluster: Fleet) -> None:
    """Each of the waits goes low once at least, and how often more depends on false signs of progress, of which each
    doubles the time that it takes. That all is put back depends on nothing."""
    for start in grants.clusters(cluster):
        node = start(driver="acpi-cpufreq")
        before = grants.files(node)
        job, _ = jobs.srun(node, ["-N1", "-n2", *grants.WAITS])
        record = jobs.record(node, job)
        grant, calls = record["grant"], record["wait"]["by_call"].values()
        assert grants.files(node) == before
        assert (grant["mode"], grant["cores"], "refused" in grant) == ("lease", 2, False)
        assert grant["transitions"] >= 2 and grant["transitions"] % 2 == 0 and grant["low_s"] > 0
        lows = sum(call["waits"] * (1 + math.log2(1 + call["longest_s"] / LOWERED_S)) for call in calls)
        assert grant["transitions"] <= 2 * lows
        assert {file for _, file, _ in grants.take_writes(node)} == {"scaling_max_freq"}


ENDS = f"""#include <mpi.h>
#include <unistd.h>
#define MPI_Finalize() _exit(0)
#include "{REPOSITORY}/contrib/unbalanced.c"
"""


def compiled(cluster: Cluster, mpi: str, *, finalizes: bool = True) -> str:
    """contrib/unbalanced by that MPI's own compiler; or one that ends without MPI_Finalize."""
    made = cluster.root / f"share/unbalanced-{mpi}{'' if finalizes else '-ends'}"
    source = REPOSITORY / "contrib/unbalanced.c"
    if not finalizes:
        source = made.with_suffix(".c")
        source.write_text(ENDS)
    subprocess.run([f"mpicc.{mpi}", "-O2", "-o", str(made), str(source)], check=True, capture_output=True)
    return f"{cluster.share}/{made.name}"


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_each_mpi_sleeps(cluster: Cluster, mpi: str) -> None:
    """By its own launcher on one node. The waits are slept through, and who computes longest waits least."""
    program = compiled(cluster, mpi)
    job = jobs.sbatch(cluster, f"mpirun.{mpi} -n 2 {program} 5 60 4\n", ["-N1", "-n2", "--mpi-wait-policy=nap"])
    wait = jobs.record(cluster, job, timeout=180)["wait"]
    assert wait["ranks"] == 2, jobs.output(cluster, job)
    assert wait["by_call"]["MPI_Allreduce"]["waits"] > 0
    assert wait["naps"] > 0 and wait["asleep_s"] > 0
    assert wait["per_rank_s"][0] > wait["per_rank_s"][1]


def test_srun_launches_open_mpi(cluster: Cluster) -> None:
    """It needs PMIx, which not every package of Slurm has."""
    argv = ["-N2", "-n4", "--mpi=pmix", "--mpi-wait-policy=nap", compiled(cluster, "openmpi"), "5", "20", "2"]
    if not has_plugin("mpi_pmix"):
        _, done = jobs.srun(cluster, argv, check=False)
        assert done.returncode != 0 and "pmix" in done.stderr
        return
    job, _ = jobs.srun(cluster, argv)
    assert jobs.record(cluster, job)["wait"]["ranks"] == 4


@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 4)])
def test_srun_launches_mpich(cluster: Cluster, nodes: int, ranks: int) -> None:
    """It is content with PMI-2. Over several nodes MPICH before 4.2 may hang in MPI_Finalize by itself, when a rank is
    some milliseconds late there: the others are in a barrier of PMI and serve nobody (its pull request 6596)."""
    program = compiled(cluster, "mpich", finalizes=nodes == 1)
    argv = [f"-N{nodes}", f"-n{ranks}", "--mpi=pmi2", "--mpi-wait-policy=nap", program, "5", "20", "2"]
    job, _ = jobs.srun(cluster, argv)
    assert jobs.record(cluster, job)["wait"]["ranks"] == ranks


@pytest.mark.packaged
def test_the_installed_package(cluster: Fleet) -> None:
    """The plugin as its package installs it."""
    if not PACKAGED.exists():
        pytest.skip("the package is not installed here: tests/soak/releases/run installs it in its chroots")
    with cluster.variants():
        packaged = cluster.variant(plugstack=f"optional {PACKAGED} spool={cluster.spool}\n", nodes=2)
        job, _ = jobs.srun(packaged, UNBALANCED)
        assert jobs.record(packaged, job)["wait"]["ranks"] == 4
