"""The rungs umwait and mwaitx: the library's own instructions, executed by the emulator, under the virtual clock.

The TSC shows that clock's time too, so what was asked for, what was slept and what was waited agree to the nanosecond
but for the readings of the clock, of 100 ns each.
"""

from __future__ import annotations

import platform
import tempfile
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, run, values
from tests.lib.emulate import emulation

EMULATOR = BUILD / "tests/lib/emulate/libmpiwait-emulate.so"
INSTRUCTIONS = BUILD / "tests/lib/emulate/instructions"
DRIVER = BUILD / "tests/lib/doubles/preload_driver"
MAX_NS = 40_000
BUDGET = f"spin_ns=10000;relative_ppm=15625;absolute_ns=1000;max_ns={MAX_NS};rma_ns=10000"
KHZ = emulation.VIRTUAL_TSC_KHZ
LIMIT_NS = emulation.MAX_TIME * 1000000 // KHZ
SLEPT = ("c01_ns", "c02_ns", "c1_ns")
FEATURE = {"umwait": "waitpkg", "mwaitx": "monitorx"}
READINGS_NS = 1000  # around and in an instruction
SLOW = "1000"  # a reading, where a wait is polls alone: each traps

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instructions of x86-64")


def emulated(tmp_path: Path, command: list, features: str, config: str | None = None, **more: str):
    """The process, the segment, and the emulator's counters by process id."""
    counters = Path(tempfile.mkdtemp(dir=tmp_path))
    how = emulation.environment(features, counters, [LIBRARY, INSTRUCTIONS], virtual=True)
    done, segment = run(command, config, preload=EMULATOR, virtual=True, **{**how, **more})
    assert done.returncode == 0, done.stderr
    return done, segment, emulation.counters_read(counters)


def config_of(rung: str, c02: int = 1, limit_ns: int = LIMIT_NS) -> str:
    limit = f";umwait_max_ns={limit_ns};umwait_c02={c02}"
    return f"rungs=pause+{rung};{BUDGET};tsc_khz={KHZ}{limit if rung == 'umwait' else ''}"


def agree(rung: str, lane: dict, executed: dict[str, int]) -> None:
    """Every doze was executed, and the rank slept as long as the instructions took."""
    naps = lane["naps"][rung]
    instruction = "tpause" if rung == "umwait" else "mwaitx"
    assert executed[instruction] == naps
    assert executed["monitorx"] == (naps if rung == "mwaitx" else 0)
    assert executed["umonitor"] == executed["umwait"] == executed["limited"] == 0
    assert executed["woken"] == 0 and executed["longest_ticks"] <= emulation.MAX_TIME
    executed_ns = sum(executed[key] for key in SLEPT)
    assert executed["c0_ns"] == 0
    assert executed_ns <= lane["asleep_ns"][rung] <= executed_ns + READINGS_NS * naps


def test_the_emulator_does_what_the_manuals_say(tmp_path: Path) -> None:
    done, _, counters = emulated(tmp_path, [INSTRUCTIONS], "waitpkg,monitorx")
    seen = values(done)
    (executed,) = counters.values()
    few = READINGS_NS * KHZ // 1000000
    assert seen["tpause_carry"] == seen["past_carry"] == 0 and 50000 <= seen["tpause_ticks"] <= 50000 + few
    assert seen["limited_carry"] == 1
    assert emulation.MAX_TIME <= seen["limited_ticks"] <= emulation.MAX_TIME + few
    assert seen["unarmed_carry"] == seen["written_carry"] == 0
    assert 60000 <= seen["mwaitx_ticks"] <= 60000 + few and 30000 <= seen["c0_ticks"] <= 30000 + few
    assert seen["zero_ended"] == 1, "without a timer, only a write ends it"
    assert (executed["tpause"], executed["limited"], executed["woken"]) == (3, 1, 2)
    assert (executed["umonitor"], executed["umwait"]) == (1, 2)
    assert (executed["monitorx"], executed["mwaitx"]) == (3, 3)
    assert executed["longest_timer_ticks"] == 60000 and executed["longest_ticks"] > 40000000
    assert min(executed[key] for key in ("c01_ns", "c02_ns", "c1_ns", "c0_ns")) > 0


@pytest.mark.skipif(bool(emulation.clock_reason()), reason=emulation.clock_reason() or "-")
@pytest.mark.parametrize("features", ["none", "waitpkg", "monitorx", "waitpkg,monitorx"])
@pytest.mark.parametrize("stop", ["", "250:10000000", "3000:40000000"], ids=["", "stopped in it", "and before it"])
def test_root_finds_what_there_is(tmp_path: Path, features: str, stop: str) -> None:
    """Also where the process stands still between the two clocks, or in the time that is measured."""
    seen = values(emulated(tmp_path, [INSTRUCTIONS, "cpu"], features, **({"TIME_STOP": stop} if stop else {}))[0])
    assert seen["waitpkg"] == ("waitpkg" in features)
    assert seen["mwaitx"] == ("monitorx" in features)
    if features == "none":
        assert seen["tsc_khz"] == 0, "nothing is measured where nothing needs it"
        return
    assert abs(seen["tsc_khz"] / KHZ - 1) < 500e-6 and abs(seen["long_khz"] / KHZ - 1) < 1e-6
    limit = emulation.MAX_TIME * 1000000 // int(seen["tsc_khz"]) if "waitpkg" in features else 0
    if not Path("/sys/devices/system/cpu/umwait_control").exists():
        assert (seen["umwait_max_ns"], seen["umwait_c02"]) == (limit, 0)


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
def test_every_doze_is_an_instruction(tmp_path: Path, rung: str) -> None:
    done, segment, counters = emulated(tmp_path, [DRIVER, "wait"], FEATURE[rung], config_of(rung))
    (slot,) = segment["slots"]
    lane, call = slot["lane"][0], slot["lane"][0]["calls"]["Recv"]
    assert values(done)["errno"] == 4711
    assert lane["naps"][rung] > 1000 and "nap" not in lane["naps"]
    assert abs(call["wait_ns"] - 200e6) < 5 * MAX_NS, "the TSC at root's frequency is the clock"
    (executed,) = counters.values()
    agree(rung, lane, executed)
    states = {key for key in SLEPT if executed[key]}
    assert states == ({"c1_ns"} if rung == "mwaitx" else {"c01_ns", "c02_ns"} & states | {"c02_ns"})
    assert executed["longest_timer_ticks"] <= 4 * MAX_NS * KHZ // 1000000, "the budget of long waits"


def test_c02_only_where_it_is_allowed(tmp_path: Path) -> None:
    _, segment, counters = emulated(tmp_path, [DRIVER, "wait"], "waitpkg", config_of("umwait", c02=0))
    (executed,) = counters.values()
    assert executed["c02_ns"] == 0 < executed["c01_ns"]
    agree("umwait", segment["slots"][0]["lane"][0], executed)


def test_a_lower_limit_is_kept(tmp_path: Path) -> None:
    limit = 9 * KHZ // 1000
    _, segment, counters = emulated(tmp_path, [DRIVER, "inner"], "waitpkg", config_of("umwait", limit_ns=9000),
                                    EMULATE_MAX_TIME=str(limit))
    (executed,) = counters.values()
    assert 0 < executed["longest_ticks"] <= limit and executed["limited"] == 0
    agree("umwait", segment["slots"][0]["lane"][0], executed)


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
@pytest.mark.parametrize("lacks", ["the instruction", "the clock"])
def test_without_the_bit_or_the_clock_it_polls(tmp_path: Path, rung: str, lacks: str) -> None:
    config, features = config_of(rung), "waitpkg,monitorx"
    if lacks == "the clock":
        config = config.replace(f"tsc_khz={KHZ}", "tsc_khz=0")
    else:
        features = features.replace(FEATURE[rung], "")
    _, segment, counters = emulated(tmp_path, [DRIVER, "inner"], features, config, TIME_READING=SLOW)
    (lane,) = segment["slots"][0]["lane"]
    assert counters == {} and rung not in lane["naps"]
    assert 50e6 - 70_000 < lane["calls"]["Allreduce"]["wait_ns"] <= 50e6, "all but the first 64 polls"


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
def test_a_shared_core_is_not_held(tmp_path: Path, rung: str) -> None:
    config = config_of(rung) + ";shared=1"
    done, segment, counters = emulated(tmp_path, [DRIVER, "inner"], FEATURE[rung], config, TIME_READING=SLOW)
    naps = segment["slots"][0]["lane"][0]["naps"]
    assert counters == {} and rung not in naps
    assert 1000 < naps["yield"] <= values(done)["kernel_yields"]
