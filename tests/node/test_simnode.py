"""The simulated node behaves as the kernel's files do, and its energy follows real CPU time.

Without Slurm: each simulation has a bare mount namespace of its own.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lib.simnode import mounts
from tests.lib.simnode.cpufreq import DRIVERS, Policy
from tests.lib.simnode.model import DEFAULT_RANGE_UJ, Model, Options
from tests.lib.simnode.simulation import POWERCAP, Simulation
from tests.lib.throwaway.inside import REPOSITORY
from tests.lib.throwaway.requirements import DEBIAN_PYTHON, missing_for_simulation

CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
SPIN = "import time\nwhile time.process_time() < {seconds}: pass"


@pytest.fixture(scope="module")
def simulate() -> Iterator[Callable[..., Simulation]]:
    """Starts simulations, one per set of options, and ends them with the module."""
    reasons = missing_for_simulation(Path("/proc/filesystems").read_text().split())
    if os.geteuid() != 0:
        reasons.append("root")
    if reasons:
        pytest.skip("the simulated node needs " + "; ".join(reasons))
    known: dict[str, Simulation] = {}

    def start(**options: Any) -> Simulation:
        key = json.dumps(options, sort_keys=True)
        if key not in known:
            known[key] = Simulation(**options)
        return known[key]
    yield start
    for simulation in known.values():
        simulation.process.kill()
        simulation.process.wait()


def test_zones_look_as_the_kernel_shows_them(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    assert node.read(f"{POWERCAP}/SIMULATED") == "simulated by tests/lib/simnode"
    names = {f"intel-rapl:{zone}": name for zone, name in (
        ("0", "package-0"), ("0:0", "core"), ("0:1", "dram"), ("1", "package-1"), ("2", "psys"))}
    for zone, name in names.items():
        assert node.read(f"{POWERCAP}/{zone}/name") == name
    nested = f"{POWERCAP}/intel-rapl/intel-rapl:0/intel-rapl:0:1"
    assert node.read(f"{nested}/name") == "dram"
    assert int(node.read(f"{nested}/max_energy_range_uj")) == DEFAULT_RANGE_UJ
    assert os.stat(node.path(f"{nested}/energy_uj")).st_mode & 0o777 == 0o400


def test_topology_is_unchanged(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    for command in (["lscpu", "-p"], ["cat", "/sys/devices/system/cpu/online"]):
        assert node.run(command).stdout == subprocess.run(
            command, capture_output=True, text=True, check=True).stdout


def test_the_machine_itself_sees_nothing(simulate: Callable[..., Simulation]) -> None:
    simulate()
    assert not Path(POWERCAP, "SIMULATED").exists()
    assert "simnode" not in Path("/proc/self/mountinfo").read_text()


def test_refuses_the_machines_own_namespace() -> None:
    if missing_for_simulation(["fuse"]) or mounts.in_own_namespace():
        pytest.skip("no pyfuse3, or not the machine's own mount namespace")
    result = subprocess.run([DEBIAN_PYTHON, "-m", "tests.lib.simnode"], cwd=REPOSITORY,
                            capture_output=True, text=True)
    assert result.returncode == 1 and "refused" in result.stderr


def test_setspeed_needs_the_userspace_governor(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    assert node.read(f"{CPUFREQ}/scaling_setspeed") == "<unsupported>"
    assert node.write(f"{CPUFREQ}/scaling_setspeed", 1_200_000) == errno.EINVAL
    assert node.write(f"{CPUFREQ}/scaling_governor", "no-such") == errno.EINVAL
    assert node.write(f"{CPUFREQ}/scaling_governor", "userspace") == 0
    assert node.write(f"{CPUFREQ}/scaling_setspeed", "fast") == errno.EINVAL
    for asked, got in ((1_200_000, 1_200_000), (1_300_000, 1_400_000), (1, 1_000_000),
                       (9_000_000, 2_400_000)):
        assert node.write(f"{CPUFREQ}/scaling_setspeed", asked) == 0
        assert int(node.read(f"{CPUFREQ}/scaling_cur_freq")) == got
    assert node.write(f"{CPUFREQ}/scaling_cur_freq", 1_000_000) == errno.EACCES
    node.write(f"{CPUFREQ}/scaling_governor", "schedutil")


def test_an_open_descriptor_reads_fresh_values(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    descriptor = os.open(node.path(f"{CPUFREQ}/scaling_max_freq"), os.O_RDWR)
    try:
        for khz in (1_800_000, 2_400_000):
            os.pwrite(descriptor, str(khz).encode(), 0)
            assert int(os.pread(descriptor, 64, 0)) == khz
    finally:
        os.close(descriptor)


def test_owner_and_mode_can_be_given_away(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    path = node.path(f"{CPUFREQ}/scaling_min_freq")
    as_user = ["setpriv", "--reuid=20001", "--regid=20001", "--clear-groups", "sh", "-c",
               f"echo 1000000 > {CPUFREQ}/scaling_min_freq"]
    with pytest.raises(subprocess.CalledProcessError):
        node.run(as_user)
    os.chown(path, 20001, 20001)
    os.chmod(path, 0o600)
    node.run(as_user)
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (20001, 0o600)
    os.chown(path, 0, 0)
    os.chmod(path, 0o644)


def test_drivers_and_domains_differ(simulate: Callable[..., Simulation]) -> None:
    node = simulate(driver="intel_pstate", domain_size=0)
    cpus = sorted(os.sched_getaffinity(0))
    assert node.read(f"{CPUFREQ}/related_cpus").split() == [str(cpu) for cpu in cpus]
    assert node.write(f"{CPUFREQ}/scaling_governor", "userspace") == errno.EINVAL
    assert node.write(f"{CPUFREQ}/energy_performance_preference", "power") == 0
    assert not node.path(f"{CPUFREQ}/scaling_available_frequencies").exists()


@contextmanager
def parent_of(node: Simulation, commands: str) -> Iterator[None]:
    """A shell on the node whose children have ended, one after another. It is still there, and knows what they used."""
    command = ["nsenter", "-t", str(node.process.pid), "-m", "-r", "bash", "-c", f"{commands}; echo done; read -r"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout and parent.stdout.readline() == "done\n"
        yield
        parent.communicate("\n")


def test_energy_follows_cpu_time(simulate: Callable[..., Simulation]) -> None:
    """Each package takes 20 W, and 30 J more for each second of CPU time, however long that took."""
    node = simulate()
    before = node.truth()
    with parent_of(node, f'{sys.executable} -c "{SPIN.format(seconds=0.8)}"'):
        after = node.truth()
    assert sum(after["cpu_s"]) - sum(before["cpu_s"]) > 0.7
    for package, zone in enumerate(("intel-rapl:0", "intel-rapl:1")):
        joules = (after["zones"][zone]["total_uj"] - before["zones"][zone]["total_uj"]) / 1e6
        idle_j = 20 * (after["model_s"] - before["model_s"])
        assert joules == pytest.approx(idle_j + 30 * (after["cpu_s"][package] - before["cpu_s"][package]), rel=0.001)


def test_a_process_that_ends_unseen_is_counted(simulate: Callable[..., Simulation]) -> None:
    node = simulate()
    before = sum(node.truth()["cpu_s"])
    with parent_of(node, "; ".join([f'{sys.executable} -S -c "{SPIN.format(seconds=0.03)}"'] * 20)):
        assert sum(node.truth()["cpu_s"]) > before + 0.2


def test_counters_are_exact_while_held_and_wrap(simulate: Callable[..., Simulation]) -> None:
    range_uj = 5_000_000
    node = simulate(range_uj=range_uj, start_uj=range_uj - 1000, speed=10)
    deadline = time.monotonic() + 30
    while node.truth()["zones"]["intel-rapl:0"]["total_uj"] <= 5 * range_uj:
        assert time.monotonic() < deadline
    node.control(hold=True)
    truth = node.truth()
    for zone, values in truth["zones"].items():
        shown = int(node.read(f"{POWERCAP}/{zone}/energy_uj"))
        assert shown == values["energy_uj"] <= range_uj
        assert shown == (values["total_uj"] + range_uj - 1000) % (range_uj + 1)
    node.control(reset="intel-rapl:0")
    assert node.read(f"{POWERCAP}/intel-rapl:0/energy_uj") == "0"


def test_zones_can_vanish_and_throttle_counters_rise(simulate: Callable[..., Simulation]) -> None:
    node = simulate(packages=1)
    node.control(remove="intel-rapl:0:1")
    assert not node.path(f"{POWERCAP}/intel-rapl:0:1").exists()
    assert "intel-rapl:0:1" not in os.listdir(node.path(f"{POWERCAP}/intel-rapl:0/"))
    node.control(throttle={"cpu0": {"core_throttle_count": 3}})
    folder = "/sys/devices/system/cpu/cpu0/thermal_throttle"
    assert node.read(f"{folder}/core_throttle_count") == "3"
    assert node.write("/run/simnode/fs/control", '{"no-such": 1}') == errno.EINVAL


def test_range_is_clamped_min_to_max() -> None:
    policy = Policy(DRIVERS["acpi-cpufreq"], (0,))
    policy.set_max("1200000")
    policy.set_min("2000000")
    assert (policy.min_khz, policy.max_khz) == (1_200_000, 1_200_000)
    policy.set_max("9999999")
    assert (policy.min_khz, policy.max_khz) == (2_000_000, 2_400_000)


def test_model_law_is_exact() -> None:
    model = Model(Options(package_idle_w=10, package_busy_w=100, core_share=0.5))
    model.advance(2.0, {0: (1.0, 0.5), 1: (0.25, 1.0)})
    totals = {name: zone.total_uj for name, zone in model.zones.items()}
    assert totals["intel-rapl:0"] == pytest.approx(70e6)
    assert totals["intel-rapl:1"] == pytest.approx(45e6)
    assert totals["intel-rapl:0:0"] == pytest.approx(2.5 * 2e6 + 25e6)
    with pytest.raises(ValueError, match="no such knob: colour"):
        Options.from_dict({"colour": 1})


def test_it_ends_with_whoever_started_it() -> None:
    """Also with one that is killed."""
    code = ("import os\nfrom tests.lib.simnode.simulation import Simulation\n"
            "print(Simulation().process.pid, flush=True)\nos.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while Path(f"/proc/{int(done.stdout)}/root").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
