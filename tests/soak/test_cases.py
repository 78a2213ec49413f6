"""Programs and environments as users have them: each ends with the same status and prints the same under `off` and
under `nap`, and the record has the ranks that ran.

All cases are steps of one job, so that the cluster is booted once and one record is read. cases.md lists every case
that was tried, with the test that holds it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import start_or_skip
from tests.lib import jobs
from tests.lib.jobs import PROGRAMS
from tests.lib.throwaway import Cluster, project_cluster_arguments

pytestmark = [pytest.mark.cluster, pytest.mark.soak]
SOURCE = Path(__file__).resolve().parent / "cases/ends.c"
UNBALANCED = f"{PROGRAMS}/unbalanced 5 5 2"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
POLICIES = ("off", "nap")
IN_THE_QUEUE = re.compile(r"^srun: (Job \d+ step creation|Step created) .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """`script` runs by bash in each task of a step; `ranks` is what the record should have of the step under nap."""

    name: str
    script: str
    ranks: int
    srun: str = "-n2"


def preloading(name: str, library: str) -> Case:
    """`library` is preloaded by the user, in front of the program alone."""
    return Case(name, f'export LD_PRELOAD="{LIBRARIES}/{library}${{LD_PRELOAD:+:$LD_PRELOAD}}"; exec {UNBALANCED}', 2)


CASES = [
    Case("more ranks than cores", f"exec {UNBALANCED}", 5, srun="-n5"),
    *[Case(f"ends by {how}", f"exec $ENDS {how}", 2, srun="-n2 --kill-on-bad-exit=1")
      for how in ("abort", "segv", "exit", "kill", "return")],
    Case("ends in a signal handler", "exec $ENDS handler", 2, srun="-n2 --kill-on-bad-exit=0"),
    Case("ended by timeout", "exec timeout 2 $ENDS finalize", 2),
    *[Case(f"without {variable}", f"unset {variable}; exec {UNBALANCED}", 2)
      for variable in ("HOME", "LANG", "PATH", "USER", "TMPDIR")],
    Case("a home that does not exist", f"export HOME=/nonexistent; exec {UNBALANCED}", 2),
    Case("an empty environment", f"exec env -i {UNBALANCED}", 0, srun="-n1"),
    *[Case(f"ulimit {limit}", f"ulimit {limit} && exec {UNBALANCED}", 2)
      for limit in ("-v 600000", "-n 64", "-n 100", "-l 0", "-c 0", "-s 256", "-u 4096")],
    Case("umask 077", f"umask 077; exec {UNBALANCED}", 2),
    Case("a working directory that cannot be written", f"cd /proc && exec {UNBALANCED}", 2),
    *[preloading(f"{name} preloaded", library)
      for name, library in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"),
                            ("libeatmydata", "libeatmydata.so"), ("zlib", "libz.so.1"))],
    Case("libfaketime, clocks ten times as fast", f"exec faketime -f '+0 x10' {UNBALANCED}", 2),
    Case("libfaketime, clocks ten times as slow", f"exec faketime -f '+0 x0.1' {UNBALANCED}", 2),
    Case("fakeroot", f"exec fakeroot {UNBALANCED}", 1, srun="-n1"),
    Case("malloc checks", f"export MALLOC_CHECK_=3 MALLOC_PERTURB_=7; exec {UNBALANCED}", 2),
    Case("LD_BIND_NOW", f"export LD_BIND_NOW=1; exec {UNBALANCED}", 2),
    *[Case(f"through {word.split()[0]}", f"exec {word} {UNBALANCED}", 2)
      for word in ("stdbuf -oL", "nice -n 5", "numactl --localalloc", "taskset 3", "setsid -w", "ionice -c 3",
                   "chrt -o 0", "setarch -R", "strace -f -qq -o /dev/null -e trace=none", "valgrind -q")],
    Case("under gdb", f"gdb -q -batch -ex run --args {UNBALANCED} 2>/dev/null | grep checksum || true", 2),
    *[Case(f"started by {name}", script, 2) for name, script in (
        ("perl", f"perl -e 'system(q({UNBALANCED})); exit $? >> 8'"),
        ("python, which closes descriptors",
         f"/usr/bin/python3 -c 'import subprocess, sys; sys.exit(subprocess.call(\"{UNBALANCED}\".split()))'"),
        ("python's os.system", f"/usr/bin/python3 -c 'import os; os.system(\"{UNBALANCED}\")'"),
        ("a chain of shells", f"sh -c 'bash -c \"{UNBALANCED}\"'"),
        ("xargs", f"echo 5 5 2 | xargs {PROGRAMS}/unbalanced"),
        ("a pipe", f"{UNBALANCED} | cat"),
    )],
    *[Case(f"no MPI: {name}", script, 0, srun="-n1") for name, script in (
        ("ldd", "ldd /bin/true | grep -c libc.so"), ("python", "/usr/bin/python3 -c 'print(sum(range(9)))'"),
        ("perl", "perl -e 'print 6 * 7, qq(\\n)'"), ("awk", "awk 'BEGIN { print 1 / 4 }'"),
        ("busybox, static", "busybox echo static"), ("git", "git --version"), ("gcc", "gcc -dumpversion"),
        ("tar", "tar cf - /etc/hostname 2>/dev/null | tar tf -"), ("a sub-shell's status", "(exit 9) || echo $?"),
        ("su, setuid", "su -c true alice </dev/null 2>&1 | sed 's/.*: //'"),
        ("dd", "dd if=/dev/zero bs=1M count=200 2>/dev/null | wc -c"),
    )],
]
BY_NAME = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Played:
    status: str
    output: str
    errors: str
    ranks: int


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Played]]:
    """Every case under every policy, by case and policy."""
    cluster = start_or_skip(Cluster(nodes=1, **project_cluster_arguments()))
    try:
        yield play(cluster, tmp_path_factory.mktemp("cases") / "ends")
    finally:
        cluster.stop()


def play(cluster: Cluster, ends: Path) -> dict[tuple[str, str], Played]:
    subprocess.run(["mpicc.openmpi", "-O1", "-o", ends, SOURCE], check=True)
    place = f"{cluster.share}/cases"
    cluster.node_run("submit", ["install", "-d", "-o", "alice", place], check=True)
    steps = [(case, policy) for case in CASES for policy in POLICIES]
    lines = [f"export ENDS={cluster.put(ends)}; cd {place}"]
    for number, (case, policy) in enumerate(steps):
        cluster.inside.path(f"{place}/{number}.sh").write_text(case.script + "\n")
        lines.append(f"srun {case.srun} --overcommit --mpi=pmix --mpi-wait-policy={policy} bash {place}/{number}.sh"
                     f" >{number}.out 2>{number}.err </dev/null; echo $? >{number}.status")
    job = jobs.sbatch(cluster, "\n".join(lines) + "\n", ["-n2", "--mpi-wait-policy=off"])
    record = jobs.record(cluster, job, timeout=900)
    assert record.get("steps_left_out", 0) == 0, "every step is in the record"
    ranks = {step["id"]: step["ranks"] for step in record["steps"]}
    texts = {path.name: path.read_text(errors="replace") for path in cluster.inside.path(place).iterdir()}
    return {(case.name, policy): Played(texts[f"{number}.status"], texts[f"{number}.out"],
                                        IN_THE_QUEUE.sub("", texts[f"{number}.err"]), ranks.get(str(number), 0))
            for number, (case, policy) in enumerate(steps)}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_case(played: dict[tuple[str, str], Played], name: str) -> None:
    case = BY_NAME[name]
    bare, napping = (played[name, policy] for policy in POLICIES)
    assert napping.status == bare.status, (bare, napping)
    assert not re.search(r"mpi-wait|mpiwait|ld\.so", napping.output + napping.errors), napping
    assert bare.errors or not napping.errors, (bare, napping)
    assert napping.output == bare.output, (bare, napping)
    assert napping.ranks == case.ranks, napping
