"""Slurm in a site: the packages' configuration files, and services without systemd."""

from __future__ import annotations

import time

from tests.lib.site.chroot import NODE, Site

SLURM_CONF = f"""\
ClusterName=site
SlurmctldHost={NODE}(127.0.0.2)
SlurmUser=slurm
AuthType=auth/munge
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/lib/slurm/slurmd
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
JobAcctGatherType=jobacct_gather/linux
ReturnToService=2
MailProg=/bin/true
"""
SLURMDBD_CONF = """\
DbdHost=localhost
SlurmUser=slurm
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=secret
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
DATABASE = "CREATE DATABASE slurm_acct_db; GRANT ALL ON slurm_acct_db.* TO slurm@localhost IDENTIFIED BY 'secret';"
SERVICES = ("munge", "mariadb", "slurmdbd", "slurmctld", "slurmd")


def wait_for(site: Site, script: str, timeout: float = 60) -> str:
    """Repeats the script until it succeeds; returns what it printed."""
    deadline = time.monotonic() + timeout
    while (done := site.run(script, check=False)).returncode:
        if time.monotonic() > deadline:
            logs = site.run("tail -n 30 /var/log/slurm/*.log", check=False).stdout
            raise AssertionError(f"{script!r} did not succeed within {timeout:.0f} s:\n{done.stdout}\n{logs}")
        time.sleep(0.5)
    return done.stdout


def start(site: Site, *others: Site) -> None:
    """Prepares sites as an administrator has before installing the project: nodes that run jobs, with accounting on the
    first."""
    sites = [site, *others]
    for each in sites:
        each.write("/etc/slurm/slurm.conf", SLURM_CONF)
        each.run("""install -d -o slurm /var/lib/slurm/slurmctld /var/log/slurm
            useradd --create-home --shell /bin/bash alice""")
    topology = site.run("slurmd -C | sed -n '1s/.*\\(CPUs=.*\\) RealMemory.*/\\1/p'").stdout.strip()
    nodes = [f"NodeName=node{i} NodeAddr=127.0.0.{i + 1} Port={6808 + 10 * i} {topology} RealMemory=500 State=UNKNOWN\n"
             for i in range(1, len(sites) + 1)]
    partition = f"PartitionName=all Nodes={','.join(f'node{i}' for i in range(1, len(sites) + 1))} Default=YES\n"
    key = (site.root / "etc/munge/munge.key").read_bytes()
    for each in sites:
        each.write("/etc/slurm/slurm.conf", SLURM_CONF + "".join(nodes) + partition)
        (each.root / "etc/munge/munge.key").write_bytes(key)
        each.run("service munge start")
    site.write("/etc/slurm/slurmdbd.conf", SLURMDBD_CONF, 0o600)
    site.run(f"""chown slurm: /etc/slurm/slurmdbd.conf
        service mariadb start && echo "{DATABASE}" | mariadb && service slurmdbd start""")
    wait_for(site, "sacctmgr -n show stats && sacctmgr -i add cluster site")
    site.run("service slurmctld start")
    for each in sites:
        each.run("service slurmd start")
    wait_idle(site, len(sites))


def wait_idle(site: Site, nodes: int = 1) -> None:
    wait_for(site, f"sinfo -h -t idle -o %D | grep -qx {nodes}")


def run_job(site: Site, command: str) -> str:
    """Runs a command as alice; returns what it printed."""
    return site.run(f"runuser -u alice -- {command}").stdout


def record_of(site: Site, job: str) -> str:
    """Waits for the job's AdminComment; returns it as sacct shows it."""
    return wait_for(site, f"sacct -X -n -P -j {job} -o AdminComment | grep .")
