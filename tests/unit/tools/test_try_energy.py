"""What counters advance around a run of mpi-wait try, on numbers alone."""

from __future__ import annotations

from typing import Any

from mpi_wait_tools.trial.energy import GPU_MOST_UW, GPU_RANGES_UJ, Counter, Joules, Key, Reading, joules_of

BOARD, PACKAGE, SECOND = ("cray", "node", 0), ("powercap", "cpu", 0), ("powercap", "cpu", 1)
MEMORY, SOCKET = ("powercap", "memory", 2), ("hwmon", "cpu", 0)
GPU, OTHER, ACCELERATOR = ("nvml", "gpu", 0), ("rsmi", "gpu", 0), ("cray", "gpu", 0)


def read(at_s: float, counters: dict[Key, int], **how: Any) -> Reading:
    """Those of powercap wrap at 1000 J, and tell no power: 1 kW is taken."""
    made = {key: Counter(joules * 10**6, *((10**9, 10**9) if key[0] == "powercap" else ())) for key, joules in
            counters.items()}
    return Reading(at_s, made, **{"lacks_gpus": False, "is_simulated": False, **how})


def between(before: dict[Key, int], after: dict[Key, int], seconds: float = 1, **how: Any) -> Joules:
    return joules_of(read(5, before, **how), read(5 + seconds, after, **how))


def test_what_was_used_in_each_scope() -> None:
    used = between({BOARD: 10, GPU: 1, OTHER: 7}, {BOARD: 40, GPU: 3, OTHER: 12})
    assert used.of == {"node": 30, "gpu": 7} and not used.lacks_gpus
    assert between({GPU: 1}, {GPU: 3}, is_simulated=True).is_simulated


def test_one_source_counts_in_a_scope() -> None:
    """Processors by powercap before other counters of them; a board's accelerators are the GPUs that NVML counts."""
    used = between({SOCKET: 0, GPU: 1, ACCELERATOR: 1}, {SOCKET: 9, GPU: 3, ACCELERATOR: 4})
    assert used.of == {"cpu": 9, "gpu": 2}
    assert between({ACCELERATOR: 1}, {ACCELERATOR: 4}).of == {"gpu": 3}
    powercap = joules_of(read(5, {SOCKET: 0, PACKAGE: 0}), read(5.999, {SOCKET: 9, PACKAGE: 5}))
    assert powercap == Joules(), "too short"
    first, last = read(5, {SOCKET: 0, MEMORY: 0}), read(6, {SOCKET: 9, MEMORY: 5})
    assert joules_of(first, last).of == {"cpu": 9}, "memory may have wrapped unseen: 1 kW for a second is its range"


def test_a_counter_that_wraps() -> None:
    """Once, where it cannot have done so unseen."""
    slow = Counter(990 * 10**6, 10**9, 10**8), Counter(15 * 10**6, 10**9, 10**8)
    before, after = (Reading(at, {PACKAGE: one}, False, False) for at, one in zip((0.0, 9.9), slow))
    assert joules_of(before, after).of == {"cpu": 25}
    later = Reading(10.0, {PACKAGE: slow[1]}, False, False)
    assert joules_of(before, later).of == {}


def test_a_counter_that_its_driver_extends_when_read() -> None:
    """Intel's, of which two readings tell nothing if more than a wrap can lie between them."""
    intel = ("intel", "gpu", 0)
    read_uj = [Counter(joules * 10**6, GPU_RANGES_UJ["intel"], GPU_MOST_UW) for joules in (300_000, 500_000)]
    for seconds, joules in ((249.0, {"gpu": 200_000}), (250.0, {})):
        before, after = (Reading(at, {intel: one}, False, False) for at, one in zip((0.0, seconds), read_uj))
        assert joules_of(before, after) == Joules(joules, not joules)


def test_a_counter_that_is_gone_or_began_anew() -> None:
    """Then its scope is not known; of GPUs that is said."""
    assert between({BOARD: 10, GPU: 9}, {BOARD: 12, GPU: 3}) == Joules({"node": 2}, True)
    assert between({GPU: 1, OTHER: 7}, {GPU: 3}) == Joules({}, True)
    assert between({BOARD: 10}, {BOARD: 10}) == Joules(), "it stood still"
    assert between({BOARD: 10}, {BOARD: 11}, lacks_gpus=True).lacks_gpus


def test_no_reading() -> None:
    assert joules_of(None, read(1, {BOARD: 1})) == joules_of(read(1, {BOARD: 1}), None) == Joules()
