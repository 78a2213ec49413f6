"""The sampler and the node's accumulator: shared by all who sample, readable after an update, and cheap."""

from __future__ import annotations

import contextlib
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lib.record_tools import (
    NO_POWERCAP,
    Elsewhere,
    Ticks,
    driver,
    set_energy,
    show_powercap,
    two_packages,
    write_zone,
    zones,
)
from tests.lib.segments import segment, slot

NOW_S = 1_700_000_000.0


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    return two_packages(tmp_path)


def test_accumulator_is_shared_and_survives_damage(powercap: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("update", root, elsewhere=elsewhere)
    set_energy(powercap, "intel-rapl:0", 3_000_000)
    assert zones(driver("update", root, elsewhere=elsewhere))[0]["total_uj"] == 2_000_000
    for damage in (
        "",
        "{",
        '{"v": 2}',
        '{"v":1,"boot":"x","source":"rapl","begun_ns":0,"at_ns":0,"wrap_ns":0,"zones":[{}]}',
    ):
        (root / "c1/energy").write_text(damage)
        assert zones(driver("update", root, elsewhere=elsewhere))[0]["total_uj"] == 0
    assert (root / "c1").stat().st_mode & 0o777 == 0o700


CSV = {
    # what the ranks claim (alive, outcome): while the step runs, when it has ended
    "ranks in MPI": ((2, 0), None, "killed"),
    "a second mpirun that was killed": ((1, 1), None, "killed"),
    "nobody left MPI": ((0, 0), None, "killed"),
    "written": ((0, 1), "written", "written"),
    "no directory": ((0, 2), "no such directory", "no such directory"),
    "not allowed": ((0, 3), "no permission to write there", "no permission to write there"),
    "a full disk": ((0, 4), "no space left", "no space left"),
    "another error": ((0, 5), "failed", "failed"),
    "no outcome": ((0, 2**32 - 1), "failed", "failed"),
}


@pytest.mark.parametrize("what", CSV)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_what_became_of_the_files_of_csv(tmp_path: Path, what: str, asked: bool) -> None:
    (alive, outcome), running, ended = CSV[what]
    root, path = tmp_path / "run", tmp_path / "segment"
    path.write_bytes(segment(slot(0, 1, 2_000_000, state=2), alive=alive, csv=outcome))
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=NOW_S)
    with Ticks(root, 7, 3, NO_POWERCAP, NOW_S, segment=path, csv=asked) as ticks:
        ticks.at(NOW_S + 1)
        assert csv_of(root) == (running if asked else None)
    assert csv_of(root) == (ended if asked else None)


def test_without_a_rank_there_are_no_files(tmp_path: Path) -> None:
    root, path = tmp_path / "run", tmp_path / "segment"
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=NOW_S)
    for content, ended in ((segment(), None), (b"", "failed")):
        path.write_bytes(content)
        with Ticks(root, 7, 3, NO_POWERCAP, NOW_S, segment=path, csv=True):
            pass
        assert csv_of(root) == ended


OTHERS = "other programs of the step have other policies"
NAP = {"asked": "nap", "used": "nap", "why": "", "by": "program"}
OFF = {"asked": "off", "used": "off", "why": "", "by": "program"}
OWN = {"asked": "yield", "used": "yield", "why": "", "by": "site"}
CHOSEN = {  # the step's own policy, the ranks' choices, ranks that chose "off"; the step's policy, None: leaves nothing
    "nobody has chosen": ("yield", [0, 0], 0, OWN),
    "all have chosen": ("yield", [1, 1], 0, NAP),
    "one of three": ("yield", [0, 0, 1], 0, OWN | {"why": OTHERS}),
    "two of three": ("yield", [1, 0, 1], 0, NAP | {"why": OTHERS}),
    "all chose off": ("yield", [], 3, OFF),
    "off has no figures": ("yield", [1], 3, NAP | {"why": OTHERS}),
    "a number that nobody offered": ("yield", [3, 16], 0, OWN),
    "a number that cannot be": ("yield", [17, 2**32 - 1], 0, OWN),
    "off, and nobody has chosen": ("off", [], 0, None),
    "off, and so is every choice": ("off", [], 2, None),
    "off, and a rank has chosen": ("off", [1], 0, NAP),
}


@pytest.mark.parametrize("what", CHOSEN)
def test_the_policy_of_a_step_whose_ranks_choose(tmp_path: Path, what: str) -> None:
    own, programs, off, policy = CHOSEN[what]
    root, path = tmp_path / "run", tmp_path / "segment"
    ranks = [slot(rank, len(programs), 2_000_000, program=number) for rank, number in enumerate(programs)]
    path.write_bytes(segment(*ranks))
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=NOW_S)
    with Ticks(root, 7, 3, NO_POWERCAP, NOW_S, segment=path, CHOICES=own, OFF=str(off)):
        pass
    step = root / "c1/7/step.3.json"
    assert step.exists() == (policy is not None)
    if policy is not None:
        assert json.loads(step.read_text())["policy"] == policy


def csv_of(root: Path) -> str | None:
    step: dict[str, str] = json.loads((root / "c1/7/step.3.json").read_text())
    return step.get("csv")


def test_samplers_of_one_node_do_not_count_twice(powercap: Path, tmp_path: Path) -> None:
    """A sampler remembers what it wrote: not where somebody else has written since."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with Ticks(root, 7, 0, elsewhere, NOW_S) as first, Ticks(root, 7, 1, elsewhere, NOW_S + 0.1) as second:
        for second_number in range(1, 9):
            set_energy(powercap, "intel-rapl:0", 1_000_000 + second_number * 1_000_000)
            first.at(NOW_S + second_number)
            second.at(NOW_S + second_number + 0.1)
            if second_number % 3 == 2:
                driver("update", root, elsewhere=elsewhere, now_s=NOW_S + second_number + 0.2)
        for step in (first, second):
            step.at(NOW_S + 8.5)
    zone = zones(driver("update", root, elsewhere=elsewhere, now_s=NOW_S + 9))[0]
    assert (zone["total_uj"], zone["gaps"]) == (8_000_000, 0)


def test_one_of_many_steps_reads_and_writes_the_accumulator(powercap: Path, tmp_path: Path) -> None:
    """The others, without ranks, take its sample; and each has the counters of its own begin and end."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with contextlib.ExitStack() as stack:
        starts = [NOW_S + step / 10 for step in range(5)]
        steps = [stack.enter_context(Ticks(root, 7, step, elsewhere, start)) for step, start in enumerate(starts)]
        for second in range(1, 5):
            set_energy(powercap, "intel-rapl:0", 1_000_000 + second * 1_000_000)
            reads = [step.at(start + second)[1] for step, start in zip(steps, starts)]
            assert sorted(reads) == [0, 0, 0, 0, 5], f"second {second}"
        for step in steps:
            step.at(NOW_S + 4.9)
        set_energy(powercap, "intel-rapl:0", 9_000_000)
    for number in range(5):
        ends = json.loads((root / f"c1/7/step.{number}.json").read_text())
        assert zones(ends["to"])[0]["total_uj"] - zones(ends["from"])[0]["total_uj"] == 8_000_000


def many_zones(tmp_path: Path, packages: int = 50) -> Elsewhere:
    """Four zones of each package."""
    tree = tmp_path / f"powercap-{packages}"
    for package in range(packages):
        folder = tree / f"intel-rapl/intel-rapl:{package}"
        write_zone(folder, f"package-{package}", 1_000_000)
        for index, name in enumerate(("core", "uncore", "dram")):
            write_zone(folder / f"intel-rapl:{package}:{index}", name, 1_000_000, power_uw=None)
    return show_powercap(tree)


def test_many_zones_need_few_descriptors(tmp_path: Path) -> None:
    """One open file for each, although libpowercap knows ten and writes instance 10 as "a"."""
    assert len(driver("update", tmp_path / "run", elsewhere=many_zones(tmp_path), files=300)["zones"]) == 200


def calls_of_ticks(tmp_path: Path, packages: int, ticks: int) -> list[tuple[int, int]]:
    root, elsewhere = tmp_path / f"run-{packages}", many_zones(tmp_path, packages)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with Ticks(root, 7, 0, elsewhere, NOW_S) as step:
        step.at(NOW_S + 1)
        return [step.at(NOW_S + 2 + tick) for tick in range(ticks)]


def test_a_tick_reads_each_counter_once_and_opens_none(tmp_path: Path) -> None:
    """What it opens are its own few files: as many with 200 zones as with 4. Its time is measured by a benchmark."""
    few, many = calls_of_ticks(tmp_path, 1, 5), calls_of_ticks(tmp_path, 50, 5)
    assert [reads for _, reads in few] == [4] * 5 and [reads for _, reads in many] == [200] * 5
    assert [opens for opens, _ in few] == [opens for opens, _ in many]
    assert max(opens for opens, _ in many) <= 8


def ticks_of_job(tmp_path: Path, steps: int, seconds: int, cpu_ms: int) -> list[int]:
    """How often the sampler of each of a job's steps has ticked, by the files that it opened."""
    root, counts = tmp_path / "run", [0] * steps
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=NO_POWERCAP, now_s=NOW_S)
    with ExitStack() as stack:
        each = [stack.enter_context(Ticks(root, 7, step, NO_POWERCAP, NOW_S, cpu_ms=cpu_ms)) for step in range(steps)]
        for now in range(1, seconds + 1):
            for step, ticks in enumerate(each):
                opens, _ = ticks.at(NOW_S + now)
                counts[step] += opens > 0
    return counts


def test_ticks_that_cost_little_come_each_second(tmp_path: Path) -> None:
    assert ticks_of_job(tmp_path, 1, 20, 1) == [20]


@pytest.mark.parametrize("steps", [1, 4])
def test_all_ticks_of_a_job_have_a_fiftieth_of_a_cpu(tmp_path: Path, steps: int) -> None:
    """Ticks of 0.2 s, as a segment that its owner fills can make them: one each 10 s, those of the begins too."""
    counts = ticks_of_job(tmp_path, steps, 100, 200)
    assert 9 <= steps + sum(counts) <= 11 and max(counts) - min(counts) <= 1


def test_counters_are_read_in_time_by_a_step_that_must_wait(tmp_path: Path) -> None:
    """One of 60 J at 10 W goes round in 6 s, in which a tick of a second has to wait for 50 s."""
    tree, used_uj = tmp_path / "powercap", 0
    write_zone(tree / "intel-rapl/intel-rapl:0", "package-0", 0, 60_000_000, 10_000_000)
    elsewhere = show_powercap(tree)
    driver("begin", tmp_path / "run", 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    with Ticks(tmp_path / "run", 7, 0, elsewhere, NOW_S, cpu_ms=1000) as step:
        for second in range(1, 50):
            used_uj += 5_000_000
            set_energy(tree, "intel-rapl:0", used_uj % 60_000_000)
            step.at(NOW_S + second)
    (zone,) = zones(driver("update", tmp_path / "run", elsewhere=elsewhere, now_s=NOW_S + 49))
    assert (zone["total_uj"], zone["gaps"]) == (used_uj, 0)


def test_what_fails_once_is_not_the_complaint(
    powercap: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As while slurmstepd acts as the user. What goes on failing is said, once, and anew when it fails again."""
    root, elsewhere = tmp_path / "run", show_powercap(powercap)
    driver("begin", root, 7, 2, 4, "test", "c1", "nap", 0, elsewhere=elsewhere, now_s=NOW_S)
    said = []
    with Ticks(root, 7, 0, elsewhere, NOW_S) as step:
        for second, fails in enumerate([False, True, False, True, True, True, False, True, True], 1):
            blocked = root / "c1/energy"
            if fails and not blocked.is_dir():
                blocked.unlink()
                blocked.mkdir()
            if not fails and blocked.is_dir():
                blocked.rmdir()
            step.at(NOW_S + second)
            said.append(capfd.readouterr().err.count("missing from the record"))
        blocked.rmdir()
    assert said == [0, 0, 0, 0, 1, 0, 0, 0, 1]
