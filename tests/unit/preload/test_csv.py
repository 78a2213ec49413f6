"""The files of csv=: which rank writes them, what is in them, and what is there where a rank cannot or dies."""

from __future__ import annotations

import csv
import errno
import os
import signal
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from tests.lib.doubles import segment_tool
from tests.lib.doubles.support import BUILD, LIBRARY, NAP, run
from tests.lib.segments import slot

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
FAILING = BUILD / "tests/lib/doubles/libfiles-failing.so"
CONFIG = f"{NAP};profile=1"
TIME, SIZES = "mpi-wait_time.12.0.c1.csv", "mpi-wait_msg.12.0.c1.csv"
CLAIMED, ALIVE, LEFT, OUTCOME = 24, 32, 36, 40  # in the header
WRITTEN, NO_DIRECTORY, NOT_ALLOWED, NO_SPACE, FAILED = range(1, 6)
RECV = 9


def word(fd: int, offset: int, value: int | None = None) -> int:
    """A number of the header's; first writes it, where one is given."""
    if value is not None:
        os.pwrite(fd, struct.pack("=I", value), offset)
    return int(struct.unpack("=I", os.pread(fd, 4, offset))[0])


def fill(fd: int) -> None:
    """Two ranks before: one that has finalized, and one that died in a wait."""
    ranks = (slot(1, 3, 0, state=2, row=RECV, open_call=RECV + 1, open_ns=5_000_000),
             slot(0, 3, 1_000_000, row=RECV, time_ns=3_000_000, handed=100))
    for index, rank in enumerate(ranks):
        os.pwrite(fd, rank, segment_tool.SLOTS_OFFSET + index * segment_tool.SLOT_SIZE)
    counts = bytearray(segment_tool.SIZES.size)
    struct.pack_into("=QQ", counts, 8 * 5, 7, 0)
    struct.pack_into("=QQ", counts, 8 * 50, 2, 3)
    os.pwrite(fd, counts, segment_tool.sizes_offset(64, 1) + RECV * segment_tool.SIZES.size)
    word(fd, CLAIMED, len(ranks))


BEFORE = """0,4711,finalized,MPI_Recv,10,0.003000000,0.001000000,0.000500000,100
1,4711,died,MPI_Recv,10,0.005000000,0.005000000,0.005000000,0
"""


def play(place: Path | str, scene: str = "nothing", config: str = CONFIG, suffix: str = "12.0.c1", **how):
    """A rank that begins and leaves. Returns how it ended, and the outcome in the header."""
    done, _ = run([*how.pop("before", []), DRIVER, scene], config, MPI_WAIT_CSV=f"{suffix}:{place}", **how)
    return done, word(segment_tool.FD, OUTCOME)


def rows(place: Path, name: str = TIME) -> list[dict[str, str]]:
    return list(csv.DictReader((place / name).read_text().splitlines()))


def test_the_last_rank_writes_of_all_before_it(tmp_path: Path):
    os.umask(0o027)
    try:
        done, outcome = play(tmp_path / "out", "nothing", made=fill)
    finally:
        os.umask(0o022)
    assert (done.returncode, outcome) == (0, WRITTEN), done.stderr
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [SIZES, TIME]
    head, text = (out / TIME).read_text().split("\n", 1)
    assert head == "rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes" and text.startswith(BEFORE)
    assert {row["end"] for row in rows(out) if row["rank"] == "3"} == {"finalized"}
    assert (out / SIZES).read_text().startswith(
        "rank,pid,function,bytes_from,calls\n0,4711,MPI_Recv,16,7\n0,4711,MPI_Recv,274877906944,5\n"
    )
    assert [stat.S_IMODE((out / name).stat().st_mode) for name in (TIME, SIZES)] == [0o640, 0o640]
    assert stat.S_IMODE(out.stat().st_mode) == 0o750


def test_nothing_is_written_while_another_rank_is_in_mpi(tmp_path: Path):
    def made(fd: int) -> None:
        word(fd, ALIVE, 1)

    done, outcome = play(tmp_path / "out", made=made)
    assert (done.returncode, outcome) == (0, 0) and not (tmp_path / "out").exists()
    assert (word(segment_tool.FD, ALIVE), word(segment_tool.FD, LEFT)) == (1, 1)


@pytest.mark.parametrize(("scene", "end"), [("session_alone", "died"), ("fork", "finalized"), ("nothing", "finalized")])
def test_a_rank_leaves_once(tmp_path: Path, scene: str, end: str):
    """With sessions alone when it exits; a forked child, which calls MPI_Finalize and exits too, is no rank."""
    done, outcome = play(tmp_path, scene)
    assert (done.returncode, outcome) == (0, WRITTEN), done.stderr
    assert (word(segment_tool.FD, ALIVE), word(segment_tool.FD, LEFT)) == (0, 1)
    assert {row["end"] for row in rows(tmp_path)} == {end}


def test_sixty_four_ranks_however_they_meet(tmp_path: Path):
    """Each time none is left the files are written; the last ones have all ranks."""
    fd = segment_tool.segment_make()
    environment = os.environ | {
        "LD_PRELOAD": str(LIBRARY), "MPI_WAIT_CSV": f"12.0.c1:{tmp_path}",
        "MPI_WAIT_CONFIG": f"v=1;{CONFIG};{segment_tool.segment_field(fd)}",
    }
    ranks = [subprocess.Popen([DRIVER, "nothing"], env=environment, pass_fds=[fd]) for _ in range(64)]
    assert {rank.wait(timeout=120) for rank in ranks} == {0}
    assert (word(fd, ALIVE), word(fd, LEFT), word(fd, OUTCOME)) == (0, 64, WRITTEN)
    assert {row["pid"] for row in rows(tmp_path)} == {str(rank.pid) for rank in ranks}
    assert sorted(path.name for path in tmp_path.iterdir()) == [SIZES, TIME]


def test_what_stands_in_the_place_of_a_file_is_replaced_not_followed(tmp_path: Path):
    out, precious = tmp_path / "out", tmp_path / "precious"
    out.mkdir()
    precious.write_text("keep")
    (out / TIME).symlink_to(precious)
    os.mkfifo(out / SIZES)
    for name in (TIME, SIZES):
        (out / f".{name.removesuffix('.csv')}.1").symlink_to(precious)
    assert play(out, made=fill)[1] == WRITTEN
    assert precious.read_text() == "keep" and BEFORE in (out / TIME).read_text()
    assert sorted(path.name for path in out.iterdir()) == [SIZES, TIME]


@pytest.mark.parametrize(("name", "expected"), [
    ("no/such", NO_DIRECTORY), ("file", NO_DIRECTORY), ("fifo", NO_DIRECTORY), ("", NO_DIRECTORY), ("n" * 300, FAILED),
])
def test_places_where_nothing_can_be_written(tmp_path: Path, name: str, expected: int):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(tmp_path.iterdir())
    done, outcome = play(tmp_path / name if name else "")
    assert (done.returncode, outcome) == (0, expected) and sorted(tmp_path.iterdir()) == before


def test_a_name_that_is_too_long(tmp_path: Path):
    assert play(tmp_path, suffix="12.0." + "n" * 250)[1] == FAILED
    assert list(tmp_path.iterdir()) == []


CALLS = {"mkdir": 0, "openat": 0, "write": 0, "close": 0, "renameat": 0}
ERRORS = {errno.ENOSPC: NO_SPACE, errno.EDQUOT: NO_SPACE, errno.EACCES: NOT_ALLOWED, errno.EROFS: NOT_ALLOWED,
          errno.ENOENT: NO_DIRECTORY, errno.EIO: FAILED}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_call_that_fails_leaves_no_half_file(tmp_path: Path, call: str, error: int):
    out = tmp_path / "out"
    done, outcome = play(out, preload=FAILING, made=fill, FILES_FAIL=f"{call}:{error}")
    assert (done.returncode, outcome, done.stderr) == (0, ERRORS[error], "")
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.parametrize("call", ["write", "renameat"])
def test_of_a_rank_that_is_killed_meanwhile_no_file_is_there(tmp_path: Path, call: str):
    """What it leaves has a name with a dot; the next run of the job writes over that."""
    done, outcome = play(tmp_path, preload=FAILING, FILES_FAIL=f"{call}:kill")
    assert (done.returncode, outcome) == (-signal.SIGKILL, 0)
    left = {path.name for path in tmp_path.iterdir()}
    assert ".mpi-wait_time.12.0.c1.1" in left and left <= {".mpi-wait_time.12.0.c1.1", ".mpi-wait_msg.12.0.c1.1"}
    assert play(tmp_path)[1] == WRITTEN
    assert sorted(path.name for path in tmp_path.iterdir()) == [SIZES, TIME]


def test_a_limit_of_files_sizes_ends_nothing(tmp_path: Path):
    """The kernel would end a program that writes beyond it."""
    done, outcome = play(tmp_path, made=fill, before=["prlimit", "--fsize=100"])
    assert (done.returncode, outcome) == (0, NO_SPACE) and list(tmp_path.iterdir()) == []


def test_the_slots_are_bounded(tmp_path: Path):
    """A header that says more slots than were claimed, or there are, is read as far as there are any."""
    def made(fd: int) -> None:
        fill(fd)
        word(fd, CLAIMED, 63)

    assert play(tmp_path, made=made)[1] == WRITTEN
    assert {row["rank"] for row in rows(tmp_path)} == {"0", "1", "3"}
    for bad in ({"slot_count": 9**9}, {"version": 6}, {"magic": 1}):
        out = tmp_path / str(bad)
        done, _ = play(out, segment=bad)
        assert done.returncode == 0 and not out.exists()
