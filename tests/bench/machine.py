"""Describes what a result was measured on: the machine and the versions, but nothing that identifies its owner."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
from pathlib import Path

from tests.bench import energy
from tests.bench.variants import CARRIED
from tests.lib.libraries import BUILD, MPIS, ROOT, Mpi, Unavailable, version_of, wheel_path


def first_line(path: str) -> str:
    try:
        return Path(path).read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return "unknown"


def processor() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].strip() if found else platform.machine()


def is_virtual() -> bool:
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.M))


def quota_cpus() -> float:
    """Returns the CPU quota of the control group, in CPUs; infinity without a limit."""
    limit = first_line("/sys/fs/cgroup/cpu.max").split()
    if len(limit) != 2:
        limit = [first_line(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota, period = (float(word) for word in limit)
    except ValueError:  # "max", "unknown"
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def first_threads(cpus: list[int], siblings: list[str]) -> list[int]:
    """Returns the first CPU of each core. siblings: for each CPU the list of CPUs of its core, if known."""
    found: dict[str, int] = {}
    for cpu, of_core in zip(cpus, siblings):
        found.setdefault(str(cpu) if of_core == "unknown" else of_core, cpu)
    return list(found.values())


def cores() -> list[int]:
    """Returns a CPU of each core that this process may run on, and no more than its control group's quota."""
    ours = sorted(os.sched_getaffinity(0))
    siblings = [first_line(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in ours]
    return first_threads(ours, siblings)[:max(int(min(quota_cpus(), len(ours))), 1)]


def cpus() -> list[int]:
    """Returns the CPUs of cores(), then the other CPUs that this process may run on."""
    first = cores()
    return first + sorted(os.sched_getaffinity(0) - set(first))


def memory_gib() -> float:
    found = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return round(int(found[1]) / (1 << 20), 1) if found else 0


def nap() -> dict[str, float]:
    words = command_line([str(BUILD / "tests/bench/programs/nap_cost")]).split()
    return dict(zip(("late_us", "late_most_us", "cpu_us"), map(float, words)))


def described() -> dict[str, object]:
    return {
        "processor": processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "cores": len(cores()),
        "virtual": is_virtual(),
        "memory_gib": memory_gib(),
        "kernel": re.split(r"[^\d.]", platform.release())[0],
        "clocksource": first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "energy": energy.described(),
        "nap": nap(),
    }


def command_line(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() if done.returncode == 0 else ""


def version_here() -> str:
    """Returns the tree's version, or the one that tests/bench/carry has written down."""
    if CARRIED.exists():
        return str(json.loads(CARRIED.read_text())["version"])
    return command_line(["git", "describe", "--always", "--dirty"]) or "unknown"


def versions() -> dict[str, str]:
    found = {"spank-mpi-wait": version_here(), "python": platform.python_version()}
    slurm = command_line(["srun", "--version"]) if any(
        os.access(f"{folder}/srun", os.X_OK) for folder in os.get_exec_path()) else ""
    if slurm:
        found["slurm"] = slurm.split()[-1]
    for mpi in MPIS:
        try:
            if mpi.wheel and not wheel_path(mpi.wheel).exists():
                continue
            found[mpi.name] = mpi.title if mpi.wheel else f"{mpi.title}: {version_number(mpi)}"
        except Unavailable:
            continue
    return found


def version_number(mpi: Mpi) -> str:
    found = re.search(r"\d+\.\d+[\d.]*", version_of([mpi.tool("mpirun"), "--version"]))
    return found[0] if found else "version unknown"


def jiffies() -> tuple[int, int]:
    """Returns the time that the host took away from all CPUs since the start of the machine, and the total time."""
    words = [int(word) for word in first_line("/proc/stat").split()[1:9]]
    return words[7], sum(words)


def stolen_percent(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Returns the stolen time between two readings in per cent; 0 if the clock has not ticked."""
    return 100 * (after[0] - before[0]) / (after[1] - before[1]) if after[1] > before[1] else 0


def loads() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]
