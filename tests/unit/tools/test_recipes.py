"""contrib's recipes, as far as they can be read or run without spack, Ansible and Slurm."""

from __future__ import annotations

import glob
import json
import os
import pwd
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from tests.lib.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "contrib/spack/packages"
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
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
    assert line and line[1].split() == [*written.split(), "spool=/shared/mpi-wait/spool"]  # the site's own directory
    edit = next(task for task in play["tasks"] if "ansible.builtin.lineinfile" in task)
    assert re.search(edit["ansible.builtin.lineinfile"]["regexp"], written)
    for task in play["tasks"]:
        assert sum(key.startswith("ansible.builtin.") for key in task) == 1, task["name"]


@pytest.mark.parametrize("place", ["build/deb", "{here}/build/deb", "elsewhere"])
def test_the_playbook_finds_the_packages_or_does_nothing(tmp_path: Path, place: str) -> None:
    """From the working directory on. Ansible would search beside the playbook, and go on without them: the line in
    plugstack.conf would name a plugin that is not there. Its filters and lookups are doubles here."""
    files = ["libmpiwait_1_amd64.deb", "mpi-wait-tools_1_all.deb", "spank-mpi-wait-slurm22.05_1_amd64.deb"]
    (tmp_path / "build/deb").mkdir(parents=True)
    for name in [*files, "spank-mpi-wait-energy-slurm22.05.8_1_amd64.deb"]:
        (tmp_path / "build/deb" / name).touch()
    play = yaml.safe_load(PLAYBOOK.read_text())[0]
    ansible = NativeEnvironment()
    ansible.filters.update(path_join=lambda parts: os.path.join(*parts), basename=os.path.basename,
                           regex_replace=lambda text, old, new: re.sub(old, new, text))
    known: dict[str, Any] = {**play["vars"], "packages": place.format(here=tmp_path)}
    known |= {"lookup": lambda _, name: {"PWD": str(tmp_path)}[name],
              "query": lambda _, *patterns: [path for pattern in patterns for path in glob.glob(pattern)]}
    for name in ("folder", "found"):
        known[name] = ansible.from_string(known[name]).render(known)
    first, _, copy, install = play["tasks"][:4]
    wanted = [] if place == "elsewhere" else files
    assert [Path(path).name for path in known["found"]] == wanted
    assert ansible.compile_expression(first["ansible.builtin.assert"]["that"])(known) == bool(wanted)
    assert ansible.from_string(copy["loop"]).render(known) == known["found"] and "when" not in install
    there = ansible.from_string(install["vars"]["files"]).render(known)
    assert "{{ files | join(' ') }}" in install["ansible.builtin.command"]
    assert list(there) == [f"{copy['ansible.builtin.copy']['dest']}{name}" for name in wanted]


MAIL = ROOT / "contrib/recipes/mail-report"
PAUSES = 4
# Each mail is a file of its own. mpi-wait notes its words, waits for `go`, and says "may come" as often as `more`.
FAKES = {"mail": 'said=$(mktemp "$0.part.XXXXXX"); { printf "%s|" "$@"; cat; } >"$said"\n'
                 'mv "$said" "${said%.part*}.said${said##*.part}"',
         "mpi-wait": """echo "$*" >>"$0.asked"; until [ -e "$0.go" ]; do sleep .05; done
case "$*" in
*--json*) printf '[\\n  {\\n    "name": "\\\\n    \\"may_come\\": true",\\n    "may_come": '
	[ "$(grep -c json "$0.asked")" -gt "$(cat "$0.more")" ] && echo false || echo true ;;
*--brief*) echo "job state"; echo "12 COMPLETED, record to come" ;;
*) echo REPORT ;;
esac"""}


def mail_recipe(folder: Path, more: int, goes: bool = True) -> None:
    """The recipe with doubles of mail and mpi-wait beside it. more: how often a record may still come."""
    for name, text in FAKES.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "mpi-wait.more").write_text(str(more))
    if goes:
        (folder / "mpi-wait.go").touch()
    text = MAIL.read_text()
    for old, new in (("/usr/bin/mail", f"{folder}/mail"), ("/usr/bin/mpi-wait", f"{folder}/mpi-wait"),
                     ('"10 20 40 80"', '"0 0 0 0"'), ("/tmp/mpi-wait-mail-$UID", f"{folder}/places")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "mail-report").write_text(text)
    (folder / "mail-report").chmod(0o755)


def mail_send(folder: Path, subject: str) -> None:
    """The recipe itself returns at once."""
    done = subprocess.run([folder / "mail-report", "-s", subject, "ada"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def mails(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.glob("mail.said.*")]


def asked(folder: Path) -> list[str]:
    path = folder / "mpi-wait.asked"
    return path.read_text().splitlines() if path.exists() else []


def mailed(folder: Path, subject: str, more: int = 0) -> tuple[str, list[str]]:
    """Returns the mails, and the arguments of mpi-wait for them."""
    mail_recipe(folder, more)
    mail_send(folder, subject)
    (said,) = wait_for(lambda: mails(folder), "the mail", 30)
    return said, asked(folder)


ENDED = "Slurm Job_id=12 Name=a Job_id=99 x Ended, Run time 00:00:05, COMPLETED, ExitCode 0"


@pytest.mark.parametrize("more,looks", [(0, 1), (1, 2), (99, PAUSES)])
def test_the_mail_waits_for_a_record_that_may_come(tmp_path: Path, more: int, looks: int) -> None:
    """The recipe goes by mpi-wait's word, and by no text of a user's: the job's name here says that one may come."""
    said, questions = mailed(tmp_path, ENDED, more)
    assert said == f"-s|{ENDED}|ada|job state\n12 COMPLETED, record to come\n\nREPORT\n"
    assert all(line.endswith(" 12") for line in questions)
    assert ["--json" in line for line in questions] == [True] * looks + [False] * 2


def test_four_mails_wait_at_once(tmp_path: Path) -> None:
    """Three of seven mails find no place: no record is asked for, and they go out with the command."""
    mail_recipe(tmp_path, 0, goes=False)
    for _ in range(4):
        mail_send(tmp_path, ENDED)
    wait_for(lambda: len(asked(tmp_path)) == 4, "four that wait")
    for _ in range(3):
        mail_send(tmp_path, ENDED)
    wait_for(lambda: len(mails(tmp_path)) == 3, "three that do not")
    assert set(mails(tmp_path)) == {f"-s|{ENDED}|ada|mpi-wait report 12\n"} and len(asked(tmp_path)) == 4
    (tmp_path / "mpi-wait.go").touch()
    wait_for(lambda: len(mails(tmp_path)) == 7, "all of them")
    assert sum("REPORT" in said for said in mails(tmp_path)) == 4


def test_a_place_that_is_somebody_elses_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "places").symlink_to(tmp_path / "elsewhere")
    said, questions = mailed(tmp_path, ENDED)
    assert said == f"-s|{ENDED}|ada|mpi-wait report 12\n" and not questions
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("subject,job", [
    ("Slurm Array Task Job_id=12_3 (15) Name=x Failed, Run time 00:00:05, FAILED, ExitCode 1", "12_3"),
    ("Slurm Array Summary Job_id=12_* (12) Name=x Ended, COMPLETED, ExitCode [0-0]", "12"),
    ("Slurm Job_id=12 Name=x Began, Queued time 00:00:01", ""),
    ("Slurm Name=Job_id=12 Ended, x", ""),
])
def test_of_which_job_the_mail_is(tmp_path: Path, subject: str, job: str) -> None:
    said, questions = mailed(tmp_path, subject)
    assert {line.split()[-1] for line in questions} == ({job} if job else set())
    assert job or said == f"-s|{subject}|ada|"


CONTROLLERS_WRITER = ROOT / "contrib/recipes/epilog-slurmctld"


def is_held(lock: Path) -> bool:
    """Asks the kernel's list: to try the lock would take it for a moment, and the script gives up when it is taken."""
    return lock.exists() and f":{lock.stat().st_ino} " in Path("/proc/locks").read_text()


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
    own = f" --outbox {tmp_path}/.outbox" if os.getuid() else ""
    assert asked.read_text() == f"sweep --now{own} -- spool={tmp_path}\n" * 2


def test_the_controllers_writer_sweeps_as_slurmuser(tmp_path: Path) -> None:
    """SlurmUser is seldom root, and root's outbox is closed to it."""
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    place = Path(tempfile.mkdtemp(dir=tmp_path.anchor + "tmp"))
    spool, said, epilog = place / "spool", place / "said", place / "epilog-slurmctld"
    text = CONTROLLERS_WRITER.read_text()
    for old, new in (("/opt/mpi-wait/sbin/mpi-wait-node", str(place / "helper")),
                     ("/etc/mpi-wait/site-arguments", "/dev/null"), ("settle_s=20", "settle_s=0"),
                     ("/shared/mpi-wait/spool", f"{spool} spool_user={user.pw_name} sink=file"),
                     ("2>&1 | logger -t mpi-wait -p daemon.notice", f"; echo $? >>{said}")):
        assert old in text
        text = text.replace(old, new)
    try:
        shutil.copy(BUILD / "spank/mpi-wait-node", place / "helper")
        epilog.write_text(text)
        spool.mkdir(mode=0o755)
        said.touch()
        epilog.chmod(0o755)
        place.chmod(0o755)
        for path in (spool, said):
            os.chown(path, user.pw_uid, -1)
        subprocess.run([epilog], check=True, user=user.pw_uid, env={"PATH": "/usr/bin:/bin"})
        wait_for(lambda: said.read_text(), "the sweep")
        wait_for(lambda: not is_held(spool / ".epilog-slurmctld.working"), "its end")
        assert said.read_text() == "0\n" and (spool / ".outbox").stat().st_uid == user.pw_uid
    finally:
        shutil.rmtree(place)


def summary(folder: Path, waits: Sequence[tuple[int, float]]) -> str:
    """Returns what srun-summary says of ranks that waited so many seconds."""
    head = "rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes\n"
    rows = [f"{rank},{10 + place},finalized,MPI_Recv,1,{wait},{wait},1,0\n" for place, (rank, wait) in enumerate(waits)]
    (folder / "mpi-wait_time.7.0.c1.csv").write_text(head + "".join(rows))
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "MPI_WAIT_SUMMARY": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run([ROOT / "contrib/recipes/srun-summary"], env=step, capture_output=True, text=True,
                          timeout=60, check=True).stderr


@pytest.mark.parametrize("wait,words", [(0.0, "0 ms"), (0.0004, "0.4 ms"), (0.5123, "512 ms"), (0.9996, "1 s"),
                                        (99.9, "99.9 s"), (119.7, "2 min 00 s"), (999.6, "16 min 40 s"),
                                        (3599.6, "1 h 00 min"), (12345.1, "3 h 26 min"), (360000, "100 h 00 min")])
def test_the_summary_of_a_step_has_times_that_people_read(tmp_path: Path, wait: float, words: str) -> None:
    said = summary(tmp_path, [(0, wait), (1, wait)])
    assert f"waited {words} each on average" in said and f"on c1, {words};" in said


def test_the_summary_of_a_step_compares_ranks_of_one_program_only(tmp_path: Path) -> None:
    def said(*ranks: int) -> str:
        return summary(tmp_path, [(rank, 1 + place) for place, rank in enumerate(ranks)])

    assert "least rank 0 on c1, 1 s; most rank 1 on c1, 2 s" in said(0, 1)
    assert "2 ranks" in said(0, 0) and "of several MPI programs" in said(0, 0) and "least" not in said(0, 0)


RECIPES = ROOT / "contrib/recipes"
RENDER = """include ERB::Util
params = {job: ARGV[1]}
print ERB.new(File.read(ARGV[0]), trim_mode: '-').result(binding)"""
"""As Rails renders a partial, as far as the widget asks for Rails: params and h."""
LINES = [{"job": "4711_1", "name": "<b>x", "state": "COMPLETED", "policy": "nap", "wait": 0.29, "asleep": 0.9,
          "cost_percent": 0.31, "cost_error": 0.1, "saved_percent": None, "saved_error": None, "why": ""},
         {"job": "98", "name": "a", "state": "FAILED", "policy": None, "wait": None, "asleep": None,
          "cost_percent": None, "cost_error": None, "saved_percent": 9.12, "saved_error": 0.6, "why": "no record"}]
ANSWERS = r"""#!/usr/bin/python3
import json, pathlib, sys
words, here = sys.argv[1:], pathlib.Path(__file__)
with open(f"{here}.asked", "a") as notes:
    print(json.dumps([words, sys.stdin.read()]), file=notes)
if "--json" in words:
    print(here.with_suffix(".json").read_text())
elif "--html" in words and "_" in words[-1]:
    pathlib.Path(words[2]).write_text('<!DOCTYPE html><p title="x">a & b</p>')
elif words[-1] == "4711":
    "--html" in words and sys.exit("mpi-wait: 4711 stands for 2 jobs")
    print("Array 4711  <solver>")
else:
    sys.exit("mpi-wait: sacct knows no job <98>")
"""


def answering(folder: Path) -> tuple[dict[str, str], Path]:
    """Returns an environment in which mpi-wait is a double, and the file of its questions."""
    command = folder / "mpi-wait"
    command.write_text(ANSWERS)
    command.chmod(0o755)
    command.with_suffix(".json").write_text(json.dumps(LINES))
    return {**os.environ, "MPI_WAIT": str(command), "LC_ALL": "C.UTF-8"}, Path(f"{command}.asked")


def widened(folder: Path, table: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RECIPES / "reportseff-waits"], input=table, env=answering(folder)[0], capture_output=True,
                          encoding="utf-8", timeout=60, check=False)


# As reportseff 2.10.3 prints it, by --parsable and --format=State,JobID,Elapsed; the second as it names a file.
TABLE = """State|JobID|Elapsed
COMPLETED|4711_1|00:00:25
FAILED|slurm_98.out|00:00:03
RUNNING|99|00:00:01
"""


def test_reportseff_has_the_waits_beside_it(tmp_path: Path) -> None:
    done = widened(tmp_path, TABLE)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [["State", "JobID", "Elapsed", "Wait", "Asleep", "Cost", "Saved"],
                    ["COMPLETED", "4711_1", "00:00:25", "29.0%", "90.0%", "0.3±0.1%", "---"],
                    ["FAILED", "slurm_98.out", "00:00:03", "---", "---", "---", "9.1±0.6%"],
                    ["RUNNING", "99", "00:00:01", "---", "---", "---", "---"]]
    (words, given), = [json.loads(line) for line in (tmp_path / "mpi-wait.asked").read_text().splitlines()]
    assert words == ["report", "--brief", "--json", "-"] and given.split() == ["4711_1", "98", "99"]


def test_reportseff_s_other_rows_pass(tmp_path: Path) -> None:
    """Nodes, and what no job's number may be: none of it reaches mpi-wait, and no terminal obeys it."""
    done = widened(tmp_path, "JobID|State\n4711_1|COMPLETED\n  c1|\n--help|x\n0|\x1b[2J\nonly\n")
    assert [line.split() for line in done.stdout.splitlines()][2:] == [["c1"], ["--help", "x"], ["0", "?[2J"], ["only"]]
    assert json.loads((tmp_path / "mpi-wait.asked").read_text())[1] == "4711_1"


@pytest.mark.parametrize("table,words", [("", "is empty"), ("   JobID    State \n", "expected a table"),
                                         ("JobID|State\n" * 10_001, "at most 10000")])
def test_what_is_no_table_of_reportseff_is_refused(tmp_path: Path, table: str, words: str) -> None:
    done = widened(tmp_path, table)
    assert done.returncode == 1 and words in done.stderr and done.stdout == ""
    assert not (tmp_path / "mpi-wait.asked").exists()


def test_reportseff_without_an_answer(tmp_path: Path) -> None:
    environment = {**answering(tmp_path)[0], "MPI_WAIT": "/nonexistent"}
    done = subprocess.run([RECIPES / "reportseff-waits"], input=TABLE, env=environment, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1 and "/nonexistent cannot be run" in done.stderr and "Traceback" not in done.stderr


WIDGET = RECIPES / "open-ondemand/_mpi_wait.html.erb"


def widget(folder: Path, job: str) -> tuple[str, list[list[str]]]:
    """Returns the widget as it is rendered, and how it asked mpi-wait."""
    environment, asked_at = answering(folder)
    done = subprocess.run(["ruby", "-rerb", "-e", RENDER, WIDGET, job], env=environment, capture_output=True,
                          encoding="utf-8", timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout, [json.loads(line)[0] for line in asked_at.read_text().splitlines()]


def test_the_portal_lists_the_users_jobs(tmp_path: Path) -> None:
    page, questions = widget(tmp_path, "")
    assert questions == [["report", "--brief", "--json", "-S", "7d"]]
    assert '<a href="?job=4711_1">4711_1</a>' in page and "<td>&lt;b&gt;x</td>" in page and "<td>no record</td>" in page
    assert page.index("?job=98") < page.index("?job=4711_1") and "0.3 % ± 0.1" in page and "9.1 % ± 0.6" in page


def test_the_portal_shows_a_job(tmp_path: Path) -> None:
    page, questions = widget(tmp_path, "4711_3")
    assert [question[:2] + question[3:] for question in questions] == [["report", "--html", "4711_3"]]
    assert 'sandbox=""' in page and ('srcdoc="&lt;!DOCTYPE html&gt;&lt;p title=&quot;x&quot;&gt;a &amp; b&lt;/p&gt;"'
                                     in page)
    assert not Path(questions[0][2]).parent.exists()


def test_the_portal_shows_an_array_as_text(tmp_path: Path) -> None:
    page, questions = widget(tmp_path, "4711")
    assert questions[1] == ["report", "--no-color", "--width", "100", "4711"]
    assert "<pre>Array 4711  &lt;solver&gt;" in page


def test_the_portal_says_why_there_is_none(tmp_path: Path) -> None:
    assert "<p>mpi-wait: sacct knows no job &lt;98&gt;" in widget(tmp_path, "98")[0]


@pytest.mark.parametrize("job", ["4711;id", "--record=/etc/passwd", "4711\n--spool=/x", "-", "0", "4711.0", "1" * 11])
def test_no_word_of_a_visitor_s_reaches_the_command(tmp_path: Path, job: str) -> None:
    assert widget(tmp_path, job)[1] == [["report", "--brief", "--json", "-S", "7d"]]


def test_the_portal_s_files_fit_together() -> None:
    text = WIDGET.read_text()
    assert {found.strip()[:2] for found in re.findall(r"<%=(.*?)%>", text)} == {"h("}
    page = yaml.safe_load((WIDGET.parent / "mpi_wait.yml").read_text())
    named = [name for row in page["custom_pages"]["mpi_wait"]["rows"] for column in row["columns"]
             for name in column["widgets"]]
    assert [f"_{name}.html.erb" for name in named] == [WIDGET.name]
    assert [item["page"] for item in page["help_menu"]] == list(page["custom_pages"])
