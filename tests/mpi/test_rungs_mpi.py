"""The rungs umwait and mwaitx under Open MPI: the library's own instructions, executed by the emulator.

What they do in time is shown under the virtual clock (tests/unit/preload/test_rungs.py); here it is counted.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, run, values
from tests.lib.emulate import emulation

EMULATOR = BUILD / "tests/lib/emulate/libmpiwait-emulate.so"
INSTRUCTIONS = BUILD / "tests/lib/emulate/instructions"
LATE_SENDER = BUILD / "tests/lib/programs/late_sender"
MPIRUN = shutil.which("mpirun.openmpi")
POLICY = "spin_ns=10000;relative_ppm=15625;absolute_ns=1000;max_ns=40000;rma_ns=10000"
FEATURE = {"umwait": "waitpkg", "mwaitx": "monitorx"}
INSTRUCTION = {"umwait": "tpause", "mwaitx": "mwaitx"}

pytestmark = [
    pytest.mark.skipif(not EMULATOR.exists(), reason=f"not built: {EMULATOR}"),
    pytest.mark.skipif(bool(emulation.clock_reason()), reason=emulation.clock_reason() or "-"),
    pytest.mark.skipif(not MPIRUN or not LATE_SENDER.exists(), reason="no Open MPI programs"),
]


def config_of(rung: str, features: dict[str, str]) -> str:
    """With the frequency that root's side measures."""
    done, _ = run([INSTRUCTIONS, "cpu"], None, preload=EMULATOR, **features)
    khz = int(values(done)["tsc_khz"])
    limit = f";umwait_max_ns={emulation.MAX_TIME * 1000000 // khz};umwait_c02=1" if rung == "umwait" else ""
    return f"rungs=pause+{rung};{POLICY};tsc_khz={khz}{limit}"


@pytest.mark.parametrize("rung", FEATURE)
def test_late_sender_under_open_mpi(tmp_path: Path, rung: str) -> None:
    features = emulation.environment(FEATURE[rung], tmp_path, [LIBRARY, INSTRUCTIONS])
    config = config_of(rung, features)
    command = [*emulation.undisturbed(), MPIRUN, "--oversubscribe", "-n", "2", LATE_SENDER, "400"]
    bare, _ = run(command, None)
    done, segment = run(command, config, preload=EMULATOR, **features)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("checksum")[1] == bare.stdout.split("checksum")[1]
    counters = emulation.counters_read(tmp_path)
    for slot in segment["slots"]:
        executed = counters.get(slot["pid"], dict.fromkeys(emulation.FIELDS, 0))
        naps = slot["lane"][0]["naps"].get(rung, 0)
        assert executed[INSTRUCTION[rung]] == naps
        assert executed["monitorx"] == (naps if rung == "mwaitx" else 0)
        assert executed["umonitor"] == executed["umwait"] == executed["limited"] == executed["woken"] == 0
        assert executed["longest_ticks"] <= emulation.MAX_TIME
    receiver = segment["slots"][1]["lane"][0]
    assert receiver["naps"][rung] > 100 and receiver["calls"]["Recv"]["waits"] == 1
