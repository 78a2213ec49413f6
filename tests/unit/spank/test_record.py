"""Nodes' records to one job's record: every line that is printed validates, fits, and says what it left out."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import driver, node_record
from tests.lib.records import GRANT, left_out, merge


def test_one_node(tmp_path: Path) -> None:
    record = merge(tmp_path, [node_record()])
    assert record["nodes"] == {"reported": 1, "of": 1} and record["elapsed_s"] == 10.5
    assert record["energy"] == {
        "joules": 210,
        "scope": "node",
        "source": "simulated",
        "zones_j": {"package": 200, "core": 90, "dram": 10},
    }
    wait = record["wait"]
    assert wait["per_rank_s"] == [1.5, 0.25] and wait["per_rank_asleep_s"] == [1, 0]
    assert (wait["ranks"], wait["total_s"], wait["mean_s"], wait["share"], wait["cpu_share"]) == (
        2,
        1.75,
        0.875,
        0.088,
        0.1,
    )
    assert wait["min"] == {"rank": 1, "s": 0.25, "node": "c1"} and wait["max"] == {
        "rank": 0,
        "s": 1.5,
        "node": "c1",
    }
    assert wait["by_call"] == {
        "MPI_Recv": {"calls": 100, "waits": 5, "wait_s": 1.75, "longest_s": 0.9}
    }
    assert record["steps"] == [
        {"id": "0", "nodes": 1, "ranks": 2, "elapsed_s": 9, "wait_s": 1.75, "joules": 210}
    ]


def test_what_served_is_added_up(tmp_path: Path) -> None:
    service = {
        "hooks": {"opal": 5, "loop": 1, "later": 9},
        "flags": {"no_event": 2},
        "forecast": {"naps": 9, "early": 4, "early_us": 5000, "foreseen": 6, "allowed_us": 20_000},
        "spun": {"MPI_Probe": [3_200_000, 3_100_000], "other": [1000, 900]},
    }
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    records[0]["steps"][0]["wait"] |= service
    records[1]["steps"][0]["wait"] |= service
    wait = merge(tmp_path, records)["wait"]
    assert wait["forecast"] == {"naps": 18, "early": 8, "early_s": 0.01, "foreseen": 12, "unforeseen": 0,
                                "allowed_s": 0.04}
    assert wait["hooks"] == {"opal": 10, "loop": 2} and wait["flags"] == {"no_event": 4}
    assert wait["spun"] == {
        "MPI_Probe": {"s": 6.4, "cpu_s": 6.2},
        "other": {"s": 0.002, "cpu_s": 0.002},
    }
    assert not set(service) & set(merge(tmp_path, [node_record()])["wait"])


def test_sums_over_ranks_are_printed_as_their_rows_say(tmp_path: Path) -> None:
    """spank/record/record_fields.def: always, where they are not 0, or with the row before them."""
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    first, second = (record["steps"][0]["wait"] for record in records)
    del first["naps"], second["naps"], first["doubtful"]  # older nodes do not have them
    first |= {"low_us": 1_500_000, "unseen": 2}
    wait = merge(tmp_path, records)["wait"]
    assert (wait["naps"], wait["late"], wait["late_s"], wait["unseen"]) == (0, 2, 0, 2)
    assert not {"transitions", "low_s", "doubtful"} & set(wait)
    second |= {"transitions": 4, "low_us": 1_000_000, "doubtful": 1}
    wait = merge(tmp_path, records)["wait"]
    assert (wait["transitions"], wait["low_s"], wait["doubtful"]) == (4, 2.5, 1)
    printed = ["naps", "transitions", "low_s", "late", "late_s", "unseen", "doubtful"]
    assert [name for name in wait if name in printed] == printed


@pytest.mark.parametrize("name", ["unseen", "span_us", "late", "late_us", "sampled_us", "sampled_cpu_us", "size"])
def test_a_sum_that_every_node_writes_must_be_there(tmp_path: Path, name: str) -> None:
    record = node_record()
    del record["steps"][0]["wait"][name]
    assert left_out(tmp_path, record) == '"steps"[0]: wait'


@pytest.mark.parametrize(
    "damage",
    [
        {"hooks": []},
        {"hooks": {"opal": -1}},
        {"flags": {"locked": 10**16}},
        {"forecast": {"early_us": -1}},
        {"flags": {"locked": 0.5}},
        {"spun": {"/etc/passwd": [1, 1]}},
        {"spun": {"MPI_Recv": [1]}},
        {"spun": {"MPI_Recv": [1, -1]}},
        {"spun": {"MPI_" + "a" * 60: [1, 1]}},
        {"spun": {f"MPI_{chr(97 + i)}": [1, 1] for i in range(17)}},
    ],
    ids=str,
)
def test_a_step_of_damaged_service_is_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    record = node_record()
    record["steps"][0]["wait"] |= damage
    assert left_out(tmp_path, record) == '"steps"[0]: wait'


def test_no_more_functions_than_there_is_room_for(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    for node, record in enumerate(records):
        names = [f"MPI_{chr(97 + i)}{'xy'[node]}" for i in range(16)]
        spun = {name: [1000 * (i + 1), 0] for i, name in enumerate(names)}
        record["steps"][0]["wait"]["spun"] = spun
    spun = merge(tmp_path, records)["wait"]["spun"]
    assert len(spun) == 16 and min(call["s"] for call in spun.values()) == 0.009


def test_two_nodes_are_listed_by_rank(tmp_path: Path) -> None:
    """Ranks spread cyclically over nodes come out in order of rank."""
    first = node_record("c1", "c[1-2]", [[0, 10**6, 0], [2, 3 * 10**6, 0]])
    second = node_record("c2", "c[1-2]", [[1, 2 * 10**6, 0], [3, 4 * 10**6, 0]])
    for record in (first, second):
        record["steps"][0]["wait"]["size"] = 4
    record = merge(tmp_path, [first, second])
    assert record["wait"]["per_rank_s"] == [1, 2, 3, 4]
    assert record["energy"]["joules"] == 420 and record["steps"][0]["nodes"] == 2
    assert record["wait"]["max"] == {"rank": 3, "s": 4, "node": "c2"}


def test_one_world_over_several_steps_is_listed_by_rank(tmp_path: Path) -> None:
    """A launcher's daemons may be one step per node."""
    records = []
    for node in (0, 1):
        records.append(node_record(f"c{node + 1}", "c[1-2]", [[1 - node, 10**6 * (2 - node), 0]]))
        records[-1]["steps"][0]["id"] = str(node)
        records[-1]["steps"][0]["wait"]["size"] = 2
    assert merge(tmp_path, records)["wait"]["per_rank_s"] == [1, 2]


def test_several_worlds_are_listed_step_after_step(tmp_path: Path) -> None:
    record = node_record(ranks=[[1, 10**6, 0], [0, 2 * 10**6, 0]])
    later = copy.deepcopy(record["steps"][0]) | {
        "id": "1",
        "start_s": record["steps"][0]["start_s"] + 5,
    }
    later["wait"]["ranks"] = [[0, 3 * 10**6, 0], [1, 4 * 10**6, 0]]
    record["steps"].insert(0, later)
    merged = merge(tmp_path, [record])
    assert [step["id"] for step in merged["steps"]] == ["0", "1"]
    assert merged["wait"]["per_rank_s"] == [2, 1, 3, 4]


def test_share_of_a_node(tmp_path: Path) -> None:
    energy = merge(tmp_path, [node_record(cores=1)])["energy"]
    assert (energy["scope"], energy["joules"], energy["node_joules"]) == ("share", 52.5, 210)


def test_share_as_the_node_counted_it(tmp_path: Path) -> None:
    """A node that knows where the job's cores are says so; one that lost a counter names it."""
    energy = {
        "source": "simulated",
        "gaps": 1,
        "zones_uj": {"package": 200_000_000, "dram": 10_000_000},
        "own_uj": 150_000_000,
        "dropped": [["package-1/dram", "vanished"]],
    }
    merged = merge(tmp_path, [node_record(cores=2, energy=energy)])["energy"]
    assert (merged["scope"], merged["joules"], merged["node_joules"]) == ("share", 150, 210)
    assert merged["dropped"] == [{"node": "c1", "zone": "package-1/dram", "why": "vanished"}]


def test_psys_counts_only_without_packages(tmp_path: Path) -> None:
    zones = {"psys": 400_000_000}
    energy = {"source": "rapl", "gaps": 2, "zones_uj": zones}
    assert merge(tmp_path, [node_record(energy=energy)])["energy"] == {
        "joules": 400,
        "scope": "node",
        "source": "rapl",
        "zones_j": {"psys": 400},
        "gaps": 2,
    }
    both = energy | {"zones_uj": zones | {"package": 100_000_000}}
    assert merge(tmp_path, [node_record(energy=both)])["energy"]["joules"] == 100


def test_nodes_without_energy(tmp_path: Path) -> None:
    without = node_record("c2", "c[1-2]", energy=None, energy_why="no powercap zones")
    record = merge(tmp_path, [node_record("c1", "c[1-2]"), without])
    assert record["energy"]["nodes"] == 1 and record["energy_why"] == "no powercap zones"
    assert merge(tmp_path, [without])["energy"] is None
    unknown = merge(tmp_path, [node_record(cores=0)])
    assert unknown["energy"] is None and unknown["energy_why"] == "the job's cores are unknown"


def test_throttling_is_added_up_and_the_worst_node_named(tmp_path: Path) -> None:
    kinds = ("core_throttle", "package_throttle", "core_power_limit", "package_power_limit")
    nodes = [
        node_record("c1", "c[1-3]", throttle=dict(zip(kinds, (1, 0, 0, 0)))),
        node_record("c2", "c[1-3]", throttle=dict(zip(kinds, (2, 0, 3, 1)))),
        node_record("c3", "c[1-3]", throttle=None),
    ]
    assert merge(tmp_path, nodes)["throttle"] == dict(zip(kinds, (3, 0, 3, 1))) | {"most": "c2"}
    assert "throttle" not in merge(tmp_path, [node_record(throttle=None)])
    nothing = merge(tmp_path, [node_record(throttle=dict.fromkeys(kinds, 0))])
    assert nothing["throttle"] == dict.fromkeys(kinds, 0)


def test_some_nodes_are_told_one_by_one(tmp_path: Path) -> None:
    """What root read on each of 4 to 256 nodes; the sum of the joules is the job's."""
    kinds = ("core_throttle", "package_throttle", "core_power_limit", "package_power_limit")
    nodes = [node_record(f"c{i}", "c[1-4]", throttle=dict.fromkeys(kinds, i)) for i in range(1, 5)]
    nodes[2] |= {"energy": None, "energy_why": "no powercap", "throttle": None}
    job = merge(tmp_path, nodes)
    assert [(name, slowed) for name, _, slowed in job["by_node"]] == [("c1", 4), ("c2", 8), ("c3", None), ("c4", 16)]
    assert job["by_node"][2][1] is None
    assert sum(joules or 0 for _, joules, _ in job["by_node"]) == pytest.approx(job["energy"]["joules"])
    assert "by_node" not in merge(tmp_path, nodes[:3])
    many = [node_record(f"n{i}", "n[0-256]") for i in range(257)]
    assert "by_node" not in merge(tmp_path, many) and len(merge(tmp_path, many[:256])["by_node"]) == 256
    blind = [node_record(f"c{i}", "c[1-4]", energy=None, energy_why="no powercap", throttle=None) for i in range(4)]
    assert "by_node" not in merge(tmp_path, blind)


def test_missing_nodes_and_no_ranks(tmp_path: Path) -> None:
    record = node_record(nodes="c[1-3]")
    del record["steps"][0]["wait"]
    merged = merge(tmp_path, [record], 3, "spool not shared")
    assert merged["nodes"] == {"reported": 1, "of": 3, "why": "spool not shared"}
    assert merged["wait"] is None and merged["steps"][0]["ranks"] == 0


def test_fallback_of_any_node_is_said(tmp_path: Path) -> None:
    fell = {"asked": "umwait", "used": "nap", "why": "no waitpkg", "by": "site"}
    good = {"asked": "umwait", "used": "umwait", "why": "", "by": "site"}
    merged = merge(
        tmp_path,
        [node_record("c1", "c[1-2]", policy=good), node_record("c2", "c[1-2]", policy=fell)],
    )
    assert merged["policy"] == fell
    record = node_record(policy={"asked": "", "used": "", "why": "", "by": ""})
    record["steps"][0]["policy"] = good | {"by": "step"}
    merged = merge(tmp_path, [record])
    assert (
        merged["policy"] == {"asked": "umwait", "used": "umwait", "by": "step"}
        and "policy" not in merged["steps"][0]
    )


def test_the_policy_of_a_program_outweighs_the_sites_default(tmp_path: Path) -> None:
    """Of the job, if nothing else ran under another policy."""
    site = {"asked": "nap", "used": "nap", "why": "", "by": "site"}
    program = {"asked": "profile", "used": "profile", "why": "", "by": "program"}
    record = node_record(policy=site)
    record["steps"][0]["policy"] = program
    merged = merge(tmp_path, [record])
    assert merged["policy"] == {"asked": "profile", "used": "profile", "by": "program"}
    assert "policy" not in merged["steps"][0]
    record["steps"].append({**record["steps"][0], "id": "1", "policy": site})
    merged = merge(tmp_path, [record])
    assert merged["policy"] == {"asked": "nap", "used": "nap", "by": "site"}
    assert [step.get("policy", {}).get("by") for step in merged["steps"]] == ["program", None]


def test_thousand_nodes(tmp_path: Path) -> None:
    """128 000 ranks: quantiles for the lists, everything else exact."""
    records = []
    for node in range(1000):
        ranks = [[node * 128 + i, (node * 128 + i) * 1000, 0] for i in range(128)]
        records.append(node_record(f"n{node:04}", "n[0000-0999]", ranks))
    wait = merge(tmp_path, records)["wait"]
    assert wait["ranks"] == 128_000 and wait["per_rank_s"] == [] and wait["per_rank_asleep_s"] == []
    assert (
        len(wait["quantiles_s"]) == 101
        and wait["quantiles_s"][0] == 0
        and wait["quantiles_s"][100] == 127.999
    )
    assert abs(wait["quantiles_s"][50] - 64) < 0.01
    assert wait["max"] == {"rank": 127_999, "s": 127.999, "node": "n0999"}
    assert [rank["rank"] for rank in wait["most"]] == list(range(127_999, 127_983, -1))
    assert [rank["s"] for rank in wait["least"]] == [i / 1000 for i in range(16)]
    assert {rank["node"] for rank in wait["most"]} == {"n0999"}


def test_many_steps(tmp_path: Path) -> None:
    record = node_record()
    step = record["steps"][0]
    record["steps"] = [
        copy.deepcopy(step) | {"id": str(i), "start_s": step["start_s"] + i / 1000}
        for i in range(4000)
    ]
    record["steps_left_out"] = 3
    merged = merge(tmp_path, [record])
    assert len(merged["steps"]) == 256 and merged["steps_left_out"] == 3744 + 3
    assert merged["steps_rest"] == {"steps": 3744, "ranks": 7488, "wait_s": 6552}
    assert merged["wait"]["ranks"] == 8000 and merged["wait"]["total_s"] == 7000


def test_omitted_ranks_are_in_the_sums(tmp_path: Path) -> None:
    record = node_record(ranks=[])
    record["steps"][0]["wait"]["omitted"] = {
        "count": 3,
        "wait_us": 6_000_000,
        "asleep_us": 1_000_000,
        "min": [2, 500_000],
        "max": [1, 4_000_000],
    }
    wait = merge(tmp_path, [record])["wait"]
    assert (wait["ranks"], wait["total_s"], wait["asleep_s"]) == (3, 6, 1)
    assert wait["naps"] == 30
    assert wait["min"]["rank"] == 2 and wait["max"]["s"] == 4 and wait["per_rank_s"] == []


def test_calls_beyond_the_first_are_other(tmp_path: Path) -> None:
    record = node_record()
    letters = "abcdefghijklmnopqrstuvwxyzABCD"
    record["steps"][0]["wait"]["calls"] = {
        f"MPI_F{letter}": [1, 1, 1000 * (i + 1), 10] for i, letter in enumerate(letters)
    }
    calls = merge(tmp_path, [record])["wait"]["by_call"]
    assert len(calls) == 25 and next(iter(calls)) == "MPI_FD"
    assert calls["other"]["calls"] == 6 and calls["other"]["wait_s"] == 0.021


def test_the_profile_is_summed_and_bounded(tmp_path: Path) -> None:
    first, second = node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")
    first["steps"][0]["wait"]["profile"] = {"MPI_Send": [10, 3_000_000, 1_000_000, 4096, [1, 0, 9]]}
    second["steps"][0]["wait"]["profile"] = {
        "MPI_Send": [5, 1_000_000, 0, 4096, [0, 0, 0, 0, 5]],
        "MPI_Isend": [2, 0, 0, 100, [0, 2]],
    }
    profile = merge(tmp_path, [first, second])["wait"]["profile"]
    assert list(profile) == ["MPI_Send", "MPI_Isend"]
    sizes = {"0": 1, "2": 9, "8": 5}
    assert profile["MPI_Send"] == {
        "calls": 15, "time_s": 4, "wait_s": 1, "bytes": 8192, "sizes": sizes
    }
    letters = "abcdefghijklmnopqrstuvwxyzABCD"
    first["steps"][0]["wait"]["profile"] = {
        f"MPI_F{letter}": [2**62, 2**62, 2**62, 2**62, [2**62] * 40] for letter in letters
    }
    profile = merge(tmp_path, [first])["wait"]["profile"]
    assert len(profile) == 25 and profile["other"]["calls"] > 5.99 * 2**62


def test_a_profile_is_the_sum_over_steps_and_nodes(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    for record in records:
        record["steps"].append({**copy.deepcopy(record["steps"][0]), "id": "1"})
        for step in record["steps"]:
            step["wait"]["profile"] = {"MPI_Send": [10, 3_000_000, 1_000_000, 4096, [1, 0, 9]]}
        record["steps"][1]["wait"]["profile"] |= {f"MPI_F{letter}": [1, 1, 1, 1, []] for letter in "abcdefgh"}
    profile = merge(tmp_path, records)["wait"]["profile"]
    assert profile["MPI_Send"] == {
        "calls": 40, "time_s": 12, "wait_s": 4, "bytes": 16_384, "sizes": {"0": 4, "2": 36}
    }
    assert len(profile) == 9 and profile["MPI_Fh"] == {"calls": 2, "time_s": 2e-6, "wait_s": 2e-6, "bytes": 2}


def test_grants_are_summed_over_nodes(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    for record in records:
        record["steps"][0]["grant"] = GRANT
    records[1]["steps"][0]["grant"] = {**GRANT, "refused": {"no cpufreq": 2}}
    assert merge(tmp_path, records, 2)["grant"] == {
        "mode": "lease",
        "cores": 6,
        "refused": {"frequency domain reaches outside the task's cores": 1, "no cpufreq": 2},
        "transitions": 16,
        "low_s": 2.469,
    }
    assert "grant" not in merge(tmp_path, [node_record()])


def test_what_became_of_csv_is_counted_by_node_and_step(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-3]"), node_record("c2", "c[1-3]"), node_record("c3", "c[1-3]")]
    for record, outcome in zip(records, ("written", "no such directory", "of a later release"), strict=True):
        record["steps"][0]["csv"] = outcome
    records[0]["steps"].append({**records[0]["steps"][0], "id": "1", "csv": "no such directory"})
    assert merge(tmp_path, records, 3)["csv"] == {
        "written": 1, "failed": {"no such directory": 2, "failed": 1}
    }
    records[0]["steps"][0]["csv"] = records[1]["steps"][0]["csv"] = "written"
    assert merge(tmp_path, [records[0] | {"steps": records[0]["steps"][:1]}, records[1]], 2)["csv"] == {"written": 2}
    assert "csv" not in merge(tmp_path, [node_record()])


def test_who_is_missed_is_summed_over_nodes_and_steps(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    records[0]["steps"][0]["missed"] = {"lost": 2, "static": 1}
    records[0]["steps"].append({**records[0]["steps"][0], "id": "1", "missed": {"unreached": 3}})
    records[1]["steps"][0].update(missed={"lost": 5, "replaced": 4, "setuid": 1}, wait=None)
    assert merge(tmp_path, records, 2)["missed"] == {
        "lost": 7, "unreached": 3, "replaced": 4, "static": 1, "setuid": 1
    }
    assert "missed" not in merge(tmp_path, [node_record()])


def test_what_other_threads_used_is_added_up(tmp_path: Path) -> None:
    records = [node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")]
    records[0]["steps"][0]["wait"]["threads_us"] = 2_500_000
    assert merge(tmp_path, records)["wait"]["threads_s"] == 2.5
    records[1]["steps"][0]["wait"]["threads_us"] = 1_000_000
    assert merge(tmp_path, records)["wait"]["threads_s"] == 3.5
    assert "threads_s" not in merge(tmp_path, [node_record()])["wait"]


def test_more_reasons_than_there_is_room_for(tmp_path: Path) -> None:
    record = node_record()
    step = record["steps"][0]
    record["steps"] = [
        {**step, "id": str(i), "grant": {**GRANT, "refused": {f"reason {i} {j}": 1 for j in range(4)}}}
        for i in range(8)
    ]
    refused = merge(tmp_path, [record])["grant"]["refused"]
    assert len(refused) == 12 and sum(refused.values()) == 32


def test_largest_numbers_still_validate(tmp_path: Path) -> None:
    record = node_record(ranks=[[i, 10**18, 10**18] for i in range(1024)])
    numbers = ("span_us", "naps", "late", "late_us", "sampled_us", "sampled_cpu_us", "low_us", "threads_us")
    numbers += ("transitions",)
    record["steps"][0]["wait"] |= dict.fromkeys(numbers, 10**18)
    record["steps"][0]["wait"]["calls"] = {"MPI_Recv": [10**18] * 4}
    merge(tmp_path, [record])


def test_why_is_cleaned(tmp_path: Path) -> None:
    record = node_record(energy=None, energy_why='bad "quote" <script> \u00e9')
    assert '"' not in merge(tmp_path, [record])["energy_why"]


def test_combining_with_what_a_field_holds() -> None:
    line = json.dumps({"mpi_wait": {"nodes": {"reported": 1}}})
    assert driver("combine", "", line)["text"] == line
    assert driver("combine", " \n", line)["text"] == line
    kept = json.loads(
        driver("combine", '{"site":{"a":1.5},"mpi_wait":{"nodes":{"reported":0}}}', line)["text"]
    )
    assert kept == {"site": {"a": 1.5}, "mpi_wait": {"nodes": {"reported": 1}}}
    assert driver("combine", "JS1:H4sIAAAA", line)["code"] == -17
    assert driver("combine", '["list"]', line)["code"] == -17
    assert driver("combine", line, line)["code"] == -114
    known = json.dumps({"mpi_wait": {"nodes": {"reported": 1, "of": 3}}})
    assert json.loads(driver("combine", line, known)["text"]) == json.loads(known)
    assert driver("combine", known, line)["code"] == -114
    assert driver("combine", json.dumps({"x": "y" * 65530}), line)["code"] == -27
    least, most = (json.dumps({"mpi_wait": {"nodes": {"reported": count}}}) for count in (-(2**63), 2**63 - 1))
    assert json.loads(driver("combine", least, line)["text"]) == json.loads(line)
    assert driver("combine", most, line)["code"] == -114


@pytest.mark.parametrize(
    "held",
    [
        r'{"note":"\ud83d\ude00"%s}',
        '{ "note" : "\u00e9", "ratio": 0.10, "big": 1e2%s}',
        r'{"a":{"mpi_wait":"}\\"},"b":[1,{"c":"\","}]%s}',
        '{"twice":1,"twice":2%s}',
    ],
)
def test_other_text_stays_byte_for_byte(held: str) -> None:
    """Text that is printed anew may need characters that the column lacks, and its numbers may read otherwise."""
    older, newer = ('"mpi_wait":' + json.dumps({"nodes": {"reported": count}}) for count in (1, 2))
    line = "{" + newer + "}"
    text = driver("combine", held % f",{older}", line)["text"]
    assert text == held % ("," + newer.replace(" ", ""))
    text = driver("combine", held % "", line)["text"]
    assert text.rstrip(" }") == (held % "").rstrip(" }") + "," + newer.replace(" ", "").rstrip("}")


def test_our_text_in_an_empty_object() -> None:
    line = '{"mpi_wait":{"nodes":{"reported":1}}}'
    assert driver("combine", "{}", line)["text"] == line
    assert driver("combine", " { } ", line)["text"] == " { " + line[1:] + " "


@pytest.mark.parametrize(
    ("key", "cluster"),
    [("a-7-0", "a"), ("my-big-cluster-7-0", "my-big-cluster"), ("x.y-7-0", "x.y")],
)
def test_keys(key: str, cluster: str) -> None:
    assert driver("key", key) == {"code": 0, "cluster": cluster, "job": 7, "restart": 0}


@pytest.mark.parametrize(
    "key",
    ["", "a", "a-7", "-7-0", "a-7-", "a-x-0", "a-7-0x", "../a-7-0", "a-99999999999-0", "a-7--1"],
)
def test_bad_keys(key: str) -> None:
    assert driver("key", key)["code"] == -22


def test_calls_of_nodes_that_did_not_wait_are_counted(tmp_path: Path) -> None:
    """A function is shown where a rank of any node waited in it, with the calls of all."""
    first, second = node_record("c1", "c[1-2]"), node_record("c2", "c[1-2]")
    second["steps"][0]["wait"]["calls"] = {"MPI_Recv": [40, 0, 0, 0], "MPI_Send": [8, 0, 0, 0]}
    by_call = merge(tmp_path, [first, second], 2)["wait"]["by_call"]
    assert by_call.keys() == {"MPI_Recv"}
    assert (by_call["MPI_Recv"]["calls"], by_call["MPI_Recv"]["waits"]) == (140, 5)
