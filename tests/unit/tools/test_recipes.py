"""contrib's recipes for spack and Ansible, as far as they can be read without spack and Ansible."""

from __future__ import annotations

import re
import runpy
import sys
import types
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml

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
