"""The parts of this project that a cluster shows: the staged installation and the test programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.lib.throwaway.cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[3]
PREFIX = "/opt/mpi-wait"
PROGRAMS = "/opt/mpi-wait-tests"


def project_cluster_arguments() -> dict[str, Any]:
    """Returns `plugstack` and `binds` for `Cluster`, from what has been built so far.

    The staged installation is $MPI_WAIT_STAGE, or build/stage/opt/mpi-wait in the repository. Without one the cluster
    is plain Slurm.
    """
    stage = Path(os.environ.get("MPI_WAIT_STAGE", REPOSITORY / "build/stage/opt/mpi-wait"))
    programs = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build")) / "tests/lib/programs"
    binds = {target: source for target, source in ((PREFIX, stage), (PROGRAMS, programs))
             if source.is_dir()}
    plugin = "lib/slurm/spank_mpi_wait.so"
    plugstack = ""
    if (stage / plugin).exists():
        plugstack = f"optional {PREFIX}/{plugin} spool={Cluster.spool}\n"
    return {"plugstack": plugstack, "binds": binds}
