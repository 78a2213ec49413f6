"""acct_gather_energy/mpi_wait in slurmstepd: what it opens of root's counters, and when."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.lib.record_tools import BUILD, REPOSITORY, write_zone

PLUGIN = BUILD / "spank/acct_gather_energy_mpi_wait.so"
STEP_POINTER, NODE_ENERGY = 8, 6  # of enum acct_energy_type
# In a mount namespace with counters of its own: the open ones after each call, and whether exec closes them.
LOOK = """
import ctypes, json, os, sys
from pathlib import Path

def counters():
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:
            continue
        if "powercap" in target:
            flags = Path(f"/proc/self/fdinfo/{link.name}").read_text().split("flags:")[1].split()[0]
            found[target] = bool(int(flags, 8) & os.O_CLOEXEC)
    return found

ctypes.CDLL("libslurm.so", mode=ctypes.RTLD_GLOBAL)
plugin = ctypes.CDLL(sys.argv[1])
seen = [counters()]
plugin.acct_gather_energy_p_set_data(int(sys.argv[2]), None)
seen.append(counters())
plugin.acct_gather_energy_p_get_data(int(sys.argv[3]), ctypes.create_string_buffer(4096))
seen.append(counters())
print(json.dumps(seen))
"""


def test_the_counters_are_open_before_a_task_can_inherit_them(tmp_path: Path) -> None:
    """They are root's alone: with the first figure slurmstepd may be the user, and no task may have them."""
    write_zone(tmp_path / "intel-rapl/intel-rapl:0", "package-0", 5)
    mounts = ("mount -t tmpfs none /sys/class && mkdir /sys/class/powercap && mount -t tmpfs none /run && "
              "mkdir /run/powercap && cp -a $1/. /sys/class/powercap/ && shift && exec \"$@\"")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", mounts, "sh", tmp_path, sys.executable, "-c", LOOK, PLUGIN, str(STEP_POINTER),
         str(NODE_ENERGY)],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    before, begun, asked = json.loads(done.stdout)
    assert before == {} and begun and all(begun.values()), begun
    assert asked == begun, "nothing is opened later"
