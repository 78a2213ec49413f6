"""csv=: what slurmstepd starts as the user has nothing of root's, and what it writes is safe and complete."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import BUILD, driver, run
from tests.lib.segments import segment, slot
from tests.lib.waiting import wait_for

UID, GID, GROUP = 65534, 65533, 65532
PROGRAM = BUILD / "spank/mpi-wait-csv"
NOTHING = ("CapEff", "CapPrm", "CapInh", "CapAmb", "SigBlk")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of the user's, all the way down."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(0o755)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, UID, GID)
    return own


def export(
    place: Path, *words: object, milliseconds: int = 10000, content: bytes = b"x", meanwhile: str = ""
) -> Any:
    """meanwhile: pauses take no time, and in the first of them a shell does that."""
    source = place.parent / "segment"
    source.write_bytes(content)
    return driver("export", source, UID, GID, GROUP, milliseconds, place, *words, meanwhile=meanwhile)


def python(place: Path, script: str, **how: Any) -> Any:
    path = place.parent / "script"
    path.write_text(f"#!/usr/bin/python3 -ISB\n{textwrap.dedent(script)}\n")
    path.chmod(0o755)
    return export(place, path, **how)


def test_the_program_is_the_user_and_nothing_else(place: Path) -> None:
    script = """
    import os, shutil
    shutil.copy('/proc/self/status', 'status')
    shutil.copy('/proc/self/environ', 'environment')
    open('directory', 'w').write(os.getcwd())
    """
    assert python(place, script)["code"] == 0
    seen = (place / "status").read_text()
    assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}\n" in seen and f"Gid:\t{GID}\t{GID}\t{GID}\t{GID}\n" in seen
    assert f"Groups:\t{GROUP} \n" in seen and "NoNewPrivs:\t1" in seen
    assert all(f"{name}:\t0000000000000000\n" in seen for name in NOTHING)
    assert (place / "directory").read_text() == str(place)
    assert (place / "environment").read_text() == ""


def test_the_program_has_the_segment_and_no_other_descriptor(place: Path) -> None:
    done = export(place, "/usr/bin/find", "/proc/self/fd/", "-fprintf", place / "fds", "%f %l\n")
    assert done["code"] == 0, done
    have = dict(line.split(" ", 1) for line in (place / "fds").read_text().splitlines() if line[0].isdigit())
    assert [have.pop(number) for number in "0123"] == ["/dev/null"] * 3 + [str(place.parent / "segment")]
    assert all(target.startswith((str(place), "/proc")) for target in have.values()), have


def test_a_program_that_hangs_is_killed_in_time(place: Path) -> None:
    script = "import os, time; open('new', 'w').write(str(os.getpid())); os.rename('new', 'pid'); time.sleep(600)"
    done = python(place, script, milliseconds=500, meanwhile=f"until [ -e {place}/pid ]; do sleep 0.01; done")
    assert done["code"] == -110 and "was killed" in done["error"]
    assert 500 <= done["took_ms"] <= 600  # and a tenth of a second to die
    process = Path(f"/proc/{(place / 'pid').read_text().strip()}")
    wait_for(lambda: not process.exists(), "the end of a process that was killed")


def test_a_child_that_the_user_stops_is_killed_too(place: Path) -> None:
    assert python(place, "import os; os.kill(os.getpid(), 19)", milliseconds=500)["code"] == -110


def test_the_program_leaves_no_child_behind(place: Path) -> None:
    """Traced by another process of the user, it would do what that one likes, outside the step's cgroup."""
    script = """
    import os
    try:
        os.fork()
    except OSError as error:
        open('refused', 'w').write(os.strerror(error.errno))
    """
    assert python(place, script)["code"] == 0
    assert (place / "refused").read_text() == "Resource temporarily unavailable"


@pytest.mark.parametrize(("mode", "owner", "code"), [
    (0o711, 0, 0), (0o755, 0, -1), (0o751, 0, -1), (0o715, 0, -1), (0o711, UID, -1),
])
def test_a_program_that_the_user_can_read_is_not_started(
    place: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, code: int
) -> None:
    """The kernel lets them trace it, and what it does then is what they like."""
    program = place.parent / "true"
    shutil.copy("/bin/true", program)
    os.chown(program, owner, 0)
    program.chmod(mode)
    monkeypatch.setenv("CLOSED", "1")
    done = export(place, program)
    assert done["code"] == code
    assert ("chmod 0711" in done["error"]) == (code != 0)


def test_what_the_user_cannot_read_they_cannot_trace(place: Path) -> None:
    """That is the kernel's rule, on which the mode of the program rests."""
    seen = {}
    for mode in (0o711, 0o755):
        program = place.parent / f"sleep-{mode:o}"
        shutil.copy("/bin/sleep", program)
        program.chmod(mode)
        running = subprocess.Popen([program, "60"], user=UID, group=GID)
        try:
            look = ["/usr/bin/readlink", f"/proc/{running.pid}/exe"]  # needs what ptrace needs
            seen[mode] = subprocess.run(look, user=UID, group=GID, extra_groups=[], check=False).returncode == 0
        finally:
            running.kill()
            running.wait()
    assert seen == {0o711: False, 0o755: True}


@pytest.mark.parametrize("at", [3, 4, 200])
def test_descriptors_that_stand_where_others_are_to_be(place: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """/dev/null is opened on the lowest free one, which may be the segment's place, and the segment may be there."""
    (place.parent / "segment").write_bytes(ranks())
    words = ["export", place.parent / "segment", UID, GID, GROUP, 10000, place, PROGRAM, "12", "0", "c1", "out"]
    monkeypatch.setenv("SEGMENT_AT", str(at))
    done = run("driver", *words)
    assert json.loads(done.stdout)["code"] == 0, done.stdout + done.stderr
    assert (place / "out/mpi-wait_time.12.0.c1.csv").read_text() == TIMES


@pytest.mark.parametrize(("words", "code"), [(["/no/such/program"], -2), (["/bin/false"], -1), (["/etc/passwd"], -13)])
def test_what_went_wrong_is_said(place: Path, words: list[str], code: int) -> None:
    done = export(place, *words)
    assert done["code"] == code and words[0] in done["error"]


def test_a_directory_that_the_user_may_not_enter(place: Path) -> None:
    (place.parent / "roots").mkdir(mode=0o700)
    assert export(place.parent / "roots", "/bin/true")["code"] == -13


def ranks(count: int = 2) -> bytes:
    slots = [slot(rank, count, 10**6, start=10**9, end=2 * 10**9, time_ns=3 * 10**6, handed=100)
             for rank in range(count - 1)]
    slots.append(slot(count - 1, count, 0, state=2, start=10**9, open_call=10, open_ns=5 * 10**6))
    sizes = b"".join((7).to_bytes(8, "little") if i == 9 * 64 + 5 else bytes(8) for i in range(256 * 64))
    return segment(*slots, sizes=sizes)


def csv(place: Path, directory: str = "out", content: bytes | None = None, node: str = "c1") -> Any:
    return export(place, PROGRAM, "12", "0", node, directory, content=ranks() if content is None else content)


TIMES = """rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes
0,4711,finalized,MPI_Recv,10,0.003000000,0.001000000,0.000500000,100
1,4711,died,MPI_Recv,10,0.005000000,0.005000000,0.005000000,0
"""
SIZES = """rank,pid,function,bytes_from,calls
0,4711,MPI_Recv,16,7
"""


def test_both_files_are_written_also_for_a_rank_that_died(place: Path) -> None:
    done = csv(place)
    assert done["code"] == 0, done
    out = place / "out"
    assert sorted(path.name for path in out.iterdir()) == ["mpi-wait_msg.12.0.c1.csv", "mpi-wait_time.12.0.c1.csv"]
    assert (out / "mpi-wait_time.12.0.c1.csv").read_text() == TIMES
    assert (out / "mpi-wait_msg.12.0.c1.csv").read_text() == SIZES
    status = (out / "mpi-wait_msg.12.0.c1.csv").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, 0o600)
    assert csv(place)["code"] == 0, "a requeued job's second run takes their place"


def test_what_stands_in_the_place_of_a_file_is_replaced_not_followed(place: Path) -> None:
    out, precious = place / "out", place / "precious"
    out.mkdir()
    precious.write_text("keep")
    (out / "mpi-wait_time.12.0.c1.csv").symlink_to(precious)
    os.mkfifo(out / "mpi-wait_msg.12.0.c1.csv")
    for path in (out, precious):
        os.chown(path, UID, GID)
    assert csv(place)["code"] == 0
    assert precious.read_text() == "keep"
    assert (out / "mpi-wait_time.12.0.c1.csv").read_text() == TIMES
    assert (out / "mpi-wait_msg.12.0.c1.csv").read_text() == SIZES


def test_places_where_the_user_may_not_write(place: Path) -> None:
    roots = place.parent / "roots"
    roots.mkdir(mode=0o700)
    (place / "link").symlink_to(roots)
    (place / "closed").mkdir(mode=0o500)
    (place / "file").write_text("")
    os.chown(place / "closed", UID, GID)
    for name, code in (("link", -13), ("closed", -13), ("file", -20), ("no/such", -2), ("n" * 250, 0),
                       ("m" * 300, -36)):
        assert csv(place, name)["code"] == code, name
    assert not list(roots.iterdir()) and not list((place / "closed").iterdir())
    assert csv(place, node="n" * 250)["code"] == -36
    os.mkfifo(place / "fifo")
    assert csv(place, "fifo")["code"] == -20


BROKEN = [b"", b"x" * 5000, segment(magic=1), segment(slot_count=9**9)]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_segment_writes_nothing(place: Path, content: bytes) -> None:
    assert csv(place, content=content)["code"] == -74
    assert not (place / "out").exists()


def test_without_a_rank_there_is_no_file(place: Path) -> None:
    for content in (segment(), segment(slot(0, 1, 10**6, state=1), slot(1, 1, 10**6, state=0))):
        assert csv(place, content=content)["code"] == 0
        assert not (place / "out").exists()


def test_without_its_words_it_does_nothing(place: Path) -> None:
    assert export(place, PROGRAM, "12", "0", "c1", content=ranks())["code"] == -22
    assert sorted(path.name for path in place.iterdir()) == []


def test_the_program_links_nothing_but_libc() -> None:
    needed = subprocess.run(["objdump", "-p", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in needed.splitlines() if "NEEDED" in line] == ["libc.so.6"]
