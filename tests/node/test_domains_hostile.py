"""A domain's file that is not as only we write it is refused with a message, and nothing of the domain is changed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lib.domains import GIVEN, STATE, Holder, Node, nodes, script

Harm = Callable[[Path], None]
REFUSED = "nothing is restored from it"


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture(scope="module")
def shared(start: Callable[..., Node]) -> Node:
    return start()


@pytest.fixture
def orphan(shared: Node) -> Iterator[tuple[Node, Path]]:
    """A node with two domains whose holder is dead: what the kernel's files hold is what must not change."""
    before = shared.snapshot()
    holder = shared.holder(7)
    holder.do(*script(GIVEN, (0, 1)))
    holder.stop(kill=True)
    shared.run("cp", "-a", "/run/mpi-wait", "/run/saved")
    yield shared, shared.path(f"{STATE}/cpufreq/policy0")
    shared.simulation.control(deny=[])
    shared.run("rm", "-rf", "/run/mpi-wait")
    shared.run("mv", "/run/saved", "/run/mpi-wait")
    assert shared.restore().returncode == 0
    assert shared.snapshot() == before


def changed(old: str, new: str) -> Harm:
    """With a right checksum: whoever can write there can compute it."""
    def harm(file: Path) -> None:
        text = file.read_text()
        assert old in text
        body = text[:-10].replace(old, new, 1).ljust(502)[:502]
        file.write_text(f"{body} {zlib.crc32(body.encode()):08x}\n")
    return harm


def linked(file: Path) -> None:
    file.rename(file.parent / "elsewhere")
    file.symlink_to("elsewhere")


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def flipped(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes(text)


MALFORMED = "not a domain's file, or one of a version that this release does not know"
OTHERWISE = "a wrong checksum"
NO_RANGE = "no range of kHz"
NOT_OURS = "a file that is not ours to change"
NO_NAME = "no name of a driver or a governor"
FILES: dict[str, tuple[Harm, str]] = {
    "a link": (linked, "a link"),
    "a FIFO": (fifo, "no regular file"),
    "a directory": (directory, "Is a directory"),
    "a second name": (lambda file: os.link(file, file.parent / "second"), "a second name"),
    "another's": (lambda file: os.chown(file, 1234, 1234), "another's"),
    "group-writable": (lambda file: file.chmod(0o660), "writable by others"),
    "1 GB": (lambda file: os.truncate(file, 1 << 30), "too long"),
    "empty": (lambda file: os.truncate(file, 0), "truncated"),
    "cut": (lambda file: os.truncate(file, 100), "truncated"),
    "a flipped bit": (flipped, OTHERWISE),
    "binary": (lambda file: file.write_bytes(bytes(range(256)) * 2), MALFORMED),
    "a future version": (changed("domain 1", "domain 2"), MALFORMED),
    "more": (changed(" to 65534\n", " to 65534\nalso 1\n"), OTHERWISE),
    "less": (changed("given 1 to 65534\n", ""), MALFORMED),
    "a long boot id": (changed("boot ", "boot " + "x" * 40), MALFORMED),
    "a path as name": (changed("scaling_max_freq", "../../../../etc/passwd"), NOT_OURS),
    "a name with a NUL": (changed("scaling_max_freq", "scaling\0max_freq"), MALFORMED),
    "another attribute": (changed("scaling_max_freq", "scaling_setspeed"), NOT_OURS),
    "the governor as the file": (changed("scaling_max_freq", "scaling_governor"), NOT_OURS),
    "a governor that is a path": (changed("schedutil", "../schedutil"), NO_NAME),
    "a governor too long": (changed("schedutil", "x" * 40), MALFORMED),
    "a governor with a newline": (changed("schedutil", "sched\nutil"), MALFORMED),
    "no driver": (changed("acpi-cpufreq", "acpi/cpufreq"), NO_NAME),
    "a frequency of 0": (changed("low 1000000", "low 0"), NO_RANGE),
    "a frequency in words": (changed("high 2400000", "high fast"), MALFORMED),
    "a negative frequency": (changed("high 2400000", "high -5"), NO_RANGE),
    "a range upside down": (changed("low 1000000", "low 2500000"), NO_RANGE),
    "an owner too high": (changed("owner 0:0", "owner 4294967296:0"), ""),
    "the owner -1": (changed("owner 0:0", "owner 4294967295:0"), "no owner and mode of a file"),
    "a mode too high": (changed(":0644", ":200644"), "no owner and mode of a file"),
    "a zero before a number": (changed("job 7", "job 07"), OTHERWISE),
    "a governor that was set": (changed("userspace 0", "userspace 1"), MALFORMED),
    "half given": (changed("given 1", "given 2"), MALFORMED),
}


@pytest.mark.parametrize("what", FILES)
def test_a_hostile_file_is_refused(orphan: tuple[Node, Path], what: str) -> None:
    """Nothing of that domain is touched, by a restore, the epilog, or the next step; the other is put back."""
    node, file = orphan
    harm, message = FILES[what]
    harm(file)
    held = {name: now for name, now in node.snapshot().items() if name.startswith("policy0/")}
    for done in (node.restore(), node.driver("epilog", 7)):
        assert done.returncode == 1
        assert f"cpufreq policy0: {message}" in done.stderr and REFUSED in done.stderr, done.stderr
    later = node.holder(8)
    result, text = later.tell("take 0")
    assert result < 0 and text.startswith(f"cpufreq policy0: {message}") and text.endswith("; not taken")
    finish(later)
    now = node.snapshot()
    assert {name: now[name] for name in held} == held
    assert node.read(1, "scaling_max_freq") == "2400000"


def test_a_file_that_is_gone(orphan: tuple[Node, Path]) -> None:
    """Root has removed it: what was found is not known, and the next step begins with what there is."""
    node, file = orphan
    kept = file.read_bytes()
    file.unlink()
    held = node.snapshot()
    later = node.holder(8)
    later.do("take 0")
    finish(later)
    assert node.snapshot() == held
    file.write_bytes(kept)


def finish(holder: Holder) -> str:
    holder.do("end")
    return holder.stop()


def test_the_directories_are_checked(shared: Node) -> None:
    for harm, back in (("chmod 777 /run/mpi-wait", "chmod 700 /run/mpi-wait"),
                       ("mv /run/mpi-wait /run/x; ln -s x /run/mpi-wait", "rm /run/mpi-wait; mv /run/x /run/mpi-wait"),
                       ("chown 1234 /run/mpi-wait/c1", "chown 0 /run/mpi-wait/c1"),
                       ("chmod 770 /run/mpi-wait/c1/cpufreq", "chmod 700 /run/mpi-wait/c1/cpufreq")):
        holder = shared.holder(7)
        holder.do("take 0")
        finish(holder)
        shared.run("sh", "-c", harm)
        done = shared.restore()
        assert done.returncode == 1 and REFUSED in done.stderr, done.stderr
        shared.run("sh", "-c", back)
        assert shared.restore().returncode == 0


def test_no_value_but_the_two_and_what_lies_between(shared: Node) -> None:
    before = shared.snapshot()
    holder = shared.holder(7)
    holder.do("take 0")
    assert holder.tell("set 0 1000000")[0] == -22, "not noted yet"
    holder.do("change 0 1200000 2400000")
    assert holder.tell("set 0 1000000")[0] == holder.tell("set 0 2600000")[0] == -22
    assert holder.tell("set 1 1200000")[0] == -116
    assert shared.snapshot() == before
    finish(holder)


def test_what_cannot_be_put_back_stays_noted(orphan: tuple[Node, Path]) -> None:
    node, _ = orphan
    node.simulation.control(deny=["scaling_max_freq"])
    for _ in range(2):
        done = node.restore()
        assert done.returncode == 1 and "2 failed" in done.stderr
        assert ("cpufreq policy0/scaling_max_freq: owner: Input/output error; the next restore tries again"
                in done.stderr)
        assert node.read(0, "scaling_max_freq") == "2000000" and len(node.held()) == 2
    later = node.holder(8)
    assert later.tell("take 0") == (
        -5, "cpufreq policy0: the changes of job 7 step 0 cannot be reverted; not taken")
    finish(later)
    node.simulation.control(deny=[])
    assert node.restore().returncode == 0
    assert node.held() == []
