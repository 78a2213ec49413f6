"""Makes a node of a cluster that runs: `python3 -m tests.lib.throwaway.holder NODE READY FILES`.

Started in the submit host's namespaces. Stays, and holds the node's namespaces. READY: the file that is made when the
node stands. FILES: JSON, path to the file that is seen there on this node instead.
"""

from __future__ import annotations

import json
import os
import sys

from tests.lib.throwaway import sandbox


def main() -> None:
    node, ready, files = sys.argv[1:]
    sandbox.hold_node(node, os.open(ready, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644), json.loads(files))


if __name__ == "__main__":
    main()
