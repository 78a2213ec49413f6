"""Runs valgrind's memcheck on the library inside real ranks, and on the commands of mpi-wait-node, leaks included.

An error counts if any frame of its stack lies in the library. The wrappers are in the stack of all that an MPI library
does, so the MPI libraries' own errors are suppressed by name in valgrind.supp. A leak counts if the library allocated
the memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NAP = "rungs=pause+nap;spin_ns=20000;relative_ppm=62500;absolute_ns=0;max_ns=100000;rma_ns=10000"
POLICIES = {"nap": NAP, "profile": "rungs=none;profile=1"}
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
             "mpich": ["mpiexec.mpich", "-n", "2"]}
CALLS = ["Recv", "Waitany", "Barrier", "Allreduce"]
PLANT = ("lane->open_since_ns = lane->open_last_ns = now_ns;",
         'uint64_t planted[4]; __asm__ volatile("" : : "r"(planted) : "memory"); if (planted[2] == 4711) '
         "process_event_end(); lane->open_since_ns = lane->open_last_ns = now_ns;")
LIBRARY_FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-I.", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden",
                 "-ftls-model=initial-exec", "-Wl,--version-script=preload/preload.map", '-DMPIWAIT_RELEASE="x"']


def ran(command: list[object], **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True,  # type: ignore[call-overload,no-any-return]
                          check=False, **how)


def program(folder: Path, mpi: str) -> Path:
    target = folder / f"late-{mpi}"
    sources = sorted((ROOT / "tests/lib/programs/late").glob("*.c"))
    done = ran([f"mpicc.{mpi}", "-O1", "-g", "-I.", "-o", target, *sources])
    if done.returncode:
        raise RuntimeError(done.stderr)
    return target


def planted(folder: Path, library: Path) -> Path:
    """Builds the library with one read of uninitialised memory; all other objects are the build's."""
    spoilt, target = folder / "wait.c", folder / "libmpiwait.so"
    objects = [*Path(f"{library}.p").glob("*.o"), *(library.parent / "libwrappers.a.p").glob("*.o")]
    others = [part for part in objects if part.name != "wait_wait.c.o"]
    done = ran(["/usr/bin/python3", "tests/lib/doubles/mutate.py", "preload/wait/wait.c", spoilt, *PLANT])
    if done.returncode == 0:
        done = ran(["gcc", *LIBRARY_FLAGS, *others, spoilt, "-o", target])
    if done.returncode:
        raise RuntimeError(done.stderr)
    return target


def stack(error: xml.Element) -> list[str]:
    return [f"{frame.findtext('fn', '?')} ({Path(frame.findtext('obj', '?')).name})" for frame in error.iter("frame")]


def is_ours(kind: str, frames: list[str]) -> bool:
    """Returns true if the error is the library's. A leak is the allocator's: an MPI library's leaks are its own."""
    if kind.startswith("Leak"):
        frames = [frame for frame in frames if "(vgpreload" not in frame and "(libc.so" not in frame][:1]
    return any("(libmpiwait.so)" in frame for frame in frames)


def errors_of(path: Path) -> list[str]:
    """Returns the errors of one rank in which the library takes part."""
    try:
        found = [(error.findtext("kind", "?"), stack(error)) for error in xml.parse(path).getroot().iter("error")]
    except xml.ParseError as problem:
        return [f"{path.name}: {problem}"]
    return [f"{kind}: {' < '.join(frames)}" for kind, frames in found if is_ours(kind, frames)]


def worked(policy: str, segment: dict) -> bool:
    """Returns true if both ranks wrote their slots, and slept exactly if the policy lets them."""
    lanes = [slot["lane"][0] for slot in segment["slots"]]
    naps = sum(lane["naps"].get("nap", 0) for lane in lanes)
    waits = sum(call["waits"] for lane in lanes for call in lane["calls"].values())
    return len(lanes) == 2 and waits > 0 and (naps > 0) == (policy == "nap")


def ranks_problem(folder: Path, mpi: str, policy: str, library: Path) -> str:
    """Returns what memcheck reports of two ranks that wait for each other, "" for nothing."""
    logs = folder / f"{mpi}-{policy}-{library.parent.name}"
    logs.mkdir()
    valgrind = ["valgrind", "--quiet", "--leak-check=full", "--child-silent-after-fork=yes", "--xml=yes",
                f"--xml-file={logs}/%p.xml", f"--suppressions={HERE / 'valgrind.supp'}"]
    done = ran(["/usr/bin/python3", "tests/lib/doubles/segment_tool.py", "--preload", library, "--config",
                POLICIES[policy], "--", *LAUNCHERS[mpi], *valgrind, program(folder, mpi), 60, 1, *CALLS], timeout=300)
    found = sorted(logs.iterdir())
    if done.returncode or len(found) != 2:
        return f"{mpi}, {policy}: exit status {done.returncode}, {len(found)} reports\n{done.stderr[-2000:]}"
    if not worked(policy, json.loads(done.stdout)):
        return f"{mpi}, {policy}: the library did not do its work\n{done.stdout[:2000]}"
    problems = [problem for path in found for problem in errors_of(path)]
    return "\n".join(f"{mpi}, {policy}: {problem}" for problem in problems)


def ranks(folder: Path, library: Path) -> str:
    """Checks the library in ranks of both MPIs; also checks that each finds the planted error."""
    problems = [ranks_problem(folder, mpi, policy, library) for mpi in LAUNCHERS for policy in POLICIES]
    broken = planted(folder, library)
    for mpi in LAUNCHERS:
        noticed = ranks_problem(folder, mpi, "nap", broken)
        if "wait_" not in noticed or "libmpiwait.so" not in noticed:
            problems.append(f"{mpi}: a read of what nobody has written was not noticed: {noticed or 'nothing'}")
    return "\n".join(filter(None, problems))


PLACES = "mount -t tmpfs none /run && mount -t tmpfs none /var/spool && mkdir /run/spool"
JOB = {"SLURMD_NODENAME": "c1", "SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "1000",
       "SLURM_CLUSTER_NAME": "test", "SLURM_JOB_NODELIST": "c1"}
SITE = f"default=nap policies={ROOT}/policies sink=file spool=/run/spool"
VERBS = [
    ("--version", 0), ("--help", 0), ("nonsense", 64), ("sweep --collect x", 64), ("probe color=red", 64),
    (f"probe {SITE}", 0), (f"prolog {SITE}", 0),
    ("restore --dry-run", 0), ("restore", 0), (f"epilog {SITE}", 0),
    (f"drain --first-delay 0 --collect 0 {SITE}", 0),
    (f"prolog {SITE}", 0), (f"epilog {SITE}", 0), (f"sweep --only-move {SITE}", 0),
    (f"sweep --now {SITE}", 0), (f"sweep {SITE}", 0),
    ("sweep sink=file spool=/nonexistent", 1),
]


def verbs(folder: Path, helper: Path) -> str:
    """Runs mpi-wait-node's commands one after the other in directories of its own: no error, and no leak."""
    log = folder / "node"
    valgrind = (f"valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite,indirect,possible"
                f" --error-exitcode=66 --child-silent-after-fork=yes --log-file={log}")
    problems = []
    script = [PLACES] + [f"{valgrind}-{index} {helper} {words} </dev/null >{log}-out-{index} 2>&1; echo $?"
                         for index, (words, _) in enumerate(VERBS)]
    done = ran(["unshare", "-m", "sh", "-c", "\n".join(script)], env=dict(os.environ, **JOB), timeout=300)
    statuses = done.stdout.split()
    for index, ((words, expected), status) in enumerate(zip(VERBS, statuses)):
        report = Path(f"{log}-{index}").read_text() + Path(f"{log}-out-{index}").read_text()
        if int(status) != expected:
            problems.append(f"mpi-wait-node {words}: exit status {status} instead of {expected}\n{report[-3000:]}")
    if len(statuses) != len(VERBS):
        problems.append(f"mpi-wait-node: {len(statuses)} of {len(VERBS)} verbs: {done.stderr[-1000:]}")
    return "\n".join(problems)
