"""What the benchmark of single launches judges and prints, from made-up launches."""

from __future__ import annotations

import argparse
import io
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from tests.bench.benchmarks import launches
from tests.bench.engine import Measured


def measured(*shares: tuple[str, float, float]) -> Measured:
    found = Measured()
    for group, delay_us, share in shares:
        found.add(group, "nap", [({"call": "recv", "bytes": 8, "delay_us": delay_us}, {"cpu_share": share})])
    return found


def test_the_worst_launch_of_any_mpi_is_judged_beside_the_medians() -> None:
    found = measured(*(("openmpi", 1000.0, share) for share in (0.05, 0.06, 0.9)), ("mpich", 1000.0, 0.08),
                     ("openmpi", 5000.0, 0.5), ("intel-ofi", 5000.0, 0.11))
    median, most, over_ofi = launches.targets(found)
    assert (median.value, most.value, over_ofi.value) == pytest.approx((8, 90, 11))
    assert median.met and not most.met and over_ofi.met
    assert median.why == "openmpi 6, mpich 8" and over_ofi.why == "intel-ofi 11"


def test_a_line_tells_the_distribution() -> None:
    values = [0.05] * 10 + [0.1] * 7 + [0.3, 0.4, 0.9]
    row = {"group": "mpich-5-ofi-tcp", "variant": "nap", "point": {"delay_us": 5000.0},
           "figures": {"cpu_share": {"median": 0.1, "low": 0.05, "high": 0.1, "values": values}}}
    assert launches.row_line(row) == "| MPICH 5.0, libfabric | 5 ms | 5.0 | 7.5 | 31.0 | 90.0 | 3 of 20 |"
    unbound = launches.row_line({**row, "group": "intel", "variant": "nap, unbound"})
    assert unbound == "| Intel MPI 2021, unbound | 5 ms | 5.0 | 7.5 | 31.0 | 90.0 | 3 of 20 |"


def test_unbound_launches_are_not_judged() -> None:
    found = measured(("intel", 1000.0, 0.05), ("openmpi", 5000.0, 0.5), ("intel-ofi", 5000.0, 0.11))
    found.add("intel", "nap, unbound", [({"call": "recv", "bytes": 8, "delay_us": 1000.0}, {"cpu_share": 0.9})])
    assert [target.met for target in launches.targets(found)] == [True, True, True]


def test_how_late_naps_end_is_told_beside() -> None:
    figures = {"late_us": {"median": 20.0}, "late_99_us": {"median": 90.0}, "cpu_us": {"median": 8.0},
               "mean_us": {"median": 35.0}}
    row = {"group": launches.ASLEEP, "variant": launches.ASLEEP, "point": {"nap_us": 1000.0}, "figures": figures}
    told = launches.held_line({"rows": [row]})
    assert "ended 20 µs late in the median and 35 µs in the mean" in told and "1.5 % of the sleep" in told


def test_nothing_runs_beside_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The display of the progress would take a core from a rank, ten times a second."""
    run = ModuleType("bench_run")
    run.__file__ = str(Path(__file__).with_name("run"))
    SourceFileLoader(run.__name__, run.__file__).exec_module(run)
    beside: list[list[threading.Thread]] = []

    def measure(_: object, __: object, begin: Callable[[int, float], None],
                step: Callable[[str], None]) -> dict[str, Any]:
        begin(2, 0)
        step("one")
        beside.append(threading.enumerate())
        return {}

    before = threading.enumerate()
    monkeypatch.setattr(run.measuring, "measure", measure)
    asked = argparse.Namespace(application=[], short=True, rounds=None, picked=[])
    run.measure(launches, asked, Console(file=io.StringIO(), force_terminal=True))
    assert beside == [before]
