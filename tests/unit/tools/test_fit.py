"""Watts per state of a rank: the least-squares fit, on loads whose watts are known."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
STATES = 3
RUNS = 1000


class Sums(ctypes.Structure):
    _fields_ = [
        ("samples", ctypes.c_double),
        ("xx", ctypes.c_double * STATES * STATES),
        ("xy", ctypes.c_double * STATES),
        ("yy", ctypes.c_double),
        ("rank_s", ctypes.c_double * STATES),
    ]


class Value(ctypes.Structure):
    _fields_ = [
        ("known", ctypes.c_bool),
        ("value", ctypes.c_double),
        ("plus_minus", ctypes.c_double),
    ]

    def covers(self, truth: float) -> bool:
        return bool(self.known) and abs(self.value - truth) <= self.plus_minus


class Fit(ctypes.Structure):
    _fields_ = [
        ("known", ctypes.c_bool),
        ("why", ctypes.c_char_p),
        ("watts", Value * STATES),
        ("waiting_j", Value),
        ("saved_j", Value),
        ("could_save_j", Value),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    target = tmp_path_factory.mktemp("fit") / "libfit.so"
    source = str(REPOSITORY / "spank/energy/fit.c")
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{REPOSITORY}"]
    subprocess.run(["gcc", *flags, source, "-o", str(target), "-lm"], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.fit_add.argtypes = [
        ctypes.POINTER(Sums),
        ctypes.c_double,
        ctypes.c_double,
        ctypes.POINTER(ctypes.c_double),
    ]
    loaded.fit_solve.argtypes = [ctypes.POINTER(Sums), ctypes.POINTER(Fit)]
    return loaded


Sample = tuple[float, float, list[float]]


def solve(library: ctypes.CDLL, samples: list[Sample]) -> Fit:
    sums, fit = Sums(), Fit()
    for seconds, joules, rank_s in samples:
        library.fit_add(sums, seconds, joules, (ctypes.c_double * STATES)(*rank_s))
    library.fit_solve(sums, fit)
    return fit


def states(random_: random.Random, ranks: int, seconds: float) -> list[float]:
    """How long the ranks of one package were asleep, spinning and computing in an interval."""
    parts = [random_.random() for _ in range(STATES)]
    return [ranks * seconds * part / sum(parts) for part in parts]


def load(random_: random.Random, watts: list[float], noise_w: float, samples: int) -> Iterator[Sample]:
    """Noise as of a power that wanders: the longer the interval, the less of it in its mean."""
    for _ in range(samples):
        seconds = random_.choice([1.0, 1.0, 1.0, 0.4])
        rank_s = states(random_, 16, seconds)
        joules = sum(watt * rank for watt, rank in zip(watts, rank_s))
        yield seconds, joules + random_.gauss(0, noise_w * seconds**0.5), rank_s


def test_known_watts_are_recovered_within_the_interval(library: ctypes.CDLL) -> None:
    random_ = random.Random(5)
    good = joules_good = 0
    for _ in range(RUNS):
        watts = [random_.uniform(1, 3), random_.uniform(4, 6), random_.uniform(6, 9)]
        samples = list(load(random_, watts, noise_w=4, samples=random_.randint(20, 200)))
        fit = solve(library, samples)
        assert fit.known, fit.why
        good += all(value.covers(watt) for value, watt in zip(fit.watts, watts))
        slept, spun = (sum(rank_s[i] for _, _, rank_s in samples) for i in (0, 1))
        joules_good += (
            fit.waiting_j.covers(watts[0] * slept + watts[1] * spun)
            and fit.saved_j.covers((watts[1] - watts[0]) * slept)
            and fit.could_save_j.covers((watts[1] - watts[0]) * spun)
        )
    assert good >= 0.95 * RUNS, f"{good} of {RUNS}"
    assert joules_good >= 0.95 * RUNS, f"{joules_good} of {RUNS}"


def test_intervals_are_not_idle_caution(library: ctypes.CDLL) -> None:
    """They shrink with the square root of the samples, and a tenth of them is too narrow to hold the truth."""
    random_ = random.Random(6)
    watts = [2.0, 5.0, 8.0]
    few, many = (
        solve(library, list(load(random_, watts, 4, count))).watts[1].plus_minus
        for count in (100, 1600)
    )
    assert few / many == pytest.approx(4, rel=0.3)
    missed = 0
    for _ in range(100):
        value = solve(library, list(load(random_, watts, 4, 50))).watts[1]
        missed += abs(value.value - watts[1]) > value.plus_minus / 10
    assert missed > 50


@pytest.mark.parametrize("mean_w", [0.0, 80.0])
def test_noise_is_unknown(library: ctypes.CDLL, mean_w: float) -> None:
    """Power that has nothing to do with the ranks' states, about zero or about a mean."""
    random_ = random.Random(7)
    known = 0
    for _ in range(RUNS):
        samples = [
            (1.0, random_.gauss(mean_w, 10), states(random_, 16, 1.0))
            for _ in range(random_.randint(15, 100))
        ]
        known += solve(library, samples).known
    assert known <= 0.005 * RUNS


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([], b"too few samples"),
        ([(1.0, 50.0, [1.0, 2.0, 3.0])] * 12, b"too few samples"),
        ([(1.0, 50.0, [1.0, 2.0, 3.0])] * 50, b"the ranks' states did not vary"),
        ([(1.0, 50.0 + i % 3, [0.0, 0.0, 4.0]) for i in range(50)], b"the ranks' states did not vary"),
        ([(1.0, 50.0, [1.0 + i % 2, 3.0 - i % 2, 0.0]) for i in range(50)], b"not significant"),
    ],
)
def test_what_cannot_be_known(library: ctypes.CDLL, samples: list[Sample], why: bytes) -> None:
    fit = solve(library, samples)
    assert not fit.known and fit.why == why


def test_a_state_that_did_not_occur_has_no_watts(library: ctypes.CDLL) -> None:
    """Nobody spun: what sleeping saved cannot be said."""
    random_ = random.Random(8)
    samples = []
    for _ in range(60):
        asleep = random_.uniform(0, 4)
        joules = 2 * asleep + 8 * (4 - asleep) + random_.gauss(0, 1)
        samples.append((1.0, joules, [asleep, 0.0, 4 - asleep]))
    fit = solve(library, samples)
    assert fit.known and fit.watts[0].covers(2) and fit.watts[2].covers(8)
    assert not fit.watts[1].known and not fit.saved_j.known and fit.waiting_j.known
