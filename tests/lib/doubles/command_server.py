"""Runs mpi-wait's commands as a shell does, without the cost of starting Python: each runs in a fork of a process that
has loaded them already.

pytest starts one server per process. A request is a line of JSON: the words, the environment, and the files that are
standard input, output and error. The answer is the exit status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
COMMAND = ROOT / "contrib" / "mpi-wait"


def child(request: dict[str, Any]) -> int:
    from mpi_wait_tools.cli import main

    for number, (name, flags) in enumerate(zip(request["files"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
        os.dup2(os.open(name, flags), number)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(COMMAND), *request["words"]]
    try:
        return main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1


def load() -> None:
    """Imports all modules of the commands, also those that a command imports only on demand. Skips a module that this
    machine cannot import: the command reports it itself."""
    sys.path.insert(0, str(ROOT / "contrib"))
    import mpi_wait_tools
    from mpi_wait_tools.text.output import Refusal

    for module in pkgutil.walk_packages(mpi_wait_tools.__path__, "mpi_wait_tools."):
        with suppress(ImportError, Refusal):
            importlib.import_module(module.name)


def serve() -> None:
    """Serves requests. The loaded objects are frozen: a garbage collection in a child would copy all of their pages."""
    load()
    gc.freeze()
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            status = child(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        answer = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os.write(1, f"{answer}\n".encode())


class Server:
    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(["/usr/bin/python3", __file__], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment, text=True)
        atexit.register(self.end)

    def end(self) -> None:
        self.process.communicate()

    def run(
        self, words: list[str], stdin: str, environment: dict[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        files = [folder / f".{name}" for name in ("stdin", "stdout", "stderr")]
        for path, text in zip(files, (stdin, "", "")):
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        assert self.process.stdin and self.process.stdout
        request = {"words": words, "environment": environment, "files": [str(path) for path in files]}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        status = int(self.process.stdout.readline())
        out, err = (path.read_bytes().decode("utf-8") for path in files[1:])
        return subprocess.CompletedProcess([str(COMMAND), *words], status, out, err)


_servers: dict[int, Server] = {}


def server() -> Server:
    """Returns this process's server, which ends with the process."""
    key = os.getpid()
    if key not in _servers:
        kept = {name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ}
        _servers[key] = Server({"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **kept})
    return _servers[key]


if __name__ == "__main__":
    serve()
