"""Makes new namespaces younger than a cluster's nodes, on every CPU.

Linux refuses to bind a mount namespace to a file if its number is lower than that of the current namespace, as if it
were older. job_container/tmpfs binds one for each job. Since Linux 6.18 every CPU has batches of numbers of its own, so
that chance decides whether the kernel refuses. On a real machine slurmd runs in the first namespace, and is never
refused.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from tests.lib.throwaway import Cluster, kernel

NS_GET_ID = 0x8008B70D
CLONE_NEWUTS = 0x04000000
BATCHES_MOST = 3 * 4096


def number(path: Path | str) -> int:
    """Returns a namespace's number; 0 if the kernel does not tell, and so numbers them in one order."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(struct.unpack("Q", fcntl.ioctl(descriptor, NS_GET_ID, bytes(8)))[0])
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def use_up(cpu: int, most: int) -> None:
    """Makes namespaces on that CPU, in a child process, until their numbers exceed `most`."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.sched_setaffinity(0, {cpu})
            for _ in range(BATCHES_MOST):
                kernel.unshare(CLONE_NEWUTS)
                if number("/proc/self/ns/uts") > most:
                    status = 0
                    break
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"namespaces of CPU {cpu} stay below number {most}"


def make_nodes_older(cluster: Cluster) -> None:
    """Makes every later namespace younger than those of the cluster's nodes."""
    most = max(number(f"/proc/{holder}/ns/mnt") for holder in cluster.inside.holders.values())
    for cpu in os.sched_getaffinity(0) if most else ():
        use_up(cpu, most)
