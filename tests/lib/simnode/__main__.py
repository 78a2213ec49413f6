"""`python -m tests.lib.simnode [OPTIONS-AS-JSON]`: simulates, for this mount namespace, until killed.

Started as root in a namespace of a node's own, before the node's daemons. Ready when
/sys/class/powercap/SIMULATED is there. Never run it in the machine's own mount namespace.
"""

from __future__ import annotations

import json
import os
import sys

import pyfuse3
import trio

from tests.lib.simnode import mounts
from tests.lib.simnode.filesystem import Attributes
from tests.lib.simnode.model import Options
from tests.lib.simnode.node import Node

TICK_S = 1.0
"""Between measurements of CPU time. A read of a counter, or a write of a clock, measures too."""


async def serve(node: Node) -> None:
    """Answers the kernel, then mounts the files, and lets time pass."""
    options = node.model.options
    policies = {cpu: policy.cpus[0] for cpu, policy in node.policy_of.items()}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pyfuse3.main)
        if options.gpus:
            await trio.to_thread.run_sync(mounts.show_gpus, options.gpus, options.gpu_w,
                                           options.gpu_library)
        await trio.to_thread.run_sync(mounts.show, policies)
        while True:
            node.advance()
            await trio.sleep(TICK_S)


def main() -> int:
    options = Options.from_dict(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    if not mounts.in_own_namespace():
        print("simnode: refused: this is the machine's own mount namespace; "
              "use 'unshare --mount'", file=sys.stderr)
        return 1
    node = Node(options, sorted(os.sched_getaffinity(0)))
    mounts.prepare()
    settings = {*pyfuse3.default_options, "fsname=simnode", "allow_other"}
    pyfuse3.init(Attributes(node.root), str(mounts.FILES), settings)
    trio.run(serve, node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
