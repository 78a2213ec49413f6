"""Shared by the tests of energy, record and spool: the driver, mpi-wait-node, node records, fake counters."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MPI_WAIT_BUILD", REPOSITORY / "build"))
SCHEMA = json.loads((REPOSITORY / "spank/record/record.schema.json").read_text())


BOOTED_S = 1_600_000_000.0
"""The boot time, where a test sets the time: CLOCK_MONOTONIC was 0 then."""
PROGRAMS = {program: BUILD / f"tests/lib/doubles/checked-{program}" for program in ("driver", "ticks", "mpi-wait-node")}
"""These programs run under AddressSanitizer and UndefinedBehaviorSanitizer."""
PROGRAMS["doubled"] = BUILD / "tests/lib/doubles/doubled-mpi-wait-node"
"""mpi-wait-node without sanitizers; the file $MPIWAIT_ACCOUNT stands for slurmdbd (fake_dbd.c)."""


@functools.cache
def _schema() -> jsonschema.Draft7Validator:
    """Returns the validator of a job's record. Checks the schema itself once, not with each record."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    return jsonschema.Draft7Validator(SCHEMA)


def validate(document: Any) -> None:
    """Raises jsonschema.ValidationError if the document is no job's record."""
    _schema().validate(document)


Elsewhere = dict[str, "Path | str"]
"""Paths of the kernel's, and the paths that these programs use instead: see elsewhere.c."""


def settings(
    node: str = "c1", elsewhere: Elsewhere | None = None, now_s: float | None = None, meanwhile: str = ""
) -> dict[str, str]:
    """Returns the environment of a program. now_s: the time of day; a pause then takes no time. meanwhile: a shell
    command that runs in the first pause."""
    environment = {**os.environ, "SLURMD_NODENAME": node}
    if elsewhere:
        environment["MPIWAIT_ELSEWHERE"] = ":".join(f"{path}={place}" for path, place in elsewhere.items())
    if meanwhile:
        environment["MPIWAIT_MEANWHILE"] = meanwhile
        now_s = time.time() if now_s is None else now_s
    if now_s is not None:
        environment["MPIWAIT_NOW_MS"] = str(round(now_s * 1000))
    return environment


def run(
    program: str,
    *words: object,
    node: str = "c1",
    elsewhere: Elsewhere | None = None,
    now_s: float | None = None,
    meanwhile: str = "",
    files: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Runs a program. files: the limit on open files."""
    limit = ["prlimit", f"--nofile={files}"] if files else []
    return subprocess.run(
        [*limit, str(PROGRAMS[program]), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=settings(node, elsewhere, now_s, meanwhile),
    )


def driver(*words: object, **options: Any) -> Any:
    done = run("driver", *words, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Ticks:
    """A step's sampler with a clock that the test sets. With `killed`, it is killed at the end of the context."""

    def __init__(self, root: Path, job: int, step: int, elsewhere: Elsewhere, now_s: float, speed: str = "fast",
                 segment: Path | str = "-", killed: bool = False, cpu_ms: int = 0, csv: bool = False,
                 **variables: str) -> None:
        """Starts the sampler. cpu_ms: CPU time of each tick. csv: the step has csv=. variables: of ticks_driver.c."""
        words = [str(root), str(job), str(step), speed, str(segment), *(["killed"] if killed else [])]
        self.process = subprocess.Popen([PROGRAMS["ticks"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=settings(elsewhere=elsewhere, now_s=now_s)
                                        | {"MPIWAIT_CPU_MS": str(cpu_ms)} | ({"CSV": "1"} if csv else {}) | variables)
        self.killed = killed
        self.at(now_s)

    def __enter__(self) -> Ticks:
        return self

    def at(self, now_s: float) -> tuple[int, int]:
        """Sets the clock, and waits for every tick until then. Returns the number of opened files and of counter
        reads."""
        assert self.process.stdin and self.process.stdout
        print(round(now_s * 1000), file=self.process.stdin, flush=True)
        opens, reads = self.process.stdout.readline().split()
        return int(opens), int(reads)

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == (-signal.SIGKILL if self.killed else 0)


def show_powercap(tree: Path) -> Elsewhere:
    return {"/sys/class/powercap": tree}


NO_POWERCAP: Elsewhere = {"/sys/class/powercap": "/nonexistent"}


def show_processors(tree: Path) -> Elsewhere:
    return {"/sys/devices/system/cpu": tree}


def write_zone(
    folder: Path,
    name: str,
    energy_uj: int,
    range_uj: int = 262_143_328_850,
    power_uw: int | None = 100_000_000,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, object] = {
        "name": name,
        "energy_uj": energy_uj,
        "max_energy_range_uj": range_uj,
        "enabled": 1,
    }
    if power_uw is not None:
        files |= {
            "constraint_0_name": "long_term",
            "constraint_0_max_power_uw": power_uw,
            "constraint_0_power_limit_uw": power_uw,
            "constraint_0_time_window_us": 999424,
        }
    for file, value in files.items():
        (folder / file).write_text(f"{value}\n")


def node_record(
    node: str = "c1",
    nodes: str = "c1",
    ranks: list[list[int]] | None = None,
    job: int = 7,
    **changes: Any,
) -> dict[str, Any]:
    """Returns a node record as node_record.c writes it; ranks are [rank, wait_us, asleep_us]."""
    ranks = [[0, 1_500_000, 1_000_000], [1, 250_000, 0]] if ranks is None else ranks
    wait = {
        "ranks": ranks,
        "size": len(ranks),
        "unseen": 0,
        "doubtful": 0,
        "span_us": 10_000_000 * len(ranks),
        "naps": 30,
        "late": 1,
        "late_us": 20,
        "sampled_us": 1000,
        "sampled_cpu_us": 100,
        "calls": {"MPI_Recv": [100, 5, sum(rank[1] for rank in ranks), 900_000]},
    }
    energy = {
        "source": "simulated",
        "gaps": 0,
        "zones_uj": {"package": 200_000_000, "core": 90_000_000, "dram": 10_000_000},
    }
    policy = {"asked": "nap", "used": "nap", "why": "", "by": "job"}
    record = {
        "v": 1,
        "kind": "node",
        "node": node,
        "cluster": "test",
        "job_id": job,
        "array_job_id": None,
        "array_task_id": None,
        "het_job_id": None,
        "het_offset": None,
        "restart_count": 0,
        "uid": 1000,
        "gid": 1000,
        "nodes": nodes,
        "policy": policy,
        "start_s": 1_700_000_000.0,
        "end_s": 1_700_000_010.5,
        "cores": 4,
        "cores_total": 4,
        "energy": energy,
        "energy_why": "",
        "steps_left_out": 0,
        "steps": [
            {
                "id": "0",
                "start_s": 1_700_000_001.0,
                "end_s": 1_700_000_010.0,
                "energy": energy,
                "wait": wait,
            }
        ],
    }
    return {**record, **changes}


def two_packages(tmp_path: Path) -> Path:
    """Makes a tree of counters: two packages with DRAM, and psys as an instance of its own."""
    tree = tmp_path / "powercap"
    instances = tree / "intel-rapl"
    for package in (0, 1):
        folder = instances / f"intel-rapl:{package}"
        write_zone(folder, f"package-{package}", 1_000_000)
        write_zone(folder / f"intel-rapl:{package}:0", "dram", 500_000, 65_532_610_987, None)
    write_zone(instances / "intel-rapl:2", "psys", 9_000_000)
    (tree / "SIMULATED").touch()
    return tree


def set_energy(powercap: Path, zone: str, energy_uj: int) -> None:
    (powercap / "intel-rapl" / zone / "energy_uj").write_text(f"{energy_uj}\n")


ZONE = ("name", "kind", "instance", "counter_uj", "total_uj", "gaps", "still_ns", "problem")


def zones(snapshot: Any) -> list[dict[str, Any]]:
    """Returns an accumulator's zones as rows with named values."""
    return [dict(zip(ZONE, row, strict=True)) for row in snapshot["zones"]]
