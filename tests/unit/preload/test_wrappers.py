"""The C that make_wrappers.py makes of the table of MPI calls: one plain function for each way of a call."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import cache

import pytest

from tests.lib.doubles.support import ROOT

BARRIER = """\
int MPI_Barrier(word a0)
{
	function_1 *next = next_known(ROW_Barrier * CALL_NAMES + NAME_MPI);
	int code;

	if (__builtin_expect(!next, 0))
		return MPI_Barrier_long(a0);
	if (process_mode() == PROCESS_INERT)
		return next(a0);
	if (wait_is_short(ROW_Barrier)) {
		wait_begin(ROW_Barrier, CALL_WAIT, false, HERE);
		call_tell(a0, 0);
		code = next(a0);
		wait_end();
		return code;
	}
	if (process_mode() == PROCESS_TIMES)
		return MPI_Barrier_timed(a0);
	return MPI_Barrier_long(a0);
}
"""
IRECV = """\
static int later_PMPI_Irecv_c_timed(word a0, word a1, word a2, word a3, word a4, word a5, word a6)
{
	function_7 *next;
	int64_t count = sizes_count_of((int64_t)a1, a3);
	size_t locality = sizes_locality(a5, (uint32_t)a3);
	int code;

	if (!mark_is_timed())
		return later_PMPI_Irecv_c_long(a0, a1, a2, a3, a4, a5, a6);
	next = next_known(ROW_Irecv * CALL_NAMES + NAME_PMPI_LARGE);
	wait_self.lane->calls[ROW_Irecv].calls++;
	code = next(a0, a1, a2, a3, a4, a5, a6);
	if (code == 0)
		sizes_count_simple(ROW_Irecv, true, count, a2, locality);
	return code;
}
"""
LONG = {"Win_lock": "wait_enter(ROW_Win_lock, CALL_WAIT, true, HERE)", "Bcast": "call_tell(a4, a3)",
        "Alltoall": "call_prepare(mode, ROW_Alltoall, NAME_MPI, (word[]){a0, a1, a2, a3, a4, a5, a6})",
        "Testany": "loop_leave(call_is_vain(code, a3))", "File_read": "sizes_count(ROW_File_read, false, aside)"}
LACKING = {"Win_lock": "aside", "Bcast": "call_prepare", "Isend": "call_tell", "Testany": "wait_enter",
           "Comm_free": "call_tell", "File_read": "call_tell"}


@pytest.fixture(scope="module", params=["MPI", "PMPI"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def made(prefix: str) -> str:
    command = [sys.executable, ROOT / "preload/wrap/make_wrappers.py", prefix]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def long_way(name: str) -> str:
    (text,) = re.findall(rf"^static int MPI_{name}_long\(.*?^\}}$", made("MPI"), re.M | re.S)
    return str(text)


def test_the_ways_of_a_call_are_plain() -> None:
    assert BARRIER in made("MPI")
    assert IRECV in made("PMPI")


@pytest.mark.parametrize("name", LONG)
def test_the_long_way_does_what_its_row_needs(name: str) -> None:
    assert LONG[name] in long_way(name)


@pytest.mark.parametrize("name", LACKING)
def test_the_long_way_does_no_more(name: str) -> None:
    assert LACKING[name] not in long_way(name)


def test_init_and_finalize_have_the_long_way_alone(prefix: str) -> None:
    text = made(prefix)
    assert "\tstart_call_ended(ROW_Finalize, code);" in text
    assert f"{prefix}_Finalize_long" not in text and f"{prefix}_Finalize_timed" not in text


def test_it_is_written_as_clang_format_would(prefix: str) -> None:
    if not shutil.which("clang-format"):
        pytest.skip("no clang-format")
    text = made(prefix)
    done = subprocess.run(["clang-format", "--assume-filename", ROOT / "preload/wrap/wrappers.c"], input=text,
                          capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == text
