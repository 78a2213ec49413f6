"""Nodes without /etc/slurm: slurmd --conf-server, and a plugstack.conf that slurmctld hands out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import start_or_skip
from tests.lib import default_way, jobs
from tests.lib.grants import wait_for
from tests.lib.jobs import LIBRARY, PROGRAMS
from tests.lib.throwaway import Cluster, project_cluster_arguments
from tests.lib.throwaway.config import SLURMCTLD_PORT
from tests.lib.throwaway.sandbox import ADDRESS

pytestmark = pytest.mark.cluster

CACHE = "/var/spool/slurmd/conf-cache"
NAP = "--mpi-wait-policy=nap"
UNBALANCED = f"{PROGRAMS}/unbalanced 5 5 3"
HIDE = "mount -t tmpfs none /etc/slurm && mount -t tmpfs none /srv/cluster/etc"


@pytest.fixture(scope="module")
def configless() -> Iterator[Cluster]:
    """Two nodes that see no file of the submit host's configuration."""
    cluster = start_or_skip(Cluster(
        nodes=2, slurm_conf={"SlurmctldParameters": "enable_configless", "PlugStackConfig": ""},
        slurmd_arguments=["--conf-server", f"{ADDRESS}:{SLURMCTLD_PORT}"], **project_cluster_arguments()))
    try:
        for node in cluster.nodes:
            cluster.node_run(node, ["sh", "-c", HIDE], check=True)
            cluster.restart(f"slurmd-{node}")
        yield cluster
    finally:
        cluster.stop()


def test_a_job_on_nodes_without_configuration_is_recorded(configless: Cluster) -> None:
    """The line reaches srun, both slurmds, the srun of a batch script, and the writer, which asks slurmdbd alone."""
    for node in configless.nodes:
        assert configless.node_run(node, ["ls", "/etc/slurm", "/srv/cluster/etc"], check=True).stdout.split() == [
            "/etc/slurm:", "/srv/cluster/etc:"]
        assert "spank_mpi_wait.so" in configless.read(node, f"{CACHE}/plugstack.conf")
    direct, _ = jobs.srun(configless, ["-N2", "-n4", NAP, *UNBALANCED.split()])
    script = f"unset SLURM_CONF\nsrun -N2 -n2 {NAP} {UNBALANCED}\nsrun --mpi-wait-policy=umwiat true\n"
    batch = jobs.sbatch(configless, script, ["-N2", "-n4"])
    configless.wait_job(batch)
    shown = configless.read("submit", f"{configless.share}/{batch}.out")
    assert "2 ranks" in shown and "did you mean 'umwait'" in shown
    (first, second), _ = default_way.stored(configless, [direct, batch])
    assert first["nodes"] == second["nodes"] == {"reported": 2, "of": 2}
    assert first["wait"]["ranks"] == 4 and first["policy"] == {"asked": "nap", "used": "nap", "by": "job"}
    assert second["wait"]["ranks"] == 2 and second["policy"]["used"] == "nap"
    assert first["energy"]["joules"] > 0 and second["energy"]["joules"] > 0


def hand_out(cluster: Cluster, text: str) -> None:
    """slurmctld reads it anew and sends it; a slurmstepd reads what its slurmd has got."""
    (cluster.root / "etc/plugstack.conf").write_text(text)
    cluster.run(["scontrol", "reconfigure"], user="root", check=True)
    for node in cluster.nodes:
        wait_for(lambda node=node: cluster.node_run(node, ["cat", f"{CACHE}/plugstack.conf"]).stdout == text)


def test_an_include_is_not_shipped(configless: Cluster) -> None:
    """slurmctld hands out plugstack.conf and no file that it includes: the nodes have no plugin, and jobs run plain."""
    text = (configless.root / "etc/plugstack.conf").read_text()
    (configless.root / "etc/plugstack.d").mkdir()
    (configless.root / "etc/plugstack.d/mpi-wait.conf").write_text(text)
    look = ["srun", "-N2", "-n2", NAP, "sh", "-c", "echo \"<$LD_PRELOAD>\""]
    try:
        hand_out(configless, "include /srv/cluster/etc/plugstack.d/*.conf\n")
        plain = configless.run(look)
        typo = configless.run(["srun", "--mpi-wait-policy=umwiat", "true"])
    finally:
        hand_out(configless, text)
    assert plain.returncode == 0 and plain.stdout.split() == ["<>", "<>"], plain.stderr
    assert "did you mean 'umwait'" in typo.stderr, "the submit host reads the included file"
    assert configless.run(look).stdout.count(LIBRARY) == 2
