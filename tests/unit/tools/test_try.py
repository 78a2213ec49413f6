"""mpi-wait try, with an srun and a sacct that are doubles. tests/cluster/test_try_cluster.py has it in Slurm."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from mpi_wait_tools.site.host import own_command
from mpi_wait_tools.trial import run as runs_of

from tests.lib.doubles.report_double import (
    COMMAND,
    FAKE_SACCT,
    FIELDS,
    Report,
    make_record,
    make_row,
    refused,
)
from tests.lib.pages import checked
from tests.lib.waiting import wait_for

# What runs under a policy can be told by a file "srun.POLICY", which is sourced.
SRUN = """#!/bin/sh
policy=none
for word; do case $word in --mpi-wait-policy=*) policy=${word#*=} ;; esac; done
echo "$policy" >>"$0.ran"
ran=$(wc -l <"$0.ran")
[ ! -e "$0.$policy" ] || . "$0.$policy"
echo "Performance: 1$ran.5 ns/day"
"""
SACCT = """#!/bin/sh
case " $* " in *" -X "* | *" --helpformat "*) exec "$0.jobs" "$@" ;; esac
[ ! -e "$0.fails" ] || exit 1
number=0
while read -r policy; do
    case $policy in nap*) cpu=00:04.1$((number % 10)) ;; *) cpu=00:08.$((number % 10))1 ;; esac
    echo "4711.$number|COMPLETED|$cpu|0"
    number=$((number + 1))
done <"${0%sacct}srun.ran"
echo "4711.batch|RUNNING|00:00.1|0"
"""
HELPER = """#!/usr/bin/python3
import json, pathlib, sys
folder = pathlib.Path(sys.argv[0]).parent
ran = sum(4 if word.startswith("nap") else 5 for word in (folder / "srun.ran").read_text().split())
def grown(value, key=""):
    if isinstance(value, dict):
        return {name: grown(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [grown(one, "energy_uj" if place == 5 and len(value) == 7 else "") for place, one in enumerate(value)]
    return value * ran // 5 if key == "energy_uj" else value
print(json.dumps(grown(json.loads((folder / sys.argv[1]).read_text()))))
"""
LONG = "sleep 1.1\n"  # GPUs and boards bring their counters up to date some ten times a second
PROGRAM = ("--", "srun", "-n4", "./app")


class Try(Report):
    command = "try"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        shutil.copy(FAKE_SACCT, folder / "sacct.jobs")
        for name, text in {"srun": SRUN, "sacct": SACCT}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "srun.ran").touch()
        self.meters({"why": "", "meters": []})
        self.state = folder / "state.json"

    def __call__(self, *argv: str, job: str = "4711", **options: Any) -> subprocess.CompletedProcess[str]:
        words = ["--state", str(self.state), *argv]
        settings = {"SLURM_JOB_ID": job, "LD_PRELOAD": "", **options.pop("settings", {})}
        return super().__call__(*words, settings=settings, **options)

    def meters(self, answer: dict[str, Any], energy: dict[str, Any] | None = None) -> None:
        """What mpi-wait-node reads. A figure in it is that of a run without a policy; a run under nap uses four fifths
        of it."""
        (self.folder / "meters").write_text(json.dumps(answer))
        (self.folder / "probe").write_text(json.dumps({"energy": energy or {"source": "rapl", "gpus": False,
                                                                            "zones": []}}))
        (self.folder / "mpi-wait-node").write_text(HELPER)
        (self.folder / "mpi-wait-node").chmod(0o755)

    def ran(self) -> list[str]:
        return (self.folder / "srun.ran").read_text().split()

    def under(self, policy: str, text: str) -> None:
        (self.folder / f"srun.{policy}").write_text(text)


@pytest.fixture
def trial(tmp_path: pathlib.Path) -> Try:
    return Try(tmp_path)


def text_of(done: subprocess.CompletedProcess[str], status: int = 0) -> str:
    """The answer with its lines joined; progress is on standard error."""
    assert done.returncode == status and "Traceback" not in done.stderr, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_each_round_has_each_policy_once(trial: Try) -> None:
    """A first run is thrown away; the option is srun's; CPU time is that of the steps."""
    done = trial("--rounds", "3", "--policies", "nap,slowdown=2,event", "--json", *PROGRAM)
    answer = json.loads(done.stdout)
    ran = trial.ran()
    assert len(ran) == 1 + 3 * 3 and ran[0] == "off"
    rounds = [ran[start : start + 3] for start in (1, 4, 7)]
    assert all(sorted(one) == ["event", "nap,slowdown=2", "off"] for one in rounds)
    assert answer["rounds"] == 3 and answer["ended"] == "3 rounds"
    assert answer["off"]["cpu"] == pytest.approx(8, rel=0.15)
    nap, event = answer["policies"]
    assert nap["policy"] == "nap,slowdown=2" and nap["measures"]["cpu"]["ratio"] == pytest.approx(0.5, rel=0.15)
    assert nap["measures"]["cpu"]["high"] < 0.8
    assert event["measures"]["cpu"]["ratio"] == pytest.approx(1, rel=0.15)
    assert "energy" not in nap["measures"] and answer["energy"] is None
    assert "first run, thrown away" in done.stderr and "round 3 of 3: event" in done.stderr
    kept = json.loads(trial.state.read_text())
    assert kept["command"] == list(PROGRAM[1:]) and len(kept["runs"]) == 10
    assert kept["runs"][0]["round"] == 0 and kept["runs"][1]["steps"] == ["1"] and kept["runs"][1]["job"] == "4711"


@pytest.mark.parametrize("rounds,ran,words", [
    ("0", 0, "nap: 0 rounds, and an interval needs two: nothing is said of it."),
    ("1", 3, "nap: 1 round, and an interval needs two: nothing is said of it."),
    ("2", 5, "2 rounds"),
])
def test_none_one_and_two_rounds(trial: Try, rounds: str, ran: int, words: str) -> None:
    """Two give an interval, as wide as it is: what it says of the policy is the machine's business."""
    text = text_of(trial("--rounds", rounds, *PROGRAM))
    assert len(trial.ran()) == ran
    assert words in text
    assert bool(re.search(r"nap +[+−]?[\d.]+ % \([+−]?[\d.]+ … [+−]?[\d.]+\)", text)) == (rounds == "2"), text


def test_a_program_that_fails(trial: Try) -> None:
    trial.under("off", "echo the input file is missing; echo srun: error: c1: task 0: Exited >&2; exit 3\n")
    said = trial(*PROGRAM)
    assert said.returncode == 1 and said.stdout == ""
    assert said.stderr.endswith("mpi-wait: the program ends with exit status 3 without a policy: the input file is "
                                "missing: nothing was measured\n")
    assert trial.ran() == ["off"] and not trial.state.exists()
    assert "'no-such-program' cannot be run: No such file" in refused(trial("--", "no-such-program"))


def test_a_program_that_ends_differently_under_a_policy(trial: Try) -> None:
    """That policy runs no more; the others do."""
    trial.under("event", "echo Bus error >&2; kill -BUS $$\n")
    text = text_of(trial("--rounds", "2", "--policies", "event,nap", *PROGRAM))
    assert ("event: the program ended with signal SIGBUS in round 1, and with exit status 0 without a policy: not "
            "judged, and not run again.") in text
    assert "! Under event it ended with signal SIGBUS: Bus error." in text
    assert trial.ran().count("event") == 1 and trial.ran().count("nap") == 2


def test_a_program_that_fails_now_and_then(trial: Try) -> None:
    trial.under("off", '[ "$ran" -lt 3 ] || exit 4\n')
    text = text_of(trial("--rounds", "5", *PROGRAM))
    assert "the program ended badly without a policy too, more than once" in text


def test_interrupted_it_shows_what_it_has_and_goes_on_later(trial: Try) -> None:
    """Ctrl-C ends the program; the round that it was in does not count."""
    trial.under("off", '[ "$ran" -lt 8 ] || [ -e "$0.go" ] || { echo $$ >"$0.pid"; sleep 600; }\n')
    environment = {**os.environ, "PATH": f"{trial.folder}:/usr/bin:/bin", "SLURM_JOB_ID": "4711", "LC_ALL": "C.UTF-8",
                   "FAKE_SACCT": str(trial.canned), "COLUMNS": "200"}
    trial.canned.write_text(json.dumps({"rows": [], "latest": 1, "stderr": "", "status": 0}))
    (trial.folder / "canned.json.helpformat").write_text(" ".join(FIELDS))
    words = [str(COMMAND), "try", "--state", str(trial.state), "--rounds", "6", *PROGRAM]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = trial.folder / "srun.pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip(), "the run that lasts", 60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    done = int(re.search(r"interrupted after (\d) rounds", out)[1])  # type: ignore[index]
    assert done in (3, 4) and "the same command goes on from there" in out and "CPU time" in out
    assert not pathlib.Path(f"/proc/{pid.read_text().strip()}").exists()
    (trial.folder / "srun.go").touch()
    before = len(trial.ran())
    answer = json.loads(trial("--rounds", "6", "--json", *PROGRAM).stdout)
    assert answer["rounds"] == 6 and len(trial.ran()) == before + 1 + 2 * (6 - done)


def test_it_resumes_and_adds_rounds(trial: Try) -> None:
    text_of(trial("--rounds", "2", *PROGRAM))
    ran = len(trial.ran())
    assert "2 rounds" in text_of(trial("--rounds", "2", *PROGRAM)) and len(trial.ran()) == ran
    assert json.loads(trial("--rounds", "3", "--json", *PROGRAM).stdout)["rounds"] == 3
    assert json.loads(trial("--show", "--json").stdout)["rounds"] == 3
    said = refused(trial("--policies", "event", *PROGRAM))
    assert "has an experiment of 'srun -n4 ./app' under nap: --new forgets it, --state FILE keeps another" in said
    assert json.loads(trial("--new", "--rounds", "0", "--json", "--policies", "event", *PROGRAM).stdout)["rounds"] == 0
    assert "there is no experiment here" in refused(trial("--state", str(trial.folder / "none"), "--show"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mpi_wait_try": 1}', '{"mpi_wait_try": 9}'])
def test_a_state_that_is_none(trial: Try, text: str) -> None:
    trial.state.write_text(text)
    assert "--new begins anew" in refused(trial("--show"))
    assert "0 rounds" in text_of(trial("--new", "--rounds", "0", *PROGRAM))


def test_one_at_a_time(trial: Try) -> None:
    """Another one's runs are not overwritten."""
    trial.under("nap", f"echo '{{}}' >{trial.state}\n")
    assert "another mpi-wait try writes" in trial("--rounds", "2", *PROGRAM).stderr


def test_a_state_that_cannot_be_written(trial: Try, tmp_path: pathlib.Path) -> None:
    said = trial("--rounds", "1", "--state", str(tmp_path / "no/state"), *PROGRAM).stderr
    assert "cannot be written: No such file" in said


def record_of(runs: list[dict[str, Any]], energy: dict[str, Any] | None) -> str:
    """A record of the job, of whose steps those under nap used a fifth less."""
    record = make_record()
    body = record["mpi_wait"]
    body["steps"] = [
        {"id": run["steps"][0], "ranks": 4, "wait_s": 1.0, "nodes": 2, "elapsed_s": 1.0,
         "policy": {"asked": run["policy"], "used": run["policy"].replace("event", "nap"), "why": "", "by": "step"},
         **({"joules": (800.0 if run["policy"] == "nap" else 1000.0) + run["round"]} if energy else {})}
        for run in runs if "steps" in run
    ]
    body["energy"] = {**body["energy"], **energy} if energy else None
    if not energy:
        body["energy_why"] = "no powercap zones"
    return json.dumps(record)


def shown_with(trial: Try, energy: dict[str, Any] | None, policies: str = "nap", **row: str) -> str:
    text_of(trial("--rounds", "3", "--policies", policies, *PROGRAM, rows=[make_row(JobID="4711", State="RUNNING")]))
    runs = json.loads(trial.state.read_text())["runs"]
    text = record_of(runs, energy) if row.get("State") not in ("RUNNING", "PENDING") else ""
    return text_of(trial("--show", "--width", "120", rows=[make_row(text, JobID="4711", JobIDRaw="4711", **row)]))


def test_energy_is_that_of_the_record(trial: Try) -> None:
    """Once it is there; after that it stands in the state."""
    text = shown_with(trial, {"source": "rapl"})
    assert "nap: energy −20 % (−20 … −20), " in text and "simulated" not in text and "Energy is not known" not in text
    again = text_of(trial("--show", "--width", "120", rows=[]))
    assert "energy −20 %" in again


def test_energy_without_gpus_is_called_so(trial: Try) -> None:
    """The record's processors and memory, on nodes whose GPUs count for the job as a whole alone, or not at all."""
    gpus = {"given": 2, "counted": 2, "present": 2, "source": "nvml", "why": ""}
    meter = {"source": "cray", "scope": "node", "joules": 9000.0, "nodes": 2}
    text = shown_with(trial, {"source": "rapl", "gpu_joules": 5200.0, "gpus": gpus, "meters": [meter]})
    assert "nap: energy without GPUs −20 % (−20 … −20), " in text and "whole node" not in text
    assert ("Energy is that of processors and memory, as the job's record has it; GPUs not counted." in text
            and "Job 4711 as a whole used, by other counters, its GPUs 5.20 kJ; cray: whole boards 9.00 kJ." in text)


def test_energy_by_hwmon_is_measured(trial: Try) -> None:
    text = shown_with(trial, {"source": "hwmon"})
    assert "nap: energy −20 %" in text and "simulated" not in text


BOARD = ["cray", "node", 0, False, "", 300_000_000, 1]
GPUS = [["nvml", "gpu", number, False, "NVIDIA H100", 100_000_000, 1] for number in (0, 1)]
ZONES = [{"name": name, "kind": kind, "energy_uj": 50_000_000, "range_uj": 2**40, "power_max_uw": 0, "mirror": mirror}
         for name, kind, mirror in (("package-0", "package", False), ("core", "core", False), ("dram", "dram", False),
                                    ("package-0-die-1", "package", True))]


@pytest.mark.parametrize("meters,zones,name,joules", [
    ([BOARD, *GPUS], ZONES, "energy of the node", 300),
    (GPUS, ZONES, "energy with GPUs", 200),
    (GPUS, [], "energy of GPUs", 100),
    ([], ZONES, "energy without GPUs", 100),
])
def test_energy_is_of_the_counters_that_can_be_read(trial: Try, meters: list[list[Any]], zones: list[dict[str, Any]],
                                                    name: str, joules: float) -> None:
    """Around each run, on one node; of the GPUs those that Slurm gave the job."""
    trial.meters({"why": "", "meters": meters}, {"source": "rapl", "gpus": True, "zones": zones})
    for policy in ("off", "nap"):
        trial.under(policy, LONG)
    done = trial("--rounds", "1", "--json", *PROGRAM, settings={"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_GPUS": "1"})
    answer = json.loads(done.stdout)
    assert answer["energy"] == name and answer["energy_is_measured"] and answer["off"]["energy"] == joules
    assert answer["policies"][0]["measures"]["energy"]["ratio"] == pytest.approx(0.8)
    assert ("GPUs not counted" in answer["energy_scope"]) == (name == "energy without GPUs")
    assert f"Energy is {answer['energy_scope']}." in text_of(trial("--show", "--width", "120", rows=[]))


@pytest.mark.parametrize(("row", "joules", "shards"), [
    ([*GPUS[0], 1], 0, {}), ([*GPUS[1], 0], 0, {}), (GPUS[0], 0, {}), (GPUS[1], 100, {}),
    ([*GPUS[1][:3], True, *GPUS[1][4:]], 0, {}), (GPUS[1], 0, {"SLURM_SHARDS_ON_NODE": "2"})])
def test_a_gpu_is_the_jobs_by_either_order_of_slurms_list(
    trial: Try, row: list[Any], joules: float, shards: dict[str, str]
) -> None:
    """Which order it has, the bus's or the files', is not told: a GPU of another job is not counted."""
    trial.meters({"why": "", "meters": [row]}, {"source": "rapl", "gpus": True, "zones": []})
    trial.under("off", LONG)
    settings = {"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_GPUS": "1", **shards}
    done = trial("--rounds", "1", "--json", *PROGRAM, settings=settings)
    assert (json.loads(done.stdout)["off"].get("energy") or 0) == joules


def test_one_nodes_counters_say_nothing_of_two(trial: Try) -> None:
    trial.meters({"why": "", "meters": [BOARD]})
    trial.under("off", LONG)
    done = trial("--rounds", "1", "--json", *PROGRAM, settings={"SLURM_JOB_NUM_NODES": "2"})
    assert json.loads(done.stdout)["energy"] is None


@pytest.mark.parametrize("settings,is_known", [({}, False), ({"SLURMD_NODENAME": "c1"}, True),
                                               ({"SLURM_JOB_NODELIST": socket.gethostname().split(".")[0]}, True)])
def test_another_hosts_counters_say_nothing_of_the_jobs(trial: Try, settings: dict[str, str], is_known: bool) -> None:
    """salloc runs its command where it was called, on a login node as a rule."""
    trial.meters({"why": "", "meters": [BOARD]})
    for policy in ("off", "nap"):
        trial.under(policy, LONG)
    done = trial("--rounds", "1", "--json", *PROGRAM,
                 settings={"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "c1", **settings})
    assert json.loads(done.stdout)["energy"] == ("energy of the node" if is_known else None)


@pytest.mark.parametrize("helper", ["echo no; exit 1", "echo '[]'", "echo '{}'"])
def test_a_reader_that_fails_is_not_asked_again(trial: Try, helper: str) -> None:
    asked = trial.folder / "asked"
    (trial.folder / "mpi-wait-node").write_text(f"#!/bin/sh\necho >>{asked}\n{helper}\n")
    done = trial("--rounds", "1", "--json", *PROGRAM)
    assert json.loads(done.stdout)["energy"] is None and asked.read_text() == "\n"


def test_energy_of_a_simulated_node_is_called_so(trial: Try) -> None:
    text = shown_with(trial, {"source": "simulated"})
    assert "energy (simulated)" in text and "nap: CPU time −" in text
    assert "Energy is of simulated nodes, not measured: CPU time decides here, and says nothing of joules." in text


def test_no_rapl(trial: Try) -> None:
    text = shown_with(trial, None)
    assert "Energy is not known: no powercap zones on the nodes of job 4711." in text and "nap: CPU time −" in text


def test_a_record_without_the_runs_under_off(trial: Try) -> None:
    """As that of a job without a policy of its own is."""
    text_of(trial("--rounds", "2", *PROGRAM))
    runs = [run for run in json.loads(trial.state.read_text())["runs"] if run["policy"] == "nap"]
    text = record_of(runs, {"source": "rapl"})
    said = text_of(trial("--show", "--width", "120", rows=[make_row(text, JobID="4711", JobIDRaw="4711")]))
    assert "Energy is not known of the runs without a policy" in said and "nap: energy" not in said


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_run_that_srun_refuses_takes_no_figure_from_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no step: a policy that is mistyped, for example."""
    listed: dict[str, runs_of.StepUse] = {}
    monkeypatch.setattr(runs_of, "time", Clock())
    monkeypatch.setattr(runs_of, "read_steps", lambda job: dict(listed))
    steps = runs_of.Steps("4711", by_srun=True)
    for number, (has_failed, makes_step) in enumerate([(False, True), (True, False), (False, True), (True, True)]):
        if makes_step:
            listed[str(number)] = runs_of.StepUse(True, 1.0, None)
        assert list(steps.new(has_failed)) == [str(number)] * makes_step and not steps.problem
    assert not steps.new(False) and "did not tell of a step" in steps.problem


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_job_that_runs_on_has_no_energy_yet(trial: Try, state: str) -> None:
    """A job that began a moment ago is PENDING in sacct."""
    text = shown_with(trial, None, State=state)
    assert "Energy is not known: job" not in text
    assert "Energy is in the job's record, which is written some seconds after its end: 'mpi-wait try --show'" in text


def test_a_policy_that_the_nodes_do_not_have(trial: Try) -> None:
    assert "event became nap on these nodes: that is what was measured." in shown_with(trial, {}, "event")


def test_the_programs_own_figure(trial: Try) -> None:
    figure = ("--figure", r"Performance: ([\d.]+) ns/day", "--more-is-better")
    answer = json.loads(trial("--rounds", "2", "--json", *figure, *PROGRAM).stdout)
    assert 10 < answer["off"]["figure"] < 20 and "figure" in answer["policies"][0]["measures"]
    text = text_of(trial("--new", "--rounds", "2", "--figure", r"GFLOPS: (\d+)", *PROGRAM))
    assert "The figure was found in 0 of 4 runs." in text


def test_a_sacct_that_does_not_tell(trial: Try) -> None:
    """Without CPU time there is the time; asked in vain once, it is not asked again."""
    (trial.folder / "sacct.fails").touch()
    text = text_of(trial("--rounds", "2", *PROGRAM))
    assert "Sacct failed: CPU time is not known from there on." in text and "nap: " in text


def test_a_budget(trial: Try) -> None:
    trial.under("off", "sleep 0.1\n")
    answer = json.loads(trial("--budget", "1", "--rounds", "1", "--json", *PROGRAM).stdout)
    assert answer["rounds"] == 1
    kept = json.loads(trial.state.read_text())
    for run in kept["runs"]:
        run["wall_s"] = 100.0
    trial.state.write_text(json.dumps(kept))
    text = text_of(trial("--budget", "1", "--rounds", "9", *PROGRAM))
    assert "the budget is spent after 1 round: another takes" in text


def test_ranks_that_slurm_does_not_start(trial: Try) -> None:
    """The library and the policy go by the environment; an outer policy's are taken out."""
    (trial.folder / "mpirun").write_text(f"#!/bin/sh\nenv >>{trial.folder}/seen\necho -- >>{trial.folder}/seen\n")
    (trial.folder / "mpirun").chmod(0o755)
    outer = {"LD_PRELOAD": "", "MPI_WAIT_CONFIG": "outer", "MPI_WAIT_SEGMENT": "9"}
    program = ("--", str(trial.folder / "mpirun"), "-n", "4", "./app")
    text = text_of(trial("--rounds", "1", *program, job="", settings=outer))
    assert "1 round" in text
    blocks = (trial.folder / "seen").read_text().split("--\n")[1:3]
    bare, nap = sorted(blocks, key=lambda block: "LD_PRELOAD" in block)
    assert "MPI_WAIT_POLICY=off" in bare and "MPI_WAIT_CONFIG" not in bare and "LD_PRELOAD" not in bare
    assert re.search(r"^LD_PRELOAD=\S+/libmpiwait.so$", nap, re.M) and "MPI_WAIT_POLICY=nap" in nap
    assert "MPI_WAIT_CONFIG=v=1;rungs=pause+nap;spin_ns=20000;" in nap and "MPI_WAIT_SEGMENT" not in bare + nap


@pytest.mark.parametrize("policy,words", [("profile", "'profile' is no policy that sleeps, or Slurm chooses one"),
                                          ("nop", "there is no policy 'nop'"),
                                          ("nap,slowdown=2", "'nap,slowdown=2' has keys, which only srun serves")])
def test_what_mpirun_cannot_have_is_refused_before_the_first_run(trial: Try, policy: str, words: str) -> None:
    (trial.folder / "mpirun").write_text(f"#!/bin/sh\n: >{trial.folder}/ran\n")
    (trial.folder / "mpirun").chmod(0o755)
    program = ("--", str(trial.folder / "mpirun"), "-n", "4", "./app")
    assert words in refused(trial("--rounds", "1", "--policies", policy, *program, job=""))
    assert not (trial.folder / "ran").exists()


def test_as_a_batch_job(trial: Try) -> None:
    sbatch = trial.folder / "sbatch"
    sbatch.write_text(f'#!/bin/sh\necho "$*" >{trial.folder}/asked\ncat >>{trial.folder}/asked\necho "77;cluster"\n')
    sbatch.chmod(0o755)
    text = text_of(trial("--sbatch", "-N2 -t 60", "--rounds", "3", "--policies", "nap,event", "--", "srun", "./a b"))
    assert text.startswith("job 77: 'mpi-wait try --show' here")
    options, _, script = (trial.folder / "asked").read_text().partition("\n")
    assert options.startswith("--parsable --job-name=mpi-wait-try --output=")
    assert options.endswith(" --mpi-wait-policy=profile -N2 -t 60")
    words = f"try --state {trial.state} --rounds 3 --policies nap,event -- srun './a b'"
    assert script == f"#!/bin/sh\nexec {COMMAND} {words}\n"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: no such partition' >&2; exit 1\n")
    assert "sbatch refused: sbatch: error: no such partition" in refused(trial("--sbatch=-px", *PROGRAM))


@pytest.mark.parametrize("option", [["--sb", "-N2 -t 60"], ["--sbat=-N2 -t 60"]])
def test_a_batch_job_submits_no_other(trial: Try, option: list[str]) -> None:
    """The command line takes the option by its first letters too. The job would go on submitting itself for ever."""
    sbatch = trial.folder / "sbatch"
    sbatch.write_text(f'#!/bin/sh\necho "$*" >{trial.folder}/asked\ncat >>{trial.folder}/asked\necho 77\n')
    sbatch.chmod(0o755)
    text_of(trial(*option, "--", "srun", "./a", "--sb", "b"))
    options, _, script = (trial.folder / "asked").read_text().partition("\n")
    assert options.endswith(" -N2 -t 60")
    assert script == f"#!/bin/sh\nexec {COMMAND} try --state {trial.state} -- srun ./a --sb b\n"


@pytest.mark.parametrize("option", ["--html", "--plot"])
@pytest.mark.parametrize("also", [[], ["--json"]])
def test_a_page_that_cannot_be_written_costs_no_answer(trial: Try, option: str, also: list[str]) -> None:
    path = str(trial.folder / "none/page") + {"--html": ".html", "--plot": ".svg"}[option]
    done = trial("--rounds", "2", option, path, *also, *PROGRAM)
    assert done.returncode == 1 and "nap: " in done.stdout and (not also or json.loads(done.stdout)["rounds"] == 2)
    assert done.stderr.endswith(f"mpi-wait: '{path}' cannot be written: No such file or directory\n")


def test_a_batch_job_has_the_python_that_submits_it(trial: Try) -> None:
    """As the manual says for hosts whose /usr/bin/python3 is too old. The file's first line names that one."""
    (trial.folder / "sbatch").write_text(f"#!/bin/sh\ncat >{trial.folder}/asked\necho 77\n")
    (trial.folder / "sbatch").chmod(0o755)
    code = f"import sys; sys.executable, sys.argv = '/opt/python3.9', ['{COMMAND}', 'try', *sys.argv[1:]]; "
    code += f"import runpy; runpy.run_path('{COMMAND}', run_name='__main__')"
    subprocess.run([sys.executable, "-c", code, "--sbatch=-N2", "--", "srun", "./a"], check=True, cwd=trial.folder,
                   env={**os.environ, "PATH": f"{trial.folder}:/usr/bin:/bin"}, capture_output=True, timeout=60)
    assert (trial.folder / "asked").read_text() == f"#!/bin/sh\nexec /opt/python3.9 {COMMAND} try -- srun ./a\n"


def test_a_virtual_environment_is_another_python(trial: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python is a link to the one of the first line, and finds other packages."""
    monkeypatch.setattr(sys, "argv", [str(COMMAND)])
    monkeypatch.setattr(sys, "executable", str(trial.folder / "python"))
    (trial.folder / "python").symlink_to("/usr/bin/python3")
    assert own_command() == [str(COMMAND)]
    monkeypatch.setattr(sys, "prefix", str(trial.folder))
    assert own_command() == [str(trial.folder / "python"), str(COMMAND)]


def test_without_an_allocation(trial: Try) -> None:
    assert "this is no allocation" in refused(trial(*PROGRAM, job=""))
    assert "the command has no srun" in refused(trial("--launcher", "srun", "--", "./run.sh"))


@pytest.mark.parametrize("words", [[], ["--show", "srun"], ["--policies", "off", "x"], ["--policies", "nap,nap", "x"],
                                   ["--policies", "a b", "x"], ["--rounds", "-1", "x"], ["--budget", "0", "x"],
                                   ["--figure", "(", "x"], ["--figure", "x", "x"], ["--more-is-better", "x"],
                                   ["--allow", "x", "x"], ["--", "srun", "--mpi-wait-policy=nap", "x"],
                                   ["--sbatch", "-N2", "--show"], ["--plot", "x.gif", "x"],
                                   ["--sbatch=-J it's", "--", "srun", "x"]])
def test_usage(trial: Try, words: list[str]) -> None:
    assert "usage: mpi-wait try" in refused(trial(*words), 2)


def test_a_page_of_intervals(trial: Try) -> None:
    page = trial.folder / "page.svg"
    text_of(trial("--rounds", "2", "--policies", "nap,event", "--plot", str(page), *PROGRAM))
    words = page.read_text()
    assert "CPU time" in words and "srun -n4 ./app" in words and "event" in words


def test_a_page_for_a_browser(trial: Try) -> None:
    """Valid, of itself alone, and of nobody's making but ours."""
    path = trial.folder / "page.html"
    program = ("--", "srun", "</title><script>alert(1)</script>")
    text_of(trial("--rounds", "2", "--policies", "nap,event", "--html", str(path), *program))
    text = path.read_text()
    checked(text)
    assert "&lt;script&gt;" in text and text.count("<svg") == 2 and "nap: CPU time" in text
    assert re.search(r"<title>event: [^<]+ %", text)


def test_hostile_words_are_words(trial: Try) -> None:
    trial.under("nap", "printf '\\033[31mred\\007\\n'; exit 5\n")
    done = trial("--rounds", "2", "--", "srun", "\x1b[2J")
    assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert "exit status 5" in done.stdout
