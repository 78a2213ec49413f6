"""
Debian packages, in a fresh Debian 12 on which only Slurm is installed: the README's own commands bring the option and
the record; upgrade, removal and purge leave a working Slurm; a package for another Slurm is refused.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.lib.site import chroot, debs, slurm
from tests.lib.site.chroot import ROOT, Site
from tests.lib.site.readme import administrators_commands, run_as_written

pytestmark = pytest.mark.soak
LINE = "/usr/lib/slurm/spank_mpi_wait.so"
LIBRARY = "/usr/lib/mpi-wait/libmpiwait.so"
ENERGY = "/usr/lib/slurm/energy/acct_gather_energy_mpi_wait.so"
OTHER_RELEASE = (21, 8, 8)
NEXT = "9.0.0-1"


@pytest.fixture(scope="module")
def fresh(debian_packages: Mapping[str, Path]) -> Iterator[Site]:
    """Slurm runs, the packages lie in /root, nothing of ours is installed yet."""
    with chroot.site(chroot.fresh_tree()) as site:
        slurm.start(site)
        for path in debian_packages.values():
            shutil.copy(path, site.root / "root")
        site.run("apt-get -q update", network=True)
        yield site


def job_works(site: Site) -> None:
    slurm.wait_for(site, "runuser -u alice -- srun -Q hostname | grep -qx " + chroot.NODE)


def option_works(site: Site) -> None:
    """Once slurmd has started again."""
    script = f"runuser -u alice -- srun -Q --mpi-wait-policy=nap printenv LD_PRELOAD | grep -qx {LIBRARY}"
    slurm.wait_for(site, script)


def restart(site: Site) -> None:
    site.run("service slurmd restart")
    job_works(site)


def test_the_readme_s_commands_are_all_that_it_takes(fresh: Site) -> None:
    job_works(fresh)
    assert "unrecognized option" in fresh.run("srun --mpi-wait-policy=nap true", check=False).stdout
    building, installing, _removing = administrators_commands()
    assert building[1:] == ["packaging/make-deb"]  # what the packages were made with
    run_as_written(fresh, installing)
    option_works(fresh)
    job = slurm.run_job(fresh, "sbatch --parsable --mpi-wait-policy=nap --wrap 'srun sleep 1'").strip()
    record = json.loads(slurm.record_of(fresh, job))["mpi_wait"]
    assert (record["policy"]["asked"], record["policy"]["used"]) == ("nap", "nap")
    assert record["nodes"] == {"reported": 1, "of": 1}
    assert "nap, asked for by the job" in fresh.run(f"mpi-wait report {job}").stdout
    plain = slurm.run_job(fresh, "srun -Q printenv SLURM_JOB_ID").strip()
    assert fresh.run(f"sacct -X -n -P -j {plain} -o AdminComment").stdout.strip() == ""


def test_check_finds_no_fault_with_the_installation(fresh: Site) -> None:
    findings = json.loads(fresh.run("mpi-wait check --json", check=False).stdout)["findings"]
    wrong = [entry for entry in findings if entry["status"] == "FAIL" and entry["section"] in ("Plugin", "Policies")]
    assert not wrong
    assert [entry["what"] for entry in findings if entry["name"] == "plugin" and entry["status"] == "OK"]


def test_the_needs_of_the_build_are_packages_of_this_machine() -> None:
    needs = subprocess.run([ROOT / "packaging/make-deb", "--needs"], capture_output=True, text=True, check=True)
    assert set(needs.stdout.split()) > {"libslurm-dev", "debhelper"}
    subprocess.run(["dpkg-query", "-W", *needs.stdout.split()], check=True, capture_output=True)


def test_an_upgrade_keeps_a_running_job_s_record_and_what_an_administrator_changed(
    fresh: Site, debian_packages: Mapping[str, Path], tmp_path: Path
) -> None:
    policy = "/etc/mpi-wait/policies/nap.json"
    fresh.write(policy, fresh.read(policy).replace('"summary": "', '"summary": "ours: '))
    script = "srun sh -c 'touch /tmp/runs; while [ ! -e /tmp/end ]; do sleep 0.1; done'"
    job = slurm.run_job(fresh, f'sbatch --parsable --mpi-wait-policy=nap --output=/dev/null --wrap "{script}"').strip()
    slurm.wait_for(fresh, "test -e /tmp/runs")
    (fresh.root / "root/next").mkdir()
    for path in debian_packages.values():
        shutil.copy(debs.renumbered(path, tmp_path, NEXT), fresh.root / "root/next")
    fresh.run("apt-get -q -y install /root/next/*.deb", network=True)
    fresh.run("touch /tmp/end")  # the job began under the old files
    assert json.loads(slurm.record_of(fresh, job))["mpi_wait"]["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    option_works(fresh)  # without a restart of slurmd
    assert "ours: " in slurm.run_job(fresh, "srun --mpi-wait-policy=help")
    restart(fresh)
    option_works(fresh)


def test_a_package_for_another_slurm_is_refused_by_apt_and_the_plugin_by_slurm(
    fresh: Site, tmp_path: Path
) -> None:
    major, minor, micro = OTHER_RELEASE
    header = Path("/usr/include/slurm/slurm_version.h").read_text()
    number = f"{major << 16 | minor << 8 | micro:#08x}"
    (tmp_path / "slurm").mkdir()
    changed = re.sub(r"(#define SLURM_VERSION_NUMBER) .*", rf"\1 {number}", header)
    (tmp_path / "slurm/slurm_version.h").write_text(changed)
    for path in Path("/usr/include/slurm").glob("*.h"):
        if path.name != "slurm_version.h":
            (tmp_path / "slurm" / path.name).symlink_to(path)
    environment = {"DEB_CPPFLAGS_APPEND": f"-isystem {tmp_path}", "SLURM_PACKAGE": "slurm-wlm-basic-plugins"}
    packages = debs.build(tmp_path / "debs", environment)
    other = debs.plugin(packages)
    assert other.name.startswith(f"spank-mpi-wait-slurm{major}.{minor:02}_")
    shutil.copy(other, fresh.root / "root")
    refused = fresh.run(f"apt-get -q -y install /root/{other.name}", check=False)
    assert refused.returncode and "slurm-wlm-basic-plugins (< 21.09~)" in refused.stdout
    assert "slurm-wlm-basic-plugins (<< 21.08.9~)" in debs.field(debs.energy(packages), "Depends")
    assert "the plugin's line" not in refused.stdout
    option_works(fresh)

    fresh.run(f"cd /root && dpkg-deb -x {other.name} other && sed -i 's,{LINE},/root/other{LINE},' "
              "/etc/slurm/plugstack.conf && chmod 755 /root")
    said = fresh.run("srun --mpi-wait-policy=nap true", check=False).stdout
    assert "unrecognized option" in said
    assert re.search(r"Incompatible Slurm plugin /root/other\S+ version \(21\.08\.8\)", said), said
    job_works(fresh)
    fresh.run(f"sed -i 's,/root/other{LINE},{LINE},' /etc/slurm/plugstack.conf")
    option_works(fresh)


@pytest.mark.parametrize("named", [True, False], ids=["named", "not-named"])
def test_an_upgrade_from_0_1_moves_the_energy_plugin_into_its_package(
    debian_packages: Mapping[str, Path], tmp_path: Path, named: bool
) -> None:
    """Where slurm.conf names it, it is there all the time, also as long as that package is not installed."""
    with chroot.site(chroot.fresh_tree()) as site:
        for folder, packages in (("old", debs.before_0_2(debian_packages, tmp_path)),
                                 ("new", debian_packages.values())):
            (site.root / "root" / folder).mkdir()
            for path in packages:
                shutil.copy(path, site.root / "root" / folder)
        energy = debs.field(debs.energy(debian_packages), "Package")
        site.write("/etc/slurm/slurm.conf", f"{'' if named else '#'}AcctGatherEnergyType=acct_gather_energy/mpi_wait\n")
        site.run("apt-get -q update; apt-get -q -y install /root/old/*.deb", network=True)
        site.run(f"(while sleep 0.01; do [ -e {ENERGY} ] || echo gone; done) >/root/gone 2>&1 & echo $! >/root/watcher")
        said = site.run("apt-get -q -y install /root/new/{libmpiwait,mpi-wait-tools,spank-mpi-wait-slurm}*.deb",
                        network=True).stdout
        assert (f"mpi-wait: {energy}. Until then its earlier file stays" in said) == named
        site.run(f"apt-get -q -y install /root/new/{energy}*.deb", network=True)
        site.run("kill $(cat /root/watcher)")
        assert (site.read("/root/gone") == "") == named
        assert site.run(f"dpkg -S {ENERGY}").stdout == f"{energy}: {ENERGY}\n"
        assert site.run("dpkg --audit; dpkg-divert --list '*mpi*'").stdout == ""
        said = site.run(f"apt-get -q -y remove {energy}").stdout
        assert ("slurm.conf still names acct_gather_energy/mpi_wait" in said) == named


def test_removal_and_purge_leave_a_working_slurm_and_nothing_else(fresh: Site) -> None:
    installed = fresh.run("dpkg-query -W -f '${Package} ' 'spank-mpi-wait*' libmpiwait mpi-wait-tools").stdout
    said = fresh.run(f"apt-get -q -y remove {installed}").stdout
    assert "the plugin's line is still there:\n    /etc/slurm/plugstack.conf\n" in said, said
    job_works(fresh)  # the line is still in plugstack.conf
    restart(fresh)
    assert "unrecognized option" in fresh.run("srun --mpi-wait-policy=nap true", check=False).stdout
    assert "ours: " in fresh.read("/etc/mpi-wait/policies/nap.json")
    # The spool was made by hand, and is removed by hand.
    fresh.run("apt-get -q -y purge 'spank-mpi-wait*' libmpiwait mpi-wait-tools"
              " && sed -i /spank_mpi_wait/d /etc/slurm/plugstack.conf && rm -r /shared/mpi-wait")
    restart(fresh)
    left = fresh.run("find / -xdev \\( -iname '*mpi-wait*' -o -iname '*mpi_wait*' -o -iname '*mpiwait*' \\) "
                     "-not -path '/root/*' -not -path '/run/*'").stdout
    assert left == ""


def test_the_packaged_library_is_as_undemanding_as_the_tested_one(
    debian_packages: Mapping[str, Path], tmp_path: Path
) -> None:
    """Distributions compile with flags of their own, which may ask for functions that containers lack."""
    subprocess.run(["dpkg-deb", "-x", debian_packages["libmpiwait"], tmp_path], check=True)
    command = ["objdump", "-T", str(tmp_path) + LIBRARY]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", listed)]
    assert max(versions) <= (2, 17) and "_chk" not in listed


def test_lintian_has_nothing_to_say(debian_packages: Mapping[str, Path]) -> None:
    command = ["lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning", *debian_packages.values()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
