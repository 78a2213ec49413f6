"""The examples of the manual pages, run as they stand there but for names that only a site knows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.lib import jobs
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, Fleet
from tests.lib.throwaway.project import PREFIX

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "packaging/man").glob("*.[1-8]"))
PRICES = json.dumps({"price_per_kwh": 0.25, "currency": "EUR"})
# check finds faults on a machine for tests, and this cluster's few jobs give no program a verdict.
MAY_REFUSE = re.compile("mpi-wait check|mpi-wait learn .*--json")
SCHEMA = json.loads((ROOT / "policies/policy.schema.json").read_text())


def blocks(page: Path) -> list[str]:
    """What stands between .nf and .fi in the section EXAMPLES, without roff's escapes."""
    section = page.read_text().partition("\n.SH EXAMPLES\n")[2].partition("\n.SH ")[0]
    found = re.findall(r"^\.nf\n(.*?)^\.fi$", section, re.M | re.S)
    return [re.sub(r"\\f[A-Z]", "", block).replace("\\-", "-").replace("\\e", "\\") for block in found]


def commands() -> list[str]:
    lines = [line.strip() for page in PAGES for block in blocks(page) if "{" not in block[:1]
             for line in block.splitlines()]
    # What watches a running job is test_watch.py's.
    return [line for line in lines if line and not line.startswith("#") and "--watch" not in line]


POLICIES = [json.loads(block) for block in blocks(ROOT / "packaging/man/mpi-wait-policy-file.5")]


@pytest.fixture(scope="module")
def earlier(cluster: Cluster) -> int:
    """One under off, which has no record, to compare another one with."""
    number, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=off", f"{PROGRAMS}/unbalanced", "5", "5", "2"])
    cluster.wait_accounted(number)
    return number


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> int:
    """One with a record, for the examples that name one."""
    number, _ = jobs.srun(cluster, ["-N1", "-n2", "--mpi-wait-policy=nap", f"{PROGRAMS}/unbalanced", "5", "5", "2"])
    jobs.record(cluster, number)
    return number


def adapted(line: str, cluster: Cluster, earlier: int, job: int) -> str:
    """As many tasks as there are cores, the test's program, the cluster's spool, jobs of ours; brief measurements."""
    if line.startswith("late-sender"):
        line += " --pairs=1 --delays=1000"
    line = re.sub(r"\./\w+$", f"{PROGRAMS}/unbalanced 5 5 2", line)
    line = re.sub(r"-n ?\d\d+", "-n4", line)
    line = line.replace("/shared/mpi-wait/spool", cluster.spool)
    return re.sub(r"\b4710\b", str(earlier), re.sub(r"\b4711\b", str(job), line))


def test_there_are_examples() -> None:
    assert len(POLICIES) >= 2 and not [page for page in PAGES if not blocks(page)]


@pytest.mark.cluster
@pytest.mark.parametrize("line", [line for line in commands() if line.split()[0] != "optional"])
def test_a_command_works(line: str, cluster: Cluster, earlier: int, job: int) -> None:
    script = f"PATH=$PATH:{PREFIX}/bin:{PREFIX}/sbin; cd; printf '#!/bin/bash\\nsrun hostname\\n' >job.sh\n"
    script += f"echo '{PRICES}' >prices.json\n"
    user = "root" if line.startswith(("mpi-wait-node", "mpi-wait check")) else "alice"
    done = cluster.run(["bash", "-c", script + adapted(line, cluster, earlier, job)], user=user, timeout=120)
    allowed = (0, 2) if "mpi-wait-node" in line else (0, 1) if MAY_REFUSE.match(line) else (0,)
    assert done.returncode in allowed and "Traceback" not in done.stderr, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.cluster
@pytest.mark.parametrize("line", [line for line in commands() if line.split()[0] == "optional"])
def test_a_line_of_plugstack_works(line: str, cluster: Fleet) -> None:
    """It is accepted, and a job that does not ask gets its default."""
    text = adapted(line, cluster, 0, 0).replace("/usr/lib/slurm", f"{PREFIX}/lib/slurm") + "\n"
    with cluster.variants():
        site = cluster.variant(plugstack=text)
        assert site.run(["srun", "--mpi-wait-policy=help"]).returncode == 0
        done = site.run(["srun", "-N1", "-n1", "sh", "-c", "echo $LD_PRELOAD"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip().endswith(LIBRARY) == ("default=off" not in line)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["name"])
def test_a_policy_is_one(policy: dict[str, object], tmp_path: Path) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(policy)
    (tmp_path / f"{policy['name']}.json").write_text(json.dumps(policy))
    helper = shutil.which("mpi-wait-node", path=str(ROOT / "build/spank"))
    assert helper
    done = subprocess.run([helper, "probe", f"policies={tmp_path}"], capture_output=True, text=True)
    probe = json.loads(done.stdout)
    assert policy["name"] in {entry["name"] for entry in probe["policies"]}, probe


def test_the_page_has_the_keys_and_rungs_of_the_schema() -> None:
    text = (ROOT / "packaging/man/mpi-wait-policy-file.5").read_text()
    keys = set(SCHEMA["properties"]) | set(SCHEMA["properties"]["budget"]["properties"])
    rungs = set(SCHEMA["definitions"]["rungs"]["items"]["enum"])
    assert {key for key in keys | rungs if f"\n.B {key}\n" not in text} == set()
