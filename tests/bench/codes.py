"""Other people's programs, as Debian 12 packages them, and the project's own inputs for them, in inputs/.

Each waits in another way: two ranks of unequal work, transposes, a pipeline, Global Arrays, which poll, and ranks with
threads.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.variants import LADDER
from tests.lib.libraries import ROOT

INPUTS = Path(__file__).resolve().parent / "inputs"
HPCC_CARRIED = ROOT / "codes/_hpccinf.txt"  # path to which tests/bench/carry copies it
HPCC_INPUT = HPCC_CARRIED if HPCC_CARRIED.exists() else Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
HPCC_SIZES = (3000, 300)
POLLS, BOUNDED = "nap, polls=on", "nap, threads=bounded"
BARE_PASSIVE = "no library, OMP_WAIT_POLICY=passive"


@dataclass(frozen=True)
class Code:
    """A program. `words`: its command, on the PATH or one of the project's that is built. `before`: a command that runs
    in its directory first."""

    name: str
    words: tuple[str, ...]
    package: str = ""
    inputs: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    standard_input: str = ""
    variables: dict[str, str] = field(default_factory=dict, hash=False)
    more: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Replaces `words` in the short form; empty: the short form has no such program."""

    @property
    def policies(self) -> tuple[str, ...]:
        return ("profile", LADDER, "nap", *self.more)


ONE_THREAD = {"OMP_NUM_THREADS": "1"}
CP2K = {"CP2K_DATA_DIR": "/usr/share/cp2k"}
CODES = (
    Code("unbalanced", ("unbalanced", "200", "5", "1"), short=("unbalanced", "10", "5", "1")),
    Code("HPC Challenge", ("hpcc",), "hpcc", short=("hpcc",)),
    Code("LAMMPS, atoms in 0.4 of the box", ("lmp", "-in", "liquid.in", "-log", "none", "-screen", "none"), "lammps",
         ("liquid.in",), variables=ONE_THREAD),
    Code("Quantum ESPRESSO, silicon", ("pw.x", "-in", "silicon.in"), "quantum-espresso",
         ("silicon.in", "silicon-atom.in"), before=("ld1.x",), standard_input="silicon-atom.in",
         variables=ONE_THREAD),
    Code("NWChem, water", ("nwchem.openmpi", "water.nw"), "nwchem-openmpi", ("water.nw",), variables=ONE_THREAD,
         more=(POLLS,)),
    Code("CP2K, water", ("cp2k.popt", "water.inp"), "cp2k", ("water.inp",), variables={**ONE_THREAD, **CP2K}),
    Code("CP2K, 2 threads a rank", ("cp2k.psmp", "water.inp"), "cp2k", ("water.inp",),
         variables={"OMP_NUM_THREADS": "2", **CP2K}, more=(BOUNDED, BARE_PASSIVE)),
    Code("as NPB's LU", ("kernels", "lu", "4000")),
    Code("as NPB's CG", ("kernels", "cg", "30000")),
)
EXAML = Code(
    "ExaML, a tree of 16 sequences",
    ("/usr/lib/examl/bin/examl-sse3", "-s", "alignment.binary", "-t", "start", "-n", "found", "-m", "GAMMA", "-p", "1"),
    "examl", before=("parse-examl", "-s", "alignment", "-n", "alignment", "-m", "DNA"), standard_input="alignment")
"""Only the benchmark scale runs it: each of its many short waits ends when the last rank arrives."""
SEQUENCES, MUTATED = 16, 0.05


def executable(code: Code) -> str | None:
    """Returns the path of a code's program; if its command is a path, the PATH is searched too."""
    return shutil.which(code.words[0]) or shutil.which(Path(code.words[0]).name)


def alignment_make(folder: Path, sites: int) -> None:
    """Writes sequences that have evolved by chance, the same each time, and a starting tree."""
    chance = random.Random(1)
    sequences = [chance.choices("ACGT", k=sites)]
    while len(sequences) < SEQUENCES:
        parent = sequences[chance.randrange(len(sequences))]
        child = list(parent)
        for sequence in (parent, child):
            for _ in range(int(MUTATED * sites)):
                sequence[chance.randrange(sites)] = chance.choice("ACGT")
        sequences.append(child)
    lines = [f"s{number} {''.join(sequence)}" for number, sequence in enumerate(sequences)]
    (folder / "alignment").write_text("\n".join([f"{SEQUENCES} {sites}", *lines]) + "\n")
    nodes = [f"s{number}" for number in range(SEQUENCES)]
    while len(nodes) > 3:  # an unrooted tree: three branches meet in its first node
        nodes = [*nodes[2:], f"({nodes[0]},{nodes[1]})"]
    (folder / "start").write_text(f"({','.join(nodes)});\n")


def hpcc_input(folder: Path, size: int, rows: int = 1, columns: int = 2) -> None:
    """Returns the shipped example, adapted to a grid of that many ranks."""
    lines = HPCC_INPUT.read_text().splitlines()
    for place, text in ((5, f"{size} Ns"), (7, "64 NBs"), (10, f"{rows} Ps"), (11, f"{columns} Qs")):
        lines[place] = text
    (folder / "hpccinf.txt").write_text("\n".join(lines) + "\n")
