"""Shared by the tests of spool and slurmdbd: rows of jobs that never ran, the rows' contents, mpi-wait-node run by
hand."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import jsonschema

from tests.lib.jobs import HELPER, SCHEMA
from tests.lib.record_tools import node_record
from tests.lib.throwaway import Cluster

MODIFY_JOB = 1476
COMPLETED = 3
CANCELLED = 4
NODE_FAIL = 7
RESIZING = 1 << 13
OUTBOX = "/var/spool/mpi-wait/out"


def sql(cluster: Cluster, statement: str) -> list[list[str]]:
    """Runs a statement on the accounting database. Returns its rows without heads; numbers and short names only."""
    argv = ["mariadb", "--socket=/run/mysqld/mysqld.sock", "-N", "-B", "--raw", "slurm"]
    done = cluster.node_run("submit", argv, input=f"set sql_mode=''; {statement}", check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def make_rows(
    cluster: Cluster,
    first_job: int,
    count: int,
    nodelist: str,
    nodes: int = 1,
    length_s: int = 40,
    ago_s: int = 60,
    state: int = COMPLETED,
) -> list[dict[str, Any]]:
    """Inserts finished jobs into slurmdbd, which all ran at the same time. Returns id, times and nodes of each."""
    end = int(time.time()) - ago_s
    start = end - length_s
    values = [
        f"({end},'users','job',4,0,{job},0,1000,1000,0,'{nodelist}',{nodes},'all',{state},{start},{start},"
        f"{start},{end},0,4294967294,4294967294,'','','','')"
        for job in range(first_job, first_job + count)
    ]
    sql(
        cluster,
        "insert into throwaway_job_table (mod_time,account,job_name,id_assoc,exit_code,id_job,id_qos,id_user,id_group,"
        "id_resv,nodelist,nodes_alloc,`partition`,state,time_submit,time_eligible,time_start,time_end,het_job_id,"
        "het_job_offset,id_array_task,tres_alloc,tres_req,gres_used,constraints) values " + ",".join(values),
    )
    return [
        {"job": job, "start_s": start + 0.5, "end_s": end + 0.5, "nodelist": nodelist}
        for job in range(first_job, first_job + count)
    ]


def record_of(text: str) -> dict[str, Any]:
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    record: dict[str, Any] = document["mpi_wait"]
    return record


def records(cluster: Cluster, first_job: int, count: int) -> dict[int, dict[str, Any]]:
    """Returns the records in the rows, by job."""
    rows = sql(
        cluster,
        "select id_job, admin_comment from throwaway_job_table where admin_comment is not null"
        f" and id_job >= {first_job} and id_job < {first_job + count}",
    )
    assert len({row[0] for row in rows}) == len(rows), "a job has two rows"
    return {int(row[0]): record_of(row[1]) for row in rows}


def modifications(cluster: Cluster, first_job: int, count: int) -> dict[int, int]:
    """Returns the number of transactions that have changed a job's row, by job."""
    rows = sql(
        cluster,
        "select id_job, count(*) from txn_table join throwaway_job_table on name = concat('job_db_inx=', job_db_inx)"
        f" where action = {MODIFY_JOB} and id_job >= {first_job} and id_job < {first_job + count} group by id_job",
    )
    return {int(job): int(times) for job, times in rows}


def play(cluster: Cluster, order: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Runs tests.lib.storm on the submit host."""
    argv = ["/usr/bin/python3", "-m", "tests.lib.storm"]
    text = json.dumps({**order, "record": node_record()})
    done = cluster.node_run("submit", argv, cwd="/srv/cluster/lib", input=text, timeout=timeout, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def fill(cluster: Cluster, job: int, records: list[dict[str, Any]]) -> None:
    """Writes one job's files to where its nodes' writers would have put them."""
    folder = cluster.inside.path(f"{cluster.spool}/throwaway-{job}-0")
    folder.mkdir(mode=0o700, exist_ok=True)
    for record in records:
        (folder / f"{record['node']}.json").write_text(json.dumps(record))


def spool_fill(cluster: Cluster, jobs: list[dict[str, Any]]) -> None:
    """Writes the files of jobs of one node each."""
    for item in jobs:
        times = {"start_s": item["start_s"], "end_s": item["end_s"]}
        fill(cluster, item["job"], [node_record("n01", "n01", None, item["job"], cluster="throwaway", **times)])


def helper(cluster: Cluster, node: str, *words: str, timeout: float = 120,
           terminal: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs mpi-wait-node on a node. terminal: run it on a terminal, where it copies its syslog messages to standard
    output."""
    command = [HELPER, *words, f"spool={cluster.spool}"]
    if terminal:
        command = ["script", "-qec", " ".join(command), "/dev/null"]
    return cluster.node_run(node, command, timeout=timeout)


def make_old(cluster: Cluster, node: str, *folders: str) -> None:
    """Sets the files' times back, so that nobody waits for their own writer any more."""
    cluster.node_run(node, ["find", *folders, "-exec", "touch", "-h", "-d", "-1000 seconds", "{}", "+"])


def spool_left(cluster: Cluster) -> list[str]:
    found = cluster.node_run("submit", ["find", cluster.spool, "-mindepth", "1", "!", "-name", ".*"]).stdout
    return found.split()


def handed_in(cluster: Cluster, job: int) -> list[str]:
    """Returns the files of a job's first run that its nodes have put into the spool."""
    return cluster.node_run("submit", ["ls", f"{cluster.spool}/throwaway-{job}-0"]).stdout.split()
