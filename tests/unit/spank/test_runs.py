"""Which run of a requeued job a node's record is of: by Slurm's count where there is one, and by its times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import NO_POWERCAP, driver, node_record
from tests.lib.spool_site import KEY, Site

BEGUN_S = 1_700_000_000.0
QUEUED_S = 130.0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def record(node: str, run: int, nodes: str = "c[1-2]", **changes: Any) -> dict[str, Any]:
    """Of the run of that number, from 0, each of 10 s. Its ranks wait for as many seconds as that number and 1."""
    begin = BEGUN_S + run * QUEUED_S
    body = node_record(node, nodes, [[int(node[1]) - 1, 10**6 * (run + 1), 0]], start_s=begin, end_s=begin + 10)
    return body | changes


def kept(site: Site) -> dict[str, dict[str, Any]]:
    return {path.stem: site.done(path.stem) for path in sorted((site.spool / "done").iterdir())}


def waits(site: Site) -> dict[str, tuple[int, float]]:
    """By key, how many nodes are in the record, and how long a rank of theirs has waited."""
    return {key: (body["nodes"]["reported"], body["wait"]["max"]["s"]) for key, body in kept(site).items()}


def test_runs_that_wait_in_the_spool_together(site: Site) -> None:
    """The first node has handed in both before the second has the first."""
    for node, run in (("c1", 0), ("c1", 1), ("c2", 1), ("c2", 0)):
        site.put(record(node, run), node)
        site.node("drain", "writer=sweep", node=node)
    assert {path.name for path in site.spool.iterdir() if path.name[0] == "t"} == {"test-7-0", "test-7-1"}
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site) == {"test-7-0": (2, 1.0), "test-7-1": (2, 2.0)}


def test_a_run_s_nodes_meet_though_the_one_before_is_gone_meanwhile(site: Site) -> None:
    site.put(record("c1", 0, "c1"))
    site.node("drain", "writer=sweep")
    site.put(record("c1", 1))
    site.node("drain", "writer=sweep")
    (site.spool / "test-7-0/c1.json").unlink()
    (site.spool / "test-7-0").rmdir()
    site.put(record("c2", 1), "c2")
    site.node("drain", "writer=sweep", node="c2")
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site) == {"test-7-1": (2, 2.0)}


@pytest.mark.parametrize("known", [True, False], ids=["by Slurm", "by nobody"])
@pytest.mark.parametrize("first", ["c1", "c2"])
def test_nodes_that_count_differently_are_of_one_run(site: Site, first: str, known: bool) -> None:
    """As where the node's epilog made its state, whose environment says one more, or no prolog was told."""
    for node in (first, "c2" if first == "c1" else "c1"):
        number = int(node == "c2")
        key = f"test-7-{number}"
        site.put(record(node, 0, restart_count=number, restart_known=known), node, key)
        site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    ((reported, _),) = waits(site).values()
    assert reported == 2


def test_slurm_s_count_holds_for_nodes_that_were_never_there_together(site: Site) -> None:
    """The job gave the second back before the third was of use."""
    for node, begin, end in (("c1", 0, 5), ("c2", 7, 9)):
        body = record(node, 0, restart_count=3, restart_known=True, start_s=BEGUN_S + begin, end_s=BEGUN_S + end)
        site.put(body, node, "test-7-3")
        site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site) == {"test-7-3": (2, 1.0)}


AGAIN = {"restart_count": 0, "restart_known": True}


@pytest.mark.parametrize("change", [{}, {"restart_known": False}, {"uid": 1001}],
                         ids=["alike", "uncounted", "another's"])
def test_jobs_of_one_number_meet_nowhere(site: Site, change: dict[str, Any]) -> None:
    """The number has come again before the first job was stored, and once more after both were: numbers of runs in
    names begin anew with each job."""
    for turn in (0, 1):
        for node in ("c1", "c2"):
            site.put(record(node, turn, **AGAIN) | (change if turn else {}), node)
            site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site) == {"test-7-0": (2, 1.0), "test-7-1": (2, 2.0)}
    for node in ("c1", "c2"):
        site.put(record(node, 2, **AGAIN), node)
        site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site) == {f"test-7-{turn}": (2, turn + 1.0) for turn in range(3)}


def test_another_user_s_job_at_the_same_time_is_another(site: Site) -> None:
    """Clocks of nodes may differ by more than lies between two jobs."""
    for node, uid in (("c1", 1000), ("c2", 1001)):
        site.put(record(node, 0, node, uid=uid, **AGAIN), node)
        site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    assert {key: reported for key, (reported, _) in waits(site).items()} == {"test-7-0": 1, "test-7-1": 1}


def test_what_an_older_release_has_left_is_stored(site: Site) -> None:
    """Records of nodes without an owner, and a kept record whose run has none: the times tell the jobs apart."""
    for turn in (0, 1):
        body = record("c1", turn, "c1", **AGAIN)
        del body["uid"]
        site.put(body)
        assert site.node("drain").returncode == 0
        if turn == 0:
            path = site.spool / "done/test-7-0.json"
            kept_before = json.loads(path.read_text())
            del kept_before["run"]["uid"]
            path.write_text(json.dumps(kept_before))
    assert waits(site) == {"test-7-0": (1, 1.0), "test-7-1": (1, 2.0)}


def test_a_node_that_learnt_of_another_job_at_its_end_belongs_to_none(site: Site) -> None:
    late = record("c2", 0, start_s=BEGUN_S + 2000, end_s=BEGUN_S + 2000, timeless=True)
    for node, body in (("c1", record("c1", 0)), ("c2", late)):
        site.put(body, node)
        site.node("drain", "writer=sweep", node=node)
    assert {path.name for path in site.spool.iterdir() if path.name[0] == "t"} == {"test-7-0", "test-7-1"}


def test_a_node_that_learnt_of_the_job_at_its_end_belongs_to_it(site: Site) -> None:
    late = record("c2", 0, start_s=BEGUN_S + 15, end_s=BEGUN_S + 15, timeless=True)
    for node, body in (("c1", record("c1", 0)), ("c2", late)):
        site.put(body, node)
        site.node("drain", "writer=sweep", node=node)
    assert site.node("sweep", "--now").returncode == 0
    assert waits(site)["test-7-0"][0] == 2


def test_a_kept_record_is_not_taken_for_the_next_run_s(site: Site) -> None:
    """sink=file: there is no row of slurmdbd's that tells them apart."""
    for run in (0, 1, 2):
        for node in ("c2", "c1"):
            site.put(record(node, run), node)
            assert site.node("drain", node=node).returncode == 0
    assert waits(site) == {f"test-7-{run}": (2, run + 1.0) for run in range(3)}


def test_files_of_two_runs_in_one_directory_are_two_records(site: Site) -> None:
    """As a race of two nodes may leave them."""
    folder = site.spool / KEY
    folder.mkdir(mode=0o700)
    for node, run in (("c1", 1), ("c2", 1), ("c3", 0)):
        (folder / f"{node}.json").write_text(json.dumps(record(node, run, "c[1-2]" if run else "c[3-4]")))
    assert site.node("sweep", "--now", "--partial").returncode == 0
    assert waits(site)["test-7-0"] == (2, 2.0)
    assert [path.name for path in folder.glob("*.json")] == ["c3.json"]
    assert site.node("sweep", "--now", "--partial").returncode == 0
    assert waits(site) == {"test-7-0": (2, 2.0), "test-7-1": (1, 1.0)}


def test_more_runs_than_the_spool_takes_wait_in_the_outbox(site: Site) -> None:
    """Four of a job, which is what a user's requeues can fill it with."""
    for run in range(5):
        site.put(record("c1", run))
        done = site.node("drain", "writer=sweep")
    assert done.returncode == 1 and "4 runs of job 7 wait in the spool" in done.stdout
    assert site.node("sweep", "--now", "--partial").returncode == 0
    assert site.node("sweep", "--now", "--partial").returncode == 0
    assert len(kept(site)) == 5


@pytest.mark.parametrize("known", ["", 0], ids=["by nobody", "by Slurm"])
def test_an_earlier_run_s_record_in_the_outbox_stays(tmp_path: Path, known: Any) -> None:
    """Nor does Slurm's count tell: another job may have had the number, and counts from 0 as well."""
    for now_s in (BEGUN_S, BEGUN_S + 100):
        driver("begin", tmp_path / "run", 7, 2, 2, "test", "c1", "nap", known, elsewhere=NO_POWERCAP, now_s=now_s)
        driver("finish", tmp_path / "run", 7, tmp_path / "out", "", elsewhere=NO_POWERCAP, now_s=now_s + 10)
    found = {path.name.removesuffix(".c1.json"): json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert sorted(found) == ["test-7-0", "test-7-1"]
    assert all(body["restart_count"] == int(key[-1]) for key, body in found.items())


def test_the_outbox_keeps_so_many_runs_of_a_job(tmp_path: Path) -> None:
    for run in range(9):
        now_s = BEGUN_S + 100 * run
        begun = ("begin", tmp_path / "run", 7, 2, 2, "test", "c1", "nap", "")
        driver(*begun, elsewhere=NO_POWERCAP, now_s=now_s)
        done = driver("finish", tmp_path / "run", 7, tmp_path / "out", "", elsewhere=NO_POWERCAP, now_s=now_s + 10)
    assert done["code"] < 0 and "8 runs of job 7 wait in the outbox" in done["error"]
    assert len(list((tmp_path / "out").iterdir())) == 8
