"""contrib/late-sender, and transfers that a nap must not stretch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.lib.emulate import emulation
from tests.lib.launches import Absence
from tests.lib.libraries import AS_ROOT, BUILD, BY_NAME, LIBRARY, MEMORY, ROOT, Mpi, locked
from tests.mpi.playing import OPENMPI, available, built, launched
from tests.soak.mpi_matrix.plan import FLAT, policies

TOOL = ROOT / "contrib/late-sender"
NO_RESTART = BUILD / "tests/lib/doubles/libmpiwait-no-restart.so"
CALLS = ("recv", "send", "wait", "allreduce", "bcast", "barrier", "pingpong")
COUNT = 15
SLEEPS_BEFORE = 50  # naps are as long as they get by then
SLEEPS_IN_TRANSFER = 4  # the one under way, and a few: 1 to 3 were seen, and without the restart 128 and 240
TRANSFERS = [pytest.param("mpich-5", "allreduce", 1 << 20, (), id="Allreduce of 1 MiB, MPICH 5"),
             pytest.param("openmpi", "send", 32 << 20, ("--mca", "btl_vader_single_copy_mechanism", "none"),
                          id="Send of 32 MiB, Open MPI without CMA")]
pytestmark = pytest.mark.skipif(not FLAT.exists(), reason=f"not built: {FLAT}")


def sleeps_in(library: Path, policy: str, mpi: Mpi, call: str, size: int, options: tuple[str, ...]) -> list[int]:
    """
    How often a rank sleeps while a message comes, after a wait in which it slept: of each transfer. With a real-time
    priority, since a partner whose core somebody else has is waited for rightly.
    """
    if not (alone := emulation.undisturbed()):
        pytest.skip("no real-time priority")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, locked("undisturbed"):
        done = launched(mpi, [built(mpi, "transfer"), call, size, COUNT], policy, options=options,
                        prefix=alone, preload=str(library), ends=Absence(sleeps=SLEEPS_BEFORE), folder=folder)
    rows = [line.split() for line in done.output.splitlines() if line.split()[0] != "sum"]
    assert len(rows) == COUNT and all(end == "n" and int(before) >= SLEEPS_BEFORE for end, before, _ in rows)
    print(f"{library.name}, {mpi.name}: sleeps in transfers", [int(after) for _, _, after in rows])
    return [int(after) for _, _, after in rows]


def undisturbed(sleeps: list[int]) -> int:
    """The most of a third of them. Where the machine takes a core away, which real-time ranks lose for 50 ms of each
    second too, the other rank waits, and sleeps: nothing makes it sleep less."""
    return sorted(sleeps)[len(sleeps) // 3]


@pytest.mark.parametrize(("name", "call", "size", "options"), TRANSFERS)
def test_a_transfer_after_a_long_wait_is_not_napped_through(name: str, call: str, size: int, options: tuple) -> None:
    """By the ladder and by forecast. And without the restart of w, by the ladder, one is, once what a nap takes beyond
    what was asked is known."""
    mpi, forecasts = BY_NAME[name], policies()["nap"]
    ladder = re.sub(";slowdown_ppm=[0-9]+", "", forecasts)
    assert ladder != forecasts
    for policy in (forecasts, ladder):
        assert undisturbed(sleeps_in(LIBRARY, policy, mpi, call, size, options)) <= SLEEPS_IN_TRANSFER
    napped_through = sorted(sleeps_in(NO_RESTART, ladder, mpi, call, size, options))[-COUNT // 3]
    assert napped_through > 10 * SLEEPS_IN_TRANSFER, "a third of them is"


def tool(*more: str, launcher: str = "false") -> subprocess.CompletedProcess:
    command = [TOOL, "--mpicc=mpicc.openmpi", f"--launcher={launcher}", f"--library={LIBRARY}", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                          env=dict(os.environ, TMPDIR=str(BUILD), **AS_ROOT))


FIGURES = r"""#!/bin/sh
# The figures of a machine that is always the same: with the library the waits end 5 us later, and one of them late.
case "$*" in
*LD_PRELOAD=*) share=0.05 after=15,25,35,45,5000 joules=${WITH:--} ;;
*) share=0.99 after=10,20,30,40,50 joules=${WITHOUT:-packages=2,memory=0.5} ;;
esac
for word; do case $word in [0-9]*:*) echo "recv 8 ${word%:*} $share $after $joules" ;; esac; done
"""


@pytest.fixture
def figures(tmp_path: Path) -> str:
    with available():
        OPENMPI.tool("mpicc")
    script = tmp_path / "launcher"
    script.write_text(FIGURES)
    script.chmod(0o755)
    return str(script)


def test_the_tool_compares_both_sides(figures: str) -> None:
    """Median, 90th and 99th percentile; late is what ends beyond the 99th of the other side and the budget."""
    done = tool("--delays=20,1000", "--count=5", "--json", launcher=figures)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["call"], found["bytes"], found["policy"]) == ("recv", 8, "nap")
    without = {"median_us": 30, "p90_us": 50, "p99_us": 50, "cpu_share": 0.99, "late": 0, "waits": 5,
               "energy_j": {"packages": 2, "memory": 0.5}, "simulated": False, "gpus_not_counted": False}
    beside = {"median_us": 35, "p90_us": 5000, "p99_us": 5000, "cpu_share": 0.05, "late": 1, "waits": 5,
              "energy_j": {}, "simulated": False, "gpus_not_counted": False}
    assert found["waits"] == [{"without": {"delay_us": delay, **without}, "with": {"delay_us": delay, **beside}}
                              for delay in (20, 1000)]
    assert [row["with"]["delay_us"] for row in found["pingpong"]] == [0]


def test_the_tool_prints_an_aligned_table(figures: str) -> None:
    done = tool("--delays=1000", "--count=5", launcher=figures)
    assert done.returncode == 0, done.stderr
    head, *rows, empty, energy = done.stdout.splitlines()[3:]
    assert (empty, energy) == ("", "joules: of packages + memory, all that runs there")
    assert head.split() == ["delay", *["median", "p90", "p99", "CPU", "joules", "late"] * 2]
    assert rows[0].split() == ["1000", "30.00", "50.00", "50.00", "99%", "2.5", "0",
                               "35.00", "5000.00", "5000.00", "5%", "n/a", "1"]
    assert [row.split()[0] for row in rows] == ["1000", "ping-pong"] and {len(row) for row in rows} == {len(head)}


@pytest.mark.parametrize("without,policy,joules,said", [
    ("packages=2,gpus=3", "packages=1,gpus=2", ("5", "3"), "of packages + GPUs, all that runs there"),
    ("packages=2,sockets=2,gpus=-", "packages=1,gpus=-", ("2", "1"),
     "of packages, all that runs there; GPUs not counted"),
    ("packages=2,node=9,gpus=-", "packages=1,node=8,gpus=-", ("9", "8"), "of the node, all that runs there"),
    ("packages=2,simulated", "packages=1,simulated", ("2", "1"),
     "of packages, all that runs there, simulated, not measured"),
])
def test_the_tool_says_what_joules_are_of(figures: str, monkeypatch: pytest.MonkeyPatch, without: str, policy: str,
                                          joules: tuple[str, str], said: str) -> None:
    monkeypatch.setenv("WITHOUT", without)
    monkeypatch.setenv("WITH", policy)
    done = tool("--delays=1000", "--count=5", launcher=figures)
    assert done.returncode == 0, done.stderr
    _, row, *_, line = done.stdout.splitlines()[3:]
    words = row.split()
    assert (words[5], words[11]) == joules and line == f"joules: {said}"


def counters_write(tree: Path, number: int, amd: str) -> None:
    """Each is brought forward by a joule with each number; that of packages is two, and three GPUs are."""
    files = {
        "class/powercap/intel-rapl:0/name": "package-0", "class/powercap/intel-rapl:0/energy_uj": number * 10**6,
        "class/powercap/intel-rapl:1/name": "package-1", "class/powercap/intel-rapl:1/energy_uj": number * 10**6,
        "class/powercap/intel-rapl:0:0/name": "core", "class/powercap/intel-rapl:0:0/energy_uj": number * 10**7,
        "class/powercap/intel-rapl:0:1/name": "dram", "class/powercap/intel-rapl:0:1/energy_uj": number * 10**6,
        "class/powercap/SIMULATED": "", "cray/pm_counters/energy": f"{number} J {number} us",
        "class/hwmon/hwmon3/name": "amd_energy", "class/hwmon/hwmon3/energy1_label": "Ecore000",
        "class/hwmon/hwmon3/energy1_input": number * 10**7, "class/hwmon/hwmon3/energy2_label": "Esocket0",
        "class/hwmon/hwmon3/energy2_input": number * 10**6, "nvml": f"0 {number * 1000} 0 0 NVIDIA H100",
        "rsmi": f"0 {amd or number * 50000} 20.0 AMD MI250X\n1 0 20.0 AMD MI250X",
        "class/hwmon/hwmon4/name": "xe", "class/hwmon/hwmon4/energy2_input": number * 10**6,
        "class/hwmon/hwmon5/name": "i915_gt0", "class/hwmon/hwmon5/energy1_input": number * 10**7,
    }
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        part = tree / f"{name}.part"
        part.write_text(f"{content}\n")
        part.rename(tree / name)


@pytest.mark.parametrize("amd", ["", "-"])
def test_its_program_reads_every_source(tmp_path: Path, amd: str) -> None:
    """Files of a machine's own, and doubles of NVML and ROCm's library, which advance while it runs. Waits that are too
    short for a counter have no joules of it. A GPU without a counter leaves out all: the sum would not be theirs."""
    with available():
        compiler, launcher = OPENMPI.tool("mpicc"), OPENMPI.launcher()
    program = tmp_path / "late-sender"
    subprocess.run([compiler, f'-DSYSFS="{tmp_path}"', "-O2", "-o", program, ROOT / "contrib/late-sender.c", "-ldl"],
                   check=True, timeout=100)
    for library in ("libnvidia-ml.so.1", "librocm_smi64.so"):
        shutil.copy(BUILD / "tests/lib/doubles" / library, tmp_path)
    counters_write(tmp_path, 1, amd)
    variables = {**os.environ, **AS_ROOT, **OPENMPI.environment("C")}
    variables["LD_LIBRARY_PATH"] = f"{tmp_path}:{variables.get('LD_LIBRARY_PATH', '')}"
    command = [*launcher, "--mca", "mpi_yield_when_idle", "1", "-n", "2", program, "recv", "8", "120000:10", "0:1"]
    number = 1
    with subprocess.Popen(list(map(str, command)), env=variables, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            counters_write(tmp_path, number := number + 1, amd)
            time.sleep(0.02)
        assert process.stdout and process.returncode == 0
        long, short = (line.split() for line in process.stdout.read().splitlines())
    names = [part.partition("=")[0] for part in long[5].split(",")]
    assert names == ["packages", "memory", "sockets", "node", "gpus", "simulated"]
    told = dict(part.split("=") for part in long[5].split(",")[:-1])
    if amd == "-":
        assert told.pop("gpus") == "-"
    values = {name: float(joules) for name, joules in told.items()}
    assert all(0 < value <= (3 if name == "gpus" else 2) * number / 10 for name, value in values.items())
    assert "gpus" not in values or values["gpus"] > 2 * values["node"]
    assert len(short) == 6, "a figure of it, or none: the machine's business"


def test_the_tool_launches_its_program_with_and_without(tmp_path: Path) -> None:
    """On real ranks: the figures are this machine's, their number is what was asked for. Ranks that yield meanwhile are
    done soon on a busy machine too."""
    with available():
        launcher = f"{' '.join(OPENMPI.launcher())} --mca mpi_yield_when_idle 1 -n 2"
    done = tool("--delays=0,1000", "--count=3", "--json", launcher=launcher)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for row, delay in zip(found["waits"], (0, 1000)):
        for side in (row["with"], row["without"]):
            assert (side["delay_us"], side["waits"]) == (delay, 3)
            assert side["median_us"] <= side["p90_us"] <= side["p99_us"]
            assert all(joules > 0 for joules in side["energy_j"].values())
    assert len(found["waits"]) == 2 and found["pingpong"][0]["with"]["waits"] == 3


def test_its_program_plays_every_call() -> None:
    for call in CALLS:
        done = launched(OPENMPI, [built(OPENMPI, "late-sender"), call, 8, "1000:2"])
        (line,) = [line.split() for line in done.output.splitlines()]
        assert (line[0], line[1], float(line[2]), len(line[4].split(","))) == (call, "8", 1000, 2)
        called = done.segment["slots"][1]["lane"][0]["calls"]
        name = {"wait": "Wait", "pingpong": "Recv"}.get(call, call.capitalize())
        assert called[name]["calls"] >= 2, called


def test_the_installed_tool_finds_what_it_needs(tmp_path: Path) -> None:
    """PREFIX/bin/late-sender has its source, the policies and the library under the same prefix."""
    stage = Path(os.environ.get("MPI_WAIT_STAGE", BUILD / "stage/opt/mpi-wait"))
    if not (stage / "bin/late-sender").exists():
        pytest.skip(f"not installed in {stage}")
    spy = tmp_path / "mpicc"
    spy.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{tmp_path}/seen\nexit 1\n")
    spy.chmod(0o755)
    done = subprocess.run([stage / "bin/late-sender", f"--mpicc={spy}", "--policy=nap"], capture_output=True,
                          text=True, timeout=60, check=False, env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert str(stage / "share/mpi-wait/late-sender.c") in (tmp_path / "seen").read_text().splitlines(), done.stderr
    assert "no policy" not in done.stderr
    done = subprocess.run([stage / "bin/late-sender", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "--call {recv,send,wait,allreduce,bcast,barrier}" in " ".join(done.stdout.split())


def test_the_tool_says_what_is_wrong() -> None:
    assert "no policy 'bogus'" in tool("--policy=bogus").stderr
    assert "'false -O2" in tool("--mpicc=false").stderr
    assert "failed (3)" in tool(launcher="sh -c 'exit 3'").stderr


def test_a_tool_or_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """On a login node without an MPI, for example: one line, which says what to do."""
    for words, settings, said in (
        (["--mpicc=/nowhere/mpicc"], {}, "'/nowhere/mpicc' cannot be run: No such file or directory (--mpicc"),
        (["--launcher=/nowhere/srun -n2", "--mpicc=true"], {}, "'/nowhere/srun' cannot be run"),
        (["--mpicc=false"], {}, "'false -O2 -o"),
        ([], {"TMPDIR": str(tmp_path / "nothing")}, "No such file or directory (TMPDIR names another directory)"),
    ):
        done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
                              env={**os.environ, "TMPDIR": str(tmp_path), **settings})
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert done.stderr.startswith("late-sender: ") and said in done.stderr
    assert not list(tmp_path.iterdir())
