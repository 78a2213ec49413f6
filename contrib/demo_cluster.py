"""The second half of contrib/demo: boots the cluster, runs the job, shows sacct and the report; with --shell [DIR],
opens a shell. Runs as root."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.lib.throwaway import (  # noqa: E402  (the path above comes first)
    Cluster,
    ClusterError,
    MissingRequirements,
    project_cluster_arguments,
)

PROGRAM = "/opt/mpi-wait-tests/unbalanced"
PREFIX = "/opt/mpi-wait"
HERE = "/srv/cluster/here"
SRUN = ["srun", "-N2", "-n4", "--mpi-wait-policy=nap", PROGRAM, "20", "20", "3"]
RECORD_TIMEOUT_S = 120  # the writer first waits for 8 to 12 s, and tries again 15 and 45 s later
STEP_WIDTH = 26


class Failure(Exception):
    """The demonstration cannot go on. The text is for the person who started it."""


def progress(line: str) -> None:
    print(f"  {line}", flush=True)


def command(words: list[str]) -> None:
    print(f"\n$ {' '.join(words)}", flush=True)


def width() -> int:
    return min(100, shutil.get_terminal_size((80, 24)).columns)


def run_job(cluster: Cluster) -> str:
    """Runs the MPI program as a user; returns the job's id."""
    command(SRUN)
    result = cluster.run(SRUN, timeout=120)
    print(result.stdout + result.stderr, end="", flush=True)
    if result.returncode:
        raise Failure(f"srun ended with {result.returncode}")
    listed = cluster.run(["scontrol", "-o", "show", "job"], check=True).stdout
    ids = re.findall(r"^JobId=(\d+) ", listed, re.M)
    if not ids:
        raise Failure("the controller knows no job")
    return ids[-1]


def await_record(cluster: Cluster, job: str) -> str:
    """Waits until the writer, which the epilog started, has stored the record; returns AdminComment."""
    start = time.monotonic()
    print(f"\n  {'record stored ...':<{STEP_WIDTH}}", end="", flush=True)
    cluster.wait_job(job)
    comment = ""
    while not comment and time.monotonic() - start < RECORD_TIMEOUT_S:
        rows = cluster.sacct(job, ["AdminComment"], ["-X"])
        comment = rows[0]["AdminComment"] if rows else ""
        if not comment:
            time.sleep(0.3)
    if not comment:
        raise Failure(
            f"job {job} has no record after {RECORD_TIMEOUT_S} s; the nodes' logs say:\n"
            + log_tail(cluster)
        )
    print(f"{time.monotonic() - start:6.1f} s", flush=True)
    return comment


def log_tail(cluster: Cluster) -> str:
    lines = [
        f"  {node}: {line}"
        for node in cluster.nodes
        for line in cluster.logs(f"slurmd-{node}").splitlines()
        if "mpi-wait" in line
    ]
    return "\n".join(lines[-12:]) or "  nothing about mpi-wait"


def show_row(cluster: Cluster, job: str) -> None:
    """Prints the job's row as sacct does, but wraps the record, which is one long line."""
    words = ["sacct", "-X", "-P", "-j", job, "-o", "JobID,State,Elapsed,AdminComment"]
    command(words)
    for line in cluster.run(words, check=True).stdout.splitlines():
        print("\n".join(textwrap.wrap(line, width(), break_on_hyphens=False)))


def show_report(cluster: Cluster, job: str) -> None:
    words = ["mpi-wait", "report", job]
    command(words)
    sys.stdout.flush()
    argv = [f"{PREFIX}/bin/mpi-wait", *words[1:], "--width", str(width())]
    status = cluster.popen(argv, stdout=sys.stdout, stderr=sys.stderr).wait(60)
    if status:
        raise Failure(f"mpi-wait report ended with {status}")


def cluster_of_two(own: Path | None = None) -> Cluster:
    """Returns a cluster of two nodes, not booted yet. own is a directory of this machine that is bound into it."""
    arguments = project_cluster_arguments()
    if not arguments["plugstack"]:
        raise Failure("the build has no plugin (build/stage): run contrib/demo, which builds it")
    if own is not None:
        arguments["binds"] = {**arguments["binds"], HERE: own}
    return Cluster(nodes=2, progress=progress, **arguments)


BASHRC = f"""PATH=$PATH:{PREFIX}/bin:{os.path.dirname(PROGRAM)}
export MANPATH={PREFIX}/share/man:
. {PREFIX}/share/bash-completion/completions/mpi-wait
PS1='demo:\\w$ '
"""
TO_TRY = """
You are alice, on a cluster of two nodes, c1 and c2, whose hardware is simulated: what it says of joules is a model's.

  srun -N2 -n4 --mpi-wait-policy=nap unbalanced    a job whose last rank computes longest, and the others wait
  mpi-wait report --brief                          your jobs, a line each; a record comes some 10 s after the end
  mpi-wait report 1                                what the ranks of job 1 waited for
  salloc -N2 -n4 mpi-wait try --rounds 3 -- srun -n4 unbalanced    which policy fits it, measured
  man mpi-wait                                     all of it; exit ends the cluster
"""
OWN = "  cd ~/here                                        {}\n"
NO_OWN = "  contrib/demo --shell DIR                         would show the programs that you have in DIR as ~/here\n"


def shell(own: Path | None) -> int:
    """Opens a user's shell in the cluster; returns its exit status. own is a directory with programs to try."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # SystemExit also ends the cluster
    if own is not None and not own.is_dir():
        raise Failure(f"{own}: no such directory")
    with cluster_of_two(own) as cluster:
        (cluster.root / "home/alice/.bashrc").write_text(BASHRC)
        if own is not None:
            (cluster.root / "home/alice/here").symlink_to(HERE)
        print(TO_TRY + (OWN.format(f"{own} of this machine") if own is not None else NO_OWN), flush=True)
        # Without a terminal, standard input holds the commands. Python reads them, since srun would read from it too.
        words = ["bash", "-i"] if os.isatty(0) else ["bash", "-c", f". ~/.bashrc\n{sys.stdin.read()}"]
        files = {"stdin": None if os.isatty(0) else subprocess.DEVNULL, "stdout": None, "stderr": None}
        terminal = {"TERM": os.environ.get("TERM", "dumb")}
        status = cluster.popen(words, env=terminal, terminal=True, **files).wait()
        start = time.monotonic()
    print(f"  {'cluster gone ...':<{STEP_WIDTH}}{time.monotonic() - start:6.1f} s", flush=True)
    return status if status >= 0 else 128 - status


def demonstrate() -> None:
    with cluster_of_two() as cluster:
        job = run_job(cluster)
        await_record(cluster, job)
        show_row(cluster, job)
        show_report(cluster, job)
        start = time.monotonic()
    print(f"\n  {'cluster gone ...':<{STEP_WIDTH}}{time.monotonic() - start:6.1f} s")
    print(
        "\nThe waiting and the naps are real. The nodes are simulated, as is every joule above:\n"
        "it comes from a model, not from a counter, and says nothing about savings."
    )


def main() -> int:
    try:
        if sys.argv[1:2] == ["--shell"]:
            return shell(Path(sys.argv[2]).resolve() if sys.argv[2:] else None)
        demonstrate()
        return 0
    except (Failure, ClusterError, MissingRequirements) as error:
        print(f"\ncontrib/demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ncontrib/demo: interrupted; the cluster is gone", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
