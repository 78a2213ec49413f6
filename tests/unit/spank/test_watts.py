"""From samples of counters and ranks to watts per state in the node's record, and on to the job's."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.lib.record_tools import Elsewhere, driver, node_record, run, show_processors, validate
from tests.lib.records import left_out

WATTS = {"asleep": 2.0, "spinning": 5.0, "computing": 8.0}


class Processes:
    """Two ranks, as /proc shows them: the first ran last on CPU 0, package 0, the second on CPU 3, package 1."""

    pids = (4_000_001, 4_000_002)
    cpus = (0, 3)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for pid in self.pids:
            self.show(pid)
        for cpu in range(4):
            (folder / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
            (folder / f"cpu/cpu{cpu}/topology/physical_package_id").write_text(f"{min(cpu, 1)}\n")
        (folder / "cpu/online").write_text("0-3\n")

    def show(self, pid: int, state: str = "S") -> None:
        """Field 2 may hold anything; where it ran last is field 39."""
        fields = [str(pid), "(a) S (b)", state, *["0"] * 35, str(self.cpus[self.pids.index(pid)]), *["0"] * 13]
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "stat").write_text(" ".join(fields) + "\n")

    @property
    def elsewhere(self) -> Elsewhere:
        return {**show_processors(self.folder / "cpu"), **{f"/proc/{pid}": self.folder / str(pid) for pid in self.pids}}


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


@pytest.fixture
def pids(processes: Processes) -> tuple[int, int]:
    return processes.pids


class Run:
    """A step whose ranks' times and whose packages' energy are made up."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.energy_j = [100.0, 100.0]
        self.times: dict[int, list[float]] = {}
        self.samples: list[dict[str, Any]] = []

    def go(self, ranks: dict[int, int], seconds: float = 1.0) -> None:
        """An interval. ranks: pid to its package; a pid that was not there has just begun."""
        self.now_s += seconds
        for pid, package in ranks.items():
            if pid not in self.times:
                self.times[pid] = [0.0, 0.0, 0.5]
                self.energy_j[package] += 3
                continue
            waited = self.random.uniform(0, seconds)
            asleep = self.random.uniform(0, waited)
            for index, advance in enumerate((waited, asleep, seconds)):
                self.times[pid][index] += advance
            states = (asleep, waited - asleep, seconds - waited)
            self.energy_j[package] += sum(w * s for w, s in zip(WATTS.values(), states))
        self.energy_j = [joules + abs(self.random.gauss(0.5, 0.1)) for joules in self.energy_j]
        self.sample(list(ranks))

    def sample(self, pids: list[int]) -> None:
        zones = [
            {
                "name": f"package-{package}",
                "kind": "package",
                "instance": package,
                "energy_uj": int(joules * 1e6),
                "range_uj": 262_143_328_850,
                "power_max_uw": 150_000_000,
            }
            for package, joules in enumerate(self.energy_j)
        ]
        ranks = [[pid, *self.times[pid]] for pid in pids]
        self.samples.append({"at_s": self.now_s, "zones": zones, "ranks": ranks})

    def fit(self, tmp_path: Path, processes: Processes, cores: int, total: int, cpus: str = "", *uid: int) -> Any:
        path = tmp_path / "samples.json"
        path.write_text(json.dumps(self.samples))
        return driver("watts", path, cores, total, cpus, *uid, elsewhere=processes.elsewhere)


def test_a_rank_that_always_does_the_same_tells_nothing(
    tmp_path: Path, processes: Processes, pids: tuple[int, int]
) -> None:
    made = Run(3)
    made.times[pids[0]] = [0.0, 0.0, 0.5]
    for _ in range(80):
        made.now_s += 1
        made.energy_j = [joules + 10 for joules in made.energy_j]
        made.times[pids[0]] = [had + more for had, more in zip(made.times[pids[0]], (0.5, 0.25, 1.0))]
        made.sample([pids[0]])
    (fit,) = made.fit(tmp_path, processes, 4, 4)["fit"]
    assert (fit["package"], fit["why"]) == (0, "the ranks' states did not vary")


def test_each_package_has_the_watts_of_its_ranks(
    tmp_path: Path, processes: Processes, pids: tuple[int, int]
) -> None:
    made = Run(1)
    for _ in range(80):
        made.go({pids[0]: 0, pids[1]: 1})
    fits = made.fit(tmp_path, processes, 4, 4)["fit"]
    assert [(fit["package"], fit["why"]) for fit in fits] == [(0, ""), (1, "")]
    for fit in fits:
        for state, truth in WATTS.items():
            value, interval = fit["watts"][state]
            assert abs(value - truth - 0.5) <= interval + 0.1 and interval < 0.5
        assert fit["saved_j"][0] > 0 and fit["waiting_j"][0] > fit["saved_j"][0]


def test_a_process_of_another_user_is_no_rank(tmp_path: Path, processes: Processes, pids: tuple[int, int]) -> None:
    """In a container a rank's number is the container's: on the node another process may have it."""
    made = Run(1)
    for _ in range(80):
        made.go({pids[0]: 0, pids[1]: 1})
    assert made.fit(tmp_path, processes, 4, 4, "", os.getuid() + 1)["fit"] is None


def test_intervals_in_which_ranks_come_or_are_not_running_do_not_count(
    tmp_path: Path, processes: Processes, pids: tuple[int, int]
) -> None:
    """The first has no beginning, in the second the rank is new, in the last it has been finalized."""
    made = Run(2)
    made.sample([])
    for _ in range(20):
        made.go({pids[0]: 0})
    made.now_s += 5
    made.energy_j[0] += 500
    made.sample([pids[0]])
    sums = made.fit(tmp_path, processes, 4, 4)["sums"]
    assert [(row[0], row[1]) for row in sums] == [(0, 19)]


def test_a_stopped_rank_is_no_computing_one(tmp_path: Path, processes: Processes, pids: tuple[int, int]) -> None:
    """As under scontrol suspend: it draws nothing, and would make computing look cheap."""
    made = Run(6)
    for _ in range(20):
        made.go({pids[0]: 0, pids[1]: 1})
    processes.show(pids[0], "T")
    sums = made.fit(tmp_path, processes, 4, 4)["sums"]
    assert [(row[0], row[1]) for row in sums] == [(0, 0), (1, 19)]


def test_a_gap_is_no_sample_but_its_waits_are_in_the_total(
    tmp_path: Path, processes: Processes, pids: tuple[int, int]
) -> None:
    made = Run(3)
    for _ in range(20):
        made.go({pids[0]: 0})
    before = sum(made.fit(tmp_path, processes, 4, 4)["sums"][0][-3:])
    made.go({pids[0]: 0}, seconds=3000)
    sums = made.fit(tmp_path, processes, 4, 4)["sums"][0]
    assert sums[1] == 19 and sum(sums[-3:]) == pytest.approx(before + 3000, abs=1)


def test_a_package_that_others_share_has_none(
    tmp_path: Path, processes: Processes, pids: tuple[int, int]
) -> None:
    made = Run(4)
    for _ in range(40):
        made.go({pids[0]: 0, pids[1]: 1})
    fits = made.fit(tmp_path, processes, 1, 4, "0")["fit"]
    assert [fit["why"] for fit in fits] == ["", "shared with other jobs"]
    fits = made.fit(tmp_path, processes, 1, 4)["fit"]
    assert [fit["why"] for fit in fits] == ["shared with other jobs"] * 2


def fit_of(package: int, saved: float | None = 100.0) -> dict[str, Any]:
    fit: dict[str, Any] = {
        "package": package,
        "why": "",
        "watts": {"asleep": [2.0, 0.3], "computing": [8.0 + package, 0.4]},
        "waiting_j": [500.0, 30.0],
    }
    return fit if saved is None else {**fit, "saved_j": [saved, 40.0]}


def merged(tmp_path: Path, *fits: list[dict[str, Any]] | None) -> Any:
    files = []
    for index, fit in enumerate(fits):
        files.append(tmp_path / f"{index}.json")
        files[-1].write_text(json.dumps(node_record(f"c{index}", f"c[0-{len(fits)}]", watts=fit)))
    done = run("driver", "merge", len(fits), "", *files)
    document = json.loads(done.stdout)
    if "mpi_wait" in document:
        validate(document)
    return document


def test_watts_are_means_and_joules_are_sums(tmp_path: Path) -> None:
    lost = [{"package": 0, "why": "not significant"}]
    record = merged(tmp_path, [fit_of(0), fit_of(1)], [fit_of(0), fit_of(1)], lost)["mpi_wait"]
    assert record["watts"] == {
        "packages": 5,
        "known": 4,
        "why": "not significant",
        "asleep": [2, 0.15],
        "computing": [8.5, 0.2],
        "waiting_j": [2000, 60],
        "saved_j": [400, 80],
    }


def test_a_sum_that_lacks_a_package_is_unknown(tmp_path: Path) -> None:
    record = merged(tmp_path, [fit_of(0), fit_of(1, saved=None)])["mpi_wait"]
    assert "saved_j" not in record["watts"] and "waiting_j" in record["watts"]


def test_unknown_says_why_and_older_nodes_have_none(tmp_path: Path) -> None:
    lost = [{"package": 0, "why": "too few samples"}]
    assert merged(tmp_path, lost)["mpi_wait"]["watts"] == {
        "packages": 1,
        "known": 0,
        "why": "too few samples",
    }
    assert "watts" not in merged(tmp_path, None)["mpi_wait"]


@pytest.mark.parametrize(
    "fit",
    [
        {"why": "not significant"},
        [7],
        [{"package": 0, "why": "because"}],
        [{"package": 0}],
        [{"package": 0, "why": ""} | {"waiting_j": [1e300, 1]}],
        [{"package": 0, "why": ""} | {"waiting_j": [1, -1]}],
        [{"package": 0, "why": ""} | {"waiting_j": [1]}],
        [{"package": 0, "why": "not significant"}] * 65,
    ],
)
def test_hostile_fits_count_as_absent(tmp_path: Path, fit: Any) -> None:
    assert left_out(tmp_path, node_record(watts=fit)) == '"watts"'
