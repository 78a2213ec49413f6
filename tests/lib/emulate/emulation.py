"""Runs programs under the emulated wait instructions, and reads the counters of what they executed."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

FIELDS = (
    "tpause",
    "umonitor",
    "umwait",
    "monitorx",
    "mwaitx",
    "c01_ns",
    "c02_ns",
    "c1_ns",
    "c0_ns",
    "limited",
    "woken",
    "longest_ticks",
    "longest_timer_ticks",
)
COUNTERS = struct.Struct(f"={len(FIELDS)}Q")
MAX_TIME = 100000
VIRTUAL_TSC_KHZ = 2_500_000  # tests/lib/doubles/virtual_time.h
CLOCKSOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def clock_reason() -> str:
    """Returns why rungs that need the TSC cannot run here, emulated or not; "" if they can."""
    if not re.search(r"^flags.* nonstop_tsc", Path("/proc/cpuinfo").read_text(), re.M):
        return "the TSC of this machine is not invariant"
    source = CLOCKSOURCE.read_text().strip()
    return "" if source == "tsc" else f"the kernel's clocksource is {source}, not tsc"


@cache
def sites(file: Path, virtual: bool = False) -> str:
    """Returns, for EMULATE_SITES, the offsets of the file's instructions that would not trap on this processor.

    The file is disassembled, because the bytes alone may be part of other instructions. CPUID and the pair of MWAITX
    are always among them: CPUID never traps, and hypervisors that hide MWAITX let it pass.
    """
    mnemonics = "cpuid|monitorx|mwaitx" + "|rdtsc" * virtual
    if re.search(r"^flags.* waitpkg", Path("/proc/cpuinfo").read_text(), re.M):
        mnemonics += "|tpause|umonitor|umwait"
    text = subprocess.run(["objdump", "-d", file], capture_output=True, text=True, check=True).stdout
    found = re.findall(rf"^\s*([0-9a-f]+):\t[0-9a-f ]+\t(?:{mnemonics})\b", text, re.M)
    return f"{file.name}:{','.join(found)}"


@cache
def undisturbed() -> tuple[str, ...]:
    """Returns a command's prefix that keeps other processes off its cores: a rank that shares a core yields, and never
    sleeps."""
    prefix = ("chrt", "--fifo", "1")
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return prefix


def environment(features: str, counters: Path | str, files: Iterable[Path], virtual: bool = False) -> dict[str, str]:
    """Returns the variables that a program needs besides LD_PRELOAD. features: "waitpkg", "monitorx", both, "none",
    "@FILE". virtual: the double of the clock is preloaded too, and the TSC shows its time."""
    return {
        "EMULATE": features,
        "EMULATE_COUNTERS": str(counters),
        "EMULATE_SITES": ";".join(sites(file, virtual) for file in files),
        "EMULATE_MAX_TIME": str(MAX_TIME),
    }


def counters_read(directory: Path) -> dict[int, dict[str, int]]:
    """Returns, by process id, the counters of every process that executed a wait instruction."""
    return {
        int(path.name): dict(zip(FIELDS, COUNTERS.unpack_from(path.read_bytes()), strict=True))
        for path in directory.iterdir()
    }
