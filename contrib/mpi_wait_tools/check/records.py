"""check: the way of a record from this node to the database, and records that got stuck on it."""

from __future__ import annotations

import os
import re
import time

from ..record.record import Record, find_body, parse_record
from ..site.files import Waiting, file_system, is_shared, owner_of, waiting, writable_by_others, wrong_with
from ..site.host import Host
from ..site.slurm import Slurm
from ..text.output import Refusal
from ..text.units import duration, plural, safe
from .finding import Finding, fail, not_seen, ok, warn

OUTBOX = "/var/spool/mpi-wait/out"
STATE = "/run/mpi-wait"
LATE_S = 3600
SPACE_LEAST = 16 << 20
LEFT = 2  # the helper's exit status if work is left for the next time
WINDOW = "now-24hours"
FIELDS = "AdminComment,SystemComment"
AS_ROOT = "run 'mpi-wait check' as root"


def _space(host: Host, name: str, path: str) -> list[Finding]:
    room = os.statvfs(host.at(path))
    if room.f_bavail * room.f_frsize >= SPACE_LEAST:
        return []
    return [
        fail(
            name,
            f"'{safe(path, 400)}' has {room.f_bavail * room.f_frsize >> 20} MiB left",
            "records of jobs that end now cannot be written there",
            "make room on that file system",
        )
    ]


def _stuck(name: str, place: str, found: Waiting, do: str) -> Finding:
    what = f"{plural(found.count, 'record')} in {place}"
    if not found.count:
        return ok(name, f"none in {place}")
    what += f", the oldest {duration(found.age_s)} old"
    if found.age_s < LATE_S:
        return ok(name, what)
    return warn(
        name,
        f"{what} ({safe(found.oldest, 100)})",
        "these jobs show no record yet; nothing is lost while they lie there",
        do,
    )


def _outbox(host: Host, now: float, sweeps: bool) -> list[Finding]:
    try:
        status = host.status(OUTBOX)
        if status is None:
            return [ok("outbox", "not there yet: the first job that ends here makes it")]
        wrong = wrong_with(status, "")
        if wrong:
            return [
                fail("outbox", f"'{OUTBOX}' {wrong}", "records stay in /run/mpi-wait, and are lost at the next boot",
                     f"chown root {OUTBOX}; chmod 0700 {OUTBOX}")
            ]
        who = "the sweep (writer=sweep)" if sweeps else "a timer that runs mpi-wait-node sweep here"
        do = f"see that {who} works, or run mpi-wait-node sweep --now with the site arguments"
        return [
            _stuck("outbox", OUTBOX, waiting(host, OUTBOX, now, ".json"), do),
            *_space(host, "outbox", OUTBOX),
        ]
    except PermissionError:
        return [not_seen("outbox", f"'{OUTBOX}' is root's", AS_ROOT)]


def _no_spool(slurm: Slurm) -> Finding:
    if slurm.nodes <= 1:
        return ok("spool", "none is set; one-node jobs need none")
    return warn(
        "spool",
        f"none is set, and the cluster has {slurm.nodes} nodes",
        "a job of several nodes leaves the record of its first node alone, marked 'no shared spool'",
        "spool=DIRECTORY on the plugstack line, a directory that all nodes see",
    )


def _spool_directory(host: Host, path: str, slurm: Slurm) -> Finding:
    kind = file_system(host, os.path.realpath(host.at(path))[len(host.root) :])
    if is_shared(kind) or not kind or slurm.nodes == 1:
        return ok("spool", f"'{safe(path, 400)}', {kind or 'on a file system of unknown type'}")
    nodes = f"the cluster has {slurm.nodes} nodes" if slurm.nodes else "the cluster may have several nodes"
    return warn(
        "spool",
        f"'{safe(path, 400)}' is on {safe(kind)}, and {nodes}",
        "a file system of this host alone does not join the nodes: records would be partial, 'spool not shared'",
        "name a directory that all nodes see (nothing to do if they do see this one)",
    )


def _spool_way(host: Host, path: str, user: str) -> list[Finding]:
    """Warns if users may write to a folder above the spool: they could rename it and put another in its place."""
    who = writable_by_others(host, path, owner_of(user), itself=False)
    if not who:
        return []
    return [
        warn(
            "spool",
            f"{who}, and the spool is below it",
            f"users who can write there can remove '{safe(path, 400)}' and its records",
            "give it to root and take write permission from everybody else (chown root, chmod go-w)",
        )
    ]


def _spool(host: Host, slurm: Slurm, site: dict[str, str], now: float) -> list[Finding]:
    path, user = site.get("spool", "").rstrip("/"), site.get("spool_user", "")
    if not path:
        return [_no_spool(slurm)]
    refused = "it is not used: records stay in the outboxes"
    try:
        status = host.status(path)
        if status is None:
            return [
                fail("spool", f"'{safe(path, 400)}' does not exist here", refused,
                     f"make or mount it: mkdir -m 0755 {safe(path, 400)}")
            ]
        wrong = wrong_with(status, user)
        if wrong:
            return [
                fail("spool", f"'{safe(path, 400)}' {safe(wrong, 200)}", refused,
                     f"chown {safe(user) or 'root'} and chmod go-w '{safe(path, 400)}'")
            ]
        return [
            _spool_directory(host, path, slurm),
            *_spool_way(host, path, user),
            *_space(host, "spool", path),
            _stuck("left in spool", "the spool", waiting(host, path, now, ""),
                   "run mpi-wait-node sweep where slurmdbd can be reached; --partial if nodes will not come back"),
        ]
    except PermissionError:
        return [not_seen("spool", f"'{safe(path, 400)}' may not be entered by uid {host.user}", AS_ROOT)]


def _records_of(text: str) -> list[Record]:
    records = []
    for line in text.split("\n"):
        try:
            body = find_body(line)
            records += [parse_record(body)] if body is not None else []
        except Refusal:
            continue
    return records


def _stored(host: Host, slurm: Slurm, site: dict[str, str], node: str) -> list[Finding]:
    """Counts the records that the jobs of the last 24 h on this node left in the database. A record is in the field
    that the site names, or in the next one if another tool has that."""
    storage = slurm.settings.get("accountingstoragetype")
    if site.get("sink") == "file" or not slurm.cluster or storage != "accounting_storage/slurmdbd":
        return []
    fields = FIELDS + (",Extra" if site.get("field") == "extra" else "")  # Slurm 22.05 has no Extra
    asked = host.run(["sacct", "-a", "-X", "-n", "-P", "-N", node, "-S", WINDOW, "-o", fields])
    if not asked.done:
        return [not_seen("stored", asked.problem, "see 'slurmdbd' above; is this host a node?")]
    records = _records_of(asked.out)
    partial = [record for record in records if record.nodes_why == "spool not shared"]
    what = f"{plural(len(records), 'record')} of this node's jobs in the last 24 h"
    if not partial:
        return [ok("stored", what)]
    return [
        warn(
            "stored",
            f"{what}, {len(partial)} of them 'spool not shared'",
            "their other nodes wrote where the first one could not see it",
            "see that spool= is one directory that all nodes see, and that each may write there",
        )
    ]


def _leftover(host: Host, slurm: Slurm, node: str) -> list[Finding]:
    """Warns of state that ended jobs left on this node, because their epilog did not run to its end."""
    place = f"{STATE}/{node}"
    try:
        jobs = {name for name in host.names(place) or [] if re.fullmatch("[0-9]{1,10}", name)}
    except PermissionError:
        return [not_seen("job states", f"'{STATE}' is root's", AS_ROOT)]
    if not jobs:
        return [ok("job states", "none")]
    asked = host.run(["squeue", "-h", "-a", "-w", node, "-o", "%A"]) if slurm.cluster else None
    if asked is None or not asked.done:
        return [not_seen("job states", f"{plural(len(jobs), 'job')}; Slurm did not say which run", "see 'slurmctld'")]
    gone = sorted(jobs - set(asked.out.split()), key=int)
    if not gone:
        return [ok("job states", f"{plural(len(jobs), 'job')} under a policy on this node")]
    return [
        warn(
            "job states",
            f"{plural(len(gone), 'job')} left a state but no longer run here (job {gone[0]})",
            "their epilog did not run to its end: these jobs have no record of this node",
            "see slurmd's log of that time; the next job's start removes what is a month old",
        )
    ]


def _clocks(host: Host, helper: str) -> Finding:
    """Asks the helper for changes that were made for jobs that have ended, and are not undone yet."""
    name = "clocks"
    if not host.is_root:
        return not_seen(name, "only root can look for changes that were not undone", AS_ROOT)
    if not helper:
        return not_seen(name, "only mpi-wait-node can look for changes that were not undone, and it did not answer",
                        "see 'helper'")
    usage = host.run([host.at(helper), "--help"])
    if not re.search(r"^\s+restore\s", usage.out, re.M):
        return not_seen(name, "mpi-wait-node has no 'restore' in this release: it changes no clock either", "nothing")
    ran = host.run([host.at(helper), "restore", "--dry-run"])
    if ran.done:
        return ok(name, "nothing is left to be undone")
    if ran.status == LEFT:
        return warn(
            name,
            f"changes that were made for earlier jobs are still to be undone ({ran.problem})",
            "a core may still run at a lowered clock, or a user may still own a frequency file",
            "mpi-wait-node restore; with --dry-run it only says which",
        )
    return fail(
        name,
        f"restore --dry-run: {ran.problem}",
        "what was changed on this node for earlier jobs may not have been undone",
        "run it on a terminal as root, and see what it says",
    )


def check_records(host: Host, slurm: Slurm, site: dict[str, str] | None, node: str, helper: str) -> list[Finding]:
    now = time.time()
    unknown = not_seen("spool", "there is no valid plugstack line to name it", "see 'plugstack line'")
    return [
        *([unknown] if site is None else _spool(host, slurm, site, now)),
        *_outbox(host, now, (site or {}).get("writer") == "sweep"),
        *_stored(host, slurm, site or {}, node),
        *_leftover(host, slurm, node),
        _clocks(host, helper),
    ]
