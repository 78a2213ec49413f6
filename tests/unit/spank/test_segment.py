"""Stats segment to wait: what is read of ranks that were killed, that lie, and of a segment that is none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.lib.segments import SIZES, SLOT, SLOTS, Phases, Sites, read_slots, segment, slot


def test_open_wait_of_a_killed_rank_counts(tmp_path: Path) -> None:
    wait = read_slots(
        tmp_path, segment(slot(0, 2, 10**6, state=2, start=10**9, open_call=10, open_ns=5 * 10**6))
    )
    assert wait["ranks"] == [[0, 6000, 0]]
    assert wait["calls"]["MPI_Recv"] == [10, 4, 6000, 5000]
    assert wait["span_us"] == 9_000_000
    finalised = read_slots(
        tmp_path,
        segment(slot(0, 2, 10**6, start=10**9, end=2 * 10**9, open_call=10, open_ns=10**6)),
    )
    assert finalised["ranks"] == [[0, 1000, 0]] and finalised["span_us"] == 1_000_000


def test_what_served_and_what_burned(tmp_path: Path) -> None:
    ranks = [
        slot(0, 2, 10**6, start=1, end=10**9, flags=2 | 64 | 1 << 31, loop_polls=7, ofi_polls=5),
        slot(1, 2, 10**6, start=1, end=10**9, flags=2, burned_ns=5 * 10**9, burned_cpu_ns=2**63),
    ]
    wait = read_slots(tmp_path, segment(*ranks))
    assert wait["hooks"] == {"loop": 7, "ofi": 5} and wait["flags"] == {"no_hook": 2, "loops": 1}
    assert wait["spun"] == {"MPI_Recv": [5 * 10**6, 5 * 10**6]} and wait["doubtful"] == 1
    quiet = slot(0, 2, 10**9, start=1, end=10**9, burned_ns=10**7, burned_cpu_ns=10**7)
    wait = read_slots(tmp_path, segment(quiet))
    assert not {"hooks", "flags", "spun"} & set(wait), "mostly it waited as it should"


def test_what_was_forecast_and_what_was_allowed(tmp_path: Path) -> None:
    """1 % of a second and of two, and 2 ms each, be they three or a thousand; a rank without an account is allowed
    nothing."""
    ranks = [
        slot(0, 3, 10**6, start=1, end=1 + 10**9, slowdown_ppm=10_000, forecast=(9, 4, 5 * 10**6, 6, 1)),
        slot(1, 3, 10**6, start=1, end=1 + 2 * 10**9, slowdown_ppm=10_000, forecast=(1, 0, 0, 1, 0)),
        slot(2, 3, 10**6, start=1, end=10**9),
    ]
    assert read_slots(tmp_path, segment(*ranks))["forecast"] == {
        "naps": 10, "early": 4, "early_us": 5000, "foreseen": 7, "unforeseen": 1, "allowed_us": 34_000}
    liar = slot(0, 1, 10**6, start=1, end=1 + 10**9, slowdown_ppm=2**63, forecast=(2**63, 0, 2**63, 0, 0))
    wait = read_slots(tmp_path, segment(liar))
    assert wait["doubtful"] == 1 and wait["forecast"]["allowed_us"] == 1_002_000
    assert "forecast" not in read_slots(tmp_path, segment(ranks[2]))
    of_many = slot(0, 1000, 10**6, start=1, end=1 + 10**9, slowdown_ppm=10_000, forecast=(9, 4, 0, 6, 1))
    assert read_slots(tmp_path, segment(of_many))["forecast"]["allowed_us"] == 12_000


def test_a_number_of_a_policy_that_cannot_be_is_doubtful(tmp_path: Path) -> None:
    ranks = [slot(rank, 4, 10**6, start=1, end=10**9, program=number)
             for rank, number in enumerate((0, 16, 17, 2**32 - 1))]
    assert read_slots(tmp_path, segment(*ranks))["doubtful"] == 2


def test_what_other_threads_used_is_summed_and_bounded(tmp_path: Path) -> None:
    """Three cores' worth in a sampled second of either rank; and what no machine has CPUs for."""
    ranks = [slot(rank, 2, 10**9, start=1, end=10**9, sampled_ns=10**9, threads_ns=3 * 10**9) for rank in (0, 1)]
    assert read_slots(tmp_path, segment(*ranks))["threads_us"] == 6 * 10**6
    assert read_slots(tmp_path, segment(slot(0, 1, 10**9, start=1, end=10**9)))["threads_us"] == 0
    liar = slot(0, 1, 10**9, start=1, end=10**9, sampled_ns=10**9, threads_ns=2**63)
    wait = read_slots(tmp_path, segment(liar))
    assert wait["doubtful"] == 1 and wait["threads_us"] == 0


@pytest.mark.parametrize(
    ("changes", "rank"),
    [
        ({"rank": -5}, -1),
        ({"rank": 2**24}, -1),
        ({"rank": 3, "size": 2}, -1),
        ({"size": -1}, 0),
        ({"wait_ns": 2**64 - 1}, 0),
        ({"start": 2**63}, 0),
        ({"end": 2**63}, 0),
        ({"asleep_ns": 2**64 - 1}, 0),
    ],
)
def test_hostile_slots_are_cut_and_marked(
    tmp_path: Path, changes: dict[str, int], rank: int
) -> None:
    values = {"rank": 0, "size": 2, "wait_ns": 10**6, "start": 10**9, "end": 2 * 10**9} | changes
    wait = read_slots(
        tmp_path,
        segment(slot(values.pop("rank"), values.pop("size"), values.pop("wait_ns"), **values)),
    )
    assert wait["doubtful"] == 1
    assert wait["ranks"][0][0] == rank
    assert 0 <= wait["ranks"][0][2] <= wait["ranks"][0][1] <= 10**7
    assert wait["span_us"] <= 10**7


def test_every_number_at_its_largest(tmp_path: Path) -> None:
    content = bytearray(b"\xff" * len(segment()))
    content[:SLOTS] = segment(claimed=2**32 - 1)[:SLOTS]
    for index in range(64):
        struct.pack_into("<I", content, SLOTS + index * SLOT + 4, 2)
    wait = read_slots(tmp_path, bytes(content))
    assert wait["doubtful"] == 64 and wait["unseen"] == 1_000_000
    assert wait["profile"]["MPI_Recv"][3] == 10**18 and len(wait["profile"]["MPI_Recv"][4]) == 40


def test_profile_is_summed_by_call(tmp_path: Path) -> None:
    sizes = struct.pack("<64Q", 1, 0, 0, 0, 7, *[0] * 59).rjust(64 * 8 * 10, b"\0").ljust(SIZES, b"\0")
    ranks = [
        slot(rank, 2, 10**6, start=10**9, end=2 * 10**9, time_ns=3 * 10**6, handed=4096)
        for rank in (0, 1)
    ]
    wait = read_slots(tmp_path, segment(*ranks, sizes=sizes + sizes))
    assert wait["profile"] == {"MPI_Recv": [20, 6000, 2000, 8192, [2, 0, 0, 0, 14]]}
    assert "profile" not in read_slots(tmp_path, segment(slot(0, 1, 10**6, start=1, end=2)))


def test_waits_by_phase_are_summed_with_the_rank_that_waited_most(tmp_path: Path) -> None:
    """Each rank has its own table. The time since the latest began, and the wait that a rank died in, are in it too."""
    first = Phases(6 * 10**9, 0, (7, 3), (10**9, 2 * 10**9, 3 * 10**9), ((1, 10**6), (2, 5 * 10**6), (3, 7 * 10**6)))
    second = Phases(4 * 10**9, 1, (3,), (4 * 10**9,), ((0, 0), (4, 9 * 10**6)))
    wait = read_slots(tmp_path, segment(
        slot(0, 2, 10**6, start=1, end=8 * 10**9, phases=first),
        slot(1, 2, 10**6, state=2, start=1, open_call=10, open_ns=2 * 10**6, phases=second)))
    assert wait["phases"] == [
        [3, 9_000_000, 8, 18_000, 11_000, 1], [7, 2_000_000, 2, 5_000, 5_000, 0], [0, 7_000_000, 1, 1_000, 1_000, 0]]
    assert wait["doubtful"] == 0


def test_a_program_that_names_no_phase_has_none(tmp_path: Path) -> None:
    unnamed = Phases(10**9, 0, (), (10**9,), ((5, 10**6),))
    assert "phases" not in read_slots(tmp_path, segment(slot(0, 1, 0, start=1, end=2 * 10**9, phases=unnamed)))
    assert "phases" not in read_slots(tmp_path, segment(slot(0, 1, 0, start=1, end=2 * 10**9)))


@pytest.mark.parametrize(
    "forged",
    [
        Phases(1, 2**32 - 1, (-5, 0, 1, 2, 3), [2**63] * 18, [(2**64 - 1, 2**64 - 1)] * 18),
        Phases(2**64 - 1, 17, [3] * 16, [2**64 - 1] * 18, [(1, 2**63)] * 18),
    ],
)
def test_forged_phases_are_cut_and_marked(tmp_path: Path, forged: Phases) -> None:
    wait = read_slots(tmp_path, segment(slot(0, 1, 0, state=2, start=1, open_call=10, open_ns=2**62, phases=forged)))
    assert wait["doubtful"] == 1 and {phase[0] for phase in wait["phases"]} == {3, 0, -1}
    for _, time_us, waits, wait_us, most_us, _ in wait["phases"]:
        assert time_us <= 2 * 16 * 10**7 and waits <= 16 * (10**15 + 1) and most_us <= wait_us <= 16 * 10**7


APP = (b"app", bytes(range(20)), 20)


def test_waits_by_call_site_are_summed_with_the_rank_that_waited_most(tmp_path: Path) -> None:
    """The places of a module in the tables of the ranks differ; a place is told by the module itself."""
    first = Sites([APP, (b"libx.so", b"", 0)], [(0x11D2, 1, 9, 2, 5 * 10**6), (7, 2, 9, 1, 10**6)], (3, 2 * 10**6))
    second = Sites([(b"libx.so", b"", 0), APP], [(7, 1, 9, 1, 4 * 10**6), (0x11D2, 2, 9, 4, 9 * 10**6)])
    wait = read_slots(tmp_path, segment(
        slot(0, 2, 10**6, start=1, end=8 * 10**9, sites=first), slot(1, 2, 10**6, start=1, end=2, sites=second)))
    assert wait["sites"] == [
        ["app", bytes(range(20)).hex(), 0x11D2, "MPI_Recv", 6, 14_000, 9_000, 1],
        ["libx.so", "", 7, "MPI_Recv", 2, 5_000, 4_000, 1], ["", "", 0, "other", 3, 2_000, 2_000, 0]]
    assert wait["doubtful"] == 0
    assert "sites" not in read_slots(tmp_path, segment(slot(0, 1, 0, start=1, end=2 * 10**9)))


@pytest.mark.parametrize(
    ("forged", "expected"),
    [
        (Sites([(b"\x1b[31m/" * 8, b"\xff" * 20, 2**32 - 1)], [(2**64 - 1, 1, 2**32 - 1, 2**64 - 1, 2**64 - 1)]),
         ["_" + "_31m__" * 7 + "_31m", "", 2**63 - 1, "other", 10**15, 10**7, 10**7, 0]),
        (Sites([(b"..", b"", 0)], [(1, 1, 9, 1, 10**6)]), ["_.", "", 1, "MPI_Recv", 1, 1000, 1000, 0]),
        (Sites([(b"", b"", 0)], [(1, 1, 9, 1, 10**6)]), ["", "", 0, "other", 1, 1000, 1000, 0]),
        (Sites([APP], [(1, 2**16 - 1, 9, 1, 10**6)]), ["", "", 0, "other", 1, 1000, 1000, 0]),
    ],
)
def test_forged_call_sites_are_cut(tmp_path: Path, forged: Sites, expected: list[object]) -> None:
    wait = read_slots(tmp_path, segment(slot(0, 1, 0, start=1, end=2, sites=forged)))
    assert len(wait["sites"]) == 1 and wait["sites"][0][1:] == expected[1:]
    assert wait["sites"][0][0] == expected[0][:47] and wait["doubtful"] == (expected[4] == 10**15)


def test_more_call_sites_than_are_kept_are_one(tmp_path: Path) -> None:
    """Of 192 places of three ranks the 24 that waited most, and nothing of the others is lost."""
    ranks = []
    for rank in range(3):
        places = [(64 * rank + i, 1, 9, 1, (64 * rank + i + 1) * 10**3) for i in range(64)]
        ranks.append(slot(rank, 3, 0, start=1, end=2, sites=Sites([APP], places)))
    *kept, rest = read_slots(tmp_path, segment(*ranks))["sites"]
    assert [site[2] for site in kept] == sorted(range(128), reverse=True)[:24] and rest[0] == ""
    assert rest[4] + sum(site[4] for site in kept) == 192
    assert rest[5] + sum(site[5] for site in kept) == sum(range(1, 193))


def test_more_phases_than_are_kept_are_one(tmp_path: Path) -> None:
    """Of a hundred phases of eight ranks the sixteen that waited most, and nothing of the others is lost."""
    ranks = []
    for rank in range(8):
        level = [3 + 14 * rank + i for i in range(14)]
        waits = [(0, 0), *((1, number * 10**5) for number in level)]
        ranks.append(slot(rank, 8, 0, start=1, end=2, phases=Phases(2, 0, level, (), waits)))
    phases = read_slots(tmp_path, segment(*ranks))["phases"]
    told = range(3, 3 + 64)
    assert [phase[0] for phase in phases] == [*sorted(told, reverse=True)[:16], -1]
    assert sum(phase[2] for phase in phases) == 112
    assert sum(phase[3] for phase in phases) == sum(range(3, 115)) * 100


def test_bytes_by_place_are_summed_and_bounded(tmp_path: Path) -> None:
    ranks = [slot(rank, 2, 0, start=1, end=2, far=3, near=1 << 63) for rank in (0, 1)]
    wait = read_slots(tmp_path, segment(*ranks))
    assert wait["places"] == [6, 10**18] and wait["doubtful"] == 2
    assert "places" not in read_slots(tmp_path, segment(slot(0, 1, 10**6, start=1, end=2)))


def test_the_last_wait_of_a_killed_rank_is_time_too(tmp_path: Path) -> None:
    killed = slot(0, 1, 0, state=2, start=10**9, open_call=10, open_ns=5 * 10**6, handed=8)
    wait = read_slots(tmp_path, segment(killed))
    assert wait["profile"]["MPI_Recv"] == [10, 5000, 5000, 8, []]


@pytest.mark.parametrize(
    ("header", "length", "message"),
    [
        ({}, 0, "cannot read"),
        ({"magic": 1}, None, "not that of version 8"),
        ({"version": 1}, None, "not that of version 8"),
        ({"sizes_size": 8}, None, "not that of version 8"),
        ({"slot_size": 8}, None, "not that of version 8"),
        ({}, SLOTS + 100, "has no slot"),
    ],
)
def test_broken_segments_are_refused(
    tmp_path: Path, header: dict[str, int], length: int | None, message: str
) -> None:
    assert message in read_slots(tmp_path, segment(**header)[:length])["error"]


def test_segment_says_more_slots_than_it_has(tmp_path: Path) -> None:
    wait = read_slots(
        tmp_path, segment(slot(0, 1, 5000, start=1, end=2), slot_count=2**32 - 1, claimed=70)
    )
    assert len(wait["ranks"]) == 1 and wait["unseen"] == 6
