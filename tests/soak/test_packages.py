"""
The release tarball, the RPMs that are made of it without a network, and that RPMs and Debian packages have the same
files: all that an installation has, each once, and nothing of it listed twice in the tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.lib.site import debs, rpms
from tests.lib.site.chroot import ROOT

PACKAGING = ROOT / "packaging"
STAGE = Path(os.environ.get("MPI_WAIT_STAGE", ROOT / "build/stage/opt/mpi-wait"))
# What packaging adds of its own accord.
ADDED = re.compile(r"/usr/share/(doc|licenses)/(?!spank-mpi-wait/)|/__pycache__|/usr/lib/\.build-id"
                   r"|/usr/share/python3/runtime\.d/|/usr/share/lintian/")
MOVED = "/usr/lib/slurm/energy/acct_gather_energy_mpi_wait.so"


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rpms.tarball(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def red(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return rpms.build(tarball, tmp_path_factory.mktemp("rpm"))


def installed() -> set[str]:
    """What meson installs, at the paths that packages have."""
    paths = {f"/{path.relative_to(STAGE)}" for path in STAGE.rglob("*") if not path.is_dir()}
    paths = {path if path.startswith("/etc/") else f"/usr{path}" for path in paths if "/__pycache__/" not in path}
    assert paths
    return {path.replace("/usr/share/mpi-wait/policies/", "/etc/mpi-wait/policies/") for path in paths}


def once(files: Counter[str]) -> set[str]:
    ours = {path: count for path, count in files.items() if not ADDED.search(path)}
    assert set(ours.values()) == {1}, [path for path, count in ours.items() if count > 1]
    return set(ours)


def test_the_tarball_has_the_version_and_a_spec_with_it(tarball: Path) -> None:
    version = rpms.version()
    assert tarball.name == f"spank-mpi-wait-{version}.tar.gz"
    with tarfile.open(tarball) as archive:
        specs = [name for name in archive.getnames() if ".spec" in name]
        assert len(specs) == 1
        member = archive.extractfile(specs[0])
        assert member and f"\nVersion: {version}\n" in member.read().decode()
    assert version not in (PACKAGING / "rpm/spank-mpi-wait.spec.in").read_text()


def test_another_host_makes_the_same_tarball_of_the_commit(tarball: Path, tmp_path: Path) -> None:
    """Of a clone, whose files are younger, with another umask and in another time zone."""
    subprocess.run(["git", "clone", "-q", tarball.parent / "tree", tmp_path / "clone"], check=True)
    (tmp_path / "clone/README.md").write_text("not committed\n")
    made = subprocess.run(["sh", "-c", f"umask 077; TZ=Asia/Tokyo packaging/dist {tmp_path}"], cwd=tmp_path / "clone",
                          capture_output=True, text=True, check=True)
    assert Path(made.stdout.strip()).read_bytes() == tarball.read_bytes()
    assert made.stderr == "packaging/dist: what is not committed is left out\n"


def test_the_version_is_written_down_once() -> None:
    """In meson.build; pages, tools and packages are filled in."""
    version = rpms.version()
    places = ("packaging", "contrib/mpi_wait_tools", "preload", "spank")
    found = subprocess.run(["git", "grep", "-lwF", version, "--", *places], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""
    assert (STAGE / "share/mpi-wait/mpi_wait_tools/release").read_text() == f"{version}\n"
    pages = list(STAGE.glob("share/man/man*/*"))
    assert pages and all(f'"spank-mpi-wait {version}"' in path.read_text() for path in pages)


@pytest.mark.soak
def test_both_kinds_of_packages_have_every_installed_file_once(
    red: list[Path], debian_packages: Mapping[str, Path]
) -> None:
    expected = installed()
    assert once(Counter(path for package in red for path in rpms.files(package))) == expected
    assert once(Counter(path for package in debian_packages.values() for path in debs.files(package))) == expected


@pytest.mark.soak
def test_the_rpm_s_removal_takes_the_directories_along(red: list[Path]) -> None:
    for package in red:
        above = {str(parent) for path in rpms.files(package) for parent in Path(path).parents}
        ours = {path for path in above if re.search("mpi[-_]wait", path) and not re.search("/(doc|licenses)/", path)}
        assert ours <= rpms.directories(package)


@pytest.mark.soak
def test_the_rpm_looks_for_its_line_before_it_goes(red: list[Path]) -> None:
    plugin = next(path for path in red if path.name.startswith("spank-mpi-wait-slurm"))
    assert '[ "$1" != 0 ] || /usr/libexec/mpi-wait/mpi-wait-line || :' in rpms.query(plugin, "--scripts")


@pytest.mark.soak
def test_both_kinds_put_it_into_packages_of_the_same_names(
    red: list[Path], debian_packages: Mapping[str, Path]
) -> None:
    by_name = {rpms.query(path, "--queryformat=%{NAME}\n")[0]: rpms.files(path) for path in red}
    assert by_name.keys() == debian_packages.keys()
    for name, path in debian_packages.items():
        assert once(Counter(by_name[name])) == once(Counter(debs.files(path)))


@pytest.mark.soak
def test_what_administrators_edit_stays_theirs(red: list[Path], debian_packages: Mapping[str, Path]) -> None:
    kept = {path for package in red for path in rpms.query(package, "--configfiles")}
    assert kept == {path for path in installed() if path.startswith("/etc/")}
    conffiles = [debs.conffiles(path) for path in debian_packages.values()]
    assert set().union(*conffiles) == kept


@pytest.mark.soak
def test_the_energy_plugin_alone_wants_the_third_number_of_slurm(
    red: list[Path], debian_packages: Mapping[str, Path]
) -> None:
    release = debs.field(debs.energy(debian_packages), "Version").split("+slurm")[1]
    year, month, third = release.split(".")
    bounds = {"slurm": (f"{year}.{month}", f"{year}.{int(month) + 1:02}"),
              "energy-slurm": (release, f"{year}.{month}.{int(third) + 1}")}
    for name, (least, beyond) in bounds.items():
        package = next(path for path in red if path.name.startswith(f"spank-mpi-wait-{name}"))
        requires = {line for line in rpms.query(package, "--requires") if line.startswith("slurm ")}
        assert requires == {f"slurm >= {least}", f"slurm < {beyond}"}
        depends = debs.field(debian_packages[f"spank-mpi-wait-{name}{year}.{month}"], "Depends")
        assert re.findall(r"slurm\S+ \((>= \S+|<< \S+)~\)", depends) == [f">= {least}", f"<< {beyond}"]


def test_every_policy_and_manual_page_is_installed() -> None:
    names = {Path(path).name for path in installed()}
    assert {path.name for path in (ROOT / "policies").glob("*.json")} <= names
    assert {path.name for path in (PACKAGING / "man").glob("*.[1-8]")} <= names


def test_packaging_repeats_no_list() -> None:
    """
    Which policies, pages and modules there are is said where they are installed from, and nowhere else; but an upgrade
    from before 0.2 knows the file that moved.
    """
    texts = [path.read_text() for folder in ("debian", "rpm") for path in (PACKAGING / folder).rglob("*")]
    texts += [(PACKAGING / name).read_text() for name in ("make-deb", "parts", "dist")]
    for path in installed():
        if re.search(r"\.(json|py|[1-8]|so|service|timer)$", path) and path != MOVED:
            assert not [text for text in texts if Path(path).name in text], path
