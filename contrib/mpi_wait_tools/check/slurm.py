"""check: Slurm's daemons, the settings on which the plugin depends, and the number of cores that Slurm counts."""

from __future__ import annotations

import os
import re
import time

from ..site.elf_note import read_note
from ..site.host import Host
from ..site.slurm import Slurm, major, parse_settings, release_of
from ..text.units import duration, plural, safe
from .finding import Finding, fail, not_seen, ok, warn

HOOKS = (("prolog", "Prolog"), ("epilog", "Epilog"))
ENERGY_TYPE, ENERGY_FILE = "acct_gather_energy/mpi_wait", "acct_gather_energy_mpi_wait.so"
PARTITIONS_SHOWN = 4
CPUS = "/sys/devices/system/cpu"
ADVICE = "Sockets=, CoresPerSocket= and ThreadsPerCore= in slurm.conf as 'slurmd -C' prints them"


def _controller(slurm: Slurm) -> Finding:
    if not slurm.problem:
        nodes = f", {slurm.nodes} node{'' if slurm.nodes == 1 else 's'}" if slurm.nodes else ""
        return ok("slurmctld", f"cluster {safe(slurm.cluster) or 'without a name'}{nodes}")
    return fail(
        "slurmctld",
        f"does not answer: {slurm.problem}",
        "the settings in slurm.conf could not be checked, and no job starts meanwhile",
        "see 'scontrol ping'; is munge running here?",
    )


def _reached(host: Host, slurm: Slurm) -> Finding | str:
    """Returns a finding on the slurmdbd that serves this cluster, or a string that says why none does."""
    begin = time.monotonic()
    asked = host.run(["sacctmgr", "-n", "-P", "list", "cluster", "format=cluster"])
    took = time.monotonic() - begin
    if not asked.done or slurm.cluster not in asked.out.split():
        return asked.problem or f"it knows no cluster '{safe(slurm.cluster)}'"
    release = parse_settings(host.run(["sacctmgr", "show", "config"]).out, "=").get("slurmdbd_version", "")
    what = f"{safe(release) or 'of unknown release'}, answered in {duration(took)}"
    if not release or not slurm.release or major(release) >= major(slurm.release):
        return ok("slurmdbd", what)
    return warn(
        "slurmdbd",
        f"{what}, but Slurm here is {slurm.release}",
        "Slurm does not promise that a newer release can store anything in an older slurmdbd",
        "upgrade slurmdbd first",
    )


def _database(host: Host, slurm: Slurm, site: dict[str, str]) -> Finding:
    storage = slurm.settings.get("accountingstoragetype", "")
    if site.get("sink") == "file":
        return ok("slurmdbd", "not needed: sink=file keeps the records in the spool")
    if storage != "accounting_storage/slurmdbd":
        return fail(
            "slurmdbd",
            f"AccountingStorageType is {safe(storage) or 'not set'}",
            "there is no accounting database in which records could be stored: they pile up in the spool",
            "set up slurmdbd, or write sink=file on the plugstack line",
        )
    answer = _reached(host, slurm)
    if isinstance(answer, Finding):
        return answer
    if site.get("writer") == "sweep":
        return warn(
            "slurmdbd",
            f"does not serve this host: {answer}",
            "with writer=sweep nodes need not reach it, but the host where the sweep runs must",
            "run 'mpi-wait check' there",
        )
    return fail(
        "slurmdbd",
        f"does not serve this host: {answer}",
        "records of jobs wait in the outbox and the spool until it does",
        "see 'sacctmgr show cluster' and slurmdbd's log; nodes that shall never ask it: writer=sweep",
    )


def _hook(host: Host, slurm: Slurm, key: str, name: str) -> Finding | None:
    """Checks, under RunInJob, that Prolog= or Epilog= runs our command. Returns None if it does."""
    scripts = [path for path in slurm.settings.get(key, "").split(",") if path.startswith("/")]
    for script in scripts:
        try:
            if f"mpi-wait-node {key}" in (host.text(script) or ""):
                return None
        except PermissionError:
            return not_seen("PrologFlags", f"RunInJob, and {name} '{safe(script)}' is not readable", "run as root")
    return fail(
        "PrologFlags",
        f"RunInJob, and {name} {'does not run' if scripts else 'is not set to run'} mpi-wait-node {key}",
        "Slurm calls no SPANK prolog and epilog under RunInJob: jobs leave no record",
        f"have {name} run 'mpi-wait-node {key}' with the arguments of the plugstack line",
    )


def _prolog_flags(host: Host, slurm: Slurm) -> list[Finding]:
    flags = slurm.flags("prologflags")
    shown = safe(slurm.settings.get("prologflags", "")) or "none"
    if "runinjob" in flags:
        wrong = [found for found in (_hook(host, slurm, *hook) for hook in HOOKS) if found]
        return wrong or [ok("PrologFlags", f"{shown}; Prolog and Epilog run mpi-wait-node")]
    if "contain" in flags:
        return [ok("PrologFlags", f"{shown}: energy is sampled for as long as a job lasts")]
    if "alloc" in flags:
        return [
            warn(
                "PrologFlags",
                f"{shown}, without Contain",
                "while no step runs the energy is not sampled: a counter that wraps then leaves a gap in the record",
                "PrologFlags=Contain, if jobs here idle for long between their steps",
            )
        ]
    return [
        warn(
            "PrologFlags",
            f"{shown}, without Alloc and Contain",
            "a job's prolog runs with its first step on a node: energy before that is not counted, and a node on which"
            " no step starts reports nothing",
            "PrologFlags=Contain (or Alloc) in slurm.conf",
        )
    ]


def _shared(how: str) -> bool:
    """Returns True if a partition's OverSubscribe gives a core to two jobs: "FORCE:4", "YES:2"."""
    match = re.fullmatch("(FORCE|YES):([0-9]{1,5})", how)
    return match is not None and int(match.group(2)) > 1


def _partitions(host: Host, node: str, site: dict[str, str]) -> list[Finding]:
    """Warns if a partition lets two jobs share a core: the waiting of one would lower the other's clock."""
    grant = site.get("grant", "lease")
    asked = host.run(["sinfo", "-h", "-a", "-n", node, "-o", "%R %h"])
    named = dict(line.split()[:2] for line in asked.out.split("\n") if asked.done and len(line.split()) > 1)
    shared = sorted(name for name, how in named.items() if _shared(how))
    if grant == "off" or not named:
        return []
    if not shared:
        return [ok("partitions", "none gives a core of this node to two jobs")]
    shown = ", ".join(f"{safe(name)} has OverSubscribe={safe(named[name])}" for name in shared[:PARTITIONS_SHOWN])
    return [
        warn(
            "partitions",
            f"{shown}, and grant={safe(grant)}",
            "two jobs can share a core: if the plugin sees that, neither is granted the core's frequency; if it does"
            " not, the waiting of one slows the other down",
            "grant=off on the nodes of such a partition, or OverSubscribe=NO",
        )
    ]


def _energy_plugin(host: Host, slurm: Slurm) -> list[Finding]:
    """Checks acct_gather_energy/mpi_wait, if slurm.conf names it. All three numbers of its release must be Slurm's."""
    if ENERGY_TYPE not in slurm.settings.get("acctgatherenergytype", ""):
        return []
    means = "Slurm's daemons end at their next start, and steps fail"
    do = "install this release's spank-mpi-wait-energy-slurm*, or take it out of AcctGatherEnergyType"
    paths = [os.path.join(folder, ENERGY_FILE) for folder in slurm.settings.get("plugindir", "").split(":")]
    path = next((path for path in paths if host.status(path) is not None), "")
    if not path:
        return [fail("energy plugin", f"slurm.conf names it, and PluginDir has no '{ENERGY_FILE}'", means, do)]
    try:
        built = release_of((read_note(host.at(path)) or {}).get("slurm", ""))
    except OSError as error:
        return [fail("energy plugin", f"'{safe(path, 400)}' cannot be read: {error.strerror}", means, do)]
    if built != slurm.release.partition("-")[0]:
        return [fail("energy plugin", f"for Slurm {built or '?'}, but this is {slurm.release or '?'}", means, do)]
    return [ok("energy plugin", f"for Slurm {built}, '{safe(path, 400)}'")]


def check_slurm(host: Host, slurm: Slurm, site: dict[str, str], node: str) -> list[Finding]:
    if not slurm.there:
        return [
            warn(
                "Slurm",
                "there is none here: scontrol was not found",
                "checks that need Slurm's commands were left out",
                "run this on a node of the cluster, with Slurm's commands on the PATH",
            )
        ]
    found = [ok("Slurm", slurm.release or "its commands are here"), _controller(slurm)]
    if slurm.problem:
        return [
            *found,
            not_seen("slurmdbd", "slurmctld did not say whether there is one", "make slurmctld answer"),
            not_seen("PrologFlags", "slurmctld did not say", "make slurmctld answer"),
        ]
    found += [_database(host, slurm, site), *_energy_plugin(host, slurm)]
    return [*found, *_prolog_flags(host, slurm), *_partitions(host, node, site)]


def _cores_online(host: Host) -> tuple[int, int]:
    """Returns the number of cores and of hardware threads that are online; zeros if the kernel does not say."""
    cores = set()
    threads = 0
    for name in host.names(CPUS) or []:
        siblings = host.line(f"{CPUS}/{name}/topology/thread_siblings_list")
        if siblings and re.fullmatch("cpu[0-9]+", name):
            cores.add(siblings)
            threads += 1
    return len(cores), threads


def _number(node: dict[str, str], key: str) -> int:
    value = node.get(key, "")
    return int(value) if re.fullmatch("[0-9]{1,6}", value) else 0


def _cores_counted(cores: int, threads: int, counted: int, per_core: int) -> Finding:
    """Compares the machine's cores and threads with Slurm's: counted cores of per_core threads each."""
    machine = f"the machine has {plural(cores, 'core')} with {plural(threads, 'hardware thread')}"
    if counted == cores:
        return ok("cores", f"{plural(counted, 'core')}, as Slurm counts them")
    said = f"Slurm counts {plural(counted, 'core')} here, {machine}"
    if counted * per_core > threads:
        return warn("cores", said, "the CPUs of a job are not known: the records of jobs that share the node have no"
                    " energy, and no task is bound", ADVICE)
    if counted > cores:
        return warn("cores", said, "two jobs may have a hardware thread each of one core: energy is divided by threads,"
                    " and no task is bound", ADVICE)
    return ok("cores", f"{said}: a job that has all of Slurm's has the whole node")


def _cores_kept(node: dict[str, str]) -> list[Finding]:
    """Names the cores that Slurm keeps from jobs. A job with all other cores has the whole node."""
    count, listed = _number(node, "CoreSpecCount"), node.get("CPUSpecList", "")
    if not count and not listed:
        return []
    what = f"CPUSpecList={safe(listed, 60)}" if listed else f"CoreSpecCount={count}"
    return [ok("kept from jobs", f"{what}: a job that has all other cores has the whole node")]


def check_cores(host: Host, slurm: Slurm, name: str) -> list[Finding]:
    if not slurm.there or slurm.problem:
        return []
    asked = host.run(["scontrol", "-o", "show", "node", name])
    node = dict(word.partition("=")[::2] for word in asked.out.split()) if asked.done else {}
    counted = _number(node, "Sockets") * _number(node, "CoresPerSocket")
    cores, threads = _cores_online(host)
    if not counted or not cores:
        return [not_seen("cores", f"how many Slurm counts on '{safe(name)}' could not be seen", "run this on a node")]
    return [_cores_counted(cores, threads, counted, max(1, _number(node, "ThreadsPerCore"))), *_cores_kept(node)]
