"""Adds a node to a running cluster: `python3 -m tests.lib.throwaway.holder NODE READY FILES`.

The program is started in the submit host's namespaces. It stays, and holds the node's namespaces. READY: the file that
it makes when the node stands. FILES: JSON, path to the file that this node shows there instead.
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
