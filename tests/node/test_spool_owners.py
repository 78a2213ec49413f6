"""A spool's owners and groups, as root sees to them, and a spool on a disk that is full."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.record_tools import node_record
from tests.lib.spool_site import KEY, Site

ROOT = "spool_user=root"
NOBODY = 65534


@pytest.fixture
def site() -> Iterator[Site]:
    """Not under pytest's own folder, which only root may enter: the spool's user must reach it."""
    with tempfile.TemporaryDirectory(prefix="spool-") as folder:
        yield Site(Path(folder))


def test_a_foreign_spool_is_refused_unless_the_site_names_its_owner(site: Site) -> None:
    left = site.put(node_record())
    os.chown(site.spool, NOBODY, 0)
    done = site.node("drain", ROOT)
    assert done.returncode == 1 and left.exists()
    assert f"belongs to uid {NOBODY}, not to root" in done.stdout and "chown root" in done.stdout
    assert site.node("drain", "spool_user=nobody").returncode == 0
    assert (site.spool / "done" / f"{KEY}.json").stat().st_uid == NOBODY


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "no spool"])
def test_a_record_that_is_kept_is_the_jobs_group_s(site: Site, spool: bool) -> None:
    site.put(node_record())
    assert site.node("drain", ROOT, spool=spool).returncode == 0
    site.done(spool=spool)
    folder = site.spool if spool else site.outbox("c1").parent
    status = (folder / f"done/{KEY}.json").stat()
    assert (status.st_uid, status.st_gid) == (0, node_record()["gid"])


REPLACED = {
    "a FIFO": "mkfifo {0}",
    "a file with another name": "ln {1} {0}",
    "a link": "ln -s {1} {0}",
    "another's file": "cp {1} {0} && chown daemon {0}",
    "their own, with another name": "cp {1} {0} && chown nobody {0} && ln {0} {1}.too",
}


@pytest.mark.parametrize("by", REPLACED.values(), ids=REPLACED)
def test_what_the_spool_s_owner_puts_in_a_record_s_place_is_given_to_no_group(
    site: Site, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Root gives the file to the job's group by its name, in a directory of spool_user's: nobody waits, and nothing
    else is given away."""
    kept, precious = site.spool / "done" / f"{KEY}.json", site.folder / "precious"
    precious.write_text("keep")
    os.chown(site.spool, NOBODY, 0)
    site.put(node_record())
    monkeypatch.setenv("MPIWAIT_RENAMED", f"rm {kept} && {by.format(kept, precious)}")
    assert site.node("drain", "spool_user=nobody").returncode == 0
    groups = {kept.lstat().st_gid, precious.stat().st_gid}
    assert node_record()["gid"] not in groups


def test_the_spool_is_full(site: Site) -> None:
    """Nothing that is there is lost, and nothing half-written stays in the spool."""
    kept = site.put(node_record())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=755", "none", str(site.spool)], check=True)
    with contextlib.suppress(OSError):
        (site.spool / "filler").write_bytes(b"x" * 16384)
    try:
        done = site.node("drain", ROOT)
        assert done.returncode == 1 and "No space left" in done.stdout and "stays in" in done.stdout
        assert kept.exists() and not list(site.spool.rglob("*.json*"))
    finally:
        subprocess.run(["umount", str(site.spool)], check=True)
