"""Calls that burn CPU without an idle call: they are noticed, and loops before them let the rank nap.

On a double of an MPI that has no idle call at all, once per ABI, under the virtual clock.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

ABIS = {"mpi-hookless": "mpich", "mpi_abi-hookless": "abi", "mpi-hookless-ompi": "openmpi"}
LOOP, NO_HOOK, PREWAITS = 8, 2, 64
CALLS, BURNED = 6, 3
WAIT_NS = 30_000_000
# What the last of the calls asked of the MPI: i Irecv, c its large-count variant, R Recv, P Probe, m Improbe.
ASKED = {"Wait": "i", "Waitall": "iii", "Waitany": "i", "Waitsome": "i", "Recv": "i", "Recv_c": "ic", "Probe": "P",
         "Mprobe": "m"}
MEASURE = "rungs=none"


def play(abi: str, scene: str, config: str | None = NAP, **options):
    command = [BUILD / f"tests/lib/doubles/{abi}_driver", scene]
    done, segment = run(command, config, **{"virtual": True, **options})
    assert done.returncode == 0, done.stderr
    seen = values(done)
    assert all(seen[f"good_{call}"] for call in range(CALLS))
    return seen, re.search(r"calls made: (\w*)", done.stdout)[1], segment["slots"][0] if config else {}


@pytest.mark.parametrize("scene", ASKED)
@pytest.mark.parametrize("abi", ABIS)
def test_a_call_that_burns_gets_a_loop_before_it(abi: str, scene: str) -> None:
    """The first three are let burn: a missing idle call alone proves nothing."""
    seen, asked, slot = play(abi, scene)
    (lane,) = slot["lane"]
    call = lane["calls"][scene.replace("_c", "")]
    assert (slot["family"], slot["hooks"]) == (ABIS[abi], LOOP)
    assert slot["flags"] & (NO_HOOK | PREWAITS) == NO_HOOK | PREWAITS
    assert asked == ASKED[scene]
    assert call["waits"] == CALLS - BURNED and call["calls"] == CALLS
    assert 0.99 * BURNED * WAIT_NS < call["burned_ns"] < 1.01 * BURNED * WAIT_NS
    assert 0.99 * call["burned_ns"] < call["burned_cpu_ns"] <= call["burned_ns"]
    assert lane["hook_polls"]["loop"] > 100 and seen["naps"] == lane["naps"]["nap"] > 300
    assert [seen[f"share_{call}"] < 0.1 for call in range(CALLS)] == [False] * BURNED + [True] * (CALLS - BURNED)


def test_measuring_only_changes_no_call() -> None:
    _, asked, slot = play("mpi-hookless", "Recv", MEASURE)
    call = slot["lane"][0]["calls"]["Recv"]
    assert asked == "R" and slot["flags"] & PREWAITS == 0
    assert call["waits"] == 0 and call["burned_ns"] > 0.99 * CALLS * WAIT_NS


def test_an_error_of_a_poll_is_the_calls_own() -> None:
    """e is a call of the error handler."""
    _, asked, slot = play("mpi-hookless", "Probe_fails")
    assert slot["flags"] & PREWAITS and asked == "Pe"


def test_where_another_tool_watches_recv_it_still_sees_it(tmp_path: Path) -> None:
    (tmp_path / "tool.c").write_text("""
        int PMPI_Recv(long, long, long, long, long, long, long);
        int MPI_Recv(long a, long b, long c, long d, long e, long f, long g)
        { return PMPI_Recv(a, b, c, d, e, f, g); }
    """)
    tool = tmp_path / "tool.so"
    done, _ = run(["cc", "-shared", "-fPIC", "-o", tool, tmp_path / "tool.c"], None)
    assert done.returncode == 0, done.stderr
    _, asked, slot = play("mpi-hookless", "Recv", preload=tool)
    assert asked == "R" and slot["flags"] & PREWAITS == 0


def test_a_barrier_before_collectives_only_on_request_and_where_all_ranks_agree() -> None:
    """b Ibarrier, B Barrier, A Allreduce, T Alltoall, C Bcast. Zero counts and intercommunicators have none."""
    seen, asked, slot = play("mpi-hookless", "collectives", NAP + ";ibarrier=1")
    assert asked == "bBbAAAbTTC"
    barrier = slot["lane"][0]["calls"]["Barrier"]
    assert barrier["waits"] == CALLS and barrier["wait_ns"] > 0.99 * CALLS * WAIT_NS
    assert max(seen[f"share_{call}"] for call in range(CALLS)) < 0.1
    for config in (NAP, NAP + ";ibarrier=0", None):
        assert play("mpi-hookless", "collectives", config)[1] == "BAAATTC"
    _, asked, slot = play("mpi-hookless", "collectives", MEASURE + ";ibarrier=1")
    assert asked == "bBbAAAbTTC" and slot["lane"][0]["naps"] == {}


@pytest.mark.parametrize("scene", [*ASKED, "collectives"])
@pytest.mark.parametrize("abi", ABIS)
def test_no_loop_depends_on_a_status(abi: str, scene: str) -> None:
    """The layouts of the ABIs differ. Whatever is in it, each poll and each nap is the same."""
    counted = []
    for byte in (0, 1, 0x80, 0xff):
        _, asked, slot = play(abi, scene, NAP + ";ibarrier=1", FAKE_STATUS=str(byte))
        counted.append((asked, slot["flags"], [lane | {"tid": 0} for lane in slot["lane"]]))
    assert all(each == counted[0] for each in counted)
