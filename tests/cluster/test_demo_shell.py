"""contrib/demo --shell: a cluster to try things on, beside another one, and nothing left of it."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from tests.lib import jobs
from tests.lib.waiting import wait_for

DEMO = jobs.REPOSITORY / "contrib/demo_cluster.py"
STAGE = os.environ.get("MPI_WAIT_STAGE", str(jobs.REPOSITORY / "build/stage/opt/mpi-wait"))
SCRIPT = """
hostname; id -un; command -v mpi-wait; man -w mpi-wait; complete -p mpi-wait
srun -N2 -n4 --mpi-wait-policy=nap unbalanced 5 5 2 && mpi-wait report --brief 1
exit 7
"""
PROGRAM = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); MPI_Finalize(); }\n"


def start(*more: str) -> subprocess.Popen[str]:
    """The second half of contrib/demo, which builds nothing."""
    environment = {**os.environ, "MPI_WAIT_STAGE": STAGE, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(["/usr/bin/python3", DEMO, "--shell", *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=environment, text=True)


def offspring(process: subprocess.Popen[str]) -> list[int]:
    """The processes that it started and that are alive, with what these started."""
    found, parents = [], {process.pid}
    stats = sorted((int(path.name), path / "stat") for path in Path("/proc").glob("[0-9]*"))
    for pid, stat in stats:
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent in parents:
            parents.add(pid)
            found.append(pid)
    return found


def test_a_directory_of_one_s_own_is_there(tmp_path: Path) -> None:
    """As alice sees it: with her own rights on it, and compilers for what is in it."""
    tmp_path.chmod(0o755)
    (tmp_path / "own.c").write_text(PROGRAM)
    demo = start(str(tmp_path))
    script = "cd ~/here && touch own.c; mpicc -o ~/own own.c && srun -n2 --mpi-wait-policy=nap ~/own && echo it ran\n"
    text = demo.communicate(script, timeout=110)[0]
    assert "touch: cannot touch" in text and "\nit ran\n" in text and f"{tmp_path} of this machine" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.c"]
    assert "no such directory" in start(str(tmp_path / "absent")).communicate("", timeout=60)[0]


def test_two_at_once_and_nothing_left() -> None:
    """Each has jobs of its own that begin with 1; the status of the shell is that of the demo."""
    demos = [start(), start()]
    for demo in demos:
        assert demo.stdin
        demo.stdin.write(SCRIPT)
        demo.stdin.flush()
    started = [wait_for(partial(offspring, demo), "processes of a demo", 60) for demo in demos]
    texts = [demo.communicate(timeout=110)[0] for demo in demos]
    for demo, text, pids in zip(demos, texts, started):
        assert demo.returncode == 7, text
        lines = text.splitlines()
        assert {"submit", "alice", "/opt/mpi-wait/bin/mpi-wait", "complete -F _mpi_wait mpi-wait"} <= set(lines), text
        assert "/opt/mpi-wait/share/man/man1/mpi-wait.1" in text and "4 ranks, 5 iterations" in text
        assert [line.split()[0] for line in lines if line.split()[2:3] == ["elapsed"]] == ["job"], text
        assert [line for line in lines if line.split()[:1] == ["1"]], text
        shown = text[text.index("You are alice") : text.index("submit\n")]
        assert shown.count("\n  ") == 6 and "exit ends the cluster" in shown and "cluster gone" in text
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
