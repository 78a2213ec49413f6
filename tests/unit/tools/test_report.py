"""mpi-wait report against a fake sacct: what it shows."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import jsonschema
import pytest

from tests.lib.doubles.report_double import POLICY, SCHEMA, Report, make_record, make_row, refused, shown


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def section(text: str, heading: str) -> list[str]:
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(heading))
    rest = lines[start + 1 :]
    return rest[
        : next(
            (index for index, line in enumerate(rest) if re.match(r"[A-Z].* ─", line)), len(rest)
        )
    ]


def test_the_test_record_is_what_the_plugin_writes() -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(make_record())


def test_where_nothing_could_be_saved_is_said(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"] |= {
        "hooks": {"opal": 7},
        "flags": {"no_event": 1, "no_hook": 4, "shared_cores": 2},
        "spun": {
            "MPI_Win_fence": {"s": 0.5, "cpu_s": 0.5},
            "MPI_Probe": {"s": 3.25, "cpu_s": 3.2},
        },
    }
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    text = " ".join(shown(report("123", rows=[make_row(json.dumps(record))])).split())
    probe = "MPI_Probe kept the CPU busy for 3.20 s: this MPI made no idle call there"
    assert probe in text and text.index(probe) < text.index("MPI_Win_fence kept")
    assert "1 rank was not woken by messages, and napped instead." in text
    assert "4 ranks use an MPI whose waits make no idle call that is known." in text


@pytest.mark.parametrize("policy,words", [
    ({"asked": "nap", "used": "nap", "by": "program"}, "nap, the site's policy for this program"),
    ({"asked": "nap", "used": "nap", "by": "program", "why": "other programs of the step have other policies"},
     "nap (other programs of the step have other policies), the site's policy for this program"),
])
def test_a_policy_by_program_is_named_as_such(report: Report, policy: dict[str, str], words: str) -> None:
    record = make_record()
    record["mpi_wait"]["policy"] = policy
    assert words in " ".join(shown(report("123", rows=[make_row(json.dumps(record))])).split())


def test_the_report_answers_the_questions(report: Report) -> None:
    text = shown(report("123", rows=[make_row(json.dumps(make_record()))]))
    assert re.match(r"Job 123  solver +COMPLETED after 00:00:25\n", text)
    assert "umwait became nap (no waitpkg), asked for by the job" in text
    assert "2 nodes, 4 CPUs, 4 MPI ranks" in text
    assert "4.50 kJ = 1.25 Wh, 180 W on average  simulated, not measured" in text
    assert "the job's share, by its part of the cores; whole nodes: 9.00 kJ" in text
    assert "the nodes' other 4.50 kJ: idle, or other jobs" in text
    zones = "zones of whole nodes: package 8.00 kJ (of it core 5.00 kJ) · dram 1.00 kJ"
    assert zones in " ".join(text.split())
    assert "29.0 s, 29 % of the ranks' time" in text
    assert "500 ms least · 7.25 s mean · 10.0 s most" in text
    assert "26.1 s (90 % of the waiting); long waits used 6.0 % of a CPU" in text
    assert "40 naps ended past the budget, by 50.0 µs on average" in text
    assert "rank 3 waits least: it computes longest" in text
    assert "Steps" not in text and "Mind" not in text
    assert "saved" not in text.lower() and "saving" not in text.lower()


def test_frequencies_are_reported(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["grant"] = {
        "mode": "lease",
        "cores": 3,
        "refused": {"tasks share the core": 1},
        "transitions": 12,
        "low_s": 20.0,
    }
    record["mpi_wait"]["wait"].update(transitions=12, low_s=20.3)
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "3 cores granted by lease" in text and "1 core not granted: tasks share the core" in text
    assert "20.3 s at low frequency (70 % of the waiting); 12 changes" in text


def test_what_other_threads_used_is_reported(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["threads_s"] = 58.0
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    row = make_row(json.dumps(record))
    said = " ".join(shown(report("123", rows=[row])).split())
    assert "58.0 s of other threads' CPU time meanwhile, 2 cores beside each rank that waited" in said
    assert "123,job,,threads_cpu,58.0,s" in shown(report("123", "--csv", rows=[row]))
    plain = [make_row(json.dumps(make_record()))]
    assert "Threads" not in shown(report("123", rows=plain))
    assert "threads" not in shown(report("123", "--csv", rows=plain))


def without_ranks(missed: dict[str, int], used: str = "nap") -> str:
    """The record of a job in which no rank was seen."""
    record = make_record()
    record["mpi_wait"].update(wait=None, steps=[], **({"missed": missed} if missed else {}))
    record["mpi_wait"]["policy"]["used"] = used
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    return json.dumps(record)


def test_why_no_rank_was_seen_is_said(report: Report) -> None:
    def said(missed: dict[str, int], used: str = "nap") -> str:
        return " ".join(shown(report("123", rows=[make_row(without_ranks(missed, used))])).split())

    assert "these are the usual reasons: LD_PRELOAD was set or emptied" in said({})
    assert "2 MPI ranks slept, but are not counted" in said({"lost": 2}) and "usual" not in said({"lost": 2})
    assert ", 3 MPI ranks that are not counted" in said({"lost": 2, "unreached": 1, "static": 1})
    assert "no MPI rank" in said({"static": 1}) and "no MPI rank" not in said({"lost": 1})
    assert "1 process ran MPI past the library" in said({"unreached": 1})
    assert "1 task ran a program that is linked statically" in said({"static": 1, "setuid": 3})
    assert "1 process, as a script, took the library out of LD_PRELOAD" in said({"replaced": 1})
    assert "3 tasks ran a setuid program" in said({"static": 1, "setuid": 3})
    assert "usual reasons" not in said({}, "off")


def test_ranks_that_are_missing_beside_others_are_told(report: Report) -> None:
    """Nothing is said there of tasks that need not be MPI programs."""
    record = make_record()
    record["mpi_wait"]["missed"] = {"lost": 1, "unreached": 2, "static": 4}
    text = " ".join(shown(report("123", rows=[make_row(json.dumps(record))])).split())
    assert "1 MPI rank slept, but is not counted" in text and "2 processes ran MPI past the library" in text
    assert "statically" not in text


def test_measured_energy_is_not_called_simulated(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["energy"].update(source="rapl", scope="node")
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "simulated" not in text and "whole nodes, the job had every core" in text


def test_energy_that_is_not_known_says_why(report: Report) -> None:
    record = make_record()
    record["mpi_wait"].update(energy=None, energy_why="no powercap zones")
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "not known: no powercap zones" in text and " J" not in text


def test_bars_are_aligned_and_in_proportion(report: Report) -> None:
    lines = section(
        shown(report("123", rows=[make_row(json.dumps(make_record()))])), "Waiting in MPI"
    )
    bars = [line for line in lines if re.match(r"  rank \d", line)]
    starts = {re.search("[█░]", line).start() for line in bars}  # type: ignore[union-attr]
    lengths = [len(re.findall("[█░▏▎▍▌▋▊▉]", line)) for line in bars]
    assert len(bars) == 4 and len(starts) == 1
    assert lengths[1] == max(lengths) and lengths[3] < lengths[0] / 10
    assert all("█" in line and "░" in line for line in bars[:3])


def test_calls_are_in_order_of_waiting_and_other_is_last(report: Report) -> None:
    lines = section(shown(report("123", rows=[make_row(json.dumps(make_record()))])), "Calls")
    assert [line.split()[0] for line in lines if line.strip()] == [
        "call",
        "MPI_Allreduce",
        "MPI_Barrier",
        "other",
    ]
    assert re.search(r"MPI_Allreduce +12000 +11000 +26\.0 s +90 % +12\.1 ms", "\n".join(lines))


PROFILE = {
    "MPI_Isend": {"calls": 40, "time_s": 0, "wait_s": 0, "bytes": 40960, "sizes": {"1024": 40}},
    "MPI_Allreduce": {
        "calls": 12000, "time_s": 40.0, "wait_s": 26.0, "bytes": 96000, "sizes": {"8": 11000, "1048576": 1000}
    },
    "other": {"calls": 1e19, "time_s": 1e-5, "wait_s": 0, "bytes": 1e20},
}


def test_a_profile_shows_times_bytes_and_sizes(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["profile"] = PROFILE
    text = shown(report("123", "--width", "100", rows=[make_row(json.dumps(record))]))
    lines = section(text, "Profile")
    assert [line.split()[0] for line in lines[2:5]] == ["MPI_Allreduce", "MPI_Isend", "other"]
    assert re.search(r"MPI_Allreduce +12000 +40\.0 s +65 % +96\.0 kB +8 B to 2 MiB", text)
    assert re.search(r"MPI_Isend +40 +41\.0 kB +1 to 2 KiB", text)
    assert re.search(r" 8 to 15 B +11000 calls +█+", text) and "1 to 2 MiB" in text
    narrow = shown(report("123", "--width", "60", rows=[make_row(json.dumps(record))]))
    assert max(len(line) for line in narrow.splitlines()) <= 60


def test_what_was_foreseen_what_it_cost_and_what_was_allowed(report: Report) -> None:
    record = make_record()
    forecast = {"naps": 900, "early": 50, "early_s": 0.005, "foreseen": 70, "unforeseen": 5, "allowed_s": 1.0}
    record["mpi_wait"]["wait"] |= {"naps": 1000, "late": 20, "late_s": 0.05, "forecast": forecast}
    text = shown(report("123", "--width", "120", rows=[make_row(json.dumps(record))]))
    assert re.search(r"Naps +900 naps by forecast, 100 by the ladder", text)
    text = text.replace("µ", "u")
    assert re.search(r"Early +ranks polled for 100 us on average after the last nap of 50 waits", text)
    assert re.search(r"Late +late by 50\.?0* ms in all, 0\.05 % of the run; 1 % was allowed; 20 naps ended after", text)
    assert "past the budget" not in text
    assert "job,,late_allowed,1.0,s" in report("123", "--csv", rows=[make_row(json.dumps(record))]).stdout
    record["mpi_wait"]["wait"]["forecast"] = forecast | {"early": -1}
    assert "damaged" in report("123", rows=[make_row(json.dumps(record))]).stderr


def test_phases_show_what_waited_in_them_and_who_most(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"] |= {"profile": PROFILE, "phases": {
        "other": {"time_s": 1, "waits": 9, "wait_s": 0.9},
        "none": {"time_s": 2, "waits": 0, "wait_s": 0},
        "4": {"time_s": 40, "waits": 70, "wait_s": 1.5, "max": {"rank": -1, "s": 1.5, "node": "c1"}},
        "3": {"time_s": 50, "waits": 7000, "wait_s": 25, "max": {"rank": 2, "s": 9, "node": "c2"}},
    }}
    rows = [make_row(json.dumps(record))]
    lines = section(shown(report("123", "--width", "100", rows=rows)), "Phases")
    assert [line.split()[0] for line in lines[1:5]] == ["3", "4", "other", "none"]
    assert re.search(r"3 +50\.0 s +7000 +25\.0 s +50 % +rank 2 on c2, 9\.00 s", lines[1])
    assert "a rank on c1" in lines[2]
    table = report("123", "--csv", rows=rows).stdout
    assert "phase,3,wait,25.0,s" in table and "phase,3,most_rank,2," in table and "phase,other,most," not in table


@pytest.mark.parametrize("spoilt", [
    {"3": {"time_s": -1, "waits": 1, "wait_s": 1}},
    {"3": {"time_s": 1, "waits": 1}},
    {"<b>": {"time_s": 1, "waits": 1, "wait_s": 1}},
    {str(phase): {"time_s": 1, "waits": 1, "wait_s": 1} for phase in range(3, 22)},
])
def test_spoilt_phases_are_refused(report: Report, spoilt: dict[str, object]) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["phases"] = spoilt
    assert "damaged" in report("123", rows=[make_row(json.dumps(record))]).stderr


SITES = [
    {"call": "other", "waits": 9, "wait_s": 0.9},
    {"module": "cfd", "offset": "0x1a2f4", "call": "MPI_Recv", "waits": 70, "wait_s": 1.5,
     "max": {"rank": -1, "s": 1.5, "node": "c1"}},
    {"module": "libhalo.so.2", "offset": "0x4d31", "build_id": "ab12", "call": "MPI_Waitall", "waits": 7000,
     "wait_s": 25, "max": {"rank": 2, "s": 9, "node": "c2"}},
]


def test_call_sites_show_where_the_waiting_comes_from(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["sites"] = SITES
    rows = [make_row(json.dumps(record))]
    lines = section(shown(report("123", "--width", "110", rows=rows)), "Call sites")
    assert [line.split()[0] for line in lines[1:4]] == ["libhalo.so.2+0x4d31", "cfd+0x1a2f4", "other"]
    assert re.search(r"MPI_Waitall +7000 +25\.0 s +\d+ % +rank 2 on c2, 9\.00 s", lines[1])
    assert "--exe FILE has functions and lines" in lines[4]
    table = report("123", "--csv", rows=rows).stdout
    assert "site,libhalo.so.2+0x4d31 MPI_Waitall,wait,25.0,s" in table and "site,other other,waits,9," in table


@pytest.mark.parametrize("spoilt", [
    {"module": "../x"}, {"module": "a\u001b"}, {"offset": "1"}, {"offset": -1}, {"build_id": "xy"}, {"call": "evil"},
    {"waits": -1}, {"wait_s": 1e300}, {"max": {"rank": -2, "s": 1, "node": "c1"}},
])
def test_spoilt_call_sites_are_refused(report: Report, spoilt: dict[str, object]) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["sites"] = [SITES[1] | spoilt]
    assert "damaged" in report("123", rows=[make_row(json.dumps(record))]).stderr


def test_a_profile_says_what_stayed_within_nodes(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"] |= {
        "profile": PROFILE,
        "point_to_point": {"within_nodes_bytes": 3e9, "between_nodes_bytes": 1e9},
    }
    rows = [make_row(json.dumps(record))]
    lines = section(shown(report("123", "--width", "100", rows=rows)), "Profile")
    assert re.search(r"Messages +4\.00 GB point to point by MPI_COMM_WORLD: 75 % within nodes", " ".join(lines))
    assert "profile,point_to_point,within_nodes,3000000000.0,B" in report("123", "--csv", rows=rows).stdout
    record["mpi_wait"]["wait"]["point_to_point"] = {"within_nodes_bytes": -1}
    assert "damaged" in report("123", rows=[make_row(json.dumps(record))]).stderr


@pytest.mark.parametrize("spoilt", [{"calls": -1}, {"sizes": {"x": 1}}, {"sizes": []}, {"bytes": "1"}])
def test_a_spoilt_profile_is_refused(report: Report, spoilt: dict[str, object]) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["profile"] = {"MPI_Isend": PROFILE["MPI_Isend"] | spoilt}
    assert "damaged" in report("123", rows=[make_row(json.dumps(record))]).stderr


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("ranks", [1, 4, 500])
def test_no_line_is_wider_than_the_width(report: Report, width: int, ranks: int) -> None:
    waits = [5.0 + rank % 7 for rank in range(ranks)]
    text = shown(
        report("123", "--width", str(width), rows=[make_row(json.dumps(make_record(waits)))])
    )
    assert max(len(line) for line in text.splitlines()) <= width


def test_many_ranks_are_the_extremes_and_a_distribution(report: Report) -> None:
    rows = [make_row(json.dumps(make_record([5.0 + rank % 7 / 10 for rank in range(500)] + [0.1])))]
    text = shown(report("123", rows=rows))
    bars = [line for line in text.splitlines() if re.match(r"  rank +\d", line)]
    assert len(bars) == 8 and "rank 500" in bars[-1]
    assert (
        "493 ranks between (--all-ranks shows them)" in text
        and "How many ranks wait how long:" in text
    )
    assert (
        len(re.findall(r"^  rank +\d", shown(report("123", "--all-ranks", rows=rows)), re.M)) == 501
    )


def test_quantiles_stand_in_for_ranks_that_did_not_fit(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"].update(
        per_rank_s=[], per_rank_asleep_s=[], quantiles_s=[i / 10 for i in range(101)]
    )
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert re.search(r"median +5\.00 s +█", text)
    assert re.findall(r"^  rank (\d+)", text, re.M) == ["1", "3"]
    assert "who waits least" in text and "2 ranks between, of whom the record has quantiles" in text


def two_steps() -> dict[str, Any]:
    record = make_record([1.0, 2.0, 3.0, 0.1])
    record["mpi_wait"]["steps"] = [
        {"id": "batch", "ranks": 0, "wait_s": 0, "elapsed_s": 25.0},
        {
            "id": "0",
            "policy": dict(POLICY),
            "ranks": 2,
            "wait_s": 3.0,
            "elapsed_s": 10.0,
            "joules": 1000.0,
        },
        {
            "id": "1",
            "policy": {"asked": "nap", "used": "nap", "by": "step"},
            "ranks": 2,
            "wait_s": 3.1,
            "elapsed_s": 10.0,
        },
    ]
    return record


def test_several_steps_get_a_table_and_ranks_their_step(report: Report) -> None:
    text = shown(report("123", rows=[make_row(json.dumps(two_steps()))]))
    assert "4 MPI ranks in 2 of 3 steps" in text and "Balance" not in text
    assert re.findall(r"^  rank (\S+)", text, re.M) == ["0.0", "0.1", "1.0", "1.1"]
    assert [line.split()[0] for line in section(text, "Steps") if line.strip()] == [
        "step",
        "batch",
        "0",
        "1",
    ]


def test_one_step_is_shown_alone(report: Report) -> None:
    rows = [make_row(json.dumps(two_steps()))]
    text = shown(report("123.1", rows=rows))
    assert text.startswith("Job 123, step 1") and "nap, asked for by the step" in text
    assert re.findall(r"^  rank (\S+)", text, re.M) == ["0", "1"]
    assert "not known for this step" in text and "1.00 kJ = 0.278 Wh, 100 W" in shown(
        report("123.0", rows=rows)
    )
    assert "no MPI rank" in shown(report("123.batch", rows=rows))
    assert report.asked()[:2] == ["-j", "123"]
    assert "the record of job 123 has no step 7 (it has: batch, 0, 1)" in refused(
        report("123.7", rows=rows)
    )


READINGS = [
    ([9.5, 10.0, 9.0, 0.5], "rank 3 waits least: it computes longest, the others wait for it"),
    ([10.0, 0.1], "rank 1 waits least: it computes longest, the other waits for it"),
    ([5.0, 5.1, 4.9, 5.0], "the ranks wait about alike"),
    ([9.0, 9.0, 9.0, 0.1, 0.2], "rank 3 and 1 other wait least"),
    ([0.1, 0.1, 0.1, 9.0], "rank 3 alone waits: it is done before"),
    ([3.0], "a single rank"),
    ([0.0, 0.0], "no rank waited"),
]


@pytest.mark.parametrize("waits,reading", READINGS, ids=[reading for _, reading in READINGS])
def test_the_reading_of_the_balance(report: Report, waits: list[float], reading: str) -> None:
    text = shown(report("123", "--width", "200", rows=[make_row(json.dumps(make_record(waits)))]))
    assert reading in text


@pytest.mark.parametrize(("nodes", "zones", "words"), [
    (1, ("package", "dram"), "the node's processors and memory, the job had every core; GPUs not counted"),
    (1, ("package",), "the node's processors, the job had every core; GPUs not counted"),
    (2, ("package",), "the nodes' processors, the job had every core; GPUs not counted"),
])
def test_gpus_that_were_not_counted_are_named(
    report: Report, nodes: int, zones: tuple[str, ...], words: str
) -> None:
    """In the report, the page, the table, the comparison and one line of a job."""
    record = make_record()
    body = record["mpi_wait"]
    body["nodes"] = {"reported": nodes, "of": nodes}
    body["energy"] = {"joules": 100.0, "scope": "node", "source": "rapl", "zones_j": dict.fromkeys(zones, 50.0),
                      "not_counted": ["gpus"]}
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    rows = [make_row(json.dumps(record))]
    text = shown(report("123", "--width", "200", rows=rows))
    assert words in text and "whole node" not in text
    assert "GPUs not counted" in shown(report("--brief", "123", "--width", "200", rows=rows))
    assert "job,,energy_not_counted,gpus," in report("123", "--csv", rows=rows).stdout


ONE_GPU = {"given": 1, "counted": 1, "present": 1, "source": "nvml", "devices": [
    {"node": "c1", "number": 0, "name": "NVIDIA H100", "joules": 5000.0}]}
TWO_GPUS = {"given": 2, "counted": 1, "present": 4, "source": "simulated", "why": "a GPU is split between jobs"}
NO_GPU = {"given": 2, "counted": 0, "present": 4, "source": "nvml", "why": "a meter's driver hangs or crashed"}
HOST = {"joules": 100.0, "scope": "node", "source": "rapl", "zones_j": {"package": 100.0}}
ALONE = {"joules": 5000.0, "scope": "gpus", "source": "nvml", "zones_j": {}}


@pytest.mark.parametrize(("energy", "said"), [
    (HOST | {"gpu_joules": 5000.0, "gpus": ONE_GPU}, [
        "the node's processors, the job had every core",
        "GPUs 5.00 kJ = 1.39 Wh, ", "the one that Slurm gave the job (NVIDIA H100), by their own counters"]),
    (HOST | {"gpu_joules": 5000.0, "gpus": TWO_GPUS, "not_counted": ["gpus"]}, [
        "the node's processors, the job had every core; 1 of 2 GPUs counted", "simulated, not measured",
        "1 of 2 that Slurm gave the job, by their own counters; a GPU is split between jobs"]),
    (HOST | {"gpus": NO_GPU, "not_counted": ["gpus"]}, [
        "the node's processors, the job had every core; GPUs not counted",
        "GPUs not counted: a meter's driver hangs or crashed"]),
    (ALONE | {"gpu_joules": 5000.0, "gpus": ONE_GPU}, [
        "Energy 5.00 kJ = 1.39 Wh", "the job's GPUs alone: its nodes have no other counters",
        "GPUs the one that Slurm gave the job (NVIDIA H100)"]),
], ids=["all", "some", "none", "nothing else"])
def test_gpus_are_told_beside_the_nodes_parts(report: Report, energy: dict[str, Any], said: list[str]) -> None:
    record = make_record()
    record["mpi_wait"]["energy"] = energy
    record["mpi_wait"]["nodes"] = {"reported": 1, "of": 1}
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    rows = [make_row(json.dumps(record))]
    text = shown(report("123", "--width", "200", rows=rows))
    for words in said:
        assert words in " ".join(text.split())
    assert "whole node" not in text
    table = report("123", "--csv", rows=rows).stdout
    assert ("job,,gpu_energy,5000.0,J" in table) == ("gpu_joules" in energy)
    assert ("gpu,c1/0,energy,5000.0,J" in table) == ("devices" in energy["gpus"])
    assert f"job,,gpus_counted,{energy['gpus']['counted']}," in table


def test_other_sources_are_told_beside(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["meters"] = [
        {"source": "cray", "scope": "node", "joules": 9000.0, "nodes": 2},
        {"source": "cray", "scope": "memory", "joules": 1000.0, "nodes": 2}]
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    rows = [make_row(json.dumps(record))]
    text = " ".join(shown(report("123", "--width", "200", rows=rows)).split())
    assert "by other counters of the nodes, cray: whole boards 9.00 kJ, memory 1.00 kJ" in text
    assert "meter,cray/node,energy,9000.0,J" in report("123", "--csv", rows=rows).stdout


def test_what_limits_the_figures_is_said(report: Report) -> None:
    record = make_record()
    body = record["mpi_wait"]
    body["nodes"].update(reported=2, of=3, why="spool not shared")
    lost = {"node": "c2", "zone": "package-1/dram", "why": "vanished"}
    body["energy"].update(gaps=2, nodes=1, mirrored=3, dropped=[lost])
    body["wait"]["unseen"] = 7
    body["throttle"] = {
        "core_throttle": 3,
        "package_throttle": 1,
        "core_power_limit": 0,
        "package_power_limit": 2,
        "most": "c2",
    }
    body["steps_left_out"] = 4
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    text = shown(report("123", "--width", "200", rows=[make_row("", Extra=json.dumps(record))]))
    for words in (
        "2 of 3 nodes reported (spool not shared)",
        "too low: in 2 intervals",
        "from 1 of 2 nodes",
        "counters were lost (package-1/dram of c2 vanished)",
        "3 dies showed the counter of another die of the same package",
        "slowed down: 4 times by heat, 2 by a power limit, most on c2",
        "7 ranks",
        "4 steps had no room",
        "Extra, which the job's owner can change",
    ):
        assert words in text


SAVED = {"percent": 9.12, "error": 0.58, "looks": 412, "look_w": 234.0, "beside_w": 212.0}


def with_saving(**changes: Any) -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"]["energy"] |= {"saved": {**SAVED, **changes}, "source": "rapl"}
    record["mpi_wait"]["wait"]["cost"] = {"percent": 0.31, "error": 0.1, "windows": 400, "seconds": 90}
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    return record


POWER = "212 W instead of 234 W while periods took 0.3 % longer"


@pytest.mark.parametrize(("changes", "said"), [
    ({}, f"9.1 % ± 0.6 of the energy of a period: {POWER} (412 looks)"),
    ({"at_least": True, "nodes": 1}, f"at least 9.1 % ± 0.6 of the energy of a period: {POWER} (412 looks, 1 of"),
    ({"percent": 0.4, "error": 0.9}, "no saving is seen: 0.4 % ± 0.9 of the energy of a period (412 looks)"),
    ({"percent": -2.5}, f"nothing: −2.5 % ± 0.6 of the energy of a period, {POWER} (412 looks)"),
])
def test_what_sleeping_saved(report: Report, changes: dict[str, Any], said: str) -> None:
    rows = [make_row(json.dumps(with_saving(**changes)))]
    text = " ".join(shown(report("123", "--width", "98", rows=rows)).split())
    assert f"Saved {said}" in text and "simulated" not in text
    table = shown(report("123", "--csv", rows=rows))
    assert f",job,,saved,{changes.get('percent', 9.12):g},%" in table
    assert f",job,,saved_error,{changes.get('error', 0.58)},%" in table and ",job,,saved_looks,412," in table


def test_what_was_saved_by_simulation_says_so(report: Report, tmp_path: pathlib.Path) -> None:
    record = with_saving()
    record["mpi_wait"]["energy"]["source"] = "simulated"
    rows = [make_row(json.dumps(record))]
    text = " ".join(shown(report("123", "--width", "98", rows=rows)).split())
    assert "(412 looks); simulated, not measured" in text
    page = tmp_path / "page.html"
    report("123", "--html", str(page), rows=rows)
    assert "(412 looks); simulated, not measured" in page.read_text()


def test_saving_beside_gpus_is_of_the_rest(report: Report) -> None:
    record = with_saving()
    record["mpi_wait"]["energy"]["not_counted"] = ["gpus"]
    text = " ".join(shown(report("123", "--width", "98", rows=[make_row(json.dumps(record))])).split())
    assert "Saved 9.1 % ± 0.6 of the energy of a period without GPUs: 212 W" in text and "whole node" not in text


@pytest.mark.parametrize("why", ["too few looks", "shared with other jobs", "counters too coarse", "\x1b[31mred"])
def test_where_no_saving_is_known_the_reason_is_said(report: Report, tmp_path: pathlib.Path, why: str) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["saved_why"] = why
    rows = [make_row(json.dumps(record))]
    said = f"not known: {why}".replace("\x1b", "\\x1b")
    assert f"  Saved    {said}\n" in shown(report("123", rows=rows))
    page = tmp_path / "page.html"
    report("123", "--html", str(page), rows=rows)
    assert f"<dt>Saved</dt><dd>{said}</dd>" in page.read_text()


def test_nothing_is_said_of_a_saving_without_looks_or_with_nodes_missing(report: Report) -> None:
    record = make_record()
    assert "Saved" not in shown(report("123", rows=[make_row(json.dumps(record))]))
    record["mpi_wait"]["energy"]["saved_why"] = "too few looks"
    record["mpi_wait"]["nodes"] = {"reported": 1, "of": 2, "why": "nodes missing"}
    assert "Saved" not in shown(report("123", rows=[make_row(json.dumps(record))]))


@pytest.mark.parametrize("changes", [{"percent": 101}, {"error": -1}, {"looks": 0}, {"looks": 1.5}, {"look_w": -1},
                                     {"beside_w": "x"}, {"nodes": -1}])
def test_damaged_savings_are_refused(report: Report, changes: dict[str, Any]) -> None:
    record = make_record()
    record["mpi_wait"]["energy"]["saved"] = {**SAVED, **changes}
    done = report("123", rows=[make_row(json.dumps(record))])
    assert done.returncode != 0 and "damaged" in done.stderr


def test_comparisons_say_what_was_saved_where_that_is_seen(report: Report) -> None:
    def compared(changes: dict[str, Any]) -> str:
        jobs = [make_row(json.dumps(with_saving(**one)), JobID=job, JobIDRaw=job)
                for job, one in (("123", {}), ("124", changes))]
        return shown(report("123", "124", "--width", "120", rows=jobs))
    assert re.search(r"sleeping saves +9\.1 % +4\.0 %", compared({"percent": 4.0}))
    assert re.search(r"sleeping saves +9\.1 % +–", compared({"percent": 0.2}))
