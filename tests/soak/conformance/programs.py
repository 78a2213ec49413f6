"""The programs, as data: how each is had, what it is given, how it is run, and what of its output must be the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.codes import HPCC_INPUT, hpcc_input
from tests.lib.libraries import MPIS, Mpi, prefix

INPUTS = Path(__file__).resolve().parent / "inputs"
INTEL = next(mpi.wheel for mpi in MPIS if mpi.name == "intel")  # the wheel that has the IMB programs
OPENMPI = ("openmpi", "openmpi-5")

LAMMPS_EXAMPLES = Path("/usr/share/lammps/examples")
PSEUDO = Path("/usr/share/espresso/pseudo")
SIZES = "which benchmarks ran, with which sizes and repetitions; they check no data"
IMB = "-iter 5 -iter_policy off -time 1000 -msglog 14:16"
DUMP = "\nwrite_dump all custom final.txt id x y z vx vy vz modify sort id format float %.17g\n"
LAMMPS_KEEP = (r"^ +\d+ +[-\d.]", r"^-*[A-Za-z_]+ +=", "^[Ss]tep", "^Nlocal", "^Nghost", "^Neighs", "^Total #",
               "builds", r"^\d+ [-\d.]+(e[-+]\d+)? [-\d.]+")
HPCC_KEEP = (r"\|\|", r"max\(\|x", "[Rr]esidual", "[Ff]ound", "completed", "skipped", "[Ee]rror", "_Rnorm", "norm[1I]=",
             r"^[A-Za-z]+_([nN]|NB?|nb|nprow|npcol|Algorithm|ExeUpdates|VectorSize)=", "^Success", "^CommWorldProcs")

Prepare = Callable[[Path, bool], None]


def nothing(folder: Path, short: bool) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Program:
    """`binary` is a path, or gives that for an MPI."""

    name: str
    title: str
    compared: str
    binary: str | Callable[[Mpi], str]
    arguments: str = ""
    mpis: tuple[str, ...] = OPENMPI[:1]
    section: str = ""  # of packages.txt
    needed: tuple[str, ...] = ()  # files besides the binary, or patterns of their names
    ranks: int = 2
    files: tuple[str, ...] = ()  # that it writes; "stderr" is one
    keep: tuple[str, ...] = ()  # lines that are compared; none: all
    cut: tuple[str, ...] = ()  # what is not compared of a line
    prepare: Prepare = nothing
    traps: bool = False  # it handles SIGILL, by which instructions are emulated
    short: str | None = None  # the arguments of the short form, which other programs do not have

    @property
    def compares_data(self) -> bool:
        """What it computes or receives, and not only what it did."""
        return self.compared != SIZES

    def is_called(self, name: str) -> bool:
        return self.name == name or self.name.startswith(f"{name}-")

    def path(self, mpi: Mpi) -> str:
        return self.binary if isinstance(self.binary, str) else self.binary(mpi)

    def needs(self, mpi: Mpi) -> tuple[str, ...]:
        return (self.path(mpi), *self.needed)

    def words(self, mpi: Mpi, short: bool) -> list[str]:
        text = self.short if short and self.short is not None else self.arguments
        return [self.path(mpi), *text.split()]


def copied(name: str, folder: Path, short: bool) -> None:
    """The files of that folder of inputs."""
    shutil.copytree(INPUTS / name, folder, dirs_exist_ok=True)


def hpcc_prepare(folder: Path, short: bool) -> None:
    """Without lookahead, in which HPL cuts its updates where a panel arrives meanwhile: its residual tells of times."""
    hpcc_input(folder, 300)
    text = (folder / "hpccinf.txt").read_text()
    assert " DEPTHs" in text
    (folder / "hpccinf.txt").write_text(re.sub(r"(?m)^\d+(?= +DEPTHs)", "0", text))


def netpipe(mpi: Mpi) -> str:
    return "/usr/bin/NPopenmpi" if mpi.name != "mpich" else "/usr/bin/NPmpich2"


def imb(program: str, mpi: Mpi) -> str:
    return str(prefix(INTEL) / "bin" / program)


def lammps_example(name: str, steps: int, folder: Path, short: bool) -> None:
    """Fewer steps, and all digits in the end."""
    shutil.copytree(LAMMPS_EXAMPLES / name, folder, dirs_exist_ok=True)
    script = folder / f"in.{name}"
    text = re.sub(r"(?m)^run(\s+)\d+", rf"thermo {steps // 10}\nrun\g<1>{steps}", script.read_text())
    script.write_text(text + DUMP)


def espresso_prepare(name: str, folder: Path, short: bool) -> None:
    copied(name, folder, short)
    (folder / "pseudo").symlink_to(PSEUDO)


def espresso(name: str, title: str, arguments: str, ranks: int = 2) -> Program:
    return Program(f"espresso-{name}", f"Quantum ESPRESSO, {title}", "energies, forces, eigenvalues", "/usr/bin/pw.x",
                   f"{arguments} -in {name}.in", section="espresso", needed=(f"{PSEUDO}/Si.pz-vbc.UPF",), ranks=ranks,
                   cut=(r"[\d.]+s CPU.*", "starts on .*", r"time spent up to now is.*", "terminated on:.*",
                        r"dynamical RAM.*|per-process.*", r"This run was terminated.*"),
                   keep=("[Ee]nergy", "[Ff]orce", r"^ +-?\d+\.\d+ +-?\d", "convergence", "iteration #", "k =",
                         "estimated"),
                   prepare=partial(espresso_prepare, "espresso"), traps=True)  # gfortran's own handler


def lammps(name: str, title: str, steps: int, ranks: int = 2) -> Program:
    return Program(f"lammps-{name}", f"LAMMPS, {title}", "energies, and every atom's place and speed, 17 digits",
                   "/usr/bin/lmp", f"-in in.{name} -log none", OPENMPI, "examples",
                   (str(LAMMPS_EXAMPLES / name / f"in.{name}"),), ranks, ("final.txt",), LAMMPS_KEEP,
                   prepare=partial(lammps_example, name, steps))


def imb_program(name: str, title: str, arguments: str = IMB, ranks: int = 2) -> Program:
    return Program(f"imb-{name.lower()}", f"Intel's MPI benchmarks, {title}", SIZES, partial(imb, f"IMB-{name}"),
                   arguments, ("mpich-5", "intel"), ranks=ranks, keep=(r"^# *[A-Z]", r"^ +\d+ +\d+ "),
                   cut=(r"(?<=\d) +\d+\.\d+.*", r"^# (Date|Machine|System|Release|Version|.*IMB-).*"))


PROGRAMS: tuple[Program, ...] = (
    Program("hpcc", "HPC Challenge", "residuals, verdicts, norms, sizes", "/usr/bin/hpcc", mpis=OPENMPI, section="hpcc",
            needed=(str(HPCC_INPUT),), files=("hpccoutf.txt",), keep=HPCC_KEEP, prepare=hpcc_prepare, short="",
            cut=("(?<=^Scaled residual:).*",)),  # of a matrix by the second in which it runs; its verdict follows
    Program("netpipe", "NetPIPE's integrity check, sizes up to 1 MiB", "the verdict on each size", netpipe,
            "-i -n 50 -u 1048576 -o np.out", (*OPENMPI, "mpich"), "netpipe", files=("stderr", "np.out"),
            keep=("Integrity", r"^ *\d+ \d+$"), short="-i -n 20 -u 1048576 -o np.out"),
    Program("netpipe-any", "the same, any source, preposted, both ways (hangs by itself with Debian's MPICH)",
            "the verdict on each size", netpipe, "-i -a -z -2 -n 50 -u 1048576 -o np.out", OPENMPI[:1], "netpipe",
            files=("stderr", "np.out"), keep=("Integrity", r"^ *\d+ \d+$")),
    Program("lammps-melt", "LAMMPS, a melting Lennard-Jones crystal",
            "energies, and every atom's place and speed, 17 digits", "/usr/bin/lmp",
            "-in in.melt -log none -var steps 200 -var cells 6", OPENMPI, "lammps", files=("final.txt",),
            keep=LAMMPS_KEEP, prepare=partial(copied, "lammps-melt"),
            short="-in in.melt -log none -var steps 100 -var cells 6"),
    lammps("peptide", "a peptide in water, PPPM and SHAKE", 30),
    lammps("friction", "two sliding surfaces", 500),
    lammps("micelle", "a micelle, more ranks than cores here", 300, ranks=4),
    espresso("scf", "silicon, plane waves shared", ""),
    espresso("md", "displaced silicon moves, k-points shared", "-nk 2"),
    imb_program("MPI1", "point to point and collectives"),
    imb_program("NBC", "non-blocking collectives", "-iter 2 -iter_policy off -time 1000 -msglog 8:10"),
    imb_program("RMA", "one-sided", "-iter 5 -iter_policy off -time 1000 -msglog 8:10"),
)
