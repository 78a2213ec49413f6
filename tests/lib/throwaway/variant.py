"""A cluster whose spare nodes become variants: nodes with another plugstack, hardware or slurmd.

A variant costs a tenth of a second, a cluster seconds. A variant has Cluster's interface. Its nodes are a partition of
the fleet. Its commands run on its first node, where they see the variant's slurm.conf and plugstack.conf, and go to its
partition unless they name another one.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.lib.throwaway import config, daemons
from tests.lib.throwaway.cluster import Cluster
from tests.lib.throwaway.errors import ClusterError
from tests.lib.throwaway.inside import Sandbox
from tests.lib.throwaway.sandbox import ROOT, SUBMIT

SPARES = (40, 6)
CONFIGURATION = ("slurm.conf", "plugstack.conf")
PLACES = (str(ROOT / "etc"), "/etc/slurm")


class Fleet(Cluster):
    """A cluster that makes variants on demand."""

    def __init__(self, nodes: int = 2, spares: tuple[int, int] = SPARES, **options: Any) -> None:
        super().__init__(nodes, spares=spares, **options)
        self._variants: dict[str, Variant] = {}

    def variant(
        self, plugstack_arguments: str = "", *, nodes: int = 1, plugstack: str | None = None,
        slurm_conf: Mapping[str, str] | None = None, model: Mapping[str, Any] | None = None, simulated: bool = True,
        slurmd_arguments: Sequence[str] = (), files: Mapping[str, str] | None = None, name: str = "",
    ) -> Variant:
        """Returns a variant of one or two nodes. The same arguments return the same variant, started again if it was
        stopped.

        plugstack_arguments: further words on the fleet's line. plugstack: another text instead. slurm_conf: changes for
        slurmd, slurmstepd and the clients; slurmctld keeps the fleet's own. files: path to the text of a program that
        these nodes show there. name: variants of different names are different ones.
        """
        options = {"plugstack": self._line(plugstack_arguments) if plugstack is None else plugstack,
                   "slurm_conf": dict(slurm_conf or {}), "model": dict(model or {}), "simulated": simulated,
                   "slurmd_arguments": list(slurmd_arguments), "files": dict(files or {})}
        key = json.dumps([nodes, name, options], sort_keys=True)
        if key not in self._variants:
            self._variants[key] = Variant(self, *self._free(nodes), **options)
        return self._variants[key].start()

    @contextmanager
    def variants(self) -> Iterator[Fleet]:
        """Stops the variants that were started within the context: one idle node costs little, forty cost much."""
        before = {variant for variant in self._variants.values() if variant.is_up}
        yield self
        for variant in self._variants.values():
            if variant not in before:
                variant.stop()

    def _line(self, arguments: str) -> str:
        return f"{self._plugstack.rstrip()} {arguments}".rstrip() + "\n"

    def _free(self, nodes: int) -> tuple[str, list[str], int]:
        """Returns partition, nodes and the first node's index of a spare group that is free."""
        taken = {variant.partition for variant in self._variants.values()}
        index = len(self.nodes)
        for partition, group in self._spares.items():
            if partition not in taken and len(group) == nodes:
                return partition, group, index
            index += len(group)
        raise ClusterError(f"no spare group of {nodes} nodes is left (there are {SPARES}, see variant.py)")


class Variant(Cluster):
    """One or two nodes of a fleet that differ from the others."""

    def __init__(self, fleet: Fleet, partition: str, nodes: list[str], first_index: int, *, plugstack: str,
                 slurm_conf: dict[str, str], model: dict[str, Any], simulated: bool, slurmd_arguments: list[str],
                 files: dict[str, str]) -> None:
        super().__init__(0, fleet.profile, simulated=simulated, model=model, slurm_conf=slurm_conf,
                         slurmd_arguments=slurmd_arguments)
        self.nodes = nodes
        self.partition = partition
        self.spool = str(ROOT / "spools" / partition)
        self.is_up = False
        self._fleet = fleet
        self._first_index = first_index
        self._files = files
        self._plugstack = plugstack.replace(Cluster.spool, self.spool)
        self._host = nodes[0]
        self._environment |= {f"{command}_PARTITION": partition for command in ("SLURM", "SBATCH", "SALLOC")}

    @property
    def fleet(self) -> Fleet:
        return self._fleet

    @property
    def inside(self) -> Sandbox:
        return self._fleet.inside

    @property
    def daemons(self) -> daemons.Daemons:
        return self._fleet.daemons

    @property
    def root(self) -> Path:
        """Returns the shared directory as the first node sees it: with its own plugstack.conf."""
        return self.inside.path(ROOT, self.nodes[0])

    def start(self) -> Variant:
        if not self.is_up:
            self._write_configuration()
            for node in self.nodes:
                self._hold(node)
            simnodes = [daemons.simnode(node, self._model) for node in self.nodes if self.simulated]
            slurmds = [daemons.slurmd(node, self._first_index + index, self._slurmd_arguments, {})
                       for index, node in enumerate(self.nodes)]
            for daemon in (*simnodes, *slurmds):
                self.daemons.add(daemon)
            self._start_all([daemon.name for daemon in simnodes])
            self._start_all([daemon.name for daemon in slurmds])
            self.wait_nodes()
            self.is_up = True
        return self

    def stop(self) -> None:
        """Ends the processes on its nodes, and their namespaces; the fleet stays."""
        if not self.is_up:
            return
        self.is_up = False
        for node in self.nodes:
            self.kill(f"slurmd-{node}")
            down = ["scontrol", "update", f"nodename={node}", "state=down", "reason=not needed now"]
            self.node_run(SUBMIT, down, check=True)
            for pid in [*self.pids(node), self.inside.holders.pop(node)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def all_logs(self) -> dict[str, str]:
        return self._fleet.all_logs()

    def logs(self, name: str) -> str:
        return self._fleet.logs(name)

    def put(self, source: Path, name: str | None = None, mode: int = 0o755) -> str:
        return self._fleet.put(source, name, mode)

    def _hold(self, node: str) -> None:
        shown = {f"{place}/{name}": f"{self._folder}/{name}" for name in CONFIGURATION for place in PLACES}
        shown |= {target: f"{self._folder}/{index}" for index, target in enumerate(self._files)}
        holder = daemons.holder(node, shown)
        self.daemons.add(holder)
        self._start_all([holder.name])
        pid = self.daemons.pid(holder.name)
        assert pid
        self.inside.add_holder(node, pid)

    @property
    def _folder(self) -> Path:
        return ROOT / "variants" / self.partition

    def _write_configuration(self) -> None:
        folder = self.inside.path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        fleet = self._fleet
        changes = {**fleet._slurm_conf, **self._slurm_conf}
        conf = config.slurm_conf(fleet.nodes, fleet.profile, changes, fleet._spares)
        for name, text in zip(CONFIGURATION, (conf, self._plugstack), strict=True):
            (folder / name).write_text(text)
        for index, text in enumerate(self._files.values()):
            (folder / str(index)).write_text(text)
            (folder / str(index)).chmod(0o755)
        self.inside.path(self.spool).mkdir(parents=True, exist_ok=True)
