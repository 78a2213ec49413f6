"""Shows this machine's files to a guest, read-only: `python3 -m tests.lib.guest.share SOCKET FOLDER [PATH...]`.

In a mount namespace of its own it binds the root file system alone to FOLDER, so that the guest sees only its own /proc
and /sys. It adds each PATH that lies on another file system. Then it becomes virtiofsd.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from tests.lib.throwaway import kernel

DAEMON = "/usr/lib/qemu/virtiofsd"
MS_RDONLY = 1
MS_REMOUNT = 32


def bind_read_only(source: Path, target: Path) -> None:
    kernel.mount(str(source), target, flags=kernel.MS_BIND)
    kernel.mount(str(source), target, flags=kernel.MS_BIND | MS_REMOUNT | MS_RDONLY)


def main(socket: str, folder: str, *paths: str) -> NoReturn:
    kernel.set_death_signal(15)
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.make_mounts_private()
    bind_read_only(Path("/"), Path(folder))
    for path in paths:
        if os.stat(path).st_dev != os.stat("/").st_dev:
            bind_read_only(Path(path), Path(f"{folder}{path}"))
    os.execv(DAEMON, [DAEMON, f"--socket-path={socket}", "-o", f"source={folder}", "-o", "cache=always"])


if __name__ == "__main__":
    main(*sys.argv[1:])
