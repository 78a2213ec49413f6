"""check: how this node's processors can wait, and what of their clocks can be changed."""

from __future__ import annotations

import re
import time
from collections import Counter

from ..site.host import Host
from ..text.units import plural, safe
from .finding import Finding, not_seen, ok, warn

CPUS = "/sys/devices/system/cpu"
CPUFREQ = f"{CPUS}/cpufreq"
UMWAIT_CONTROL = f"{CPUS}/umwait_control"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
DRIVERS = ("acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate", "amd-pstate-epp")
UMWAIT_SHORT = 10_000  # ticks: below some 3 us a rest costs more than it saves
RESOLUTION_S = 1e-6
SIMULATED = " (simulated)"


def parse_list(text: str) -> set[int]:
    """CPUs as the kernel lists them: "0-3,8" or "0 1 2 3"."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip()):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and len(part) < 20:
            cpus.update(range(int(first), min(int(last or first), int(first) + 65536) + 1))
    return cpus


def shown_list(cpus: set[int]) -> str:
    """{0, 1, 2, 8} is "0-2,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def counted(values: list[str]) -> str:
    """["a", "b", "a"] is "a (2), b (1)"; only "a" where all are alike."""
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
            "its default limit is assumed, and that the deeper state C0.2 is not allowed",
            "nothing, or use Linux 5.4 or later",
        )
    if c02 != 1:
        return warn(
            "waitpkg (Intel)",
            f"there, C0.1 only, at most {limit} ticks",
            "a waiting core rests less deeply than it could",
            f"echo 1 > {UMWAIT_CONTROL}/enable_c02 (at every boot)",
        )
    if 0 < limit < UMWAIT_SHORT:
        return warn(
            "waitpkg (Intel)",
            f"there, C0.2 allowed, at most {limit} ticks",
            "the kernel wakes a waiting core so often that it hardly rests",
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
    # Yama's ptrace_scope is for attaching; a rank that mpirun started only opens a file under /proc/PID/fd.
    return ok("security modules", f"{safe(modules, 100)}: none of these is known to be in the way")


def check_kernel(host: Host) -> list[Finding]:
    return [_memfd(host), _modules(host)]
