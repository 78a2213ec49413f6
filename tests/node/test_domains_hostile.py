"""What lies in the journal's directories and is not ours is refused with a message, and nothing is written."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lib.domains import SPEED, STATE, Holder, Node, nodes, script

Harm = Callable[[Path], None]
REFUSED = "refused, nothing of it is undone"


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture(scope="module")
def shared(start: Callable[..., Node]) -> Node:
    return start()


@pytest.fixture
def orphan(shared: Node) -> Iterator[tuple[Node, Path]]:
    """A node with one orphaned journal: what its files hold is what must not change."""
    before = shared.snapshot()
    holder = shared.holder(7)
    holder.do(*script(SPEED, (0, 1)))
    holder.stop(kill=True)
    (journal,) = (shared.path(STATE) / name for name in shared.journals())
    shared.run("cp", "-a", "/run/mpi-wait", "/run/saved")
    yield shared, journal
    shared.run("rm", "-rf", "/run/mpi-wait")
    shared.run("mv", "/run/saved", "/run/mpi-wait")
    assert shared.restore().returncode == 0
    assert shared.snapshot() == before


def lines_of(journal: Path) -> list[dict[str, object]]:
    return [json.loads(line.split(" ", 1)[1]) for line in journal.read_text().splitlines()]


def write_lines(journal: Path, lines: list[dict[str, object]]) -> None:
    """With right checksums: whoever can write there can compute them."""
    texts = [json.dumps(line, separators=(",", ":")) for line in lines]
    journal.write_text("".join(f"{zlib.crc32(text.encode()):08x} {text}\n" for text in texts))


def changed(line: int, **values: object) -> Harm:
    def harm(journal: Path) -> None:
        lines = lines_of(journal)
        lines[line].update(values)
        write_lines(journal, [{key: value for key, value in entry.items() if value is not None} for entry in lines])
    return harm


def linked(journal: Path) -> None:
    journal.rename(journal.parent / "elsewhere")
    journal.symlink_to("elsewhere")


def fifo(journal: Path) -> None:
    journal.unlink()
    os.mkfifo(journal, 0o600)


def directory(journal: Path) -> None:
    journal.unlink()
    journal.mkdir()


def hard_linked(journal: Path) -> None:
    os.link(journal, journal.parent / "second")


def flipped(journal: Path) -> None:
    text = bytearray(journal.read_bytes())
    text[len(text) // 2] ^= 1
    journal.write_bytes(text)


def cut_after(count: int) -> Harm:
    """At the end of a line: no line of it is wrong."""
    def harm(journal: Path) -> None:
        journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:count]))
    return harm


def renamed(journal: Path) -> None:
    journal.rename(journal.parent / "journal.3.1.1")


def of_another_job(journal: Path) -> None:
    os.makedirs(journal.parents[1] / "9", 0o700)
    journal.rename(journal.parents[1] / "9" / journal.name)


def job_directory_linked(journal: Path) -> None:
    journal.parent.rename(journal.parents[1] / "moved")
    journal.parent.symlink_to("moved")


JOURNALS: dict[str, tuple[Harm, str]] = {
    "a link": (linked, "a link"),
    "a FIFO": (fifo, "no regular file"),
    "a directory": (directory, "no regular file"),
    "a second name": (hard_linked, "a second name"),
    "another's": (lambda journal: os.chown(journal, 1234, 1234), "another's"),
    "group-writable": (lambda journal: journal.chmod(0o660), "writable by others"),
    "1 GB": (lambda journal: os.truncate(journal, 1 << 30), "larger than 4194304 bytes"),
    "empty": (lambda journal: os.truncate(journal, 0), "line 1: truncated"),
    "half a head": (lambda journal: os.truncate(journal, 40), "line 1: truncated"),
    "one line of two": (cut_after(2), "truncated: fewer entries of policy0 than there were"),
    "no entries": (cut_after(1), "truncated: fewer entries of policy0 than there were"),
    "a flipped bit": (flipped, "a wrong checksum"),
    "binary": (lambda journal: journal.write_bytes(bytes(range(256)) * 4 + b"\n"), "line 1: a wrong checksum"),
    "a future version": (changed(0, mpi_wait_journal=2), "line 1: a version that this release does not know"),
    "no journal": (changed(0, mpi_wait_journal="x"), "line 1: no journal"),
    "a head with more": (changed(0, also=1), "line 1: a head that is malformed"),
    "a head with less": (changed(0, process=None), "line 1: a head that is malformed"),
    "a long boot id": (changed(0, boot="x" * 99), "line 1: a head that is malformed"),
    "a negative policy": (changed(1, policy=-1), "line 2: no number of a policy"),
    "a huge policy": (changed(1, policy=1 << 40), "line 2: no number of a policy"),
    "a policy as text": (changed(1, policy="../../../etc"), "line 2: no number of a policy"),
    "a path as name": (changed(1, file="../../../../etc/passwd"), "line 2: a file that is not ours to change"),
    "a name with a NUL": (changed(1, file="scaling_governor\0x"), "line 2: no JSON object"),
    "another attribute": (changed(1, file="energy_performance_preference"), "a file that is not ours to change"),
    "a value with a newline": (changed(1, found="x\ny"), "line 2: no governor's name was found"),
    "a value too long": (changed(1, found="x" * 99), "line 2: an entry that is malformed"),
    "a frequency of 0": (changed(2, found="0"), "line 3: no frequency was found"),
    "a frequency in words": (changed(2, found="fast"), "line 3: no frequency was found"),
    "a range upside down": (changed(2, khz=[2, 1]), "line 3: no range of kHz"),
    "a range of three": (changed(2, khz=[1, 2, 3]), "line 3: an entry that is malformed"),
    "an owner too high": (changed(1, owner=[1 << 32, 0, 420]), "line 2: an entry that is malformed"),
    "the owner -1": (changed(1, owner=[(1 << 32) - 1, 0, 420]), "line 2: an entry that is malformed"),
    "a mode too high": (changed(1, owner=[0, 0, 1 << 16]), "line 2: an entry that is malformed"),
    "a set-uid file": (changed(2, given=[0, 0, 0o4666]), "line 3: a mode that no such file has"),
    "an entry with more": (changed(1, also=1), "line 2: an entry that is malformed"),
    "nothing changed": (changed(1, set=None), "line 2: nothing is changed"),
    "a wrong kind": (changed(1, khz=[1, 2]), "line 2: a value of the wrong kind"),
    "another's name": (renamed, "it says that it is another's"),
    "another job's directory": (of_another_job, "it says that it is another's"),
    "a job's directory that is a link": (job_directory_linked, "Not a directory"),
    "a job's directory of another": (lambda journal: os.chown(journal.parent, 1234, 0), "Operation not permitted"),
    "a group-writable directory": (lambda journal: journal.parent.chmod(0o770), "Operation not permitted"),
}


@pytest.mark.parametrize("what", JOURNALS)
def test_a_hostile_journal_is_refused(orphan: tuple[Node, Path], what: str) -> None:
    node, journal = orphan
    harm, message = JOURNALS[what]
    harm(journal)
    held = node.snapshot()
    done = node.restore()
    assert node.snapshot() == held
    assert message in done.stderr and "nothing of it is undone" in done.stderr, done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("what", ["a link", "a future version", "a path as name", "one line of two", "1 GB"])
def test_what_a_hostile_journal_holds_cannot_be_claimed(orphan: tuple[Node, Path], what: str) -> None:
    node, journal = orphan
    harm, message = JOURNALS[what]
    harm(journal)
    held = node.snapshot()
    later = node.holder(8)
    result, text = later.tell("claim 0")
    assert result == -74 and text.endswith("not claimed") and text.startswith("policy0: ")
    assert message in text + finish(later)
    assert node.snapshot() == held


def finish(holder: Holder) -> str:
    holder.do("end")
    return holder.stop()


CLAIMS: dict[str, tuple[Harm, str]] = {
    "a link": (linked, "a link"),
    "a FIFO": (fifo, "no regular file"),
    "a second name": (hard_linked, "a second name"),
    "another's": (lambda claim: os.chown(claim, 1234, 1234), "another's"),
    "world-writable": (lambda claim: claim.chmod(0o666), "writable by others"),
    "empty": (lambda claim: os.truncate(claim, 0), "truncated"),
    "cut": (lambda claim: os.truncate(claim, 100), "truncated"),
    "1 GB": (lambda claim: os.truncate(claim, 1 << 30), "too long"),
    "a flipped bit": (flipped, "a wrong checksum"),
    "a future version": (lambda claim: claim.write_bytes(claim.read_bytes().replace(b"claim 1", b"claim 2")),
                         "no claim, or of a version that this release does not know"),
    "gone": (lambda claim: claim.unlink(), "No such file"),
}


@pytest.mark.parametrize("what", CLAIMS)
def test_a_hostile_claim_is_refused(orphan: tuple[Node, Path], what: str) -> None:
    node, _ = orphan
    harm, message = CLAIMS[what]
    harm(node.path(f"{STATE}/cpu/policy0"))
    held = node.snapshot()
    done = node.restore()
    assert done.returncode == 1
    assert f"claim cpu/policy0: {message}" in done.stderr and REFUSED in done.stderr
    now = node.snapshot()
    assert {name: now[name] for name in now if name.startswith("policy0/")} == {
        name: held[name] for name in held if name.startswith("policy0/")}
    if what == "gone":
        return
    later = node.holder(8)
    result, text = later.tell("claim 0")
    assert result < 0 and message in text and text.endswith("; not claimed")
    finish(later)


def test_a_torn_last_line_is_left_out(orphan: tuple[Node, Path]) -> None:
    node, journal = orphan
    with journal.open("a") as file:
        file.write('0badc0de {"policy":1,"file":"scal')
    done = node.restore()
    assert done.returncode == 0 and "its last line was not finished, so that change was not made" in done.stderr
    assert node.journals() == []


def test_the_root_is_checked(shared: Node) -> None:
    for harm, back in (("chmod 777 /run/mpi-wait", "chmod 700 /run/mpi-wait"),
                       ("mv /run/mpi-wait /run/x; ln -s x /run/mpi-wait", "rm /run/mpi-wait; mv /run/x /run/mpi-wait"),
                       ("chown 1234 /run/mpi-wait/c1", "chown 0 /run/mpi-wait/c1")):
        holder = shared.holder(7)
        holder.stop()
        shared.run("sh", "-c", harm)
        done = shared.restore()
        assert done.returncode == 1 and REFUSED in done.stderr, done.stderr
        shared.run("sh", "-c", back)
        assert shared.restore().returncode == 0


REFUSALS = {
    "record 0 scaling_governor": "nothing is changed",
    "record 0 scaling_governor khz=1-2": "a value of the wrong kind",
    "record 0 scaling_max_freq value=userspace": "a value of the wrong kind",
    "record 0 scaling_governor value=a/b": "no governor's name",
    "record 0 scaling_max_freq khz=5-4": "no range of kHz",
    "record 0 scaling_max_freq owner=0:0:4755": "a mode that no such file has",
    "record 1 scaling_max_freq khz=1-2": "not claimed",
    "record 0 scaling_min_freq khz=1000000-1000000": "recorded already",
}


def test_a_change_that_cannot_be_undone_is_refused(shared: Node) -> None:
    before = shared.snapshot()
    holder = shared.holder(7)
    holder.do("claim 0", "record 0 scaling_min_freq khz=1000000-1200000")
    for command, message in REFUSALS.items():
        policy, name = command.split()[1:3]
        result, text = holder.tell(command)
        assert result < 0 and text == f"policy{policy}/{name}: {message}; not changed"
    for command in ("set 0 scaling_max_freq 1000000", "set 0 scaling_min_freq 1400000", "set 0 scaling_min_freq x",
                    "give 0 scaling_min_freq", "set 0 scaling_governor performance"):
        assert holder.tell(command)[0] == -22
    assert holder.tell("set 1 scaling_min_freq 1000000")[0] == -116
    assert holder.tell("claim 77") == (-2, "policy77: No such file or directory")
    assert holder.tell("claim 99999") == (-22, "policy99999: Invalid argument")
    finish(holder)
    assert shared.snapshot() == before


def test_the_governor_userspace_is_not_left(shared: Node) -> None:
    before = shared.snapshot()
    shared.write(0, "scaling_governor", "userspace")
    holder = shared.holder(7)
    holder.do("claim 0")
    assert holder.tell("record 0 scaling_governor value=performance")[1] == (
        'policy0/scaling_governor: the governor "userspace" is not left: the kernel would forget its speed; '
        "not changed")
    finish(holder)
    shared.write(0, "scaling_governor", "schedutil")
    assert shared.snapshot() == before


def test_what_cannot_be_put_back_stays_in_the_journal(orphan: tuple[Node, Path]) -> None:
    node, journal = orphan
    good = journal.read_bytes()
    changed(1, found="unheard-of")(journal)
    for _ in range(2):
        done = node.restore()
        assert done.returncode == 1 and "1 failed" in done.stderr
        assert "policy0/scaling_governor: its value: Invalid argument; it stays in the journal" in done.stderr
        assert node.read(0, "scaling_governor") == "userspace" and node.read(1, "scaling_governor") == "schedutil"
    later = node.holder(8)
    assert later.tell("claim 0") == (-22, "policy0: job 7 step 0 holds it and cannot be undone; not claimed")
    finish(later)
    journal.write_bytes(good)
    assert node.restore().returncode == 0
    assert node.journals() == []
