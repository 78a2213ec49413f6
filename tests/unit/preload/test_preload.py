"""The preload library on the fake MPI, where every call blocks as told, and time passes by what is done.

The clock is tests/lib/doubles/virtual_time.c: 100 ns a reading, and a nap is late by 3 us and the timer slack. So the
numbers here are the same on every machine; only the tests that say "really" are in the kernel's time.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

from tests.lib.doubles.support import BUILD, LIBRARY, NAP, ROOT, VIRTUAL, run, values

DRIVER = BUILD / "tests/lib/doubles/preload_driver"
STEPS = BUILD / "tests/lib/doubles/steps"
CPU_CLOCKS_NS = 200  # reading the thread's and the process's, at one end of what is sampled
NO_HOOK = 2
FREE_NS = 7_000  # the first 64 polls, in which nothing is counted
LONGEST_NS = 4 * 100_000 + 4_000  # a nap of the budget of long waits, late
FIVE_SECONDS = "rungs=pause+nap;spin_ns=20000;relative_ppm=62500;absolute_ns=5000000000;max_ns=5000000000"


def play(scene: str, config: str | None = NAP, **options):
    done, segment = run([DRIVER, scene], config, **{"virtual": True, **options})
    assert done.returncode == 0, done.stderr
    return values(done), segment


def lane(segment: dict) -> dict:
    return segment["slots"][0]["lane"][0]


def test_a_wait_is_napped_counted_and_undone():
    seen, segment = play("wait")
    slot, thread = segment["slots"][0], lane(segment)
    call = thread["calls"]["Recv"]
    assert seen["code"] == 0 and seen["errno"] == 4711 and seen["slack"] == 50000
    assert seen["naps"] == thread["naps"]["nap"] > 500
    assert thread["late_ns"] < 50000, "all naps together are later than one would be by the slack alone"
    assert seen["cpu_share"] < 0.01
    assert (slot["rank"], slot["size"], slot["family"], slot["hooks"], slot["state"]) == (3, 7, "openmpi", 1, 3)
    assert call["calls"] == call["waits"] == 1 and 200e6 - FREE_NS <= call["wait_ns"] <= 200e6 + LONGEST_NS
    assert call["longest_ns"] == call["wait_ns"] and thread["open_call"] is None
    assert 198e6 < thread["sampled_ns"] < call["wait_ns"] and thread["sampled_cpu_ns"] < thread["sampled_ns"] / 100
    assert thread["calls"]["Init"]["calls"] == thread["calls"]["Finalize"]["calls"] == 1


def test_a_wait_in_the_kernels_time_is_napped_too():
    """Really: with the kernel's clock and its naps, all of which are counted; over after twenty."""
    seen, segment = play("wait_really", TIME_REAL="1")
    assert seen["code"] == 0 and seen["errno"] == 4711 and seen["slack"] == 50000
    assert seen["naps"] == lane(segment)["naps"]["nap"] == 20
    assert lane(segment)["calls"]["Recv"]["waits"] == 1


def test_what_other_threads_use_meanwhile_is_seen():
    """Really: 50 ms that another thread burns in a wait; the kernel tells it to a tick of each core, 10 ms at most."""
    _, segment = play("beside", TIME_REAL="1")
    assert lane(segment)["threads_cpu_ns"] >= 30e6
    _, segment = play("beside_asleep", TIME_REAL="1")
    assert lane(segment)["calls"]["Recv"]["waits"] == 1 and lane(segment)["threads_cpu_ns"] < 1e6
    _, segment = play("wait")
    assert lane(segment)["threads_cpu_ns"] == 0, "alone"


def test_what_other_threads_use_after_the_last_poll_is_not_of_the_wait():
    """Really: 50 ms, and the tick of each core. By the clock they are spread over the time in which they were used."""
    _, segment = play("beside_after", TIME_REAL="1")
    sampled_ns = lane(segment)["sampled_ns"]
    assert lane(segment)["calls"]["Recv"]["waits"] == 1 and sampled_ns > 0
    assert lane(segment)["threads_cpu_ns"] <= 60e6 * sampled_ns / (sampled_ns + 50e6)


def test_calls_that_do_not_wait_are_only_counted():
    _, segment = play("short")
    barrier = lane(segment)["calls"]["Barrier"]
    assert barrier.pop("calls") == 1000 and not any(barrier.values())
    assert lane(segment)["naps"] == {}


def test_measuring_only_spends_no_time():
    seen, segment = play("wait", "rungs=none;profile=1")
    call = lane(segment)["calls"]["Recv"]
    assert lane(segment)["naps"] == {} and seen["naps"] == seen["kernel_yields"] == 0
    assert 200e6 - FREE_NS - CPU_CLOCKS_NS <= call["wait_ns"] <= call["time_ns"] <= 200e6 + CPU_CLOCKS_NS


def test_a_call_of_two_sizes_is_timed_after_its_first_too():
    """Fifty exchanges of 0.2 ms: a row that was short sixteen times is no longer looked at otherwise."""
    _, segment = play("exchanges", "rungs=none;profile=1")
    call = lane(segment)["calls"]["Sendrecv"]
    assert call["calls"] == 50 and 0.99 * 50 * 200_000 < call["time_ns"] < 1.01 * 50 * 200_000


@pytest.mark.parametrize("config", [NAP, "rungs=none", "rungs=pause;spin_ns=20000;relative_ppm=62500;max_ns=100000"])
def test_a_stopped_process_does_not_wait(config):
    """Of a wait of half a second, two seconds are spent stopped, in a nap or between two polls."""
    _, segment = play("stopped", config, TIME_STOP=f"{200 * 10**6}:{2 * 10**9}")
    thread = lane(segment)
    call = thread["calls"]["Recv"]
    assert call["waits"] == 2 and abs(call["wait_ns"] - 300e6) < 2 * LONGEST_NS
    assert abs(call["longest_ns"] - 200e6) < LONGEST_NS, "what was left of the first had passed meanwhile"
    assert sum(thread["asleep_ns"].values()) <= call["wait_ns"] and thread["late_ns"] < 1e6
    assert thread["sampled_ns"] <= call["wait_ns"]


def test_a_process_that_is_really_stopped_does_not_wait():
    """By SIGSTOP, for a second and a half: it is in what the call took, and not in the wait."""
    seen, segment = play("stopped_really", TIME_REAL="1")
    call = lane(segment)["calls"]["Recv"]
    assert seen["stopped_s"] >= 1.5
    assert call["waits"] == 1 and call["wait_ns"] <= (seen["call_s"] - seen["stopped_s"]) * 1e9 + 1000


def test_yield_policy_yields():
    seen, segment = play("wait", "rungs=pause+yield;spin_ns=20000;relative_ppm=62500;max_ns=100000")
    naps = lane(segment)["naps"]
    assert naps["yield"] == seen["kernel_yields"] > 100 * naps.get("pause", 0) and "nap" not in naps


def test_progress_restarts_the_wait():
    _, segment = play("progress")
    assert "nap" not in lane(segment)["naps"], "50 polls are less than the wait that a nap needs"
    assert lane(segment)["calls"]["Recv"]["wait_ns"] > 499e6, "but all of it counts"


def test_progress_that_is_not_reported_restarts_the_wait_too():
    _, segment = play("work")
    assert lane(segment)["naps"].get("nap", 0) < 60, "every third of about 900 polls works, and the others are no wait"


def test_inner_calls_are_not_counted():
    _, segment = play("inner")
    calls = lane(segment)["calls"]
    assert "Recv" not in calls and calls["Allreduce"]["waits"] == 1


def test_window_lock_is_capped():
    _, segment = play("lock")
    thread = lane(segment)
    naps, wait_ns = thread["naps"].get("nap", 0), thread["calls"]["Win_lock"]["wait_ns"]
    assert naps > 0, "it sleeps once the lock has been held for long"
    assert (thread["asleep_ns"]["nap"] - thread["late_ns"]) / naps <= wait_ns / 64, "but not by the relative budget"


def test_a_call_left_by_longjmp_is_over():
    seen, segment = play("longjmp")
    calls = lane(segment)["calls"]
    assert calls["Wait"]["calls"] == 3 and calls["Wait"]["waits"] == 3
    assert calls["Barrier"]["calls"] == 1 and calls["Recv"]["waits"] == 1
    assert seen["slack"] == 50000


def test_a_forked_child_never_writes():
    _, segment = play("fork")
    slot = segment["slots"][0]
    assert len(segment["slots"]) == 1 and slot["lanes"] == 1
    assert set(lane(segment)["calls"]) == {"Init", "Barrier", "Finalize"}
    assert lane(segment)["calls"]["Barrier"]["calls"] == 1


def test_a_polling_loop_never_naps():
    """What it costs: test_a_call_that_does_not_wait_costs_few_instructions."""
    seen, segment = play("poll")
    assert lane(segment)["naps"] == {} and lane(segment)["calls"]["Test"]["calls"] == 1000001
    assert seen["naps"] == seen["kernel_yields"] == 0


def test_polling_inside_a_blocking_call_never_naps():
    _, segment = play("mark")
    assert "Test" not in lane(segment)["calls"]
    assert lane(segment)["idle_polls"] < 20000, "the callback's polls are not the wait's"


def test_a_runtime_that_yields_by_itself_shares_its_cores():
    _, segment = play("wait", FAKE_YIELDS="1")
    assert segment["slots"][0]["flags"] & 8 and lane(segment)["naps"].get("pause", 0) == 0


def test_more_threads_than_lanes():
    _, segment = play("threads")
    slot = segment["slots"][0]
    assert slot["flags"] & 4 and len(slot["lane"]) == 8 and len({thread["tid"] for thread in slot["lane"]}) == 8


def test_a_library_that_is_only_called_like_an_mpi(tmp_path):
    tool = tmp_path / "libmpi-tool.so"
    subprocess.run(["cc", "-shared", "-o", tool, "-x", "c", "/dev/null"], check=True)
    done, segment = run([DRIVER, "short"], preload=tool)
    assert done.returncode == 0 and segment["slots"][0]["flags"] & 1 == 0
    assert lane(segment)["calls"]["Barrier"]["calls"] == 1000


def test_a_session_alone_has_the_number_that_the_launcher_gave():
    told = {"PMIX_NAMESPACE": "a", "PMIX_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SLURM_PROCID": "4"}
    slot = run([DRIVER, "session_alone"], **told)[1]["slots"][0]
    assert (slot["rank"], slot["size"], slot["task"]) == (1, 2, 5) and slot["launch"] != 0
    _, segment = run([DRIVER, "session_alone"], PMIX_NAMESPACE="", SLURM_PROCID="4")
    assert [segment["slots"][0][name] for name in ("rank", "size", "launch", "task")] == [-1, 0, 0, 5]


def test_after_a_session_init_still_finds_the_rank():
    _, segment = play("session", PMIX_NAMESPACE="a", PMIX_RANK="1", OMPI_COMM_WORLD_SIZE="2")
    slot = segment["slots"][0]
    assert (slot["rank"], slot["size"], slot["state"]) == (3, 7, 3), "the MPI knows better than the launcher"
    assert lane(segment)["calls"]["Session_init"]["calls"] == lane(segment)["calls"]["Init"]["calls"] == 1


def test_signals_end_naps_early_and_keep_errno():
    seen, segment = play("signals", TIME_SIGNAL="310000")
    thread = lane(segment)
    assert seen["errno"] == 4711
    assert seen["interrupted"] > 100 and seen["naps"] == thread["naps"]["nap"], "a nap that was ended is not resumed"
    assert thread["asleep_ns"]["nap"] < 50e6 and thread["late_ns"] < 10000


def test_the_kernels_signals_end_naps_of_five_seconds():
    """Really: a call that lasts until five naps have been ended by a signal."""
    seen, segment = play("interrupted", FIVE_SECONDS, TIME_REAL="1")
    assert seen["errno"] == 4711
    assert seen["interrupted"] == seen["naps"] == lane(segment)["naps"]["nap"] == 5


def test_the_last_wait_of_a_killed_rank_is_there():
    done, segment = run([DRIVER, "die"], virtual=True, TIME_KILL="1000000000")
    assert done.returncode == -9
    thread = lane(segment)
    assert thread["open_call"] == "Recv"
    assert 1e9 - FREE_NS - LONGEST_NS <= thread["open_last_ns"] - thread["open_since_ns"] <= 1e9


def test_other_yields_reach_the_kernel():
    """It refuses them, to the program outside of MPI and in a callback; the runtime's own never get there."""
    seen, segment = play("yield")
    assert seen["yield"] == seen["callback_yield"] == -1
    assert lane(segment)["idle_polls"] > 1000 and lane(segment)["naps"]["yield"] == 1
    assert seen["kernel_yields"] == 3, "the program's two, and the probe of whether the core is shared"


@pytest.mark.parametrize("config", [NAP, "rungs=none;profile=1", None], ids=["acting", "profiling", "inert"])
def test_yields_of_a_progress_callback_reach_the_kernel(config):
    """They are made in the frame of opal_progress, whose own yields nap under a policy and are left out by profile."""
    seen, segment = play("progress_yields", config)
    assert seen["left"] == 0
    if config != NAP:
        assert seen["kernel_yields"] == 1000
    else:
        assert 1000 <= seen["kernel_yields"] <= 1002, "but for a probe of whether the core is shared"
        assert lane(segment)["naps"]["nap"] > 30


def test_a_progress_callback_that_jumps_is_none_of_the_runtimes():
    """Its caller is libopen-pal, from which this runtime, which jumps itself, does not yield."""
    seen, _ = play("progress_jumps", "rungs=none;profile=1")
    assert seen["kernel_yields"] == seen["callbacks"] > 1000


@pytest.mark.parametrize("config", [NAP, "rungs=none;profile=1"], ids=["acting", "profiling"])
def test_idle_polls_that_sleep_are_not_switched_on(config):
    """As Open MPI 5 was told to: threads_pthreads_yield_strategy."""
    seen, segment = play("strategy", config, FAKE_STRATEGY="1")
    slot = segment["slots"][0]
    assert seen["sleeps"] == 0 and slot["flags"] & NO_HOOK and slot["hooks"] == 0 and not lane(segment)["naps"]
    seen, segment = play("strategy", config, FAKE_STRATEGY="0")
    assert seen["sleeps"] == 0 and segment["slots"][0]["hooks"] == 1 and not segment["slots"][0]["flags"] & NO_HOOK


def test_idle_polls_that_sleep_anyway_are_the_users_choice():
    seen, segment = play("strategy", FAKE_STRATEGY="1", FAKE_YIELDS="1")
    assert segment["slots"][0]["flags"] & NO_HOOK and segment["slots"][0]["hooks"] == 0


@pytest.mark.parametrize("config", [NAP, None], ids=["acting", "inert"])
def test_a_yield_of_the_program_is_one_really(config):
    assert play("yield", config, TIME_REAL="1")[0]["yield"] == -1


def test_shared_cores_are_given_away_from_the_first_poll_on():
    """Not after the 64 polls that are free elsewhere: a round trip has two of them."""
    seen, segment = play("brief", NAP + ";shared=1")
    assert seen["kernel_yields"] == seen["polls"] > 100 and lane(segment)["calls"]["Recv"]["waits"] == 0
    assert play("brief", NAP)[0]["kernel_yields"] == 0, "cores of one's own are kept"
    seen, segment = play("wait", NAP + ";shared=1")
    assert seen["naps"] > 400 and "pause" not in lane(segment)["naps"]
    assert play("wait", NAP)[0]["yields_before"] == 1, "but for a probe"


def test_without_configuration_everything_is_forwarded():
    seen, segment = play("wait", None)
    assert seen["code"] == 0 and segment["claimed"] == 0
    assert seen["naps"] == seen["kernel_yields"] == 0 and seen["cpu_share"] > 0.999, "it spins"


@pytest.mark.parametrize("spoilt", [{"magic": 1}, {"version": 1}, {"header_size": 63}, {"slot_size": 1},
                                    {"slot_count": 63}, {"slot_count": 1025}, {"slot_count": 1024}, {"size": 4096},
                                    {"size": 10}, {"sizes_size": 0}, {"claimed": 64}, {"claimed": 0xFFFFFFFF}])
def test_a_bad_or_full_segment_costs_the_count_only(spoilt):
    seen, segment = play("wait", segment=spoilt)
    assert seen["code"] == 0 and seen["naps"] > 500 and segment["slots"] == []


def test_many_programs_of_a_step_find_room_and_map_little():
    """Of a gigabyte and more that a segment may be, a rank maps what is its own."""
    loop = f"ulimit -v 100000; for i in $(seq 70); do {DRIVER} short >/dev/null || exit 1; done"
    done, segment = run(["bash", "-c", loop], segment={"slots": 1024})
    assert done.returncode == 0 and segment["claimed"] == 70 and len(segment["slots"]) == 70
    assert all(slot["lane"][0]["calls"]["Barrier"]["calls"] == 1000 for slot in segment["slots"])


def test_a_closed_descriptor_is_opened_again_through_the_task():
    done, segment = run([DRIVER, "short", "210"])
    assert done.returncode == 0 and lane(segment)["calls"]["Barrier"]["calls"] == 1000


def test_programs_without_mpi_do_nothing():
    for command in (["bash", "-c", "true"], ["tee", "/dev/null"], ["/usr/bin/python3", "-c", "pass"]):
        done, segment = run(command + [])
        assert done.returncode == 0 and done.stderr == "" and segment["claimed"] == 0


def test_nothing_newer_than_glibc_2_17_and_nothing_else_exported():
    table = subprocess.run(["objdump", "-T", LIBRARY], capture_output=True, text=True, check=True).stdout
    for version in re.findall(r"UND.*GLIBC_([\d.]+)", table):
        assert tuple(map(int, version.split("."))) <= (2, 17), version
    names = re.findall(r"^\S+ g .*\s(\S+)$", table, re.M)
    assert {"MPI_Recv", "PMPI_Recv", "MPI_Recv_c", "PMPI_Recv_c", "opal_progress", "sched_yield",
            "ucp_worker_progress", "ucp_init_version", "ucp_worker_create", "ucp_worker_destroy", "fi_fabric",
            "fi_fabric2"} <= set(names)
    ours = re.compile(r"P?MPI_|(opal_progress|sched_yield|ucp_init_version|ucp_worker_(create|destroy|progress))$|"
                      "fi_fabric2?$|FABRIC_1.[18]$|MPIWAIT(_LATER)?$|__asan_default_options$|__gmon_start__$")
    assert [name for name in names if not ours.match(name)] == []
    needed = subprocess.run(["objdump", "-p", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED\s+(\S+)", needed) == ["libc.so.6"]


def test_the_check_of_the_table_finds_what_is_wrong(tmp_path):
    check = ROOT / "preload/mpi/check_calls.py"
    text = (ROOT / "preload/contract/mpi_calls.def").read_text()
    bad = tmp_path / "bad.def"
    text = re.sub(r"CALL\(Allreduce,.*\n", "", text)
    text = text.replace('CALL(Recv, 7, WAIT, LARGE, P2P, "b', 'CALL(Recv, 6, WAIT, LARGE, P2P, "')
    text = text.replace("CALL(Session_init, 3, TIME, NEWER_", "CALL(Session_init, 3, TIME, ")
    bad.write_text(text.replace('COLLECTIVE, "bntpc"', 'COLLECTIVE, "bnttc"'))
    done = subprocess.run([sys.executable, check, bad], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode == 77:
        pytest.skip("no mpi.h")
    assert done.returncode == 1
    assert "MPI_Recv has 7 arguments, the table says 6" in done.stderr
    wrong = "argument 3 of MPI_Bcast is int(, in MPI_Bcast_c int)?: not what 't' in its signature means"
    assert re.search(wrong, done.stderr)
    assert "MPI_Allreduce may block and is not in the table" in done.stderr
    assert "MPI_Session_init is not there, the table does not say NEWER" in done.stderr


PROFILE = "profile=1;tsc_khz=2000000;" + NAP
CONFIGS = {"inert": "", "acts": NAP, "profiles": PROFILE, "places": f"near=7:3:3-5;{PROFILE};segment=0:1:1;task="}


def per_call(scene: str, way: str) -> float:
    """Instructions of each of 64 calls, with the loop around them: one in 32 is looked at."""
    become = 'MPI_WAIT_CONFIG="$MPI_WAIT_CONFIG${TASK:+$$}" exec "$@"'
    config = CONFIGS.get(way)
    task = "1" if way == "places" else ""
    environment = dict(os.environ, MPI_WAIT_CONFIG=f"v=1;{config}" if config else "", TASK=task)
    if config is not None:
        environment["LD_PRELOAD"] = f"{LIBRARY}:{VIRTUAL}"
    done = subprocess.run([STEPS, "sh", "-c", become, "sh", DRIVER, f"{scene}_counted"], check=True, env=environment,
                          capture_output=True, text=True, timeout=60)
    return values(done)["steps"] / 64


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions of x86-64 are counted")
@pytest.mark.parametrize(("scene", "most"), [
    ("short", {"inert": 30, "acts": 60, "profiles": 120}),
    ("sends", {"inert": 30, "acts": 60, "profiles": 123, "places": 123}),
    ("tests", {"inert": 45, "acts": 75, "profiles": 80}),
])
def test_a_call_that_does_not_wait_costs_few_instructions(scene, most):
    """Barrier; Send, with six arguments and a size, where PMPI_Type_size itself has three; Test, with an idle poll."""
    bare = per_call(scene, "bare")
    assert bare > 3, "not counted"
    added = {way: per_call(scene, way) - bare for way in most}
    print(f"added instructions per call: {added}")
    assert [way for way, number in added.items() if number > most[way]] == []
    if "places" in added:
        assert added["places"] > added["profiles"] + 3, "the peer's node was not looked up"


def play_as_task(scene: str, config: str):
    """As the process that its configuration names as srun's task."""
    become = 'MPI_WAIT_CONFIG="${MPI_WAIT_CONFIG%task=*}task=$$" exec "$@"'
    done, segment = run(["sh", "-c", become, "sh", DRIVER, scene], config)
    assert done.returncode == 0, done.stderr
    return segment


@pytest.mark.parametrize(("near", "bytes_far_near"), [
    ("near=7:3:3-5;", (8080, 840)),
    ("near=7:3:0-3,5,6;", (800, 8120)),
    ("near=8:3:3-5;", (0, 0)),
    ("near=7:2:3-5;", (0, 0)),
    ("", (0, 0)),
], ids=["a range", "ranges", "another world", "another rank", "not known"])
def test_bytes_within_the_node_are_told_from_those_between_nodes(near, bytes_far_near):
    """Where the peer is a rank of MPI_COMM_WORLD: not by other communicators, from anybody, to nobody, to a root."""
    for clock in ("", "tsc_khz=2000000;"):
        segment = play_as_task("places", clock + near + "profile=1;" + NAP)
        thread = lane(segment)
        assert (thread["far_bytes"], thread["near_bytes"]) == bytes_far_near
        assert thread["calls"]["Send"]["bytes"] == 800 + 80 + 8 + 8 and thread["calls"]["Bcast"]["bytes"] == 8


def test_places_are_for_profiles_of_tasks_only():
    """What mpirun starts within a task may have the task's rank and world size, and be elsewhere."""
    for segment in (play_as_task("places", "near=7:3:3-5;" + NAP), play("places", "near=7:3:3-5;profile=1;" + NAP)[1]):
        assert lane(segment)["near_bytes"] == lane(segment)["far_bytes"] == 0


def test_sizes_are_classed_by_powers_of_two():
    _, segment = play("sends", NAP + ";profile=1")
    assert lane(segment)["calls"]["Send"]["bytes"] == 8 * 999 * 500
    classes = segment["slots"][0]["sizes"]["Send"]
    assert classes == {0: 1, 8: 1, 16: 2, 32: 4, 64: 8, 128: 16, 256: 32, 512: 64, 1024: 128, 2048: 256, 4096: 488}
