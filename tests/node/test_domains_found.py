"""What is found where a domain is put back, on the simulated node: others' settings, caps, limits, an earlier boot."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator

import pytest

from tests.lib.domains import CPUFREQ, GIVEN, STATE, Node, nodes, script


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture
def node(start: Callable[..., Node]) -> Node:
    return start()


def test_what_somebody_else_has_set_since_is_left_alone(node: Node) -> None:
    """An administrator's owner, Slurm's own reset of --cpu-freq."""
    node.write(1, "scaling_max_freq", 1_800_000)
    holder = node.holder(7)
    holder.do(*script(GIVEN), "take 1", "change 1 1000000 1800000", "set 1 1000000")
    node.write(1, "scaling_max_freq", 2_000_000)
    os.chown(node.path(f"{CPUFREQ}/policy0/scaling_max_freq"), 12, 34)
    holder.stop(kill=True)
    done = node.restore()
    assert done.returncode == 0 and "2 left alone" in done.stderr
    for name, what in (("policy1", "its value"), ("policy0", "its owner")):
        assert f"cpufreq {name}/scaling_max_freq: {what} was changed by somebody else since; left alone" in done.stderr
    assert node.read(1, "scaling_max_freq") == "2000000"
    assert node.held() == []


def test_another_driver_is_left_alone(node: Node) -> None:
    holder = node.holder(7)
    holder.do("take 0", "change 0 1000000 2400000", "set 0 1000000")
    holder.stop(kill=True)
    node.simulation.control(show={"scaling_driver": "amd-pstate-epp"})
    done = node.restore()
    assert done.returncode == 0 and "cpufreq policy0: the driver has changed; nothing to undo" in done.stderr
    assert (node.read(0, "scaling_max_freq"), node.held()) == ("1000000", [])


@pytest.mark.parametrize("mode", [0o600, 0o000, 0o666, 0o4644])
@pytest.mark.parametrize("khz", [1_000_000, 1_200_000, 2_400_000])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "ended"])
def test_a_file_that_was_given_away_is_put_back_whatever_its_user_made_of_it(
    node: Node, mode: int, khz: int, killed: bool
) -> None:
    """Group, mode and value: below and above what would be written, where the site had a cap."""
    node.write(0, "scaling_max_freq", 1_800_000)
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("take 0", "change 0 1400000 1800000 to=65534:65534:644")
    file = node.path(f"{CPUFREQ}/policy0/scaling_max_freq")
    node.write(0, "scaling_max_freq", khz)
    os.chown(file, 65534, 12)
    os.chmod(file, mode)
    if not killed:
        holder.do("release 0")
    assert "since; left alone" not in holder.stop(kill=killed)
    done = node.restore()
    assert done.returncode == 0 and "since; left alone" not in done.stderr
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_kill_between_owner_and_mode_is_mended(node: Node) -> None:
    """The file is root's again, and its mode is still what its user made of it."""
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("take 0", "change 0 1400000 2400000 to=65534:65534:644")
    file = node.path(f"{CPUFREQ}/policy0/scaling_max_freq")
    os.chmod(file, 0o666)
    holder.stop(kill=True)
    assert node.driver("epilog", 7, kill="owned:1").returncode == -9
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o666)
    assert node.restore().returncode == 0
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_setting_below_ours_is_told_from_a_cap(node: Node) -> None:
    """scaling_max_freq shows the lowest of all limits, so that only a write tells a cap from a setting."""
    before = node.snapshot()
    for cap in (True, False):
        holder = node.holder(7)
        holder.do("take 0", "change 0 1600000 2400000", "set 0 1600000")
        holder.stop(kill=True)
        if cap:
            node.simulation.control(cap={"0": 1_200_000})
            done = node.restore()
            assert "a cap holds it at 1200000; 2400000 applies when the cap ends" in done.stderr
            node.simulation.control(cap={"0": 0})
            assert node.snapshot() == before
        else:
            node.write(0, "scaling_max_freq", 1_200_000)
            assert "its value was changed by somebody else since" in node.restore().stderr
            assert node.read(0, "scaling_max_freq") == "1200000"
            node.write(0, "scaling_max_freq", 2_400_000)


def test_a_cap_at_the_end_is_no_failure(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("take 0", "change 0 1200000 2400000", "set 0 1200000")
    node.simulation.control(cap={"0": 2_000_000})
    holder.stop(kill=True)
    done = node.restore()
    assert done.returncode == 0 and "a limit holds it at 2000000" in done.stderr
    node.simulation.control(cap={"0": 0})
    assert node.snapshot() == before


def test_a_firmware_cap_is_not_taken_for_a_setting(node: Node) -> None:
    before = node.snapshot()
    node.simulation.control(firmware={"0": 1_400_000})
    holder = node.holder(7)
    holder.do("take 0")
    assert holder.tell("change 0 1000000 1400000") == (
        -11, "cpufreq policy0/scaling_max_freq: a cap holds the clock down, so the setting cannot be read; not changed")
    holder.do("end")
    holder.stop()
    node.simulation.control(firmware={"0": 0})
    assert node.snapshot() == before


def test_what_was_changed_since_it_was_decided_on_is_not_changed(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("take 0")
    assert holder.tell("change 0 1000000 2000000") == (
        -11, "cpufreq policy0/scaling_max_freq: the value has changed since it was read; not changed")
    holder.do("end")
    holder.stop()
    assert node.snapshot() == before


def test_a_holder_of_an_earlier_boot_changed_nothing_in_this(node: Node) -> None:
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    holder.stop(kill=True)
    changed = node.snapshot()
    file = node.path(f"{STATE}/cpufreq/policy0")
    boot = file.read_text().split(" boot ")[1].split()[0]
    older = with_sum(file.read_text().replace(boot, "0" * 8 + boot[8:]))
    file.write_text(older)
    done = node.restore()
    assert done.returncode == 0
    assert "cpufreq policy0: held by job 7 step 0 of an earlier boot; nothing to undo" in done.stderr
    assert (node.snapshot(), node.held()) == (changed, [])
    file.write_text(older)
    later = node.holder(8)
    later.do("take 0")
    assert node.snapshot() == changed
    later.do("end")
    later.stop()


def test_a_released_core_is_found_anew(node: Node) -> None:
    """What was found when the same step had it before is not put back when it has it again."""
    before = node.snapshot()
    for killed in (True, False):
        holder = node.holder(7)
        holder.do("take 0", "change 0 1000000 2400000", "set 0 1000000", "release 0")
        assert node.snapshot() == before
        node.write(0, "scaling_max_freq", 1_800_000)
        holder.do("take 0", "change 0 1000000 1800000", "set 0 1000000")
        if not killed:
            holder.do("end")
        holder.stop(kill=True)
        assert node.restore().returncode == 0
        assert node.read(0, "scaling_max_freq") == "1800000"
        node.write(0, "scaling_max_freq", 2_400_000)
    assert node.snapshot() == before


def with_sum(text: str) -> str:
    """The checksum anew, as someone would who knows the format."""
    body = text[:-10]
    return f"{body} {zlib.crc32(body.encode()):08x}\n"
