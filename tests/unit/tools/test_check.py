"""mpi-wait check on machines made of files: each thing that can be wrong is said in its own words, and no other."""

from __future__ import annotations

import json
import os
import pathlib
import re
import time
from typing import Any, Callable

import pytest
from mpi_wait_tools import __version__

from tests.lib.doubles import check_double
from tests.lib.doubles.check_double import (
    CPUS,
    HELPER,
    LIBRARY,
    OUTBOX,
    PLUGIN,
    PLUGSTACK,
    SHIPPED,
    SPOOL,
    ZONE,
    Machine,
    host,
    policy,
)

ROOT = pathlib.Path(check_double.__file__).parents[3]
_STATS = next((ROOT / "preload").rglob("stats.h")).read_text()
SEGMENT = re.findall(r"^#define MPIWAIT_VERSION +(\d+)\b", _STATS, re.M)[0]
NO_RESTORE = "NOT SEEN clocks: mpi-wait-node has no 'restore'"


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(host, "TIMEOUT_S", 1)
    return Machine(tmp_path, monkeypatch)


def test_a_healthy_machine_has_nothing_to_complain_of(machine: Machine) -> None:
    unwell = machine.unwell()
    assert len(unwell) == 1 and unwell[0].startswith(NO_RESTORE)
    said = {finding.name: finding.what for finding in machine.findings()}
    assert said["cpufreq driver"] == "acpi-cpufreq, 2 frequency domains"
    assert said["governors"] == "schedutil" and said["domain width"] == "one core per domain"
    assert said["waitpkg (Intel)"] == "there, C0.2 allowed, at most 100000 ticks"
    assert said["clocksource"] == "tsc, the TSC is invariant"
    assert said["RAPL"] == "1 zone: package-0" and "read through libpowercap" in said["RAPL reading"]
    assert "21 min 51 s at full power" in said["RAPL range"]
    assert said["Slurm"] == "22.05.8" and said["slurmctld"] == "cluster test, 2 nodes"
    assert said["built for"] == "Slurm 22.05" and said["spool"] == f"'{SPOOL}', nfs4"
    assert said["releases"] == (f"all of {__version__}, segment version {SEGMENT}: mpi-wait, plugin, library, helper")


METERS = [["nvml", "gpu", 0, False, "NVIDIA H100", 5, 0], ["nvml", "gpu", 1, True, "NVIDIA H100", 5, 0],
          ["hwmon", "cpu", 0, False, "", 5, 0]]
CRAY = ["cray", "node", 0, False, "", 5]
ZONES = [{"name": "package-0", "kind": "package", "energy_uj": 1, "range_uj": 262143328850, "power_max_uw": 2e8}]
ASKED = """#!/bin/sh
if test "$*" = "meters -- energy=cray+powercap" -a -z "$HOME"; then
    echo '{answer}'
    exit
fi
"""


def meters(machine: Machine, why: str, rows: list[Any]) -> None:
    """The helper answers the question for its meters; energy= is among the site's arguments."""
    machine.plugstack(f"optional {PLUGIN} spool={SPOOL} energy=cray+powercap")
    machine.probe(energy={"source": "rapl", "why": "", "gpus": True, "zones": ZONES})
    answer = json.dumps({"why": why, "meters": rows})
    machine.helper(machine.at(HELPER).read_text().replace("#!/bin/sh\n", ASKED.format(answer=answer)))


def test_other_counters_are_listed(machine: Machine) -> None:
    now = time.time_ns() // 1000
    meters(machine, "a GPU has no energy counter", [*METERS, [*CRAY, now]])
    machine.write("/sys/cray/pm_counters/energy", "5 J\n", 0o444)
    said = {finding.name: (finding.status.value, finding.what) for finding in machine.findings()}
    assert said["NVML"][1].startswith("2 counters of GPUs (NVIDIA H100), to the millijoule")
    assert said["hwmon"][1].startswith("1 counter of processors") and said["MIG"][0] == "WARN"
    assert said["Cray's counters"][1].startswith("1 counter of the board, to the joule")
    assert said["Cray's counters' age"][0] == "OK" and "everybody may read" in said["Cray's counters' mode"][1]
    assert said["energy="][1].endswith("cray, powercap")
    assert said["other counters"] == ("WARN", "a GPU has no energy counter") and "GPUs" not in said


def test_modules_of_two_dies_are_named(machine: Machine) -> None:
    meters(machine, "", [["rsmi", "gpu", 0, True, "AMD MI250", 5, 0], ["rsmi", "gpu", 1, True, "AMD MI250", 5, 0]])
    said = {finding.name: (finding.status.value, finding.what) for finding in machine.findings()}
    assert said["RSMI"][1].startswith("2 counters of GPUs (AMD MI250), to some fifteen microjoules")
    assert said["GPU modules"] == ("WARN", "2 GPUs of 2 share a counter with another")


def test_intels_devices_are_listed(machine: Machine) -> None:
    meters(machine, "", [["intel", "gpu", 0, False, "Intel GPU 0bd5", 5, 0]])
    (finding,) = machine.named("i915 and xe")
    assert finding.what.startswith("1 counter of GPUs (Intel GPU 0bd5), to 61 microjoules, read once a minute")
    assert not machine.named("GPUs")


def test_counters_that_stand_still_are_named(machine: Machine) -> None:
    meters(machine, "", [[*CRAY, time.time_ns() // 1000 - 3_600_000_000]])
    (finding,) = machine.named("Cray's counters' age")
    assert finding.status.value == "WARN" and finding.what == "brought up to date 1 h 00 min ago"


@pytest.mark.parametrize("rows", [[], [["nvml"]], [["nvml", "gpu", 0, 0, "x", 1, 1]], ["x"]])
def test_gpus_without_counters_have_the_reason(machine: Machine, rows: list[Any]) -> None:
    meters(machine, "no libnvidia-ml.so.1", rows)
    (finding,) = machine.named("GPUs")
    assert finding.what == "this node has some, and their energy is not counted (no libnvidia-ml.so.1)"


def test_a_child_of_slurmd_that_ends_meanwhile_is_no_slurmd(machine: Machine) -> None:
    """Nothing is mapped in it any more."""
    machine.write("/proc/701/comm", "slurmd\n")
    machine.write("/proc/701/maps", "")
    assert [finding.what for finding in machine.named("slurmd")] == ["has loaded the plugin"]


@pytest.mark.parametrize(("node", "said"), [
    ("Sockets=1 CoresPerSocket=2 ThreadsPerCore=2", "OK 2 cores, as Slurm counts them"),
    ("Sockets=4 CoresPerSocket=1 ThreadsPerCore=1", "WARN Slurm counts 4 cores here, the machine has 2 cores with 4 h"),
    ("Sockets=4 CoresPerSocket=2 ThreadsPerCore=1", "WARN Slurm counts 8 cores here"),
    ("Sockets=1 CoresPerSocket=1 ThreadsPerCore=2", "OK Slurm counts 1 core here"),
    ("Sockets=many", "NOT SEEN how many Slurm counts on 'n1' could not be seen"),
])
def test_how_slurm_counts_the_cores(machine: Machine, node: str, said: str) -> None:
    """Two cores of two hardware threads each."""
    for cpu in range(4):
        machine.write(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list", f"{cpu % 2},{cpu % 2 + 2}\n")
    machine.config(f"NodeName=n1 {node}")
    found = machine.named("cores")
    assert [f"{finding.status.value} {finding.what}".startswith(said) for finding in found] == [True], found


@pytest.mark.parametrize("words", ["CoreSpecCount=1 CPUSpecList=1", "CoreSpecCount=1"])
def test_what_is_kept_from_jobs_is_said(machine: Machine, words: str) -> None:
    machine.config(f"NodeName=n1 Sockets=1 CoresPerSocket=2 {words}")
    assert [finding.what.partition(":")[0] for finding in machine.named("kept from jobs")] == [words.split()[-1]]


def test_dies_that_show_one_counter_are_named(machine: Machine) -> None:
    die = {"kind": "package", "energy_uj": 1, "range_uj": 262143328850, "power_max_uw": 2e8}
    zones = [{**die, "name": f"package-0-die-{number}", "mirror": number > 0} for number in range(3)]
    machine.probe(energy={"source": "rapl", "why": "", "zones": zones})
    said = [finding.what for finding in machine.named("RAPL dies")]
    assert said == ["package-0-die-1, package-0-die-2 show the counter of another die: counted once"]
    machine.probe(energy={"source": "rapl", "why": "", "zones": zones[:1]})
    assert machine.named("RAPL dies") == []


Break = Callable[[Machine], Any]


def plug(words: str) -> Break:
    return lambda machine: machine.plugstack(words)


def write(path: str, text: str) -> Break:
    return lambda machine: machine.write(path, text)


def chmod(path: str, mode: int) -> Break:
    return lambda machine: machine.at(path).chmod(mode)


def config(**changes: str) -> Break:
    return lambda machine: machine.config(**changes)


def other_note(path: str, old: bytes, new: bytes) -> Break:
    def change(machine: Machine) -> None:
        data = machine.at(path).read_bytes()
        assert data.count(old) == 1
        machine.write(path, data.replace(old, new), 0o755)

    return change


FOLDER, ENERGY = "/opt/energy", "acct_gather_energy/mpi_wait"
ENERGY_FILE = "acct_gather_energy_mpi_wait.so"


def energy_plugin(machine: Machine) -> None:
    """slurm.conf names it, and it lies in the second directory of PluginDir."""
    machine.config(AcctGatherEnergyType=f"acct_gather_energy/ipmi,{ENERGY}", PluginDir=f"/usr/lib/slurm:{FOLDER}")
    built = check_double.BUILD / "spank" / ENERGY_FILE
    machine.write(f"{FOLDER}/{built.name}", built.read_bytes(), 0o755)


def test_an_energy_plugin_of_this_slurm_is_named(machine: Machine) -> None:
    energy_plugin(machine)
    assert [(one.status.value, one.what) for one in machine.named("energy plugin")] == [
        ("OK", f"for Slurm 22.05.8, '{FOLDER}/{ENERGY_FILE}'")]


def probe(**changes: Any) -> Break:
    return lambda machine: machine.probe(**changes)


def each(*breaks: Break) -> Break:
    def change(machine: Machine) -> None:
        for one in breaks:
            one(machine)

    return change


ENERGY_GONE = {"energy": {"source": "rapl", "why": "no powercap zones", "zones": []}}

BROKEN: dict[str, tuple[Break, str]] = {
    "no cpufreq": (lambda m: m.remove(f"{CPUS}/cpufreq"), "WARN cpufreq driver: none"),
    "an unknown driver": (
        lambda m: m.domain("policy0", scaling_driver="strange"),
        "WARN cpufreq driver: strange (1), acpi-cpufreq (1), 2 frequency domains",
    ),
    "governors that differ": (
        lambda m: m.domain("policy0", scaling_governor="performance"),
        "WARN governors: performance (1), schedutil (1)",
    ),
    "a governor left at userspace": (
        each(
            lambda m: m.domain("policy0", scaling_governor="userspace"),
            lambda m: m.domain("policy1", scaling_governor="userspace", related_cpus="1"),
        ),
        "WARN governors: userspace",
    ),
    "a domain of two cores": (
        lambda m: m.domain("policy0", related_cpus="0 1"),
        "WARN domain width: 1 domain of several cores (policy0: CPUs 0-1)",
    ),
    "no umwait_control": (
        lambda m: m.remove(f"{CPUS}/umwait_control"),
        "WARN waitpkg (Intel): there, but the kernel shows no umwait_control",
    ),
    "C0.2 forbidden": (write(f"{CPUS}/umwait_control/enable_c02", "0\n"), "WARN waitpkg (Intel): there, C0.1 only"),
    "umwait for a moment only": (
        write(f"{CPUS}/umwait_control/max_time", "500\n"),
        "WARN waitpkg (Intel): there, C0.2 allowed, at most 500 ticks",
    ),
    "a TSC that the kernel gave up": (
        write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        "WARN clocksource: hpet, the TSC is invariant",
    ),
    "another clock where waitpkg needs the TSC": (
        write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
        "WARN clocksource: kvm-clock",
    ),
    "idle=poll": (write("/proc/cmdline", "ro idle=poll quiet\n"), "WARN idle states: the kernel was booted with"),
    "memfd_noexec": (write("/proc/sys/vm/memfd_noexec", "2\n"), "WARN memory files: vm.memfd_noexec is 2"),
    "SELinux": (write("/sys/fs/selinux/enforce", "1"), "WARN security modules: SELinux enforces"),
    "no flags": (write("/proc/cpuinfo", "processor: 0\n"), "NOT SEEN processor: /proc/cpuinfo lists no flags"),
    "no RAPL": (lambda m: m.remove("/sys/class/powercap"), "WARN RAPL: the kernel shows no RAPL zone"),
    "counters for everybody": (
        chmod(f"{ZONE}/energy_uj", 0o444),
        "WARN RAPL mode: others than root may read 1 counter",
    ),
    "counters that nobody reads": (probe(**ENERGY_GONE), "WARN RAPL reading: no zone can be read (no powercap"),
    "a zone that is not read": (
        write(f"{ZONE}:0/name", "core\n"),
        "WARN RAPL reading: 1 zone of 2 cannot be read",
    ),
    "GPUs": (
        probe(energy={"source": "rapl", "why": "", "gpus": True, "zones": [
            {"name": "package-0", "kind": "package", "energy_uj": 1, "range_uj": 262143328850, "power_max_uw": 2e8}]}),
        "WARN GPUs: this node has some, and their energy is not counted",
    ),
    "slurmctld away": (
        lambda m: m.answers("scontrol", "slurm 22.05.8\n", 1, "slurm_load_ctl_conf error: Unable to contact\n"),
        "FAIL slurmctld: does not answer: slurm_load_ctl_conf error",
    ),
    "slurmctld that hangs": (lambda m: m.hangs("scontrol"), "FAIL slurmctld: does not answer: scontrol did not"),
    "no accounting": (
        config(AccountingStorageType="accounting_storage/none"),
        "FAIL slurmdbd: AccountingStorageType is accounting_storage/none",
    ),
    "slurmdbd away": (
        lambda m: m.answers("sacctmgr", "", 1, "sacctmgr: error: Unable to contact slurmdbd\n"),
        "FAIL slurmdbd: does not serve this host: sacctmgr: error: Unable to contact",
    ),
    "slurmdbd that hangs": (
        lambda m: m.hangs("sacctmgr"),
        "FAIL slurmdbd: does not serve this host: sacctmgr did not answer within",
    ),
    "a cluster that slurmdbd does not know": (
        lambda m: m.answers("sacctmgr", "other\n"),
        "FAIL slurmdbd: does not serve this host: it knows no cluster 'test'",
    ),
    "slurmdbd away, but the sweep stores": (
        each(lambda m: m.answers("sacctmgr", "", 1), plug(f"optional {PLUGIN} spool={SPOOL} writer=sweep")),
        "WARN slurmdbd: does not serve this host: sacctmgr: exit status 1",
    ),
    "a slurmdbd that is older": (
        lambda m: m.answers("sacctmgr", "test\nSLURMDBD_VERSION = 21.08.1\n"),
        "WARN slurmdbd: 21.08.1, answered in",
    ),
    "no PrologFlags": (config(PrologFlags=""), "WARN PrologFlags: none, without Alloc and Contain"),
    "Alloc alone": (config(PrologFlags="Alloc"), "WARN PrologFlags: Alloc, without Contain"),
    "RunInJob without our prolog": (
        each(
            config(PrologFlags="Contain,RunInJob", Prolog="/etc/pro", Epilog="/etc/epi"),
            write("/etc/pro", "true\n"),
            write("/etc/epi", "exec /opt/mpi-wait/sbin/mpi-wait-node epilog spool=/x\n"),
        ),
        "FAIL PrologFlags: RunInJob, and Prolog does not run mpi-wait-node prolog",
    ),
    "no line": (plug("optional /usr/lib/other.so"), f"FAIL plugstack line: no line of '{PLUGSTACK}'"),
    "a required line": (plug(f"required {PLUGIN} spool={SPOOL}"), f"WARN plugstack line: {PLUGSTACK}:1 says 'requi"),
    "files that are given away": (
        plug(f"optional {PLUGIN} spool={SPOOL} grant=file"), f"WARN plugstack line: {PLUGSTACK}:1 says 'grant=file'"
    ),
    "two lines": (
        lambda m: m.plugstack(f"optional {PLUGIN} spool={SPOOL}", f"optional {PLUGIN}"),
        f"FAIL plugstack line: there are 2: {PLUGSTACK}:1, {PLUGSTACK}:2",
    ),
    "a line of no kind": (plug(f"must {PLUGIN}"), f"FAIL plugstack line: {PLUGSTACK}:1 begins with 'must'"),
    "a line that Slurm cuts": (
        plug(f"optional {PLUGIN} spool={SPOOL} allow={'a,' * 2100}nap"),
        f"FAIL plugstack line: {PLUGSTACK}:1 is longer than 4095 bytes",
    ),
    "a file that includes itself": (
        lambda m: m.plugstack(f"optional {PLUGIN} spool={SPOOL}", "include plugstack.conf"),
        f"FAIL plugstack line: {PLUGSTACK} is included by itself",
    ),
    "a plugstack.conf that others write": (
        chmod(PLUGSTACK, 0o666),
        f"FAIL plugstack.conf: '{PLUGSTACK}' has mode 0666",
    ),
    "no plugin": (lambda m: m.remove(PLUGIN), f"FAIL plugin: '{PLUGIN}' does not exist"),
    "another file as plugin": (write(PLUGIN, "hello"), f"FAIL plugin: '{PLUGIN}' is not ours"),
    "a plugin that others write": (chmod(PLUGIN, 0o757), f"FAIL plugin: '{PLUGIN}' has mode 0757"),
    "a plugin in a folder of others": (
        lambda m: m.give("/opt/mpi-wait/lib", 1000),
        "FAIL plugin: '/opt/mpi-wait/lib' belongs to uid 1000",
    ),
    "a plugin for another Slurm": (
        other_note(PLUGIN, b"slurm=0x160508", b"slurm=0x170207"),
        "FAIL built for: Slurm 23.02, but this is 22.05.8",
    ),
    "no energy plugin that slurm.conf names": (
        lambda m: m.config(AcctGatherEnergyType=ENERGY, PluginDir="/usr/lib/slurm:/opt/energy"),
        f"FAIL energy plugin: slurm.conf names it, and PluginDir has no '{ENERGY_FILE}'",
    ),
    "an energy plugin for another third number of Slurm": (
        each(energy_plugin, other_note(f"{FOLDER}/{ENERGY_FILE}", b"slurm=0x160508", b"slurm=0x160509")),
        "FAIL energy plugin: for Slurm 22.05.9, but this is 22.05.8",
    ),
    "a slurmd that is older than the line": (
        write("/proc/700/maps", "7f00-7f01 r-xp 0 0:0 1 /usr/sbin/slurmd\n"),
        "FAIL slurmd: has not loaded the plugin",
    ),
    "a plugin that users cannot read": (chmod(PLUGIN, 0o750), f"FAIL plugin: '{PLUGIN}' has mode 0750: users cannot"),
    "a library in a folder that users cannot enter": (
        chmod(os.path.dirname(LIBRARY), 0o700),
        f"FAIL library: '{os.path.dirname(LIBRARY)}' has mode 0700: users cannot read it",
    ),
    "no library": (lambda m: m.remove(LIBRARY), f"FAIL library: '{LIBRARY}' does not exist"),
    "a library of another release": (
        other_note(LIBRARY, f"release={__version__}".encode(), b"release=0.0.9"),
        f"FAIL releases: mpi-wait {__version__}, plugin {__version__} with segment version {SEGMENT}, "
        f"library 0.0.9 with segment version {SEGMENT}, helper {__version__}",
    ),
    "a library of the same release with another segment": (
        other_note(LIBRARY, f"segment={SEGMENT}".encode(), b"segment=0"),
        f"FAIL releases: mpi-wait {__version__}, plugin {__version__} with segment version {SEGMENT}, "
        f"library {__version__} with segment version 0, helper {__version__}",
    ),
    "no helper": (lambda m: m.remove(HELPER), f"FAIL helper: '{HELPER}' does not exist"),
    "a helper that others write": (chmod(HELPER, 0o777), f"FAIL helper: '{HELPER}' has mode 0777"),
    "a helper that fails": (
        lambda m: m.helper("#!/bin/sh\necho no libslurm >&2\nexit 127\n"),
        f"FAIL helper: '{HELPER}': no libslurm",
    ),
    "a helper that says nothing of use": (
        lambda m: m.helper("#!/bin/sh\necho '[]'\n"),
        f"FAIL helper: '{HELPER}': its answer is not understood",
    ),
    "policies of which one is refused": (
        each(write(f"{SHIPPED}/bad.json", "{"), probe(left_out=f"policy '{SHIPPED}/bad.json' left out: line 1: eof")),
        f"FAIL policy files: policy '{SHIPPED}/bad.json' left out: line 1: eof",
    ),
    "policies that others write": (chmod(f"{SHIPPED}/nap.json", 0o666), f"FAIL shipped: '{SHIPPED}/nap.json' has mode"),
    "policies to which others may add": (chmod(SHIPPED, 0o1777), f"FAIL shipped: '{SHIPPED}' has mode 1777"),
    "no shipped policies": (lambda m: m.remove(SHIPPED), f"FAIL shipped: '{SHIPPED}' is no directory"),
    "a directory of policies that is not there": (
        plug(f"optional {PLUGIN} spool={SPOOL} policies=/etc/none"),
        "FAIL site's own: '/etc/none' is no directory",
    ),
    "a default that is no policy": (
        plug(f"optional {PLUGIN} spool={SPOOL} default=nop"),
        "FAIL default: 'nop' is no policy of this host",
    ),
    "an allowed name that is no policy": (
        plug(f"optional {PLUGIN} spool={SPOOL} allow=nap,nop"),
        "WARN allow: nop: no policy of this host",
    ),
    "policies by program that are refused": (
        each(
            plug(f"optional {PLUGIN} spool={SPOOL} programs=/etc/programs.json"),
            write("/etc/programs.json", "{"),
            probe(programs={"why": "programs '/etc/programs.json' left out: line 1: eof", "names": 0}),
        ),
        "FAIL programs: programs '/etc/programs.json' left out: line 1: eof",
    ),
    "policies by program that others write": (
        each(
            plug(f"optional {PLUGIN} spool={SPOOL} programs=/etc/programs.json"),
            write("/etc/programs.json", "{}"),
            chmod("/etc/programs.json", 0o666),
            probe(programs={"why": "", "names": 3}),
        ),
        "FAIL programs: '/etc/programs.json' has mode 0666",
    ),
    "policies by program of a helper that does not know them": (
        plug(f"optional {PLUGIN} spool={SPOOL} programs=/etc/programs.json"),
        "NOT SEEN programs: mpi-wait-node does not say how it reads programs=",
    ),
    "a default that the host lacks": (
        each(
            plug(f"optional {PLUGIN} spool={SPOOL} default=umwait"),
            probe(policies=[policy("umwait", "nap", "no waitpkg"), policy("nap"), policy("off")]),
        ),
        "WARN umwait: becomes nap here: no waitpkg (the default)",
    ),
    "cores for two jobs": (
        lambda m: m.answers("sinfo", "main NO\nlow FORCE:2\nfair FORCE:1\nnight YES:4\nwhole EXCLUSIVE\n"),
        "WARN partitions: low has OverSubscribe=FORCE:2, night has OverSubscribe=YES:4, and grant=lease",
    ),
    "a way to the spool that others write": (
        chmod(os.path.dirname(SPOOL), 0o777),
        f"WARN spool: '{os.path.dirname(SPOOL)}' has mode 0777, of group 0, and the spool is below it",
    ),
    "a way to the spool that is somebody's": (
        lambda m: m.give(os.path.dirname(SPOOL), 1234),
        f"WARN spool: '{os.path.dirname(SPOOL)}' belongs to uid 1234, and the spool is below it",
    ),
    "no spool": (plug(f"optional {PLUGIN}"), "WARN spool: none is set, and the cluster has 2 nodes"),
    "a spool that is not there": (lambda m: m.remove(SPOOL), f"FAIL spool: '{SPOOL}' does not exist here"),
    "a spool that is a link": (
        each(lambda m: m.remove(SPOOL), lambda m: m.at(SPOOL).symlink_to("/tmp")),
        f"FAIL spool: '{SPOOL}' is a link",
    ),
    "a spool that is a file": (
        each(lambda m: m.remove(SPOOL), write(SPOOL, "")),
        f"FAIL spool: '{SPOOL}' is no directory",
    ),
    "a spool that others write": (chmod(SPOOL, 0o777), f"FAIL spool: '{SPOOL}' has mode 0777, writable by others"),
    "a spool of somebody's": (
        lambda m: m.give(SPOOL, 1234),
        f"FAIL spool: '{SPOOL}' belongs to uid 1234, not to root",
    ),
    "a spool user who is nobody": (
        plug(f"optional {PLUGIN} spool={SPOOL} spool_user=nosuchuser"),
        f"FAIL spool: '{SPOOL}' shall belong to spool_user=nosuchuser, who is no user",
    ),
    "a spool that nobody shares": (
        write("/proc/self/mountinfo", "30 29 0:26 / /shared rw - tmpfs tmpfs rw\n"),
        f"WARN spool: '{SPOOL}' is on tmpfs, and the cluster has 2 nodes",
    ),
    "records left in the spool": (
        lambda m: m.record(f"{SPOOL}/test-7-0", 7325),
        "WARN left in spool: 1 record in the spool, the oldest 2 h 02 min old (test-7-0)",
    ),
    "records left in the outbox": (
        each(lambda m: m.record(f"{OUTBOX}/test-8-0.n1.json", 90000), chmod(OUTBOX, 0o700)),
        f"WARN outbox: 1 record in {OUTBOX}, the oldest 1 d 01 h old (test-8-0.n1.json)",
    ),
    "an outbox that others write": (lambda m: m.make(OUTBOX, 0o777), f"FAIL outbox: '{OUTBOX}' has mode 0777"),
    "a sacct that fails": (
        lambda m: m.answers("sacct", "", 1, "sacct: error: no\n"),
        "NOT SEEN stored: sacct: error: no",
    ),
    "a squeue that fails": (
        each(lambda m: m.make("/run/mpi-wait/n1/77"), lambda m: m.answers("squeue", "", 1)),
        "NOT SEEN job states: 1 job; Slurm did not say which run",
    ),
    "state of a job that is gone": (
        lambda m: m.make("/run/mpi-wait/n1/77"),
        "WARN job states: 1 job left a state but no longer run here (job 77)",
    ),
}


@pytest.mark.parametrize("change,message", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_is_said(machine: Machine, change: Break, message: str) -> None:
    change(machine)
    findings = machine.findings()
    said = [f"{one.status.value} {one.name}: {one.what}" for one in findings if one.status.value != "OK"]
    assert [line for line in said if line.startswith(message)], said
    for one in findings:
        if one.status.value in ("WARN", "FAIL"):
            assert one.means and one.do, one
