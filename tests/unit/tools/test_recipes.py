"""contrib's recipes, as far as they can be read or run without spack, Ansible and Slurm."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml

from tests.lib.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "contrib/spack/packages"
PLAYBOOK = ROOT / "contrib/ansible/mpi-wait.yml"


def recipe(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[type, list[str], list[str]]:
    """The class, its versions and what it depends on; spack's directives are doubles that take notes."""
    versions: list[str] = []
    needs: list[str] = []

    def depends_on(spec: str, **_: Any) -> None:
        needs.append(spec)

    def version(number: str, **_: Any) -> None:
        versions.append(number)

    double = types.ModuleType("spack.package")
    double.__dict__.update(MesonPackage=object, CMakePackage=object, version=version, depends_on=depends_on)
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", double)
    names = runpy.run_path(str(PACKAGES / name / "package.py"))
    found = next(value for key, value in names.items() if key == name.title().replace("-", ""))
    return found, versions, needs


def test_the_recipe_builds_this_tree_with_options_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    found, versions, _ = recipe("spank-mpi-wait", monkeypatch)
    assert versions and Path(urlparse(found.git).path) == ROOT
    options = re.findall(r"-D(\w+)=", " ".join(found().meson_args()))
    known = re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M)
    assert options and set(options) <= set(known)


def test_the_recipe_has_what_meson_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, needs = recipe("spank-mpi-wait", monkeypatch)
    asked = re.findall(r"dependency\('(\w+)'", (ROOT / "spank/meson.build").read_text())
    assert {name for name in asked if name != "threads"} <= {re.split(r"[@: ]", spec)[0] for spec in needs}
    _, versions, _ = recipe("powercap", monkeypatch)
    assert versions


def test_the_playbook_writes_the_readme_s_line() -> None:
    play = yaml.safe_load(PLAYBOOK.read_text())[0]
    written = f"{play['vars']['line']} {play['vars']['arguments']}"
    line = re.search(r"echo '([^']+)' >>/etc/slurm/plugstack.conf", (ROOT / "README.md").read_text())
    assert line and line[1].split() == [*written.split(), "spool=/shared/mpi-wait"]  # the site's own directory
    edit = next(task for task in play["tasks"] if "ansible.builtin.lineinfile" in task)
    assert re.search(edit["ansible.builtin.lineinfile"]["regexp"], written)
    for task in play["tasks"]:
        assert sum(key.startswith("ansible.builtin.") for key in task) == 1, task["name"]


MAIL = ROOT / "contrib/recipes/mail-report"
FAKES = {"mail": 'printf "%s|" "$@" >"$0.part"; cat >>"$0.part"; mv "$0.part" "$0.said"',
         "mpi-wait": 'echo "$*" >>"$0.asked"; [ "$2" = --brief ] || { echo REPORT; exit; }\n'
                     'echo "job state"; [ "$(wc -l <"$0.asked")" -gt 1 ] || { echo "record to come"; exit; }\n'
                     'echo "12 COMPLETED"'}


def mailed(folder: Path, subject: str) -> tuple[str, list[str]]:
    """What was mailed, and what mpi-wait was asked for it. The recipe itself returns at once."""
    for name, text in FAKES.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    text = MAIL.read_text().replace("/usr/bin/", f"{folder}/").replace("sleep 3", "sleep 0")
    (folder / "mail-report").write_text(text)
    (folder / "mail-report").chmod(0o755)
    done = subprocess.run([folder / "mail-report", "-s", subject, "ada"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    said, asked = folder / "mail.said", folder / "mpi-wait.asked"
    wait_for(said.exists, "the mail", 30)
    return said.read_text(), asked.read_text().splitlines() if asked.exists() else []


def test_the_mail_waits_for_the_record(tmp_path: Path) -> None:
    subject = "Slurm Job_id=12 Name=a Job_id=99 x Ended, Run time 00:00:05, COMPLETED, ExitCode 0"
    said, asked = mailed(tmp_path, subject)
    assert said == f"-s|{subject}|ada|job state\n12 COMPLETED\n\nREPORT\n"
    assert len(asked) == 3 and all(line.endswith(" 12") for line in asked) and "--brief" not in asked[2]


@pytest.mark.parametrize("subject,job", [
    ("Slurm Array Task Job_id=12_3 (15) Name=x Failed, Run time 00:00:05, FAILED, ExitCode 1", "12_3"),
    ("Slurm Array Summary Job_id=12_* (12) Name=x Ended, COMPLETED, ExitCode [0-0]", "12"),
    ("Slurm Job_id=12 Name=x Began, Queued time 00:00:01", ""),
    ("Slurm Name=Job_id=12 Ended, x", ""),
])
def test_of_which_job_the_mail_is(tmp_path: Path, subject: str, job: str) -> None:
    said, asked = mailed(tmp_path, subject)
    assert {line.split()[-1] for line in asked} == ({job} if job else set())
    assert job or said == f"-s|{subject}|ada|"


CONTROLLERS_WRITER = ROOT / "contrib/recipes/epilog-slurmctld"


def is_held(lock: Path) -> bool:
    return lock.exists() and subprocess.run(["flock", "--nonblock", lock, "true"], check=False).returncode != 0


def test_the_controllers_writer_looks_again_for_jobs_that_ended_while_it_waited(tmp_path: Path) -> None:
    """The second ends while the first one's process waits, or after: either way somebody looks when it had its time."""
    helper, epilog = tmp_path / "helper", tmp_path / "epilog-slurmctld"
    helper.write_text('#!/bin/sh\necho "$*" >>"$0.asked"\n')
    text = CONTROLLERS_WRITER.read_text()
    for old, new in (("/opt/mpi-wait/sbin/mpi-wait-node", str(helper)), ("/etc/mpi-wait/site-arguments", "/dev/null"),
                     ("/run/mpi-wait-epilog-slurmctld", f"{tmp_path}/.epilog-slurmctld"),
                     ("/shared/mpi-wait/spool", str(tmp_path)), ("settle_s=20", "settle_s=3")):
        assert old in text
        text = text.replace(old, new)
    epilog.write_text(text)
    for program in (helper, epilog):
        program.chmod(0o755)
    waiting, working = (tmp_path / f".epilog-slurmctld.{name}" for name in ("waiting", "working"))
    asked = tmp_path / "helper.asked"
    subprocess.run([epilog], check=True)
    wait_for(lambda: is_held(waiting) or asked.exists(), "the first job's process")
    time.sleep(1.1)  # files' times are compared in seconds
    subprocess.run([epilog], check=True)
    wait_for(lambda: asked.exists() and len(asked.read_text().splitlines()) == 2, "two looks")
    wait_for(lambda: not is_held(waiting) and not is_held(working), "their end")
    assert asked.read_text() == f"flush -- spool={tmp_path}\n" * 2


def test_the_summary_of_a_step_compares_ranks_of_one_program_only(tmp_path: Path) -> None:
    head = "rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes\n"

    def said(*ranks: int) -> str:
        rows = [f"{rank},{10 + place},finalized,MPI_Recv,1,{1 + place},{1 + place},1,0\n"
                for place, rank in enumerate(ranks)]
        (tmp_path / "mpi-wait_time.7.0.c1.csv").write_text(head + "".join(rows))
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "MPI_WAIT_SUMMARY": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run([ROOT / "contrib/recipes/srun-summary"], env=step, capture_output=True, text=True,
                              timeout=60, check=True).stderr

    assert "least rank 0 on c1, 1 s; most rank 1 on c1, 2 s" in said(0, 1)
    assert "2 ranks" in said(0, 0) and "of several MPI programs" in said(0, 0) and "least" not in said(0, 0)
