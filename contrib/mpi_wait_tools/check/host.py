"""check: the instructions with which this node's processors wait, its frequency domains, and its energy counters."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections import Counter
from typing import Any

from ..site.host import Host
from ..text.units import duration, plural, safe
from .finding import Finding, not_seen, ok, warn

CPUS = "/sys/devices/system/cpu"
CPUFREQ = f"{CPUS}/cpufreq"
UMWAIT_CONTROL = f"{CPUS}/umwait_control"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
DRIVERS = ("acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate", "amd-pstate-epp")
UMWAIT_SHORT = 10_000  # ticks of the TSC, about 3 us: a shorter sleep of a core costs more than it saves
RESOLUTION_S = 1e-6
POWERCAP = "/sys/class/powercap"
SIMULATED = " (simulated)"
BOARD = "/sys/cray/pm_counters"
NO_ENVIRONMENT = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
STALE_S = 10
SOURCES = {"nvml": "NVML", "rsmi": "RSMI", "intel": "i915 and xe", "cray": "Cray's counters", "hwmon": "hwmon"}
PRECISION = {
    "nvml": "to the millijoule, brought up to date every 0.02 to 0.1 s",
    "rsmi": "to some fifteen microjoules, brought up to date by its driver",
    "intel": "to 61 microjoules, read once a minute while a job has them, because they wrap",
    "cray": "to the joule, brought up to date ten times a second",
    "hwmon": "to the microjoule, brought up to date by its driver",
}
SCOPES = {"node": "the board", "cpu": "processors", "memory": "memory", "gpu": "GPUs"}
ORDER = "powercap+hwmon+cray+nvml+rsmi+intel"


def parse_list(text: str) -> set[int]:
    """Returns the CPUs in a list of the kernel's: "0-3,8" or "0 1 2 3"."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip()):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and len(part) < 20:
            cpus.update(range(int(first), min(int(last or first), int(first) + 65536) + 1))
    return cpus


def shown_list(cpus: set[int]) -> str:
    """Returns the CPUs as a list in the kernel's form: "0-2,8" for {0, 1, 2, 8}."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def counted(values: list[str]) -> str:
    """Returns "a (2), b (1)" for ["a", "b", "a"]; the value alone if all are alike."""
    counts = Counter(values).most_common()
    if len(counts) == 1:
        return safe(counts[0][0])
    return ", ".join(f"{safe(value)} ({count})" for value, count in counts)


def _domains(host: Host) -> list[str]:
    names = [name for name in host.names(CPUFREQ) or [] if re.fullmatch("policy[0-9]+", name)]
    return sorted(names, key=lambda name: int(name[6:]))


def _driver(host: Host, domains: list[str]) -> Finding:
    drivers = [host.line(f"{CPUFREQ}/{name}/scaling_driver") or "none" for name in domains]
    what = f"{counted(drivers)}, {plural(len(domains), 'frequency domain')}"
    what += SIMULATED if host.simulated else ""
    unknown = sorted(set(drivers) - set(DRIVERS))
    if not unknown:
        return ok("cpufreq driver", what)
    return warn(
        "cpufreq driver",
        what,
        f"frequencies are not changed under '{safe(unknown[0])}': policies that need 'pstate' fall back",
        f"nothing, unless you want them: then boot with one of {', '.join(DRIVERS)}",
    )


def _governors(host: Host, domains: list[str]) -> Finding:
    governors = [host.line(f"{CPUFREQ}/{name}/scaling_governor") or "none" for name in domains]
    what = counted(governors) + (SIMULATED if host.simulated else "")
    if len(set(governors)) > 1:
        return warn(
            "governors",
            what,
            "cores differ in how their clock is chosen: the ranks of one job run at different speeds",
            "set one governor on all of them ('cpupower frequency-set -g NAME'), or wait for the jobs that asked"
            " for one to end",
        )
    if governors[0] == "userspace":
        return warn(
            "governors",
            what,
            "cores stay at the clock that somebody set, whatever their load",
            "nothing if a job asked for it (--cpu-freq); otherwise set the governor that you want",
        )
    return ok("governors", what)


def _domain_width(host: Host, domains: list[str]) -> Finding:
    wide = []
    for name in domains:
        related = parse_list(host.line(f"{CPUFREQ}/{name}/related_cpus") or "")
        cpu = min(related, default=int(name[6:]))
        core = host.line(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list")
        if related - (parse_list(core) if core else {cpu}):
            wide.append((name, shown_list(related)))
    if not wide:
        return ok("domain width", "one core per domain" + (SIMULATED if host.simulated else ""))
    return warn(
        "domain width",
        f"{plural(len(wide), 'domain')} of several cores ({wide[0][0]}: CPUs {wide[0][1]})"
        + (SIMULATED if host.simulated else ""),
        "a change of one core's clock changes its neighbours': jobs that do not own the whole domain get none",
        "nothing; give jobs whole domains (sockets, or --exclusive) if 'pstate' matters to you",
    )


def check_frequency(host: Host) -> list[Finding]:
    domains = _domains(host)
    if not domains:
        return [
            warn(
                "cpufreq driver",
                "none: the kernel shows no frequency domain",
                "no policy can change a clock here (usual in virtual machines); all the others work",
                "nothing, or load a cpufreq driver",
            )
        ]
    return [_driver(host, domains), _governors(host, domains), _domain_width(host, domains)]


def _flags(host: Host) -> set[str]:
    for line in (host.text("/proc/cpuinfo") or "").split("\n"):
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _umwait(host: Host, flags: set[str]) -> Finding:
    if "waitpkg" not in flags:
        return ok("waitpkg (Intel)", "not in this processor: policy umwait falls back")
    limit, c02 = host.number(f"{UMWAIT_CONTROL}/max_time"), host.number(f"{UMWAIT_CONTROL}/enable_c02")
    if limit is None or c02 is None:
        return warn(
            "waitpkg (Intel)",
            "there, but the kernel shows no umwait_control",
            "the plugin assumes the default limit, and that C0.2, the deeper state, is not allowed",
            "nothing, or use Linux 5.4 or later",
        )
    if c02 != 1:
        return warn(
            "waitpkg (Intel)",
            f"there, C0.1 only, at most {limit} ticks",
            "a waiting core sleeps less deeply than it could",
            f"echo 1 > {UMWAIT_CONTROL}/enable_c02 (at every boot)",
        )
    if 0 < limit < UMWAIT_SHORT:
        return warn(
            "waitpkg (Intel)",
            f"there, C0.2 allowed, at most {limit} ticks",
            "the kernel wakes a waiting core so often that it hardly sleeps",
            f"echo 100000 > {UMWAIT_CONTROL}/max_time, the kernel's default (at every boot)",
        )
    return ok("waitpkg (Intel)", f"there, C0.2 allowed, at most {limit} ticks")


def _mwaitx(flags: set[str]) -> Finding:
    there = "mwaitx" in flags
    return ok("mwaitx (AMD)", "there" if there else "not in this processor: policy mwaitx falls back")


def _clock(host: Host, flags: set[str]) -> Finding:
    source = host.line(CLOCKSOURCE) or "none shown"
    steady = {"constant_tsc", "nonstop_tsc"} <= flags
    shown = f"{safe(source)}, the TSC is {'' if steady else 'not '}invariant"
    if source == "tsc" and steady:
        return ok("clocksource", shown)
    if source in ("hpet", "acpi_pm", "jiffies"):
        return warn(
            "clocksource",
            shown,
            "each look at the clock enters the kernel, and umwait and mwaitx are not used",
            "see in dmesg why the kernel gave the TSC up",
        )
    if flags & {"waitpkg", "mwaitx"}:
        return warn(
            "clocksource",
            shown,
            "umwait and mwaitx end at a TSC value, so they are not used here",
            "see in dmesg why the kernel does not use the TSC; on a host that you trust, boot with tsc=reliable",
        )
    return ok("clocksource", f"{shown}; nothing here needs it")


def _timers() -> Finding:
    resolution = time.clock_getres(time.CLOCK_MONOTONIC)
    if resolution <= RESOLUTION_S:
        return ok("timers", "of high resolution")
    return warn(
        "timers",
        f"a resolution of {resolution * 1e3:g} ms only",
        "a nap lasts a clock tick at least: waiting ranks are late, and the policies' budgets are exceeded",
        "boot without highres=off and nohz=off",
    )


def _idle(host: Host) -> Finding:
    boot = (host.line("/proc/cmdline") or "").split()
    driver = host.line(f"{CPUS}/cpuidle/current_driver") or "none"
    forced = [word for word in boot if word in ("idle=poll", "idle=halt", "idle=nomwait")]
    if "idle=poll" in forced:
        return warn(
            "idle states",
            "the kernel was booted with idle=poll",
            "an idle core runs at full power: a nap frees it for other threads, but saves nothing",
            "boot without idle=poll",
        )
    deepest = ""
    for state in sorted(host.names(f"{CPUS}/cpu0/cpuidle") or [], key=lambda name: (len(name), name)):
        place = f"{CPUS}/cpu0/cpuidle/{state}"
        if host.number(f"{place}/disable") == 0:
            deepest = f", deepest {safe(host.line(f'{place}/name') or state)}"
            deepest += f" ({host.number(f'{place}/latency')} us to leave)"
    return ok("idle states", f"driver {safe(driver)}{deepest}{', ' + forced[0] if forced else ''}")


def check_waiting(host: Host) -> list[Finding]:
    flags = _flags(host)
    if not flags:
        return [not_seen("processor", "/proc/cpuinfo lists no flags", "nothing: no x86 processor, or no /proc")]
    return [_umwait(host, flags), _mwaitx(flags), _clock(host, flags), _timers(), _idle(host)]


def _memfd(host: Host) -> Finding:
    if host.number("/proc/sys/vm/memfd_noexec") == 2:
        return warn(
            "memory files",
            "vm.memfd_noexec is 2",
            "the kernel may refuse the segment in which ranks count: records would lack the waits",
            "sysctl vm.memfd_noexec=1, or see in slurmd's log whether there is a 'stats segment'",
        )
    return ok("memory files", "the kernel makes them as slurmstepd asks")


def _modules(host: Host) -> Finding:
    enforcing = host.number("/sys/fs/selinux/enforce") == 1
    modules = host.line("/sys/kernel/security/lsm")
    if enforcing:
        return warn(
            "security modules",
            "SELinux enforces",
            "not tested: a denial costs a job nothing but its naps and its record",
            "if records lack the waits, look for 'libmpiwait' and 'memfd:mpi-wait' with 'ausearch -m avc'",
        )
    if modules is None:
        return ok("security modules", "none shown")
    # Yama's ptrace_scope restricts attaching; a rank that mpirun started only opens a file under /proc/PID/fd.
    return ok("security modules", f"{safe(modules, 100)}: none of these is known to disturb the plugin")


def check_kernel(host: Host) -> list[Finding]:
    return [_memfd(host), _modules(host)]


def _rapl_zones(host: Host) -> list[str]:
    found = [name for name in host.names(POWERCAP) or [] if re.fullmatch(r"intel-rapl(:[0-9]+){1,2}", name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(":")[1:]])


def _rapl_counters(host: Host, zones: list[str]) -> Finding:
    names = [safe(host.line(f"{POWERCAP}/{zone}/name") or zone) for zone in zones]
    what = f"{plural(len(zones), 'zone')}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return ok("RAPL", what + (SIMULATED if host.simulated else ""))


def _rapl_modes(host: Host, zones: list[str]) -> list[Finding]:
    """Warns if users may read energy_uj. Since Linux 5.10 only root may: its changes reveal what others compute."""
    open_to_all = []
    for zone in zones:
        try:
            mode = stat.S_IMODE(os.stat(host.at(f"{POWERCAP}/{zone}/energy_uj")).st_mode)
        except OSError:
            continue
        if mode & 0o044:
            open_to_all.append(zone)
    if not open_to_all:
        return [ok("RAPL mode", "root's alone, as it should be")]
    return [
        warn(
            "RAPL mode",
            f"others than root may read {plural(len(open_to_all), 'counter')} ({open_to_all[0]})",
            "a user can learn from it what others compute (CVE-2020-8694); nothing of ours needs it",
            f"chmod 0400 {POWERCAP}/intel-rapl*/energy_uj",
        )
    ]


def _rapl_range(zones: list[dict[str, Any]]) -> Finding | None:
    seconds = [
        zone["range_uj"] / zone["power_max_uw"] for zone in zones if zone.get("power_max_uw") and zone.get("range_uj")
    ]
    if not seconds:
        return None
    return ok("RAPL range", f"a counter begins anew after {duration(min(seconds))} at full power, at the soonest")


def _rapl_dies(zones: list[dict[str, Any]]) -> Finding | None:
    """Names the zones of dies that show their package's counter a second time; None if there are none."""
    names = [safe(str(zone["name"])) for zone in zones if zone.get("mirror") and zone["kind"] == "package"]
    if not names:
        return None
    shown = f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return ok("RAPL dies", f"{shown} show{'s' if len(names) == 1 else ''} the counter of another die: counted once")


def _rapl_reading(host: Host, zones: list[str], probe: dict[str, Any] | None) -> list[Finding]:
    if not host.is_root:
        return [not_seen("RAPL reading", "only root may read the counters", "run 'mpi-wait check' as root")]
    if probe is None:
        return [not_seen("RAPL reading", "mpi-wait-node could not be asked", "see 'helper' below")]
    read = probe["energy"]["zones"]
    if not read:
        return [
            warn(
                "RAPL reading",
                f"no zone can be read ({safe(probe['energy']['why']) or 'the files do not answer'})",
                "records will say that the energy is not known",
                "see whether root can read the files energy_uj below " + POWERCAP,
            )
        ]
    left = len(zones) - len(read)
    wrap = [finding for finding in (_rapl_range(read), _rapl_dies(read)) if finding]
    if left > 0:
        return [
            warn(
                "RAPL reading",
                f"{plural(left, 'zone')} of {len(zones)} cannot be read, or libpowercap does not know what it is",
                "its energy is missing in the records",
                "see whether root can read the files energy_uj below " + POWERCAP,
            )
        ] + wrap
    what = f"all {len(read)} were read through libpowercap" + (SIMULATED if host.simulated else "")
    return [ok("RAPL reading", what), *wrap]


def check_energy(host: Host, probe: dict[str, Any] | None) -> list[Finding]:
    zones = _rapl_zones(host)
    if not zones:
        return [
            warn(
                "RAPL",
                "the kernel shows no RAPL zone",
                "records will say that the energy is not known (usual in virtual machines); waits are measured all"
                " the same",
                "modprobe intel_rapl_msr (Intel and AMD), if this is no virtual machine",
            )
        ]
    return [_rapl_counters(host, zones), *_rapl_modes(host, zones), *_rapl_reading(host, zones, probe)]


def _ask_meters(host: Host, helper: str, site: dict[str, str]) -> dict[str, Any] | None:
    """Asks the helper for the meters as a prolog does, with an empty environment. None if the answer makes no sense."""
    words = [f"energy={site['energy']}"] if "energy" in site else []
    ran = host.run(["/usr/bin/env", "-i", NO_ENVIRONMENT, host.at(helper), "meters", "--", *words])
    try:
        answer = json.loads(ran.out) if ran.done else None
    except ValueError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("meters"), list):
        return None
    return answer


def _is_meter(row: Any) -> bool:
    kinds = (str, str, int, bool, str, int, int)
    return isinstance(row, list) and len(kinds) <= len(row) <= len(kinds) + 1 and all(map(isinstance, row, kinds))


def _meters_told(source: str, rows: list[list[Any]]) -> str:
    """Describes one source: "2 counters of GPUs (NVIDIA H100), to the millijoule, ..."."""
    scopes = list(dict.fromkeys(SCOPES.get(row[1], safe(row[1])) for row in rows))
    names = list(dict.fromkeys(safe(row[4]) for row in rows if row[4]))[:2]
    named = f" ({', '.join(names)})" if names else ""
    return f"{plural(len(rows), 'counter')} of {', '.join(scopes)}{named}, {PRECISION[source]}"


def _cray_age(rows: list[list[Any]]) -> Finding | None:
    """Returns a finding on how old Cray's counters are; None if they do not tell.

    Newer counters bear a time in microseconds since the epoch. Older releases number their updates instead.
    """
    ages = [time.time() - row[6] / 1e6 for row in rows if row[6] > 10**15]
    if not ages:
        return None
    if max(ages) > STALE_S:
        return warn("Cray's counters' age", f"brought up to date {duration(max(ages))} ago",
                    "a counter that stands still does not count", "see whether the node controller works")
    return ok("Cray's counters' age", f"{duration(max(0.0, max(ages)))}")


def _cray_readers(host: Host) -> Finding | None:
    try:
        mode = stat.S_IMODE(os.stat(host.at(f"{BOARD}/energy")).st_mode)
    except OSError:
        return None
    return ok("Cray's counters' mode", f"{mode:04o}: {'everybody' if mode & 0o004 else 'not everybody'} may read them")


def _divided(rows: list[list[Any]]) -> list[Finding]:
    split = sum(row[3] for row in rows)
    if not split:
        return []
    title, how = ("MIG", "are divided") if rows[0][0] == "nvml" else ("GPU modules", "share a counter with another")
    return [warn(title, f"{plural(split, 'GPU')} of {len(rows)} {how}", "records say 'GPUs not counted' of them",
                 "compare the energy of their jobs by other means")]


def _check_source(host: Host, source: str, rows: list[list[Any]]) -> list[Finding]:
    found: list[Finding | None] = [ok(SOURCES[source], _meters_told(source, rows))]
    if source == "cray":
        found += [_cray_age(rows), _cray_readers(host)]
    return [finding for finding in found if finding] + (_divided(rows) if source in ("nvml", "rsmi") else [])


def _uncounted_gpus(probe: dict[str, Any] | None, seen: int, why: str) -> list[Finding]:
    if seen or not (probe or {}).get("energy", {}).get("gpus"):
        return []
    return [
        warn(
            "GPUs",
            f"this node has some, and their energy is not counted{f' ({why})' if why else ''}",
            "records say 'GPUs not counted': their figures are of processors and memory alone",
            "compare the energy of jobs with GPUs by other means; spank-mpi-wait(8), ENERGY, says what counts",
        )
    ]


def check_meters(host: Host, helper: str, probe: dict[str, Any] | None, site: dict[str, str]) -> list[Finding]:
    if probe is None or not helper:
        return []
    if not host.is_root:
        seen = [not_seen("other counters", "only root reads them as jobs do", "run 'mpi-wait check' as root")]
        return (seen if probe["energy"].get("gpus") else []) + _uncounted_gpus(probe, 0, "")
    answer = _ask_meters(host, helper, site)
    if answer is None:
        return _uncounted_gpus(probe, 0, "their reader does not answer")
    rows = [row for row in answer["meters"] if _is_meter(row)]
    why = safe(str(answer.get("why", "")))
    found = []
    for source in SOURCES:
        if of_source := [row for row in rows if row[0] == source]:
            found += _check_source(host, source, of_source)
    if rows:
        order = site.get("energy", ORDER).replace("+", ", ")
        found.append(ok("energy=", f"joules are of the first that has counted a job: {safe(order)}"))
    if why and rows:
        found.append(warn("other counters", why, "some are missing in records", "see spank-mpi-wait(8), ENERGY"))
    return found + _uncounted_gpus(probe, sum(row[1] == "gpu" for row in rows), why)
