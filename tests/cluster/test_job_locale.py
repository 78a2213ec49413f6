"""A site whose daemons, users and programs write a decimal comma: numbers in and out are as ever."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.grants import wait_for
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = pytest.mark.cluster
REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
LOCALE = "de_DE.UTF-8"
TOOK_IT = "/srv/cluster/log/locale.out"
COMMA = {
    "LC_ALL": LOCALE, "LOCPATH": "/opt/locales", "OWN_LOCALE_LOG": TOOK_IT,
    "LD_PRELOAD": "/opt/mpi-wait-doubles/libown-locale.so",
}
UNBALANCED = [f"{PROGRAMS}/unbalanced", "5", "5", "2"]
WITH_COMMA = ["env", *(f"{name}={value}" for name, value in COMMA.items())]
REPORT = ["/opt/mpi-wait/bin/mpi-wait", "report"]


@pytest.fixture(scope="module")
def comma_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node. tests/lib/doubles/own_locale.c has every program call setlocale(LC_ALL, "") before it begins."""
    folder = tmp_path_factory.mktemp("locales")
    folder.chmod(0o755)
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / LOCALE)], check=True)
    project = project_cluster_arguments()
    project["binds"] |= {"/opt/locales": folder, "/opt/mpi-wait-doubles": BUILD / "tests/lib/doubles"}
    cluster = start_or_skip(Cluster(nodes=1, daemon_environment=COMMA, **project))
    yield cluster
    cluster.stop()


def srun(cluster: Cluster, argv: list[str], prefix: list[str]) -> subprocess.CompletedProcess[str]:
    return cluster.run([*prefix, "srun", "-N1", *argv])


@pytest.fixture(scope="module")
def place(comma_cluster: Cluster) -> str:
    return comma_cluster.run(["pwd"], check=True).stdout.strip() + "/out"


@pytest.fixture(scope="module")
def job(comma_cluster: Cluster, place: str) -> int:
    """With a number in its option, rows, and a record that was written under that locale too."""
    cluster = comma_cluster
    argv = ["--job-name=comma", "-n2", f"--mpi-wait-policy=nap,slowdown=2.5,csv={place}", *UNBALANCED]
    done = srun(cluster, argv, WITH_COMMA)
    assert done.returncode == 0, done.stderr
    number = jobs.job_named(cluster, "comma")
    cluster.wait_job(number)
    cluster.wait_accounted(number)
    # slurmdbd may hear of the job's end, under a name of its own making, before it hears of its beginning.
    wait_for(lambda: [row["JobName"] for row in cluster.sacct(number, ["JobName"], ["-X"])] == ["comma"])
    hand_in = [*WITH_COMMA, jobs.HELPER, "sweep", "--now", f"spool={cluster.spool}"]
    wait_for(lambda: cluster.node_run("c1", hand_in).returncode == 0 and jobs.comment(cluster, number))
    return number


def test_daemons_helper_and_programs_have_the_comma(comma_cluster: Cluster, job: int) -> None:
    """Else the other tests would show nothing."""
    names = set(comma_cluster.read("submit", TOOK_IT).splitlines())
    assert {"slurmdbd", "slurmctld", "slurmd", "slurmstepd", "srun", "unbalanced", "mpi-wait-node"} <= names, names


def test_the_record_is_json(comma_cluster: Cluster, job: int) -> None:
    text = jobs.comment(comma_cluster, job)
    record = jobs.record(comma_cluster, job)
    assert record["wait"]["ranks"] == 2 and record["energy"]["joules"] > 0 and record["elapsed_s"] > 0
    assert re.search(r"\d\.\d", text) and not re.search(r":-?\d+,\d+[,}]", text)


def test_the_rows_have_points(comma_cluster: Cluster, job: int, place: str) -> None:
    text = comma_cluster.run(["cat", f"{place}/mpi-wait_time.{job}.0.c1.csv"], check=True).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert all(set(row) == set(rows[0]) and None not in row for row in rows)
    waited = [float(row["wait_s"]) for row in rows if row["function"] == "MPI_Allreduce"]
    assert len(waited) == 2 and max(waited) > 0


def test_the_report_reads_the_same_in_both_locales(comma_cluster: Cluster, job: int) -> None:
    shown = [comma_cluster.run([*prefix, *REPORT, *how, str(job)]) for how in ([], ["--json"])
             for prefix in (WITH_COMMA, [])]
    assert all(done.returncode == 0 for done in shown), [done.stderr for done in shown]
    assert shown[0].stdout == shown[1].stdout != "" and shown[2].stdout == shown[3].stdout != ""


def configuration(cluster: Cluster, policy: str, prefix: list[str]) -> str:
    """What a task is told to do, without what is another one's in each step."""
    done = srun(cluster, ["-n1", f"--mpi-wait-policy={policy}", "printenv", "MPI_WAIT_CONFIG"], prefix)
    assert done.stdout.startswith("v=1;"), done.stderr
    return re.sub(r"(segment|cpufreq|task|notes)=[^;]*", r"\1", done.stdout.strip())


@pytest.mark.parametrize("policy", ["nap,slowdown=0.5", "nap,slowdown=2.5", "yield", "pstate", "profile"])
def test_options_and_policies_are_read_as_ever(comma_cluster: Cluster, cluster: Cluster, policy: str) -> None:
    assert configuration(comma_cluster, policy, WITH_COMMA) == configuration(cluster, policy, [])


def test_a_comma_ends_a_value_as_ever(comma_cluster: Cluster, cluster: Cluster) -> None:
    argv = ["-n1", "--mpi-wait-policy=nap,slowdown=2,5", "true"]
    here, there = srun(comma_cluster, argv, WITH_COMMA), srun(cluster, argv, [])
    assert "'5' is not a key" in there.stderr
    assert (here.returncode, here.stderr) == (there.returncode, there.stderr) and here.returncode != 0
