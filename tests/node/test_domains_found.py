"""What the undoing of a journal finds on the simulated node: others' settings, caps, limits, an earlier boot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

import pytest

from tests.lib.domains import CPUFREQ, DRIVER, SPEED, STATE, Node, nodes, script


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture
def node(start: Callable[..., Node]) -> Node:
    return start()


def test_what_somebody_else_has_set_since_is_left_alone(node: Node) -> None:
    """An administrator's governor, Slurm's own reset of --cpu-freq."""
    holder = node.holder(7)
    holder.do(*script(SPEED), *script(("record {0} scaling_max_freq khz=1000000-1200000",
                                       "set {0} scaling_max_freq 1000000")))
    node.write(0, "scaling_governor", "performance")
    node.write(0, "scaling_max_freq", 1_800_000)
    os.chown(node.path(f"{CPUFREQ}/policy0/scaling_setspeed"), 12, 34)
    holder.stop(kill=True)
    done = node.restore()
    assert done.returncode == 0 and "3 left alone" in done.stderr
    for name, what in (("scaling_governor", "its value"), ("scaling_max_freq", "its value"),
                       ("scaling_setspeed", "its owner")):
        assert f"policy0/{name}: somebody else has changed {what} since; left alone" in done.stderr
    assert (node.read(0, "scaling_governor"), node.read(0, "scaling_max_freq")) == ("performance", "1800000")
    os.chown(node.path(f"{CPUFREQ}/policy0/scaling_setspeed"), 0, 0)
    os.chmod(node.path(f"{CPUFREQ}/policy0/scaling_setspeed"), 0o644)
    node.write(0, "scaling_governor", "schedutil")
    node.write(0, "scaling_max_freq", 2_400_000)


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
    holder.do("claim 0", "record 0 scaling_max_freq khz=1400000-1800000 owner=65534:65534:644",
              "give 0 scaling_max_freq")
    file = node.path(f"{CPUFREQ}/policy0/scaling_max_freq")
    node.write(0, "scaling_max_freq", khz)
    os.chown(file, 65534, 12)
    os.chmod(file, mode)
    if not killed:
        holder.do("release 0")
    assert "since; left alone" not in holder.stop(kill=killed)
    done = node.restore()
    assert done.returncode == 0 and "since; left alone" not in done.stderr
    assert (node.snapshot(), node.journals()) == (before, [])


def test_a_kill_between_owner_and_mode_is_mended(node: Node) -> None:
    """The file is root's again, and its mode is still what its user made of it."""
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("claim 0", "record 0 scaling_max_freq khz=1400000-2400000 owner=65534:65534:644",
              "give 0 scaling_max_freq")
    file = node.path(f"{CPUFREQ}/policy0/scaling_max_freq")
    os.chmod(file, 0o666)
    holder.stop(kill=True)
    assert node.run(DRIVER, "/run/mpi-wait", "/sys", "epilog", 7, kill="owned:1").returncode == -9
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o666)
    assert node.restore().returncode == 0
    assert (node.snapshot(), node.journals()) == (before, [])


def test_a_setting_below_ours_is_told_from_a_cap(node: Node) -> None:
    """scaling_max_freq shows the lowest of all limits, so that only a write tells a cap from a setting."""
    before = node.snapshot()
    for cap in (True, False):
        holder = node.holder(7)
        holder.do("claim 0", "record 0 scaling_max_freq khz=1600000-1600000", "set 0 scaling_max_freq 1600000")
        holder.stop(kill=True)
        if cap:
            node.simulation.control(cap={"0": 1_200_000})
            done = node.restore()
            assert "a cap holds it at 1200000; 2400000 is asked for again" in done.stderr
            node.simulation.control(cap={"0": 0})
            assert node.snapshot() == before
        else:
            node.write(0, "scaling_max_freq", 1_200_000)
            assert "somebody else has changed its value since" in node.restore().stderr
            assert node.read(0, "scaling_max_freq") == "1200000"
            node.write(0, "scaling_max_freq", 2_400_000)


def test_a_cap_at_the_end_is_no_failure(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("claim 0", "record 0 scaling_max_freq khz=1200000-1200000", "set 0 scaling_max_freq 1200000")
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
    holder.do("claim 0")
    assert holder.tell("record 0 scaling_max_freq khz=1000000-1000000") == (
        -11, "policy0/scaling_max_freq: a cap holds the clock, so that what was set cannot be read; not changed")
    holder.do("record 0 scaling_governor value=userspace", "set 0 scaling_governor userspace", "end")
    holder.stop()
    node.simulation.control(firmware={"0": 0})
    assert node.snapshot() == before


def test_an_earlier_boots_journal_is_discarded(node: Node) -> None:
    holder = node.holder(7)
    holder.do(*script(SPEED))
    holder.stop(kill=True)
    changed = node.snapshot()
    (journal,) = (node.path(STATE) / name for name in node.journals())
    boot = json.loads(journal.read_text().splitlines()[0].split(" ", 1)[1])["boot"]
    for path in (journal, node.path(f"{STATE}/cpu/policy0")):
        path.write_text(with_sums(path.read_text().replace(boot, "0" * 8 + boot[8:]), claim=path.name == "policy0"))
    done = node.restore()
    assert done.returncode == 0 and "of an earlier boot, nothing to undo; removed" in done.stderr
    assert node.journals() == []
    assert node.snapshot() == changed
    later = node.holder(8)
    later.do("claim 0", "end")
    later.stop()
    os.chown(node.path(f"{CPUFREQ}/policy0/scaling_setspeed"), 0, 0)
    os.chmod(node.path(f"{CPUFREQ}/policy0/scaling_setspeed"), 0o644)
    node.write(0, "scaling_governor", "schedutil")


def with_sums(text: str, claim: bool) -> str:
    """The checksums anew, as someone would who knows the format."""
    import zlib

    if claim:
        body = text[:-10]
        return f"{body} {zlib.crc32(body.encode()):08x}\n"
    lines = [line.split(" ", 1)[1] for line in text.splitlines()]
    return "".join(f"{zlib.crc32(line.encode()):08x} {line}\n" for line in lines)


def test_a_released_core_is_found_anew(node: Node) -> None:
    """What was found at an earlier claim of the same step is not put back at the end of a later one."""
    before = node.snapshot()
    lower = ("claim 0", "record 0 scaling_max_freq khz=1000000-2400000", "set 0 scaling_max_freq 1000000")
    for killed in (True, False):
        holder = node.holder(7)
        holder.do(*lower, "release 0")
        assert node.snapshot() == before
        node.write(0, "scaling_max_freq", 1_800_000)
        holder.do(*lower)
        if not killed:
            holder.do("end")
        holder.stop(kill=True)
        assert node.restore().returncode == 0
        assert node.read(0, "scaling_max_freq") == "1800000"
        node.write(0, "scaling_max_freq", 2_400_000)
    assert node.snapshot() == before


def test_what_was_changed_last_is_put_back_first(start: Callable[..., Node]) -> None:
    """By domains, and by the files of each."""
    node = start(driver="intel_pstate")
    holder = node.holder(7)
    for policy in (0, 1):
        holder.do(f"claim {policy}", f"record {policy} scaling_max_freq khz=1000000-1000000",
                  f"set {policy} scaling_max_freq 1000000", f"record {policy} scaling_min_freq khz=900000-900000",
                  f"set {policy} scaling_min_freq 900000")
    holder.stop(kill=True)
    writes = node.path("/run/simnode/fs/writes")
    writes.read_text()
    assert node.restore().returncode == 0
    assert [(policy, file, value) for _, policy, file, value in json.loads(writes.read_text())] == [
        (policy, file, value) for policy in ("policy1", "policy0")
        for file, value in (("scaling_min_freq", "800000"), ("scaling_max_freq", "3500000"))
    ]


def test_a_minimum_waits_for_its_maximum(start: Callable[..., Node]) -> None:
    """Before Linux 5.4 a minimum above the maximum is refused, in whatever order the two were recorded."""
    for first, second in (("min", "max"), ("max", "min")):
        node = start(driver="intel_pstate", strict_limits=True)
        node.write(0, "scaling_min_freq", 1_200_000)
        node.write(0, "scaling_max_freq", 1_400_000)
        before = node.snapshot()
        for value in ("800000", "3500000"):
            order = ("min", "max") if value == "800000" else ("max", "min")
            holder = node.holder(7)
            holder.do("claim 0", *(f"record 0 scaling_{name}_freq khz=800000-3500000" for name in (first, second)))
            holder.do(*(f"set 0 scaling_{name}_freq {value}" for name in order))
            holder.stop(kill=True)
            done = node.restore()
            assert (done.returncode, node.snapshot()) == (0, before), done.stderr
