"""The rungs umwait and mwaitx: the library's own instructions, executed by the emulator."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, run, values
from tests.lib.emulate import emulation

EMULATOR = BUILD / "tests/lib/emulate/libmpiwait-emulate.so"
INSTRUCTIONS = BUILD / "tests/lib/emulate/instructions"
DRIVER = BUILD / "tests/lib/doubles/preload_driver"
LATE_SENDER = BUILD / "tests/lib/programs/late_sender"
MPIRUN = shutil.which("mpirun.openmpi")
BUDGET = "spin_ns=10000;relative_ppm=15625;absolute_ns=1000;max_ns=40000;rma_ns=10000"
TRIES = 6
SLEPT = ("c01_ns", "c02_ns", "c1_ns")
FEATURE = {"umwait": "waitpkg", "mwaitx": "monitorx"}

pytestmark = [
    pytest.mark.skipif(not EMULATOR.exists(), reason=f"not built: {EMULATOR}"),
    pytest.mark.skipif(bool(emulation.clock_reason()), reason=emulation.clock_reason() or "-"),
]


def emulated(tmp_path: Path, command: list, features: str, config: str | None = None, **more: str):
    """The process, the segment, and the emulator's counters by process id."""
    counters = Path(tempfile.mkdtemp(dir=tmp_path))
    how = emulation.environment(features, counters, [LIBRARY, INSTRUCTIONS])
    command = [*emulation.undisturbed(), *command]
    done, segment = run(command, config, preload=EMULATOR, **{**how, **more})
    assert done.returncode == 0, done.stderr
    return done, segment, emulation.counters_read(counters)


def bound_ns(rung: str, lane: dict, executed: dict[str, int]) -> float:
    """What is not in the instruction is the way into the emulator and out of it; the first one makes a file."""
    return sum(executed[key] for key in SLEPT) + 50000 * lane["naps"].get(rung, 0) + 5000000


def quiet(tmp_path: Path, rung: str, command: list, longest_s: float, config: str):
    """The same of a run in which no machine was away for long: one that was counts as sleep, and as waiting."""
    for _ in range(TRIES):
        done, segment, counters = emulated(tmp_path, command, FEATURE[rung], config)
        lanes = {slot["pid"]: slot["lane"][0] for slot in segment["slots"]}
        if all(
            lanes[pid]["asleep_ns"].get(rung, 0) <= bound_ns(rung, lanes[pid], executed)
            and lanes[pid]["calls"]["Recv"]["wait_ns"] < longest_s * 1e9
            for pid, executed in counters.items()
            if pid in lanes and "Recv" in lanes[pid]["calls"]
        ):
            break
    return done, segment, counters


@pytest.fixture(scope="module")
def tsc_khz(tmp_path_factory: pytest.TempPathFactory) -> int:
    done, _, _ = emulated(tmp_path_factory.mktemp("cpu"), [INSTRUCTIONS, "cpu"], "waitpkg")
    return int(values(done)["tsc_khz"])


def config_of(rung: str, tsc_khz: int, c02: int = 1) -> str:
    limit = f";umwait_max_ns={emulation.MAX_TIME * 1000000 // tsc_khz};umwait_c02={c02}"
    return f"rungs=pause+{rung};{BUDGET};tsc_khz={tsc_khz}{limit if rung == 'umwait' else ''}"


def agree(rung: str, lanes: list[dict], counters: dict[int, dict[str, int]], pids: list[int]) -> None:
    """Every doze of every rank was executed, and the ranks slept as long as the instructions took."""
    for lane, pid in zip(lanes, pids, strict=True):
        executed = counters.get(pid, dict.fromkeys(emulation.FIELDS, 0))
        naps = lane["naps"].get(rung, 0)
        instruction = "tpause" if rung == "umwait" else "mwaitx"
        assert executed[instruction] == naps
        assert executed["monitorx"] == (naps if rung == "mwaitx" else 0)
        assert executed["umonitor"] == executed["umwait"] == executed["limited"] == 0
        assert executed["woken"] == 0 and executed["longest_ticks"] <= emulation.MAX_TIME
        rested = sum(executed[key] for key in SLEPT)
        assert executed["c0_ns"] == 0
        assert 0.999 * rested <= lane["asleep_ns"].get(rung, 0) <= bound_ns(rung, lane, executed)


def test_the_emulator_does_what_the_manuals_say(tmp_path: Path) -> None:
    done, _, counters = emulated(tmp_path, [INSTRUCTIONS], "waitpkg,monitorx")
    seen = values(done)
    (executed,) = counters.values()
    assert seen["tpause_carry"] == seen["past_carry"] == 0 and seen["tpause_ticks"] >= 50000
    assert seen["limited_carry"] == 1 and emulation.MAX_TIME <= seen["limited_ticks"] < 100000000
    assert seen["unarmed_carry"] == seen["written_carry"] == 0
    assert seen["mwaitx_ticks"] >= 60000 and seen["c0_ticks"] >= 30000
    assert seen["zero_ended"] == 1, "without a timer, only a write ends it"
    assert (executed["tpause"], executed["limited"], executed["woken"]) == (3, 1, 2)
    assert (executed["umonitor"], executed["umwait"]) == (1, 2)
    assert (executed["monitorx"], executed["mwaitx"]) == (3, 3)
    assert executed["longest_timer_ticks"] == 60000 and executed["longest_ticks"] > 40000000
    assert min(executed[key] for key in ("c01_ns", "c02_ns", "c1_ns", "c0_ns")) > 0


@pytest.mark.parametrize("features", ["none", "waitpkg", "monitorx", "waitpkg,monitorx"])
def test_root_finds_what_there_is(tmp_path: Path, features: str) -> None:
    seen = values(emulated(tmp_path, [INSTRUCTIONS, "cpu"], features)[0])
    assert seen["waitpkg"] == ("waitpkg" in features)
    assert seen["mwaitx"] == ("monitorx" in features)
    if features == "none":
        assert seen["tsc_khz"] == 0, "nothing is measured where nothing needs it"
        return
    assert abs(seen["tsc_khz"] / seen["long_khz"] - 1) < 600e-6
    limit = emulation.MAX_TIME * 1000000 // int(seen["tsc_khz"]) if "waitpkg" in features else 0
    if not Path("/sys/devices/system/cpu/umwait_control").exists():
        assert (seen["umwait_max_ns"], seen["umwait_c02"]) == (limit, 0)


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
def test_every_doze_is_an_instruction(tmp_path: Path, tsc_khz: int, rung: str) -> None:
    config = config_of(rung, tsc_khz)
    done, segment, counters = quiet(tmp_path, rung, [DRIVER, "wait"], 0.30, config)
    (slot,) = segment["slots"]
    lane, call = slot["lane"][0], slot["lane"][0]["calls"]["Recv"]
    assert values(done)["errno"] == 4711
    assert lane["naps"][rung] > 100 and "nap" not in lane["naps"]
    assert 0.19e9 < call["wait_ns"] < 0.30e9, "the TSC at root's frequency is the clock"
    agree(rung, [lane], counters, [slot["pid"]])
    (executed,) = counters.values()
    states = {key for key in SLEPT if executed[key]}
    assert states == ({"c1_ns"} if rung == "mwaitx" else {"c01_ns", "c02_ns"} & states | {"c02_ns"})
    assert executed["longest_timer_ticks"] <= 4 * 40e-6 * tsc_khz * 1000, "the budget of long waits"


def test_c02_only_where_it_is_allowed(tmp_path: Path, tsc_khz: int) -> None:
    config = config_of("umwait", tsc_khz, c02=0)
    _, segment, counters = quiet(tmp_path, "umwait", [DRIVER, "wait"], 0.30, config)
    (executed,) = counters.values()
    assert executed["c02_ns"] == 0 < executed["c01_ns"]
    agree("umwait", segment["slots"][0]["lane"], counters, list(counters))


def test_a_lower_limit_is_kept(tmp_path: Path, tsc_khz: int) -> None:
    config = config_of("umwait", tsc_khz).replace("umwait_max_ns=", "umwait_max_ns=9000;spare=")
    config = config.replace(f";spare={emulation.MAX_TIME * 1000000 // tsc_khz}", "")
    limit = 9 * tsc_khz // 1000
    _, _, counters = emulated(
        tmp_path, [DRIVER, "wait"], "waitpkg", config, EMULATE_MAX_TIME=str(limit)
    )
    (executed,) = counters.values()
    assert 0 < executed["longest_ticks"] <= limit and executed["limited"] == 0


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
@pytest.mark.parametrize("lacks", ["the instruction", "the clock"])
def test_without_the_bit_or_the_clock_it_polls(
    tmp_path: Path, tsc_khz: int, rung: str, lacks: str
) -> None:
    config = config_of(rung, tsc_khz)
    features = "waitpkg,monitorx"
    if lacks == "the clock":
        config = config.replace(f"tsc_khz={tsc_khz}", "tsc_khz=0")
    else:
        features = features.replace(FEATURE[rung], "")
    for _ in range(TRIES):
        _, segment, counters = emulated(tmp_path, [DRIVER, "wait"], features, config)
        (lane,) = segment["slots"][0]["lane"]
        if lane["calls"]["Recv"]["wait_ns"] < 0.30e9:
            break
    assert counters == {} and rung not in lane["naps"]
    assert 0.19e9 < lane["calls"]["Recv"]["wait_ns"] < 0.30e9


@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
def test_a_shared_core_is_not_held(tmp_path: Path, tsc_khz: int, rung: str) -> None:
    config = config_of(rung, tsc_khz) + ";shared=1"
    _, segment, counters = emulated(tmp_path, [DRIVER, "wait"], FEATURE[rung], config)
    naps = segment["slots"][0]["lane"][0]["naps"]
    assert counters == {} and naps["yield"] > 100 and rung not in naps


@pytest.mark.skipif(not MPIRUN or not LATE_SENDER.exists(), reason="no Open MPI programs")
@pytest.mark.parametrize("rung", ["umwait", "mwaitx"])
def test_late_sender_under_open_mpi(tmp_path: Path, tsc_khz: int, rung: str) -> None:
    command = [MPIRUN, "--oversubscribe", "-n", "2", LATE_SENDER, "400"]
    bare, _ = run(command, None)
    config = config_of(rung, tsc_khz)
    done, segment, counters = quiet(tmp_path, rung, command, 0.9, config)
    assert done.stdout.split("checksum")[1] == bare.stdout.split("checksum")[1]
    slots = segment["slots"]
    agree(rung, [slot["lane"][0] for slot in slots], counters, [slot["pid"] for slot in slots])
    assert 0.35e9 < slots[1]["lane"][0]["calls"]["Recv"]["wait_ns"] < 0.9e9
    assert slots[1]["lane"][0]["naps"][rung] > 100
