"""The keeper, which outlives the controller: starts the cluster's init, and cleans up after it.

`Cluster` starts it in a session of its own: `python -m tests.lib.throwaway.keeper`. It reads one line (a `Spec` as
JSON) from standard input, and answers with one line of JSON on standard output: {"init": pid, "nodes": {name: pid}} or
{"error": text}. Then it waits until standard input ends or has data, or the controller dies, however it dies. Then it
kills init, with which the kernel kills every process and drops every mount and socket of the cluster, and removes the
cgroups.

Invariant: all that this process made is gone when it exits. If it is killed itself, the death signal ends init too, and
only empty cgroup directories can remain.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from contextlib import suppress

from tests.lib.throwaway import cgroups, kernel, processes, sandbox


def fork_init(spec: sandbox.Spec) -> tuple[int, int]:
    """Starts process 1 of the cluster; returns its pid and the pipe on which it reports."""
    ready_read, ready_write = os.pipe()
    folders = cgroups.of(spec.own_cgroups).create(spec.name) if spec.own_cgroups else []
    kernel.unshare(kernel.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ready_read)
            close_standard_files()
            for folder in folders:
                (folder / "cgroup.procs").write_text("0")
            sandbox.run_init(spec, ready_write)
        except BaseException as error:
            with suppress(OSError):
                os.write(ready_write, f"error {error}\n{traceback.format_exc()}".encode())
            os._exit(1)
    os.close(ready_write)
    return pid, ready_read


def close_standard_files() -> None:
    """Replaces the standard files, so that init holds neither the controller's pipes nor its terminal."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def wait_for_nodes(spec: sandbox.Spec, init: int, ready: int) -> dict[str, object]:
    """Waits until init has reported or ended; returns the answer to the controller."""
    with os.fdopen(ready, encoding="utf-8") as report:
        text = report.read()
    if not text or text.startswith("error"):
        return {"error": text.removeprefix("error ") or "init ended before it was ready"}
    outside = processes.host_pids(init)
    holders = [outside[int(inside)] for inside in text.split()]
    return {"init": init, "nodes": dict(zip(spec.nodes, holders, strict=True))}


def wait_for_end(controller: int) -> None:
    """Returns when the controller says so, closes its end, or dies."""
    try:
        watch = [0, os.pidfd_open(controller)]
    except ProcessLookupError:
        return
    select.select(watch, [], [])


def clean_up(spec: sandbox.Spec, init: int) -> None:
    if init:
        with suppress(ProcessLookupError):
            os.kill(init, signal.SIGKILL)
        os.waitpid(init, 0)
    if spec.own_cgroups:
        for folder in cgroups.of(spec.own_cgroups).remove(spec.name):
            print(f"cluster: could not remove {folder}", file=sys.stderr)


def main() -> int:
    controller = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    kernel.set_process_name("cluster-keeper")
    spec = sandbox.Spec(**json.loads(sys.stdin.readline()))
    init = 0
    try:
        init, ready = fork_init(spec)
        answer = wait_for_nodes(spec, init, ready)
        with suppress(OSError):
            print(json.dumps(answer), flush=True)
        if "error" not in answer:
            wait_for_end(controller)
    except Exception as error:
        with suppress(OSError):
            print(json.dumps({"error": f"{error}\n{traceback.format_exc()}"}), flush=True)
    finally:
        clean_up(spec, init)
    return 0


if __name__ == "__main__":
    sys.exit(main())
