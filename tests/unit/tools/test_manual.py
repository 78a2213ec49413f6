"""The manual pages and the plugstack snippet explain every option, argument, policy and key."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pytest

from tests.lib.properties import Readers
from tests.lib.record_tools import PROGRAMS

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "packaging" / "man").glob("*.[1-8]"))


def rendered(name: str) -> str:
    page = next(page for page in PAGES if page.name == name)
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "200", "MAN_KEEP_FORMATTING": ""}
    result = subprocess.run(
        ["man", "-l", "--warnings", "--nh", "--nj", str(page)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert result.stderr == ""
    return result.stdout


def words(text: str, pattern: str) -> set[str]:
    found = set(re.findall(pattern, text, re.M))
    assert found, f"nothing matches {pattern}"
    return found


def missing(names: set[str], text: str) -> set[str]:
    return {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w])", text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_renders_without_warnings(page: pathlib.Path) -> None:
    assert "NAME" in rendered(page.name)


@pytest.mark.parametrize("name", ["report", "top", "try", "learn", "check"])
def test_every_option_of_the_command_is_in_its_page(name: str) -> None:
    command = [str(ROOT / "contrib" / "mpi-wait"), name, "--help"]
    usage = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    options = words(usage.stdout, r"--[a-z][a-z-]+") - {"--help"}
    assert not missing(options, rendered("mpi-wait.1"))


@pytest.mark.parametrize("name", [
    "top/command", "report/command", "report/lines", "report/many", "meaning/bill", "trial/command", "check/command",
])
def test_every_key_of_the_json_is_in_the_page_of_the_command(name: str) -> None:
    """By the sources, since no single output has all keys."""
    source = (ROOT / f"contrib/mpi_wait_tools/{name}.py").read_text()
    keys = words(source, r'"([a-z][a-z0-9_]+)"(?:: (?!")|, "[a-z_0-9]+", [a-z])')
    assert not missing(keys, rendered("mpi-wait.1"))


def test_every_refusal_of_a_grant_is_explained() -> None:
    """The texts stand where they are used, and no table of them is printed: the sources are what there is to ask."""
    wing = ROOT / "spank/cpufreq"
    sources = "".join((wing / f"{name}.c").read_text() for name in ("allotment", "domain"))
    why = words(sources, r'(?:return|none =|\] =|[?:]) "([a-zA-Z][^"%:\\]+)"')
    assert len(why) > 18
    why -= {"no memory"}
    page = " ".join(rendered("spank-mpi-wait.8").split())
    assert {reason for reason in why if reason not in page} == set()


def test_every_argument_of_the_plugin_is_explained() -> None:
    """Nothing that is built prints the table of them, which has one place."""
    source = (ROOT / "spank/policy/site.c").read_text()
    arguments = words(source, r'^\s+\{"([a-z_]+)", KEY_')
    assert not missing(arguments, rendered("spank-mpi-wait.8"))
    later = {"grant", "min_khz", "energy_tres"}
    snippet = (ROOT / "packaging" / "plugstack.d" / "zz-mpi-wait.conf.in").read_text()
    assert not missing(arguments - later, snippet)


def test_the_name_of_a_page_leads_to_it(tmp_path: pathlib.Path) -> None:
    """Also without its number: the user's page of the option is found before a file format of the same name."""
    pages = sorted((ROOT / "packaging/man").iterdir())
    for page in pages:
        (tmp_path / f"man{page.suffix[1:]}").mkdir(exist_ok=True)
        (tmp_path / f"man{page.suffix[1:]}" / page.name).symlink_to(page)
    for page in pages:
        asked = ["man", "-M", str(tmp_path), "-w", page.stem]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        assert [pathlib.Path(path).name for path in found] == [page.name]


def test_every_key_of_the_option_and_every_policy_is_explained() -> None:
    code, refusal = Readers().option(b"nap,no-such-key")
    accepted = re.search(r"\(accepted: ([a-z, ]+)\)", refusal)
    assert code and accepted, refusal
    keys = set(accepted[1].split(", "))
    assert len(keys) == 8
    policies = {path.stem for path in (ROOT / "policies").glob("*.json") if "." not in path.stem}
    for text in (rendered("mpi-wait-policy.7"), (ROOT / "README.md").read_text()):
        assert not missing(keys | policies, text)


def test_the_links_of_the_readme_lead_somewhere() -> None:
    targets = words((ROOT / "README.md").read_text(), r"\]\(([^)#:]+)\)")
    assert not {target for target in targets if not (ROOT / target).exists()}


def test_every_command_and_option_of_the_helper_is_explained() -> None:
    command = [str(PROGRAMS["mpi-wait-node"]), "--help"]
    usage = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True).stdout
    commands, options = words(usage, r"^  ([a-z]+) "), words(usage, r"^  (--[a-z-]+) ")
    assert len(commands) == 7
    assert not missing(commands | options, rendered("mpi-wait-node.8"))


def names_in(schema: object) -> set[str]:
    """The properties of a JSON Schema, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(names_in, schema))
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties", {})
    own = set(properties) if isinstance(properties, dict) else set()
    return own.union(*map(names_in, schema.values()))


def test_every_field_of_the_record_is_explained() -> None:
    schema = json.loads((ROOT / "spank/record/record.schema.json").read_text())
    assert len(names_in(schema)) > 60
    assert not missing(names_in(schema), rendered("mpi-wait-record.5"))


def test_the_versions_agree() -> None:
    release = words((ROOT / "meson.build").read_text(), r"^  version: '([0-9.]+)'")
    command = [str(ROOT / "contrib" / "mpi-wait"), "--version"]
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert {shown.stdout.split()[-1]} == release
    for page in PAGES:
        assert words(page.read_text(), r'"spank-mpi-wait (\S+)"') == {"@version@"}
        built = ROOT / "build/packaging" / page.name
        assert words(built.read_text(), r'"spank-mpi-wait (\S+)"') == release


def test_every_boundary_has_its_bounds() -> None:
    """Who writes and what root does stands in one table, for whom root may wait and what it may cost in the other."""
    page = (ROOT / "packaging/man/spank-mpi-wait.8").read_text()
    tables = re.findall(r"^\.TS\nallbox;.*?^\.TE$", page[page.index(".SS Boundaries"):], re.M | re.S)
    rows = [[re.findall(r"T\{\n(.*?)\nT\}", row, re.S) for row in re.split(r"\n(?<=T\}\n)(?=T\{)", table)]
            for table in tables]
    does, costs = ([row for row in table if row] for table in rows)
    assert [row[0] for row in does] == [row[0] for row in costs] and len(does) > 9
    assert all(len(row) == 3 and all(row) for row in does + costs)
    assert not re.search("unbounded|without end|no limit", " ".join(cell for row in costs for cell in row))
