"""Process 1 of the guest: `inside.py REQUEST`. Mounts what a machine with cgroup v2 alone has, runs the command of the
request, and turns the machine off. Standard library only.

REQUEST is a JSON file: argv, cwd, env.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY))

from tests.lib.throwaway import kernel  # noqa: E402

MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("devpts", "/dev/pts"), ("tmpfs", "/dev/shm"),
          ("tmpfs", "/run"), ("tmpfs", "/var/tmp"), ("cgroup2", "/sys/fs/cgroup"))
SCRATCH = "/run/tmp"
"""Not /tmp, where the tree may lie."""


def prepare() -> None:
    for filesystem, target in MOUNTS:
        if target.startswith("/dev/"):
            os.makedirs(target, exist_ok=True)
        kernel.mount(filesystem, target, filesystem)
    for link, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"/dev/{link}")
    os.chmod("/dev/shm", 0o1777)
    os.mkdir(SCRATCH, 0o1777)


def main() -> None:
    try:
        prepare()
        request = json.loads(Path(sys.argv[1]).read_text())
        status = subprocess.run(request["argv"], cwd=request["cwd"], env={**request["env"], "TMPDIR": SCRATCH},
                                stdin=subprocess.DEVNULL, check=False).returncode
        print(f"the guest's command ended with {status}", flush=True)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    Path("/proc/sysrq-trigger").write_text("o")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
