"""Sleeps before collectives, where their waits make no idle call.

On a double of an MPI that has no idle call at all, under the virtual clock. A step computes for 300 us and meets the
last rank, which comes later than this one; the collective itself takes 5 us from then on.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lib.doubles.support import BUILD, NAP, run, values

ABIS = ("mpi-hookless", "mpi_abi-hookless", "mpi-hookless-ompi")
COLLECTIVES = ("Barrier", "Allreduce", "Allreduce_c", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw",
               "Reduce_scatter", "Reduce_scatter_block")
ACCOUNT = f"{NAP};slowdown_ppm=10000"
NO_HOOK, PRESLEEPS = 2, 256
BURNED, KNOWN, OWN_US = 3, 3, 5
LATE_US, FIRST_LOOK_US = 1200, 8000
WORLD, BETWEEN, ALONE = 2, 3, 4  # an odd one is an intercommunicator


def launch(call: str, *words: int, abi: str = ABIS[0], config: str = ACCOUNT, ranks: int = 2, **environment: str):
    command = [BUILD / f"tests/lib/doubles/{abi}_driver", "late", call, *words]
    return run(command, config, virtual=True, FAKE_RANKS=str(ranks), **{"FAKE_OWN_US": str(OWN_US), **environment})


def play(call: str, steps: int, late_us: int = LATE_US, comm: int = WORLD, lead_us: int = 0, then_us: int | None = None,
         **how):
    """Returns a mark for each step (n: it napped before the call), how far the calls ended behind the last rank, in
    microseconds, the slot and its lane."""
    done, segment = launch(call, steps, late_us, comm, lead_us, late_us if then_us is None else then_us, **how)
    assert done.returncode == 0, done.stderr
    seen, (slot,) = values(done), segment["slots"]
    assert seen["bad"] == 0, "errno stays, and the call's result"
    return re.search(r"steps made: (\S+)", done.stdout)[1], seen["behind"], slot, slot["lane"][0]


@pytest.mark.parametrize("ranks", [2, 64])
@pytest.mark.parametrize("abi", ABIS)
def test_a_rank_sleeps_before_a_collective_until_the_last_one_comes(abi: str, ranks: int) -> None:
    marks, behind, slot, lane = play("Allreduce", 400, abi=abi, ranks=ranks)
    call = lane["calls"]["Allreduce"]
    assert (slot["flags"], slot["hooks"], slot["slowdown_ppm"]) == (NO_HOOK | PRESLEEPS, 0, 10000)
    assert call["calls"] == 400 and call["waits"] == marks.count("n") > 300
    assert call["waits"] <= lane["naps"]["nap"] == lane["forecasts"] <= 2 * call["waits"], "the last part may be apart"
    assert call["wait_ns"] == lane["asleep_ns"]["nap"] > 0.95 * 300 * LATE_US * 1000
    assert call["longest_ns"] < (LATE_US + OWN_US) * 1000
    assert behind == 400 * OWN_US and lane["late_ns"] == 0 and lane["early"] + lane["late"] == lane["foreseen"]
    assert lane["late"] < lane["foreseen"] / 6, "the margin shrinks until some seem to be"
    assert lane["open_call"] is None and lane["idle_polls"] == 0 and lane["hook_polls"] == {}


def test_ends_are_learned_in_looks_alone() -> None:
    """The first calls burn; then nothing is known until a look. In looks nothing sleeps, later neither."""
    marks, _, _, lane = play("Allreduce", 400, lead_us=2 * FIRST_LOOK_US, ranks=3)
    assert marks.index("n") > BURNED + KNOWN, "more calls than it takes are seen in no look"
    assert re.search(r"n\.{2,}n", marks) and lane["cost_windows"] > 2
    assert lane["cost_slept_ns"] > 0 and abs(lane["cost_more_ns"]) < 1000
    # A later end is not learned from a call that was slept in. With two ranks three of them are a change, and the next
    # two are watched. Among more ranks they begin a pause, and its calls tell.
    for ranks, watched in ((2, 2), (64, 8)):
        marks, _, _, lane = play("Allreduce", 400, then_us=LATE_US + 500, ranks=ranks)
        assert re.match(rf"n{{3,5}}\.{{{watched},}}n", marks[200:])
        assert LATE_US * 1000 < lane["calls"]["Allreduce"]["longest_ns"] < (LATE_US + 500 + OWN_US) * 1000


def test_long_waits_are_slept_through_at_once() -> None:
    """As with a hook: ends of 2 ms and more are learned before a look, and slept in for fifteen sixteenths there."""
    marks, behind, _, lane = play("Barrier", 60, 5000)
    assert marks == "." * (marks.index("n")) + "n" * marks.count("n") and marks.index("n") <= BURNED + 2 * KNOWN
    assert behind == 60 * OWN_US and lane["calls"]["Barrier"]["waits"] == marks.count("n")


@pytest.mark.parametrize("call", COLLECTIVES)
def test_each_collective_whose_results_need_every_rank(call: str) -> None:
    marks, behind, _, lane = play(call, 60)
    assert lane["calls"][call.replace("_c", "")]["waits"] == marks.count("n") > 0 and behind == 60 * OWN_US


@pytest.mark.parametrize(("call", "how"), [
    *[(call, {}) for call in ("Bcast", "Reduce", "Scan", "Neighbor_alltoall")],
    ("nothing", {}),  # an Allreduce of no elements
    ("Allreduce", {"comm": BETWEEN}), ("Barrier", {"comm": BETWEEN}), ("Allreduce", {"comm": ALONE}),
    ("Allreduce", {"ranks": 1}), ("Allreduce", {"config": NAP}),
    ("Allreduce", {"config": "rungs=none;slowdown_ppm=10000"}), ("Allreduce", {"config": ACCOUNT + ";ibarrier=1"}),
    ("Allreduce", {"late_us": 0}),
], ids=str)
def test_nothing_else_is_slept_before(call: str, how: dict) -> None:
    marks, behind, slot, lane = play(call, 60, **how)
    assert marks == "." * 60 and behind == 60 * OWN_US
    assert lane["naps"] == {} and all(each["waits"] == 0 for each in lane["calls"].values())
    assert slot["flags"] & PRESLEEPS == 0 and slot["slowdown_ppm"] == lane["foreseen"] == 0


def test_a_rank_that_has_become_the_last_sleeps_no_more() -> None:
    """Everybody waits for it then: that costs a few calls, and no more than the account allows."""
    marks, behind, *_ = play("Allreduce", 400, then_us=0)
    assert marks[:200].count("n") > 100 and 0 < marks[200:].count("n") <= 3 and marks[210:] == "." * 190
    assert behind - 400 * OWN_US <= 3 * LATE_US


def test_a_call_that_only_moves_data_is_soon_left_alone() -> None:
    """All ranks are there, and it takes its time: sleeping before it delays it by as much."""
    marks, *_ = play("Alltoall", 400, 0, FAKE_OWN_US="3000")
    assert 0 < marks.count("n") <= 16


def test_what_profile_and_sites_add_is_counted() -> None:
    done, segment = launch("Allreduce", 60, LATE_US, WORLD, config=ACCOUNT + ";profile=1;sites=1")
    assert done.returncode == 0, done.stderr
    (slot,) = segment["slots"]
    call, (site,) = slot["lane"][0]["calls"]["Allreduce"], slot["sites"]
    assert 0 < call["waits"] == site["waits"] == slot["lane"][0]["phases"][0][0]
    assert call["wait_ns"] == site["wait_ns"] == slot["lane"][0]["phases"][0][1] < call["time_ns"]


def test_a_signal_ends_a_nap_and_not_the_sleep() -> None:
    marks, behind, _, lane = play("Allreduce", 200, TIME_SIGNAL="700000")
    assert lane["naps"]["nap"] > lane["calls"]["Allreduce"]["waits"] == marks.count("n") > 100
    assert behind <= 200 * OWN_US + LATE_US


def test_a_stop_is_no_wait() -> None:
    _, _, _, lane = play("Allreduce", 400, TIME_STOP="400000000:3000000000")
    assert lane["calls"]["Allreduce"]["longest_ns"] < (LATE_US + OWN_US) * 1000


def test_a_rank_killed_in_its_sleep_was_in_that_call() -> None:
    """At one of eight moments of a step it sleeps."""
    opened = set()
    for eighth in range(8):
        done, segment = launch("Allreduce", 800, LATE_US, WORLD, TIME_KILL=str(120_000_000 + eighth * 188_000))
        assert done.returncode == -9
        opened.add(segment["slots"][0]["lane"][0]["open_call"])
    assert opened == {None, "Allreduce"}


def test_loops_before_other_calls_climb_the_ladder_as_before() -> None:
    """The forecasts of a process without a hook are for sleeps before collectives alone."""
    lanes = []
    for config in (NAP, ACCOUNT):
        driver = BUILD / f"tests/lib/doubles/{ABIS[0]}_driver"
        done, segment = run([driver, "Recv"], config, virtual=True, FAKE_RANKS="2")
        (slot,) = segment["slots"]
        assert done.returncode == 0 and slot["slowdown_ppm"] == 0
        lane = slot["lane"][0]
        lanes.append([lane[key] for key in ("naps", "asleep_ns", "idle_polls", "forecasts", "foreseen", "late_ns")])
        assert lane["naps"]["nap"] > 300
    assert lanes[0] == lanes[1]


MIXED = """
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(long);
int MPI_Recv(long, long, long, long, long, long, long);
extern int idles;
extern uint64_t until;
extern char ompi_mpi_comm_world[];
static uint64_t now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
int main(int argc, char **argv)
{
    MPI_Init(NULL, NULL);
    for (int i = 0; i < atoi(argv[1]); i++) {
        uint64_t end = now() + 300000;
        while (now() < end);
        MPI_Recv(0, 2000, 0, 0, 0, 0, 0);
        idles = i >= atoi(argv[2]);
        until = now() + 1200000;
        MPI_Barrier((long)ompi_mpi_comm_world);
    }
    MPI_Finalize();
}
"""
TOOL = """
#include <stdint.h>
#include <time.h>
void opal_progress(void);
int idles;
uint64_t until;
static uint64_t now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
int PMPI_Comm_test_inter(long comm, int *flag) { *flag = 0; return 0; }
int PMPI_Barrier(long comm)
{
    while (now() < until)
        if (idles)
            opal_progress();
    return 0;
}
int MPI_Barrier(long comm) { return PMPI_Barrier(comm); }
"""


def mixed(folder: Path, *words: int):
    """On a double of Open MPI, whose idle calls we know: but its Barrier makes none, or some from a step on."""
    fake = BUILD / "tests/lib/doubles/libmpi-fake.so"
    for name, text, more in (("tool.so", TOOL, ["-shared", "-fPIC"]), ("mixed", MIXED, [folder / "tool.so", fake])):
        (folder / "source.c").write_text(text)
        options = ["-o", folder / name, folder / "source.c", *more, f"-Wl,-rpath,{folder}:{fake.parent}"]
        done, _ = run(["cc", *options, "-Wl,--allow-shlib-undefined"], None)
        assert done.returncode == 0, done.stderr
    done, segment = run([folder / "mixed", *words], ACCOUNT, virtual=True, FAKE_SIZE="2")
    assert done.returncode == 0, done.stderr
    return segment["slots"][0]


def test_one_row_without_an_idle_call_beside_others_that_have_one(tmp_path: Path) -> None:
    slot = mixed(tmp_path, 200, 200)
    calls = slot["lane"][0]["calls"]
    assert slot["flags"] & (NO_HOOK | PRESLEEPS) == PRESLEEPS and slot["hooks"] != 0
    assert calls["Recv"]["waits"] == 200 and 100 < calls["Barrier"]["waits"] < 200


def test_a_row_that_makes_an_idle_call_after_all_waits_by_its_hook(tmp_path: Path) -> None:
    """From then on its polls are seen, in all of the 200 calls, and each wait is counted once."""
    half, without, lane = (mixed(tmp_path, *words)["lane"][0] for words in ((200, 200), (400, 400), (400, 200)))
    assert lane["calls"]["Barrier"]["waits"] == half["calls"]["Barrier"]["waits"] + 200
    assert lane["idle_polls"] > without["idle_polls"] + 200 * 100
