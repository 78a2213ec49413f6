"""
From a bare Debian 12 without Recommends to a job's report, by the README's words alone: the packages are built there,
installed on two nodes that have Slurm and a directory in common, a job of both nodes is reported, all is removed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lib.site import chroot, slurm
from tests.lib.site.chroot import ROOT, Site
from tests.lib.site.readme import administrators_commands, run_as_written

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
MPI = ("openmpi-bin", "libopenmpi-dev", "libpmix-dev", "gcc", "libc6-dev")
TREE = "/root/spank-mpi-wait"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What the README's first commands make in a checkout, on a machine that has Debian's essential packages."""
    folder = tmp_path_factory.mktemp("bare")
    building, _installing, _removing = administrators_commands()
    with chroot.site(chroot.fresh_tree(())) as bare:
        checkout(bare)
        run_as_written(bare, building, TREE)
        return [Path(shutil.copy(path, folder)) for path in (bare.root / f"{TREE[1:]}/build/deb").glob("*.deb")]


def checkout(site: Site) -> None:
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True,
                           check=True).stdout
    (site.root / TREE[1:]).mkdir()
    archive = subprocess.Popen(["tar", "-C", ROOT, "--null", "-T", "-", "-c"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "-C", site.root / TREE[1:], "-x"], stdin=archive.stdout)
    assert archive.stdin is not None
    archive.stdin.write(names)
    archive.stdin.close()
    assert (archive.wait(timeout=60), unpack.wait(timeout=60)) == (0, 0)


@pytest.fixture(scope="module")
def nodes(packages: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    """Slurm runs on both, the packages lie in /root, nothing of ours is installed."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    with ExitStack() as stack:
        tree = chroot.fresh_tree((*chroot.SLURM, *MPI))
        first = stack.enter_context(chroot.site(tree, shared))
        second = stack.enter_context(chroot.site(tree, shared, first))
        slurm.start(first, second)
        for site in (first, second):
            for path in packages:
                shutil.copy(path, site.root / "root")
        yield [first, second]


def test_two_nodes_a_job_its_report_and_removal(nodes: list[Site]) -> None:
    _building, installing, removing = administrators_commands()
    for site in nodes:
        site.run("apt-get -q update", network=True)
        run_as_written(site, installing)
    first = nodes[0]
    slurm.wait_idle(first, 2)
    first.run(f"install -d -o alice /shared/alice && cat >/shared/alice/solver.c <<'EOF'\n"
              f"{(ROOT / 'contrib/unbalanced.c').read_text()}\nEOF\ncd /shared/alice && mpicc -o solver solver.c")
    script = ("srun --mpi=pmix --mpi-wait-policy=nap,csv=times -N2 -n2 --overcommit sh -c "
              "'[ $SLURM_PROCID = 0 ] && echo $SLURM_JOB_ID; exec /shared/alice/solver 5 20 2'")
    said = first.run(f"cd /shared/alice && runuser -u alice -- env OMPI_MCA_btl_tcp_if_include=lo {script}").stdout
    job = next(line for line in said.splitlines() if line.isdigit())
    # slurmd runs in a chroot here, and the directory is the job's in there.
    assert len(list((first.root / "shared/alice/times").iterdir())) == 4, said
    report = slurm.wait_for(first, f"mpi-wait report {job}")
    assert "nap, asked for by the job" in report and "2 nodes" in report and "2 MPI ranks" in report, report
    assert "Allreduce" in report
    for site in nodes:
        run_as_written(site, removing)
        left = site.run("dpkg-query -W -f '${Package} ' 'spank-mpi-wait*' libmpiwait mpi-wait-tools", check=False)
        assert not left.stdout.split("dpkg-query")[0].strip(), left.stdout
    slurm.wait_idle(first, 2)
    assert first.run("runuser -u alice -- srun -N2 hostname").stdout.split() in (["node1", "node2"], ["node2", "node1"])
