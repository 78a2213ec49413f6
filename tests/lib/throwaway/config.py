"""The configuration files of the throw-away cluster, as text. Pure: no I/O but `slurmd -C`."""

from __future__ import annotations

import subprocess
from functools import cache

from tests.lib.throwaway.requirements import has_plugin
from tests.lib.throwaway.sandbox import ADDRESS, ROOT, SUBMIT, USERS

DATABASE_SOCKET = "/run/mysqld/mysqld.sock"
MUNGE_SOCKET = "/run/munge/munge.socket.2"
SLURMCTLD_PORT = 6817
SLURMDBD_PORT = 6819
FIRST_SLURMD_PORT = 17001
CLUSTER_NAME = "throwaway"
ACCOUNTS_SCRIPT = f"""\
sacctmgr -i add cluster {CLUSTER_NAME} &&
sacctmgr -i add account users &&
sacctmgr -i add user {','.join(USERS)} account=users
"""

COMMON = {
    "ClusterName": CLUSTER_NAME,
    "SlurmctldHost": f"{SUBMIT}({ADDRESS})",
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "AuthType": "auth/munge",
    "SlurmctldPort": SLURMCTLD_PORT,
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd.pid",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "StateSaveLocation": ROOT / "state",
    "SlurmctldLogFile": ROOT / "log/slurmctld.log",
    "SlurmdLogFile": ROOT / "log/slurmd-%n.log",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "verbose",
    "LogTimeFormat": "iso8601_ms",
    "PlugStackConfig": ROOT / "etc/plugstack.conf",
    "MpiDefault": "pmix" if has_plugin("mpi_pmix") else "pmi2",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": "localhost",
    "AccountingStoragePort": SLURMDBD_PORT,
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "task=1",
    "JobRequeue": 1,
    "MailProg": "/bin/true",
    "ReturnToService": 2,
    "KillWait": 2,
    "InactiveLimit": 0,
    "EpilogMsgTime": 0,
    "MinJobAge": 300,
    "MessageTimeout": 20,
    "GetEnvTimeout": 30,
    "SlurmctldTimeout": 30,
    "SlurmdTimeout": 60,
    "UnkillableStepTimeout": 20,
}
PROFILES = {
    "linuxproc": {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/affinity"},
    "cgroup": {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity",
               "PrologFlags": "Contain"},
    "cgroup2": {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity",
                "PrologFlags": "Contain", "SelectTypeParameters": "CR_Core_Memory"},
}
CGROUP_V1_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=yes
"""
CGROUP_V2_CONF = """\
CgroupPlugin=cgroup/v2
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=yes
IgnoreSystemd=yes
ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainDevices=yes
"""
CGROUP_CONF = {"cgroup2": CGROUP_V2_CONF}


@cache
def machine_topology() -> str:
    """Returns CPUs, sockets, cores and threads of this machine in slurm.conf's words, from `slurmd -C`."""
    output = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True).stdout
    words = output.splitlines()[0].split()
    return " ".join(word for word in words if not word.startswith(("NodeName=", "RealMemory=")))


def spare_nodes(singles: int, pairs: int) -> dict[str, list[str]]:
    """Returns the nodes that variants are made of, by partition: v01, v02, ... of one node each, d01, ... of two."""
    groups = {f"v{number:02}": [f"v{number:02}"] for number in range(1, singles + 1)}
    return groups | {f"d{number:02}": [f"d{number:02}{half}" for half in (1, 2)] for number in range(1, pairs + 1)}


def slurm_conf(nodes: list[str], profile: str, changes: dict[str, str], spares: dict[str, list[str]],
               topology: str = "") -> str:
    """Returns slurm.conf. changes: keys to replace or add; an empty value removes a key. topology: of a node (default:
    this machine's). A spare node is down until a variant is made of it. A variant's slurm.conf may differ from
    slurmctld's."""
    extra = {"DebugFlags": "NO_CONF_HASH"} if spares else {}
    settings = {**COMMON, **PROFILES[profile], **extra, **changes}
    lines = [f"{key}={value}" for key, value in settings.items() if str(value)]
    lines += [_node_line(node, f"{FIRST_SLURMD_PORT + index}", topology, "UNKNOWN") for index, node in enumerate(nodes)]
    if spare := [node for group in spares.values() for node in group]:
        # All nodes share one line: each program of Slurm's reads this file when it starts, at 40 us a line.
        first = FIRST_SLURMD_PORT + len(nodes)
        lines.append(_node_line(",".join(spare), f"[{first}-{first + len(spare) - 1}]", topology, "DOWN"))
    lines.append(f"PartitionName=all Nodes={','.join(nodes)} Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def _node_line(nodes: str, ports: str, topology: str, state: str) -> str:
    return (f"NodeName={nodes} NodeHostname={nodes} NodeAddr={ADDRESS} Port={ports} "
            f"{topology or machine_topology()} RealMemory=1000 State={state}")


def spare_partitions(spares: dict[str, list[str]]) -> str:
    """Returns the lines that slurmctld alone reads after slurm.conf: a partition for each group of spare nodes."""
    return "".join(f"PartitionName={name} Nodes={','.join(group)} MaxTime=INFINITE State=UP\n"
                   for name, group in spares.items())


def slurmdbd_conf() -> str:
    return f"""\
DbdHost=localhost
DbdPort={SLURMDBD_PORT}
SlurmUser=root
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile={ROOT}/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
DebugLevel=info
"""


def mariadb_arguments() -> list[str]:
    """Returns options of both the data directory's initialisation and the server: fast, not durable."""
    return [
        "--no-defaults", "--user=root", f"--datadir={ROOT}/database/data", "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M",
        "--innodb-buffer-pool-size=64M", "--innodb-autoextend-increment=8",
        "--innodb-lock-wait-timeout=900", "--innodb-doublewrite=0",
        "--innodb-use-native-aio=0", "--loose-innodb-snapshot-isolation=OFF",  # slurmdbd dies with it on
    ]
