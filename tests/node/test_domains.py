"""Frequency domains on the simulated node: who has them, and who puts back what."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.lib.domains import AMD, CPUFREQ, DRIVER, ENVIRONMENT, GIVEN, LIMITS, STATE, Node, helper, nodes, script

DRIVERS = {"acpi-cpufreq": GIVEN, "intel_cpufreq": LIMITS, "intel_pstate": LIMITS, "amd-pstate-epp": AMD}


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture
def node(start: Callable[..., Node]) -> Node:
    return start()


def policies(node: Node) -> tuple[int, ...]:
    return tuple(sorted(int(path.name.removeprefix("policy")) for path in node.path(CPUFREQ).iterdir()))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("domain_size", [1, 4])
@pytest.mark.parametrize("strict", [False, True])
def test_everything_is_put_back(start: Callable[..., Node], driver: str, domain_size: int, strict: bool) -> None:
    node = start(driver=driver, domain_size=domain_size, strict_limits=strict)
    before = node.snapshot()
    for end in ("step exit", "restore", "epilog"):
        holder = node.holder(7)
        holder.do(*script(DRIVERS[driver], policies(node)))
        assert node.snapshot() != before
        if end == "step exit":
            holder.do("end")
        holder.stop(kill=True)
        if end == "restore":
            assert node.restore().returncode == 0
        if end == "epilog":
            assert node.driver("epilog", 7).returncode == 0
        assert (end, node.snapshot()) == (end, before)
        assert (end, node.held()) == (end, [])


def test_a_live_stepd_is_never_touched(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    lowered = node.snapshot()
    done = node.restore()
    assert done.returncode == 0 and "1 domains are in use" in done.stderr
    assert node.snapshot() == lowered
    holder.do("set 0 1400000")
    holder.do("end")
    holder.stop()
    assert node.snapshot() == before


OF_ITS_OWN = {
    "numbers": ["unshare", "--pid", "--fork", "--kill-child"],
    "numbers and proc": ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
    "numbers of no namespace here": ["unshare", "--pid", "--fork", "--kill-child", "unshare", "--pid", "--fork",
                                     "--kill-child", "--mount-proc"],
}
"""How a slurmstepd is started whose process numbers are not the node's."""


@pytest.mark.parametrize("namespace", OF_ITS_OWN)
def test_a_stepd_whose_number_is_another_processes_is_never_touched(node: Node, namespace: str) -> None:
    """On the node the number that it has in its PID namespace is another process's, or nobody's."""
    before = node.snapshot()
    inside = node.holder(7, within=OF_ITS_OWN[namespace])
    inside.do(*script(GIVEN))
    lowered = node.snapshot()
    done = node.restore()
    assert done.returncode == 0 and "1 domains are in use" in done.stderr
    assert node.snapshot() == lowered
    inside.do("set 0 1400000")
    second = node.holder(8, within=OF_ITS_OWN[namespace])  # with the same number in a namespace of its own
    second.do(*script(GIVEN, (1,)))
    inside.stop(kill=True)
    done = node.restore()
    assert done.returncode == 0 and "1 orphaned domains" in done.stderr and "1 domains are in use" in done.stderr
    second.do("end")
    second.stop()
    assert node.snapshot() == before


def test_dry_run_says_and_changes_nothing(node: Node) -> None:
    before = node.snapshot()
    assert node.restore("--dry-run").returncode == 0
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    holder.stop(kill=True)
    changed, held = node.snapshot(), node.held()
    done = node.restore("--dry-run")
    assert done.returncode == 2
    assert 'cpufreq policy0/scaling_max_freq: "2000000" would be put back to "2400000"' in done.stderr
    assert "cpufreq policy0/scaling_max_freq: owner 65534:65534 mode 0600 would be put back to 0:0 0644" in done.stderr
    assert "1 orphaned domains (nothing is changed): 2 settings would be put back" in done.stderr
    assert (node.snapshot(), node.held()) == (changed, held)
    done = node.restore()
    assert done.returncode == 0 and '"2000000" put back to "2400000"' in done.stderr
    assert node.snapshot() == before


def test_restoring_again_or_all_at_once_changes_nothing_more(node: Node) -> None:
    before = node.snapshot()
    for round_ in range(5):
        for job in (7, 8):
            holder = node.holder(job)
            holder.do(*script(GIVEN, (job - 7,)))
            holder.stop(kill=True)
        running = [
            subprocess.Popen(node.command(helper(), "restore"), stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            for _ in range(6)
        ]
        logs = [process.communicate()[1] for process in running]
        assert [process.returncode for process in running] == [0] * 6, (round_, logs)
        assert node.snapshot() == before
        assert node.held() == []
    assert "0 orphaned domains: 0 settings put back" in node.restore().stderr


def test_one_jobs_restore_leaves_the_other_alone(node: Node) -> None:
    before = node.snapshot()
    first, second = node.holder(7), node.holder(8)
    first.do(*script(GIVEN, (0,)))
    second.do(*script(GIVEN, (1,)))
    lowered = node.snapshot()
    first.stop(kill=True)
    assert node.driver("epilog", 7).returncode == 0
    assert node.restore().returncode == 0
    for name, now in node.snapshot().items():
        assert now == (before if name.startswith("policy0/") else lowered)[name]
    second.do("set 1 1000000", "end")
    second.stop()
    assert node.snapshot() == before


@pytest.mark.parametrize("alive", [True, False])
def test_who_takes_a_domain_puts_it_back_first(node: Node, alive: bool) -> None:
    """Suspended, hung or dead: the second job starts from the found state, and the first never touches it again."""
    before = node.snapshot()
    first, second = node.holder(7), node.holder(8)
    first.do(*script(GIVEN, (0, 1)))
    if not alive:
        first.stop(kill=True)
    second.do("take 0")
    assert {name: now for name, now in node.snapshot().items() if name.startswith("policy0/")} == {
        name: now for name, now in before.items() if name.startswith("policy0/")
    }
    second.do("change 0 1600000 2400000", "set 0 1600000")
    if alive:
        assert first.tell("set 0 1000000")[0] == -116
        assert first.tell("change 0 1000000 2400000") == (
            -116, "cpufreq policy0/scaling_max_freq: another step has it now; not changed")
        assert first.tell("holds 0")[0] == 0 and first.tell("holds 1")[0] == 1
        first.do("set 1 1400000", "end")
        first.stop()
    assert node.driver("epilog", 7).returncode == 0
    assert node.restore().returncode == 0
    assert node.read(0, "scaling_max_freq") == "1600000" and node.read(1, "scaling_max_freq") == "2400000"
    second.do("end")
    assert "cpufreq policy0: reverted the changes of job 7 step 0 and ended its lease" in second.stop()
    assert node.snapshot() == before


def test_taken_in_the_middle_of_writes(node: Node) -> None:
    """From then on not one write of the earlier holder arrives, however many are under way: it waits for its
    answers to be read, with half of what it was told still before it."""
    before = node.snapshot()
    first, second = node.holder(7), node.holder(8)
    assert first.process.stdin and first.process.stdout
    fcntl.fcntl(first.process.stdin, fcntl.F_SETPIPE_SZ, 1 << 18)
    writes = fcntl.fcntl(first.process.stdout, fcntl.F_SETPIPE_SZ, 1 << 12)
    first.do(*script(GIVEN))
    first.process.stdin.write("set 0 1200000\nset 0 2000000\n" * (writes // 2))
    first.process.stdin.flush()
    answers = [int(first.process.stdout.readline().split()[0])]
    second.do("take 0")
    at_once = node.snapshot()
    answers += [int(first.process.stdout.readline().split()[0]) for _ in range(writes - 1)]
    assert (at_once, node.snapshot()) == (before, before)
    assert sorted(set(answers)) == [-116, 0] and answers == sorted(answers, reverse=True)
    for holder in (second, first):
        holder.do("end")
        holder.stop()
    assert node.snapshot() == before


def test_the_epilog_ends_a_lease_that_is_alive(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    assert node.driver("epilog", 7).returncode == 0
    assert (node.snapshot(), node.held()) == (before, [])
    assert holder.tell("set 0 1000000")[0] == -116
    assert holder.tell("take 1") == (0, "")
    holder.do("end")
    holder.stop()
    assert node.snapshot() == before


def test_the_helpers_epilog_undoes_too(node: Node) -> None:
    before = node.snapshot()
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    holder.stop(kill=True)
    done = node.run("env", "SLURM_JOB_ID=7", helper(), "epilog", "record=none")
    assert done.returncode == 0
    assert node.snapshot() == before
    assert not node.path(f"{STATE}/7").exists()


def test_a_full_disk_means_no_change(node: Node) -> None:
    """A domain that was never held has no file, and gets none; who has one can write it, and give it back."""
    before = node.snapshot()
    holder = node.holder(7)
    holder.do("take 0")
    node.run("mount", "-o", "remount,size=200k", "/run")
    node.run("sh", "-c", "dd if=/dev/zero of=/run/fill bs=4k 2>/dev/null")
    assert holder.tell("take 1") == (-28, "cpufreq policy1: No space left on device; not taken")
    assert holder.tell("change 1 1000000 2400000")[0] < 0
    assert node.snapshot() == before
    holder.do(*script(GIVEN)[1:])
    assert node.snapshot() != before
    holder.do("release 0")
    assert (node.snapshot(), node.held()) == (before, [])
    node.path("/run/fill").unlink()
    node.run("mount", "-o", "remount,size=50%", "/run")
    holder.do("take 1", "end")
    holder.stop()
    assert node.snapshot() == before


def test_no_installed_object_can_be_told_to_die() -> None:
    for path in (helper(), helper().parents[1] / "lib/slurm/spank_mpi_wait.so"):
        assert b"MPIWAIT_KILL" not in path.read_bytes()
    assert b"MPIWAIT_KILL" in DRIVER.read_bytes()


def test_the_health_check_restores_logs_and_never_fails(node: Node) -> None:
    before = node.snapshot()
    text = (helper().parent / "mpi-wait-health").read_text()
    assert "/opt/mpi-wait/sbin/mpi-wait-node restore" in text
    script_ = "logger() { cat >>/run/logged; }\n" + text.replace("/opt/mpi-wait/sbin", str(helper().parent))
    logged = node.path("/run/logged")
    assert node.run("sh", "-c", script_).returncode == 0 and not logged.exists()
    holder = node.holder(7)
    holder.do(*script(GIVEN))
    holder.stop(kill=True)
    assert node.run("sh", "-c", script_).returncode == 0
    assert '"2000000" put back to "2400000"' in logged.read_text()
    assert node.snapshot() == before
    node.path("/run/mpi-wait/c9").symlink_to("c1")
    assert node.run("sh", "-c", script_).returncode == 0 and "refused" in logged.read_text()
    assert node.run("sh", "-c", script_, "sh", "--strict").returncode == 1
    node.path("/run/mpi-wait/c9").unlink()
    assert node.run("sh", "-c", script_, "sh", "--strict").returncode == 0


def test_the_unit_restores_before_slurmd() -> None:
    unit = (helper().parents[1] / "lib/systemd/system/mpi-wait-restore.service").read_text().splitlines()
    for line in ("Before=slurmd.service", "Type=oneshot", "ExecStart=/opt/mpi-wait/sbin/mpi-wait-node restore",
                 "WantedBy=slurmd.service"):
        assert line in unit
