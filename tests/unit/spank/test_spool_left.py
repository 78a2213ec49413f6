"""What killed writers, late nodes, resized jobs and wrong clocks leave in a spool, and what a sweep makes of it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from tests.lib.record_tools import node_record
from tests.lib.spool_site import KEY, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def put(site: Site, node: str, nodes: str, key: str = KEY, **changes: object) -> Path:
    """A node's file in the spool itself."""
    (site.spool / key).mkdir(mode=0o700, exist_ok=True)
    path = site.spool / key / f"{node}.json"
    path.write_text(json.dumps(node_record(node, nodes, **changes)))  # type: ignore[arg-type]
    return path


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (then, then), follow_symlinks=False)


def names(site: Site) -> list[str]:
    return sorted(entry.name for entry in site.spool.iterdir() if not entry.name.startswith("."))


def test_what_a_killed_writer_has_begun_goes_with_the_job(site: Site) -> None:
    put(site, "c1", "c1")
    (site.spool / KEY / ".c1.json.4711").write_text('{"v":')
    assert site.node("sweep", "--now").returncode == 0
    assert site.done()["nodes"] == {"reported": 1, "of": 1} and names(site) == ["done"]


def test_an_empty_directory_goes_when_nobody_can_still_mean_it(site: Site) -> None:
    (site.spool / KEY).mkdir(mode=0o700)
    (site.spool / KEY / ".job.lock").touch()
    assert site.node("sweep").returncode == 2 and names(site) == [KEY]
    age(site.spool / KEY, 600)
    assert site.node("sweep").returncode == 0 and names(site) == []


def test_what_was_being_written_into_the_outbox_goes_after_a_day(site: Site) -> None:
    site.put(node_record())
    stale = site.outbox("c1") / f".{KEY}.c1.json.4711"
    stale.touch()
    assert site.node("sweep").returncode == 0 and stale.exists()
    age(stale, 2 * 86400)
    assert site.node("sweep", "--only-move").returncode == 0 and not stale.exists()
    assert len(os.listdir(site.outbox("c1"))) == 1, "the record itself is young: its writer moves it"


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "no spool"])
def test_what_was_being_kept_goes_after_a_day(site: Site, spool: bool) -> None:
    """With a spool, by the first sweep of a day."""
    site.put(node_record())
    assert site.node("sweep", "--now", spool=spool).returncode == 0
    done = (site.spool if spool else site.outbox("c1").parent) / "done"
    young, stale = (done / f".{KEY}.json.{number}" for number in (1, 4711))
    young.touch()
    stale.touch()
    age(stale, 2 * 86400)
    if spool:
        age(site.spool / ".clock", 2 * 86400)
    assert site.node("sweep", spool=spool).returncode == 0
    assert sorted(os.listdir(done)) == [young.name, f"{KEY}.json"]


def test_whoever_waited_for_the_lock_finds_nothing_left(site: Site) -> None:
    """The lock goes with the job's files; who gets it then must not merge beside the next one."""
    site.put(node_record())
    path = put(site, "c1", "c1")
    with (path.parent / ".job.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = site.node("drain", meanwhile=["rm", "-r", str(path.parent)])
    assert done.returncode == 0 and names(site) == []


def test_only_the_first_node_writes(site: Site) -> None:
    """Its writer may be waiting: the other's, which came last, leaves the record to it."""
    for node, words in (("c1", ["writer=sweep"]), ("c2", [])):
        site.put(node_record(node, "c[1-2]"), node)
        assert site.node("drain", *words, node=node).returncode == 0
    assert not (site.spool / "done").exists()
    assert site.node("sweep", "--now").returncode == 0
    assert site.done()["nodes"] == {"reported": 2, "of": 2}


def test_a_late_node_does_not_replace_what_is_better(site: Site) -> None:
    for node in ("c1", "c2"):
        put(site, node, "c[1-3]")
    assert site.node("sweep", "--partial").returncode == 0
    put(site, "c3", "c[1-3]")
    assert site.node("sweep", "--partial").returncode == 0
    assert site.done()["nodes"] == {"reported": 2, "of": 3, "why": "nodes missing"} and names(site) == ["done"]


def test_nodes_that_a_job_gave_back_are_in_its_record(site: Site) -> None:
    """They name only themselves; the last nodes' list comes first."""
    put(site, "c3", "c[3-4]", end_s=1_700_000_005.0)
    put(site, "c4", "c[3-4]", end_s=1_700_000_005.0)
    put(site, "c2", "c2", end_s=1_700_000_007.0)
    site.put(node_record("c1", "c1") | {"end_s": 1_700_000_010.0})
    assert site.node("drain").returncode == 0
    assert site.done()["nodes"] == {"reported": 4, "of": 4} and names(site) == ["done"]


def test_a_list_that_shares_a_node_with_the_jobs_is_none_of_it(site: Site) -> None:
    put(site, "c1", "c[1-2]")
    put(site, "c2", "c[1-2]")
    put(site, "c9", "c[2-9]")
    done = site.node("sweep", "--partial")
    assert "left out" in done.stdout
    assert site.done()["nodes"] == {"reported": 2, "of": 2}


def test_more_lists_than_a_job_can_have_had(site: Site) -> None:
    for index in range(100):
        put(site, f"c{index}", f"c{index}")
    assert site.node("sweep", "--partial").returncode == 0
    assert site.done()["nodes"]["reported"] == 64


@pytest.mark.parametrize("shift_s", [-86400, 86400], ids=["past", "future"])
def test_files_that_a_wrong_clock_dated_are_stored(site: Site, shift_s: int) -> None:
    put(site, "c1", "c1")
    age(site.spool / KEY, shift_s)
    assert site.node("sweep").returncode == 0
    assert site.done()["nodes"] == {"reported": 1, "of": 1} and names(site) == ["done"]


def test_what_nobody_can_read_goes_after_a_month(site: Site) -> None:
    (site.spool / KEY).mkdir(mode=0o700)
    (site.spool / KEY / "c1.json").write_text("{")
    age(site.spool / KEY, 20 * 86400)
    assert site.node("sweep").returncode == 2 and names(site) == [KEY]
    age(site.spool / KEY, 40 * 86400)
    done = site.node("sweep")
    assert done.returncode == 0 and names(site) == [], done.stdout
    assert "for a month" in done.stdout


def test_files_of_somebody_else_in_the_outbox_stay(site: Site) -> None:
    site.put(node_record())
    theirs = ["notes", "some-notes.txt", "notes.json", "no-key.c1.json", "test-7.c1.json"]
    for name in theirs:
        (site.outbox("c1") / name).write_text("theirs")
    for spool in (True, False):
        assert site.node("sweep", "--now", spool=spool).returncode == 0
        assert sorted(os.listdir(site.outbox("c1"))) == sorted(theirs)
    assert site.done()["nodes"] == {"reported": 1, "of": 1}


def test_one_job_s_files_of_two_nodes_in_one_outbox(site: Site) -> None:
    """An image with another node's outbox in it: one record all the same."""
    for node in ("c1", "c2"):
        path = site.outbox("c1") / f"{KEY}.{node}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(node_record(node, "c[1-2]")))
    assert site.node("sweep", "--now", spool=False).returncode == 0
    assert site.done(spool=False)["nodes"] == {"reported": 2, "of": 2} and os.listdir(site.outbox("c1")) == []


@pytest.mark.parametrize(("name", "what"), [(KEY, f"spool/{KEY}"), ("done", f'the kept record of "{KEY}')])
def test_a_file_in_the_place_of_a_directory(site: Site, name: str, what: str) -> None:
    """Said, and no record is lost."""
    left = site.put(node_record())
    (site.spool / name).write_text("")
    done = site.node("drain")
    assert done.returncode == 1 and f'{what}": Not a directory' in done.stdout
    assert left.exists() or (site.spool / KEY / "c1.json").exists()


def test_a_record_that_is_too_large_for_any_node(site: Site) -> None:
    left = site.put("x" * (5 * 1024 * 1024))
    done = site.node("drain")
    assert done.returncode == 1 and f"{KEY}.c1.json" in done.stdout and "File too large" in done.stdout
    assert left.exists()


def test_a_spool_is_refused_by_every_command(site: Site) -> None:
    site.spool.chmod(0o777)
    for words in (["drain"], ["sweep"], ["sweep", "--now"], ["sweep", "--only-move"]):
        done = site.node(*words)
        assert done.returncode == 1 and "chmod go-w" in done.stdout, words
