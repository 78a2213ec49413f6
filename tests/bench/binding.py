"""Launches ranks bound to cores of their own, as the plugin binds the tasks of a step.

Where ranks are not bound, the kernel may put a rank that wakes on the core that another one polls on, and leave both
there for milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench import machine, variants
from tests.bench.variants import Variant
from tests.lib.libraries import Mpi


def prefix(cpus: Sequence[int]) -> tuple[str, ...]:
    """Returns the words before a rank's program that bind rank r to the CPU at index r. A rank without one fails."""
    return (str(variants.BUILT / "bound"), ",".join(map(str, cpus)))


def shared(cpus: Sequence[int], ranks: int) -> list[int]:
    """Returns a CPU for each rank. Ranks that share one are neighbours."""
    return [cpus[rank * len(cpus) // ranks] if len(cpus) < ranks else cpus[rank] for rank in range(ranks)]


def options_of(mpi: Mpi) -> tuple[str, ...]:
    """Returns the options with which the launcher leaves the ranks on their cores."""
    if mpi.abi == "openmpi":
        return ("--bind-to", "none")
    return ("-genv", "I_MPI_PIN", "0") if mpi.name.startswith("intel") else ()


def launch(mpi: Mpi, variant: Variant, ranks: int, command: list[str], options: tuple[str, ...] = ()) -> str:
    """Launches as variants.launch does, each rank on a core of its own as long as there are enough."""
    words = prefix(shared(machine.cpus(), ranks))
    return variants.launch(mpi, variant, ranks, command, (*options_of(mpi), *options), words)
