"""Measures the CPU time of the sampler, slurmstepd's own thread, against the number of zones and ranks and its
interval."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import picture, variants
from tests.bench.engine import Cell, Failure, Measured, Sample
from tests.bench.plan import Plan
from tests.bench.targets import Target, at_most
from tests.lib.libraries import BUILD

NAME = "sampler"
TITLE = "The energy sampler"
ROUNDS = (2, 1)
GROUP, VARIANT = "sampler", "nap"
ZONES = (2, 8, 32, 200)
RANKS = (0, 2, 64)
TICKS = {0.1: 15, 0.3: 8, 1.0: 4}  # ticks, by the sampler's interval in seconds
TICKS_SHORT = {0.1: 15}
OFTEN_S = 0.1
POWER_UW = 100_000_000
MANY_S = 1.0  # interval under profile: the most zones must then cost less than a thousandth of a core
USUAL_S = 10  # usual interval, unless a counter wraps sooner
PARTS = ("package", "dram", "core", "uncore")  # zones of an instance


def zone_write(folder: Path, name: str, range_uj: int) -> None:
    folder.mkdir(parents=True)
    files = {"name": name, "energy_uj": 1000, "max_energy_range_uj": range_uj, "enabled": 1,
             "constraint_0_name": "long_term", "constraint_0_max_power_uw": POWER_UW,
             "constraint_0_power_limit_uw": POWER_UW, "constraint_0_time_window_us": 999424}
    for file, value in files.items():
        (folder / file).write_text(f"{value}\n")


def tree_write(tree: Path, zones: int, interval_s: float) -> None:
    """Writes counters that wrap so soon that the sampler must read them at that interval."""
    range_uj = int(3 * interval_s * POWER_UW)
    control = tree / "intel-rapl"
    control.mkdir(parents=True)
    for number in range(zones):
        instance, part = divmod(number, len(PARTS))
        top = control / f"intel-rapl:{instance}"
        if part == 0:
            zone_write(top, f"package-{instance}", range_uj)
        else:
            zone_write(top / f"intel-rapl:{instance}:{part - 1}", PARTS[part], range_uj)
    (tree / "SIMULATED").touch()


def play(zones: int, ranks: int, interval_s: float) -> list[Sample]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        tree_write(Path(folder) / "powercap", zones, interval_s)
        seconds = TICKS[interval_s] * interval_s
        shell = ('mount -t tmpfs none /sys/class && mkdir /sys/class/powercap && mount -t tmpfs none /run && '
                 'mount --bind "$1" /sys/class/powercap && shift && exec "$@"')
        program = [str(variants.BUILT / "sampler_cost"), "/run/mpi-wait", f"{seconds:g}",
                   "fast", str(ranks)]
        command = ["unshare", "-m", "sh", "-ec", shell, "sh", f"{folder}/powercap", *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=variants.TIMEOUT_S, check=False,
                              env={**os.environ, "SLURMD_NODENAME": "bench"})
    if done.returncode:
        raise Failure(f"sampler_cost: {done.stderr.strip()[-300:]}")
    wall_s, cpu_s, ticks = (float(word) for word in done.stdout.split()[:3])
    if ticks < 1:
        raise Failure(f"no tick in {wall_s} s of {interval_s} s each")
    return [({"zones": zones, "ranks": ranks, "interval_s": interval_s},
             {"tick_us": cpu_s / ticks * 1e6, "cpu_share": cpu_s / wall_s, "ticks": ticks})]


def cells(plan: Plan) -> list[Cell]:
    if os.geteuid() != 0:
        plan.measured.unavailable["sampler"] = "needs root for a mount namespace"
        return []
    zones = ZONES[:2] if plan.short else ZONES
    ranks = RANKS[1:2] if plan.short else RANKS
    points = [(number, count, OFTEN_S) for number in zones for count in ranks]
    points += [(number, RANKS[1], interval_s) for number in zones
               for interval_s in (TICKS_SHORT if plan.short else TICKS) if interval_s != OFTEN_S]
    return [Cell(GROUP, VARIANT, partial(play, *point)) for point in points]


def targets(measured: Measured) -> list[Target]:
    many = measured.find(GROUP, VARIANT, zones=ZONES[-1], ranks=RANKS[1], interval_s=MANY_S)
    share = many.median("cpu_share") if many else None
    return [at_most(f"CPU share, {ZONES[-1]} zones every second", None if share is None else share * 100, 0.1, "%",
                    f"{RANKS[1]} ranks")]


def draw(results: dict[str, Any]) -> Any:
    plot = picture.pyplot()
    figure, (left, right) = plot.subplots(1, 2, figsize=(9.6, 4))
    rows = results["rows"]
    for place, ranks in enumerate(sorted({row["point"]["ranks"] for row in rows})):
        mine = [row for row in rows if row["point"]["ranks"] == ranks and row["point"]["interval_s"] == OFTEN_S]
        picture.line(left, mine, "zones", "tick_us", f"{ranks} ranks", number=place)
    left.set_xlabel("energy zones of the node")
    left.set_ylabel("CPU time of one look (µs)")
    left.set_ylim(bottom=0)
    left.legend(fontsize=8)
    for place, zones in enumerate(sorted({row["point"]["zones"] for row in rows})):
        mine = [row for row in rows if row["point"]["zones"] == zones and row["point"]["ranks"] == RANKS[1]]
        picture.line(right, mine, "interval_s", "cpu_share", f"{zones} zones", 100, number=place)
    right.axvline(USUAL_S, color="#888888", linestyle="--", linewidth=0.9)
    right.annotate("usual: 10 s", (USUAL_S, 0.97), xycoords=("data", "axes fraction"), fontsize=7.5, ha="right",
                   xytext=(-4, 0), textcoords="offset points", color="#555555", va="top")
    right.set_xscale("log")
    picture.plain_log(right, "y")
    picture.plain_ticks(right, [*sorted({row["point"]["interval_s"] for row in rows}), USUAL_S])
    right.set_xlabel("it looks every (s)")
    right.set_ylabel("CPU share of one core (%)")
    right.legend(fontsize=8)
    return figure
