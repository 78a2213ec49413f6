"""`python -m tests.lib.simnode [OPTIONS-AS-JSON]`: simulates, for this mount namespace, until killed.

Started as root in a namespace of a node's own, before the node's daemons. Ready when
/sys/class/powercap/SIMULATED is there. Never run it in the machine's own mount namespace.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback

from tests.lib.simnode import fuse, mounts
from tests.lib.simnode.filesystem import Attributes
from tests.lib.simnode.model import Options
from tests.lib.simnode.node import Node

TICK_S = 0.3
STUCK_S = 0.01
"""After that long a write that is stuck is tried again."""


def show(node: Node) -> None:
    """Shows the files while they are served. Without them there is nothing to serve."""
    try:
        mounts.show({cpu: policy.cpus[0] for cpu, policy in node.policy_of.items()})
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> int:
    options = Options.from_dict(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    if not mounts.in_own_namespace():
        print("simnode: refused: this is the machine's own mount namespace; "
              "use 'unshare --mount'", file=sys.stderr)
        return 1
    node = Node(options, sorted(os.sched_getaffinity(0)))
    mounts.prepare()
    connection = fuse.mount(str(mounts.FILES))
    threading.Thread(target=show, args=(node,), daemon=True).start()
    fuse.serve(connection, Attributes(node.root).calls, node.advance, TICK_S, STUCK_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
