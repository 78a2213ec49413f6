"""acct_gather_energy/mpi_wait in slurmstepd: what it opens of root's counters, and when."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.lib.record_tools import BUILD, REPOSITORY, write_zone

PLUGIN = BUILD / "spank/acct_gather_energy_mpi_wait.so"
STEP_POINTER, NODE_ENERGY, TASK_JOULES = 8, 6, 0  # of enum acct_energy_type
CONSUMED = 16  # where a struct acct_gather_energy_t has it
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


# The same, with a counter that goes on by two joules after slurmstepd has become the user.
DROP = """
import ctypes, os, sys, time
ctypes.CDLL("libslurm.so", mode=ctypes.RTLD_GLOBAL)
plugin = ctypes.CDLL(sys.argv[1])
kind, offset = int(sys.argv[3]), int(sys.argv[4])
task = ctypes.create_string_buffer(4096)
plugin.acct_gather_energy_p_set_data(int(sys.argv[2]), None)
plugin.acct_gather_energy_p_get_data(kind, task)
counter = open("/sys/class/powercap/intel-rapl/intel-rapl:0/energy_uj", "w")
os.seteuid(65534)
time.sleep(0.05)
counter.write("2000005")
counter.flush()
plugin.acct_gather_energy_p_get_data(kind, task)
print(ctypes.c_uint64.from_buffer(task, offset).value)
"""


def run_plugin(tmp_path: Path, program: str, *words: int) -> str:
    write_zone(tmp_path / "intel-rapl/intel-rapl:0", "package-0", 5)
    mounts = ("mount -t tmpfs none /sys/class && mkdir /sys/class/powercap && mount -t tmpfs none /run && "
              "mkdir /run/powercap && cp -a $1/. /sys/class/powercap/ && shift && exec \"$@\"")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", mounts, "sh", tmp_path, sys.executable, "-c", program, PLUGIN,
         *map(str, words)],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_counters_are_open_before_a_task_can_inherit_them(tmp_path: Path) -> None:
    """They are root's alone: with the first figure slurmstepd may be the user, and no task may have them."""
    before, begun, asked = json.loads(run_plugin(tmp_path, LOOK, STEP_POINTER, NODE_ENERGY))
    assert before == {} and begun and all(begun.values()), begun
    assert asked == begun, "nothing is opened later"


def test_a_slurmstepd_that_is_the_user_for_a_moment_has_figures(tmp_path: Path) -> None:
    """slurmstepd cannot read the node's sums then: what it knows of them and the open counters are enough."""
    assert run_plugin(tmp_path, DROP, STEP_POINTER, TASK_JOULES, CONSUMED) == "2\n"
