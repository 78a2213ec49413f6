"""Many nodes and many job ends, played on one host of the throw-away cluster: python3 -m tests.lib.storm, as root.

The jobs' rows are in slurmdbd already (tests.lib.spool_jobs). This module plays the nodes: an outbox each, and the
mpi-wait-node that the epilog would start. Reads one JSON object from standard input and writes one to standard output.
"""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HELPER = "/opt/mpi-wait/sbin/mpi-wait-node"
SPOOL = Path("/srv/cluster/spool")
SLURMDBD_PORT = 6819
ESTABLISHED = "01"


class Job:
    """One job's nodes after its epilogs. Each node's record has another wait of its one rank."""

    def __init__(self, item: dict[str, Any], nodes: int, template: dict[str, Any]) -> None:
        self.key = f"throwaway-{item['job']}-0"
        self.root = Path(f"/tmp/storm/{item['job']}")
        self.nodes = [f"n{number:02}" for number in range(1, nodes + 1)]
        self.template = {
            **template, "job_id": item["job"], "nodes": item["nodelist"], "cluster": "throwaway",
            "start_s": item["start_s"], "end_s": item["end_s"],
        }  # fmt: skip

    def record(self, node: str) -> dict[str, Any]:
        record = copy.deepcopy(self.template) | {"node": node}
        rank = self.nodes.index(node)
        record["steps"][0]["wait"] |= {"ranks": [[rank, 10**6 * (rank + 1), 0]], "size": len(self.nodes)}
        return record

    def outbox(self, node: str) -> Path:
        return self.root / node

    def put(self, node: str) -> None:
        self.outbox(node).mkdir(mode=0o700, parents=True)
        (self.outbox(node) / f"{self.key}.{node}.json").write_text(json.dumps(self.record(node)))

    def write(self, node: str, *options: str) -> subprocess.Popen[bytes]:
        """Starts the writer that drains the node's outbox, which holds one record."""
        state = self.root / "run" / node
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        return helper("drain", *options, "--outbox", str(self.outbox(node)), "--state", str(state.parent), node=node)


def helper(*words: str, node: str = "submit") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [HELPER, *words, f"spool={SPOOL}"],
        env={**os.environ, "SLURMD_NODENAME": node},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def make_old(folder: Path) -> None:
    """Sets the files' times back: mpi-wait-node leaves a young file to its own writer, and takes one that is 15 minutes
    old."""
    then = time.time() - 1000
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def left() -> list[str]:
    return sorted(str(path) for path in SPOOL.rglob("*") if not path.name.startswith((".slot", ".clock")))


def storm(job: Job, missing: str, kills: int, chance: random.Random) -> int:
    """Ends all nodes at once, kills some of the writers, then runs what timers do. Returns the number of writers
    killed."""
    present = [node for node in job.nodes if node != missing]
    for node in present:
        job.put(node)
    doomed = set(chance.sample(present, kills))
    hosts = [] if missing else [helper("sweep", "--now", "--outbox", f"/tmp/storm/host{i}") for i in range(2)]
    writers = [job.write(job.nodes[0], "--first-delay", "0", "--collect", "2")] if missing != job.nodes[0] else []
    for node in [node for node in present if node != job.nodes[0]]:
        writers.append(job.write(node, "--first-delay", "0", "--collect", "2"))
        if node in doomed:
            time.sleep(chance.random() * 0.01)
            writers[-1].kill()
    if job.nodes[0] in doomed:
        time.sleep(chance.random())
        writers[0].kill()
    killed = sum(writer.wait() == -signal.SIGKILL for writer in writers)
    for host in hosts:
        host.kill()
        host.wait()
    make_old(job.root)
    stuck = [job.outbox(node) for node in present if any(job.outbox(node).iterdir())]
    for mover in [helper("sweep", "--only-move", "--outbox", str(outbox)) for outbox in stuck]:
        mover.wait()
    for _ in range(2):
        make_old(SPOOL)
        for sweeper in [helper("sweep", "--outbox", f"/tmp/storm/host{i}") for i in range(2)]:
            sweeper.wait()
    return killed


def play_storms(order: dict[str, Any]) -> dict[str, Any]:
    chance = random.Random(order["seed"])
    rounds = []
    for item in order["jobs"]:
        job = Job(item, order["nodes"], order["record"])
        missing = chance.choice(job.nodes) if len(rounds) % 4 == 3 else ""
        begun = time.monotonic()
        killed = storm(job, missing, order["kills"], chance)
        seconds = round(time.monotonic() - begun, 1)
        rounds.append({"job": item["job"], "missing": missing, "killed": killed, "left": left(), "seconds": seconds})
    return {"rounds": rounds}


def connections() -> int:
    """Counts the connections to slurmdbd from all hosts of the cluster, which share one network."""
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            count += words[3] == ESTABLISHED and int(words[2].rsplit(":", 1)[1], 16) == SLURMDBD_PORT
    return count


def sacct_s() -> float:
    begun = time.monotonic()
    subprocess.run(["sacct", "-a", "-X", "-n", "-o", "jobid,state"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def watch(stop: threading.Event, seen: list[int]) -> None:
    while not stop.wait(0.02):
        seen.append(connections())


def play_ends(order: dict[str, Any]) -> dict[str, Any]:
    """Ends jobs of one node each, one after another, over order["seconds"] in all."""
    quiet, seen, stop = [sacct_s() for _ in range(order["looks"])], [connections()], threading.Event()
    watcher = threading.Thread(target=watch, args=(stop, seen))
    watcher.start()
    writers, busy = [], []
    begun = time.monotonic()
    looker = threading.Thread(target=lambda: busy.extend(looks(stop)))
    for index, item in enumerate(order["jobs"]):
        job = Job(item, 1, order["record"])
        job.put("n01")
        time.sleep(max(0.0, begun + index * order["seconds"] / len(order["jobs"]) - time.monotonic()))
        writers.append(job.write("n01", "--first-delay", str(order["first_delay"])))
        if index == 0:
            looker.start()
    last_s = time.monotonic() - begun
    codes = [writer.wait() for writer in writers]
    stop.set()
    watcher.join()
    looker.join()
    return {
        "started_s": last_s, "all_s": time.monotonic() - begun, "left_by_writers": sum(code != 0 for code in codes),
        "idle_connections": seen[0], "most_connections": max(seen), "quiet_s": quiet, "busy_s": busy, "left": left(),
    }  # fmt: skip


def looks(stop: threading.Event) -> list[float]:
    found = []
    while not stop.wait(0.5):
        found.append(sacct_s())
    return found


def main() -> None:
    order = json.load(sys.stdin)
    print(json.dumps({"storms": play_storms, "ends": play_ends}[order["play"]](order)))


if __name__ == "__main__":
    main()
