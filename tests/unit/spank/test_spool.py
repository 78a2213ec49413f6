"""mpi-wait-node between outbox, shared spool and sink=file; slurmdbd itself is tested in the cluster."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.lib.record_tools import PROGRAMS, REPOSITORY, node_record, run, settings
from tests.lib.spool_site import KEY, ME, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_one_node_without_a_spool(site: Site) -> None:
    left = site.put(node_record())
    assert site.node("drain", spool=False).returncode == 0
    assert site.done(spool=False)["nodes"] == {"reported": 1, "of": 1}
    assert not left.exists() and os.listdir(site.outbox("c1")) == []


def test_kept_records_are_the_groups_whatever_the_umask(site: Site) -> None:
    """Root's shell, or the slurmd that it starts, may let no other user see what they make."""
    site.put(node_record())
    before = os.umask(0o077)
    try:
        assert site.node("drain").returncode == 0
    finally:
        os.umask(before)
    assert site.done()["nodes"]["reported"] == 1 and (site.spool / "done").stat().st_mode & 0o777 == 0o711


def test_two_nodes_without_a_spool(site: Site) -> None:
    """The first writes what it has; the other's record can never be merged."""
    for node in ("c1", "c2"):
        left = site.put(node_record(node, "c[1-2]"), node)
        assert site.node("drain", node=node, spool=False).returncode == 0
        assert not left.exists()
    assert site.done(spool=False)["nodes"] == {"reported": 1, "of": 2, "why": "no shared spool"}
    assert not (site.outbox("c2").parent / "done").exists()


def test_two_nodes_meet_in_the_spool(site: Site) -> None:
    site.put(node_record("c2", "c[1-2]"), "c2")
    assert site.node("drain", node="c2").returncode == 0
    assert [entry.name for entry in (site.spool / KEY).iterdir()] == ["c2.json"]
    assert (site.spool / KEY).stat().st_mode & 0o777 == 0o700
    site.put(node_record("c1", "c[1-2]"), "c1")
    assert site.node("drain", node="c1").returncode == 0
    assert site.done()["nodes"] == {"reported": 2, "of": 2}
    assert not (site.spool / KEY).exists()


def test_a_node_that_is_not_the_first_reads_no_list_of_the_others(site: Site) -> None:
    """Each node of a large job moves its record. If each read all names, they would list the square of their number."""
    folder, trace, lists = site.spool / KEY, site.folder / "trace", []
    folder.mkdir(mode=0o700)
    others = (f"c{number}.json" for number in range(3, 6000))
    (folder / "c1.json").write_text(json.dumps(node_record("c1", "c[1-6000]")))
    for count in (2, 4000):
        for name in itertools.islice(others, count):
            os.link(folder / "c1.json", folder / name)
        site.put(node_record("c2", "c[1-6000]"), "c2")
        words = ["strace", "-f", "-qq", "-e", "trace=getdents64", "-o", trace, PROGRAMS["doubled"]]
        done = subprocess.run([*words, *site.command("drain", node="c2")[1:]], env=settings("c2") | {"MPIWAIT_ME": ME},
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and (folder / "c2.json").exists(), done.stderr
        lists.append(trace.read_text().count("getdents64("))
    assert lists[0] == lists[1] > 0


def test_first_node_waits_for_the_other(site: Site) -> None:
    """Which comes while the first one pauses."""
    site.put(node_record("c1", "c[1-2]"), "c1")
    site.put(node_record("c2", "c[1-2]"), "c2")
    other = site.command("drain", node="c2")
    assert site.node("drain", node="c1", meanwhile=other).returncode == 0
    assert site.done()["nodes"] == {"reported": 2, "of": 2}


def test_spool_that_is_not_shared(site: Site) -> None:
    site.put(node_record("c1", "c[1-3]"))
    assert site.node("drain", "--collect", "1").returncode == 0
    assert site.done()["nodes"] == {"reported": 1, "of": 3, "why": "spool not shared"}


def test_missing_nodes_are_left_to_the_sweep(site: Site) -> None:
    for node in ("c2", "c1"):
        site.put(node_record(node, "c[1-3]"), node)
        last = site.node("drain", "--collect", "1", node=node)
    assert last.returncode == 2
    assert site.node("sweep").returncode == 2
    for path in (site.spool / KEY).iterdir():
        os.utime(path, (0, path.stat().st_mtime - 1000))
    assert site.node("sweep").returncode == 0
    assert site.done()["nodes"] == {"reported": 2, "of": 3, "why": "nodes missing"}


def test_sweep_leaves_what_is_young_and_flush_does_not(site: Site) -> None:
    for job in (7, 8, 9):
        site.put(node_record(job=job), key=f"test-{job}-0")
    assert site.node("sweep").returncode == 0
    assert len(os.listdir(site.outbox("c1"))) == 3
    assert site.node("sweep", "--now").returncode == 0
    assert os.listdir(site.outbox("c1")) == []
    assert [entry.name for entry in site.spool.iterdir() if entry.name[0] != "."] == ["done"]
    assert len(list((site.spool / "done").iterdir())) == 3


def test_writer_sweep_only_moves(site: Site) -> None:
    site.put(node_record())
    assert site.node("drain", "writer=sweep").returncode == 0
    assert (site.spool / KEY / "c1.json").exists() and not (site.spool / "done").exists()


@pytest.mark.parametrize(
    ("words", "kept"),
    [("record=mpi", False), ("record=none", False), ("record_min_s=11", False), ("record_min_s=10", True)],
)
def test_records_that_the_site_does_not_want(site: Site, words: str, kept: bool) -> None:
    record = node_record()
    if words == "record=mpi":
        del record["steps"][0]["wait"]
    site.put(record)
    assert site.node("drain", words).returncode == 0
    assert (site.spool / "done").exists() == kept and not (site.spool / KEY).exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_writable_spool_is_refused(site: Site, mode: int) -> None:
    left = site.put(node_record())
    site.spool.chmod(mode)
    done = site.node("drain")
    assert done.returncode == 1 and left.exists()
    assert f'spool "{site.spool}" has mode 0{mode:o}' in done.stdout and "chmod go-w" in done.stdout


def test_linked_and_missing_spools_are_refused(site: Site) -> None:
    left = site.put(node_record())
    site.spool.rmdir()
    assert "No such file" in site.node("drain").stdout
    (site.folder / "elsewhere").mkdir()
    site.spool.symlink_to(site.folder / "elsewhere")
    done = site.node("drain")
    assert (
        done.returncode == 1 and "must be a directory and no link" in done.stdout and left.exists()
    )


HOSTILE = {
    "other node": node_record("c9", "c[1-9]"),
    "not in the list": node_record("c2", "c1"),
    "other job": node_record("c2", "c[1-2]", job=8),
    "other list": node_record("c2", "c[1-9]"),
    "no JSON": "{",
    "no object": "[]",
    "too large": "x" * (5 * 1024 * 1024),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_hostile_files_are_left_out(site: Site, case: str) -> None:
    """The first node's own record is written all the same."""
    folder = site.spool / KEY
    folder.mkdir(mode=0o700)
    content = HOSTILE[case]
    (folder / "c2.json").write_text(content if isinstance(content, str) else json.dumps(content))
    site.put(node_record("c1", "c[1-2]"))
    done = site.node("drain", "--collect", "1")
    assert done.returncode == 0, done.stdout
    assert site.done()["nodes"] == {"reported": 1, "of": 2, "why": "records refused"}
    assert '"c2.json"' in done.stdout and "left out" in done.stdout


@pytest.mark.parametrize(("nodes", "count"), [
    ("c0" + "[0-9]" * 6, 0), ("c[0000000-0065535],c[1000000-1065535],d", 0),
    ("c[0000000-0065535],c[1000000-1065535]", 131072), ("c0000000,c000000[1-4],c00000[1-2][0,2-9]", 23),
])
def test_a_forged_list_of_more_nodes_than_slurm_can_have_is_not_expanded(site: Site, nodes: str, count: int) -> None:
    """It would take all memory of the host, at each sweep."""
    folder = site.spool / KEY
    folder.mkdir(mode=0o700)
    (folder / "c0000001.json").write_text(json.dumps(node_record("c0000001", nodes)))
    assert site.node("sweep", "--partial").returncode == (0 if count else 2)
    assert (site.spool / "done").exists() == (count > 0)
    if count:
        assert site.done()["nodes"] == {"reported": 1, "of": count, "why": "nodes missing"}


@pytest.mark.parametrize(
    ("told", "nodes"),
    [
        (["c[1-4]", "c2", "c3", "c[1-4]"], {"reported": 4, "of": 4}),
        (["c[1-4]", "c[2-3]", "c[2-3]", "c[1-4]"], {"reported": 4, "of": 4}),
        (["c1", "c[1-4]", "c[1-4]", "c[1-4]"], {"reported": 4, "of": 4}),
        (["c[1-2]", "c[1-2]", "c3", "c4"], {"reported": 4, "of": 4}),
        (["c[1-2]", "c[1-4]", "c[1-4]", "c[1-4]"], {"reported": 1, "of": 2, "why": "records refused"}),
    ],
    ids=["alone", "two together", "the first", "given back", "the first says another"],
)
def test_nodes_that_are_told_of_themselves_alone(site: Site, told: list[str], nodes: dict[str, object]) -> None:
    """Those that have to abort a job are of the list that the others name."""
    folder = site.spool / KEY
    folder.mkdir(mode=0o700)
    for i in (1, 2, 3):
        (folder / f"c{i + 1}.json").write_text(json.dumps(node_record(f"c{i + 1}", told[i])))
    site.put(node_record("c1", told[0]))
    assert site.node("drain", "--collect", "1").returncode == 0
    assert site.done()["nodes"] == nodes


def test_links_and_fifos_in_the_spool(site: Site) -> None:
    folder = site.spool / KEY
    folder.mkdir(mode=0o700)
    (site.folder / "secret").write_text(json.dumps(node_record("c2", "c[1-3]")))
    (folder / "c2.json").symlink_to(site.folder / "secret")
    os.mkfifo(folder / "c3.json")
    site.put(node_record("c1", "c[1-3]"))
    assert site.node("drain", "--collect", "1").returncode == 0
    assert site.done()["nodes"]["reported"] == 1


@pytest.mark.parametrize(("nodes", "most", "kept"), [("c1", 4 * 2**20, 2000), ("c[1-64]", 4 * 2**20, 2000),
                                                     ("c[1-256]", 2**20, 2000), ("c[1-9000]", 2**16, 125)])
def test_a_job_s_records_take_so_much_of_the_spool_in_all(site: Site, nodes: str, most: int, kept: int) -> None:
    """A node's part goes to as many of its steps as it has room for, by their sums where these are too many."""
    record = node_record("c1", nodes)
    (step,) = record["steps"]
    calls = {f"MPI_{chr(65 + i)}{'x' * 30}": [10**9] * 4 for i in range(16)}
    record["steps"] = [step | {"id": str(i), "wait": step["wait"] | {"calls": calls}} for i in range(2000)]
    length = site.put(record).stat().st_size
    assert site.node("drain", "writer=sweep").returncode == 0
    path = site.spool / KEY / "c1.json"
    found = json.loads(path.read_text())
    assert path.stat().st_size <= most and (path.stat().st_size == length) == (length <= most)
    assert len(found["steps"]) == kept and found["steps_left_out"] == 2000 - kept
    assert found.get("steps_summed", 0) == (kept if length > most else 0)
    assert found["energy"] == record["energy"]


def test_held_lock_means_somebody_else_merges(site: Site) -> None:
    site.put(node_record())
    site.node("drain", "writer=sweep")
    with (site.spool / KEY / ".job.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert site.node("sweep", "--partial").returncode == 2
    assert site.node("sweep", "--partial").returncode == 0
    assert site.done()["nodes"]["reported"] == 1


def test_key_that_is_not_there(site: Site) -> None:
    assert site.node("drain").returncode == 0


def test_usage() -> None:
    version = re.search(r"^  version: '(.*)',$", (REPOSITORY / "meson.build").read_text(), re.M)
    assert version and run("mpi-wait-node", "--version").stdout == f"mpi-wait-node {version[1]}\n"
    assert "sweep" in run("mpi-wait-node", "--help").stdout
    for words in (
        [],
        ["fly"],
        ["write"],
        ["drain", "--what"],
        ["sweep", "spool"],
        ["sweep", "--first-delay", "x"],
    ):
        done = run("mpi-wait-node", *words)
        assert done.returncode == 64 and done.stderr.startswith("mpi-wait-node: "), words
