"""The recipes of contrib/recipes, on the throw-away cluster and on their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.waiting import wait_for

RECIPES = jobs.REPOSITORY / "contrib/recipes"
WIDGET = RECIPES / "open-ondemand/_mpi_wait.html.erb"
RENDER = "include ERB::Util; params = {job: ARGV[1]}; print ERB.new(File.read(ARGV[0]), trim_mode: '-').result(binding)"
SHOWN_AT = "/opt/mpi-wait-recipes"
UNBALANCED = f"{jobs.PROGRAMS}/unbalanced"
LUA = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm/job_submit_lua.so")
FLUSH = '"$helper" sweep --now $outbox -- $SITE_ARGUMENTS'
LOCK = "/run/mpi-wait-epilog-slurmctld"
UNTIL_STORED = f"""for ((look = 0; look < 60; look++)); do
		{FLUSH}
		[[ -n $(sacct -nXP -j "$SLURM_JOB_ID" -o AdminComment) ]] && break
		sleep 1
	done"""
"""In place of the 20 s: a busy machine takes longer than 2, and no later job comes that would store what was late."""
METRIC = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? ([0-9.e+-]+)')


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


class ScriptedCluster(Cluster):
    """With job_submit.lua beside slurm.conf."""

    def _write_configuration(self) -> None:
        super()._write_configuration()
        text = (RECIPES / "job_submit.lua").read_text()
        (self.root / "etc/job_submit.lua").write_text(text.replace('long = "nap"', 'all = "profile"'))


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """JobSubmitPlugins=lua, and a writer that runs from EpilogSlurmctld only."""
    if not LUA.exists():
        pytest.skip("this Slurm has no job_submit/lua")
    folder = tmp_path_factory.mktemp("recipes")
    folder.chmod(0o755)
    text = (RECIPES / "epilog-slurmctld").read_text()
    text = text.replace("settle_s=20", "settle_s=2").replace("/shared/mpi-wait/spool", Cluster.spool)
    (folder / "epilog-slurmctld").write_text(replaced(text, FLUSH, UNTIL_STORED))
    (folder / "epilog-slurmctld").chmod(0o755)
    for recipe in (*map(RECIPES.joinpath, ("mpi-wait-textfile", "srun-summary", "reportseff-waits")), WIDGET):
        (folder / recipe.name).write_bytes(recipe.read_bytes())
        (folder / recipe.name).chmod(0o755)
    mail = (RECIPES / "mail-report").read_text().replace("/usr/bin/mpi-wait", "/opt/mpi-wait/bin/mpi-wait")
    (folder / "mail-report").write_text(mail.replace("/usr/bin/mail", f"{SHOWN_AT}/mail"))
    (folder / "mail").write_text(f'#!/bin/sh\n{{ echo "$*"; cat; }} >{Cluster.share}/mail.part\n'
                                 f'mv {Cluster.share}/mail.part "{Cluster.share}/mail.$3"\n')
    for name in ("mail-report", "mail"):
        (folder / name).chmod(0o755)
    arguments = project_cluster_arguments()
    arguments["plugstack"] = arguments["plugstack"].rstrip("\n") + " writer=sweep\n"
    arguments["binds"] = {**arguments["binds"], SHOWN_AT: folder}
    conf = {"JobSubmitPlugins": "lua", "EpilogSlurmctld": f"{SHOWN_AT}/epilog-slurmctld",
            "MailProg": f"{SHOWN_AT}/mail-report"}
    cluster = ScriptedCluster(nodes=2, slurm_conf=conf, **arguments)
    yield start_or_skip(cluster)
    cluster.stop()


@pytest.fixture
def sweeping(scripted: Cluster) -> Cluster:
    """Where the nodes hand their records to the spool under writer=sweep as well."""
    if "--only-move" not in scripted.node_run("c1", [jobs.HELPER, "--help"]).stdout:
        pytest.skip("the nodes of this release keep their records under writer=sweep")
    # one that waits for another test's job would take this one's upon itself, and look for that other's only
    free = ["flock", "--nonblock", f"{LOCK}.waiting", "flock", "--nonblock", f"{LOCK}.working", "true"]
    wait_for(lambda: scripted.node_run("submit", free).returncode == 0, "the end of the controller's writer", 200)
    return scripted


def stored(cluster: Cluster, job: int, timeout: float = 90) -> dict[str, object]:
    """The record, which nobody but the controller's epilog may have stored."""
    text = wait_for(lambda: jobs.comment(cluster, job), f"the record of job {job}", timeout, pause_s=0.2)
    return dict(json.loads(text)["mpi_wait"])


def test_srun_says_at_its_end_what_the_ranks_waited(scripted: Cluster) -> None:
    """By a user's own SLURM_EPILOG, on stderr; without files of a profile there is nothing to say."""
    place = f"{scripted.share}/summary"
    scripted.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    environment = {"SLURM_EPILOG": f"{SHOWN_AT}/srun-summary", "MPI_WAIT_SUMMARY": f"{place}/waits"}
    command = ["-N2", "-n4", "--mpi-wait-policy=nap,csv=" + environment["MPI_WAIT_SUMMARY"], UNBALANCED, "5", "5", "2"]
    job, done = jobs.srun(scripted, command, env=environment)
    first, second, third = (line for line in done.stderr.splitlines() if line.startswith("mpi-wait:"))
    assert re.fullmatch(rf"mpi-wait: step {job}\.0: 4 ranks on 2 nodes waited [\d.]+ m?s each on average", first)
    assert re.search(r"least rank \d on c[12], [\d.]+ m?s; most rank \d on c[12], [\d.]+ m?s", second)
    assert "MPI_Allreduce" in third and "mpi-wait" not in done.stdout
    _, quiet = jobs.srun(scripted, [*command[:2], "--mpi-wait-policy=nap", *command[3:]], env=environment)
    assert "mpi-wait:" not in quiet.stderr


def test_a_partitions_default_and_the_controllers_writer(sweeping: Cluster) -> None:
    """The policy comes from job_submit.lua, the record from EpilogSlurmctld."""
    job = jobs.sbatch(sweeping, f"srun -n4 {UNBALANCED} 5 5 2\n", ["-N2", "-n4"])
    sweeping.wait_job(job)
    record = stored(sweeping, job)
    assert record["policy"]["used"] == "profile" and record["nodes"] == {"reported": 2, "of": 2}  # type: ignore[index]
    assert record["wait"]["ranks"] == 4  # type: ignore[index]


def test_a_job_beside_reportseff_and_in_the_portal(sweeping: Cluster) -> None:
    """As the user who submitted it: reportseff's row, the portal's list and the job's page."""
    job = jobs.sbatch(sweeping, f"srun -n4 {UNBALANCED} 5 5 2\n", ["-N2", "-n4"])
    sweeping.wait_job(job)
    share = dict(stored(sweeping, job)["wait"])["share"]  # type: ignore[call-overload]
    environment = {"MPI_WAIT": "/opt/mpi-wait/bin/mpi-wait", "LC_ALL": "C.UTF-8"}
    done = sweeping.run([f"{SHOWN_AT}/reportseff-waits"], input=f"JobID|State\n{job}|COMPLETED\n", env=environment)
    assert done.stdout.splitlines()[1].split()[:3] == [str(job), "COMPLETED", f"{100 * share:.1f}%"], done.stderr
    pages = [sweeping.run(["ruby", "-rerb", "-e", RENDER, f"{SHOWN_AT}/{WIDGET.name}", word], env=environment)
             for word in ("", str(job))]
    assert [page.stderr for page in pages] == ["", ""]
    assert f'<a href="?job={job}">{job}</a>' in pages[0].stdout and f"<td>{100 * share:.1f} %</td>" in pages[0].stdout
    assert 'srcdoc="&lt;!' in pages[1].stdout and f"Job {job}" in pages[1].stdout


def policy_of(cluster: Cluster, argv: list[str], env: dict[str, str]) -> str:
    """What srun of a batch job takes for its policy."""
    job = jobs.sbatch(cluster, "echo policy=$MPI_WAIT_POLICY\n", argv, env=env)
    cluster.wait_job(job)
    return jobs.output(cluster, job).strip()


def test_a_partitions_default(scripted: Cluster) -> None:
    assert policy_of(scripted, [], {}) == "policy=profile"
    assert policy_of(scripted, [], {"MPI_WAIT_POLICY": "nap"}) == "policy=nap"
    assert policy_of(scripted, ["--mpi-wait-policy=nap"], {}) == "policy="


@pytest.mark.timeout(400)
def test_the_mail_at_the_end_has_the_report(sweeping: Cluster) -> None:
    """slurmctld calls the recipe, and that waits for the record."""
    asked = ["-N2", "-n4", "--mail-type=END", "--mail-user=ada"]
    job = jobs.sbatch(sweeping, f"srun -n4 {UNBALANCED} 5 5 2\n", asked)
    sweeping.wait_job(job)
    mail = sweeping.root / "share/mail.ada"
    text = wait_for(lambda: mail.read_text() if mail.exists() else "", "the mail", 300, pause_s=0.5)
    subject, titles, line = text.splitlines()[:3]
    assert subject.startswith(f"-s Slurm Job_id={job} ") and " ada" in subject
    assert titles.split()[:2] == ["job", "name"] and line.split()[0] == str(job) and "COMPLETED" in line
    assert "profile" in line and "simulated" in line and f"\nJob {job} " in text and "Waiting in MPI" in text


def test_metrics_of_a_running_job(scripted: Cluster) -> None:
    argv = ["-N1", "-n2", "-wc1", "--mpi-wait-policy=nap", f"{jobs.PROGRAMS}/crash", "600000"]
    job, running = jobs.begin(scripted, argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    values: dict[str, float] = {}

    def waits() -> float:
        done = scripted.node_run("c1", [f"{SHOWN_AT}/mpi-wait-textfile", "-"])
        assert done.returncode == 0, done.stderr
        values.update({name: value for name, _, value in parsed(done.stdout)})
        return values.get("mpi_wait_job_waiting_seconds", 0)
    wait_for(waits, "a rank that waits")
    scripted.run(["scancel", str(job)], check=True)
    running.wait(60)
    assert values["mpi_wait_up"] == 1 and values["mpi_wait_jobs"] == 1 and values["mpi_wait_job_ranks"] == 2
    assert 0 < values["mpi_wait_job_waiting_seconds"] <= values["mpi_wait_job_run_seconds"]
    assert values["mpi_wait_job_energy_joules"] > 0


def parsed(text: str) -> list[tuple[str, str, float]]:
    """(metric, labels, value); every line is of Prometheus' text format, and every metric has its type before it."""
    found, typed = [], set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            match = METRIC.fullmatch(line)
            assert match and match.group(1) in typed, line
            found.append((match.group(1), match.group(2) or "", float(match.group(3))))
    return found


def zones(package_uj: int) -> dict[str, Any]:
    zone = ["package-0", "package", 0, 5, package_uj, 0, 0, 0]
    return {"v": 1, "source": "rapl", "zones": [zone, ["core", "core", 0, 5, 10 * package_uj, 0, 0, 0]]}


JOB = {"v": 1, "policy": {"used": "nap"}, "cores": 2, "cores_total": 4, "baseline": zones(1_000_000)}
STEPS = ({"v": 1, "wait": {"ranks": [[0, 3000000, 1000000], [1, 0, 0]], "span_us": 9000000, "late": 3}},
         {"v": 1, "wait": None})


def noted(folder: Path, job: str, text: str) -> None:
    (folder / "state/n1" / job).mkdir(parents=True)
    (folder / f"state/n1/{job}/job.json").write_text(text)
    for number, step in enumerate(STEPS):
        (folder / f"state/n1/{job}/step.{number}.json").write_text(json.dumps(step))


def exporter(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [str(RECIPES / "mpi-wait-textfile"), f"--state={folder}/state", f"--outbox={folder}/out"]
    return subprocess.run([*command, *argv], capture_output=True, text=True, timeout=60, check=False)


def test_the_exporter_writes_whole_files(tmp_path: Path) -> None:
    noted(tmp_path, "7", json.dumps(JOB))
    noted(tmp_path, "1x", json.dumps(JOB))
    (tmp_path / "state/n1/energy").write_text(json.dumps(zones(6_000_000)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/c-1-0.n1.json").touch()
    os.utime(tmp_path / "out/c-1-0.n1.json", (1, 1))
    assert exporter(tmp_path, str(tmp_path)).stderr == ""
    file = tmp_path / "mpi_wait.prom"
    values = {(name, labels): value for name, labels, value in parsed(file.read_text())}
    seven = 'jobid="7",policy="nap"'
    assert values["mpi_wait_job_waiting_seconds", seven] == 3 and values["mpi_wait_job_run_seconds", seven] == 9
    assert values["mpi_wait_job_energy_joules", seven + ',source="rapl"'] == 2.5
    assert values["mpi_wait_up", ""] == 1 and values["mpi_wait_outbox_records", ""] == 1
    assert values["mpi_wait_outbox_oldest_seconds", ""] > 1e9
    assert file.stat().st_mode & 0o777 == 0o644 and not list(tmp_path.glob(".mpi_wait*"))


def test_the_exporter_says_that_it_could_not_read(tmp_path: Path) -> None:
    assert {name: value for name, _, value in parsed(exporter(tmp_path, "-").stdout)}["mpi_wait_jobs"] == 0
    noted(tmp_path, "8", '{"v": 2}')
    noted(tmp_path, "9", "{")
    values = {name: value for name, _, value in parsed(exporter(tmp_path, "-").stdout)}
    assert values["mpi_wait_up"] == 0 and values["mpi_wait_jobs"] == 2
    done = exporter(tmp_path, str(tmp_path / "none"))
    assert done.returncode == 1 and "No such file" in done.stderr and "Traceback" not in done.stderr


def test_the_dashboard_shows_what_the_exporter_writes(tmp_path: Path) -> None:
    board = json.loads((RECIPES / "grafana.json").read_text())
    exported = {line.split()[2] for line in exporter(tmp_path, "-").stdout.splitlines() if line.startswith("# TYPE")}
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"mpi_wait_[a-z_]+", expression)}
    assert len(board["panels"]) == len({panel["id"] for panel in board["panels"]}) and used <= exported
    noted(tmp_path, "7", json.dumps(JOB))
    (tmp_path / "state/n1/energy").write_text(json.dumps(zones(6_000_000)))
    labels = set(re.findall(r'(\w+)="', exporter(tmp_path, "-").stdout))
    grouped = {word for expression in expressions for words in re.findall(r"by \(([^)]+)\)", expression)
               for word in words.split(", ")}
    # A scrape's own job and instance win over labels of these names, which become exported_job and exported_instance.
    assert labels & {"job", "instance"} == set() and grouped <= labels | {"instance"}
    assert all(panel["description"] and expression.count("(") == expression.count(")")
               for panel, expression in zip(board["panels"], expressions))
