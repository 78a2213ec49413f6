"""A step's grant on a simulated node, without Slurm: the real plugin binds tasks, claims their cores, obeys them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lib.domains import BUILD, ENVIRONMENT, REPOSITORY, STATE, Node, nodes
from tests.lib.waiting import wait_for

HOST = BUILD / "tests/lib/doubles/grant_host"
PLUGIN = BUILD / "spank/spank_mpi_wait.so"
POLICIES = f"policies={REPOSITORY}/policies"
DONE, NOT_YOURS, NOT_NOW, BUSY, OVER = range(5)  # preload/contract/lease.h
DEADLINE_S = 20
MOST, LEAST = "3500000", "800000"  # kHz, of intel_pstate as the node has it
MAX = "scaling_max_freq"
STUCK = "request_wait_answer"  # of a file of the simulated node


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    yield from nodes()


@pytest.fixture
def node(start: Callable[..., Node]) -> Node:
    return start(driver="intel_pstate")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user can get to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


class Step:
    """A step of two tasks on cores 0 and 1, until its with-statement ends."""

    def __init__(
        self, node: Node, *arguments: str, job: int = 7, contained: bool = False, under: Sequence[object] = (),
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """under: a command that runs the host. meanwhile: is called before the tasks are forked."""
        self.node, self.job = node, job
        more = [*(["CONTAINED=1"] if contained else []), *(["PAUSES=1"] if meanwhile else [])]
        words = node.command("env", "SLURM_CLUSTER_NAME=test", *more, *under, HOST, PLUGIN, job, 2, "pstate", POLICIES,
                             *arguments)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=ENVIRONMENT)
        answer = self._answer()
        if meanwhile and answer == "prepared":
            meanwhile()
            answer = self.tell("")
        assert answer == "begun", self.process.stderr and self.process.stderr.read()

    def _answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self, words: str) -> str:
        assert self.process.stdin
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self._answer()

    def ask(self, words: str) -> tuple[int, int]:
        """What the broker answers, and how many frequencies it has changed for it."""
        answer = self.tell(words).split()
        assert len(answer) == 2, (answer, self.exit(), self.grant())
        return int(answer[0]), int(answer[1])

    def limits(self) -> tuple[str, str]:
        return self.node.read(0, MAX), self.node.read(1, MAX)

    def exit(self, how: str = "exit") -> str:
        """The step's end, as grant_host.c has it; what the plugin has logged."""
        return self.process.communicate(f"{how}\n", timeout=DEADLINE_S)[1]

    def grant(self) -> dict[str, object]:
        """What the node noted of it."""
        step = json.loads(self.node.path(f"{STATE}/{self.job}/step.0.json").read_text())
        found: dict[str, object] = step["grant"]
        return found

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def test_a_task_lowers_its_own_core_and_puts_it_back(node: Node) -> None:
    with Step(node) as step:
        assert [step.tell(f"{task} cpus") for task in (0, 1)] == ["0", "1"]
        assert step.limits() == (MOST, MOST) and len(node.held()) == 2
        assert step.ask("0 low 0") == (DONE, 1)
        assert step.limits() == (LEAST, MOST)
        assert step.ask("0 low 0") == (DONE, 0)
        assert step.ask("1 restore 1") == (DONE, 0)
        assert step.limits() == (LEAST, MOST)
        assert step.ask("0 restore 0") == (DONE, 1)
        assert step.limits() == (MOST, MOST)
        assert step.exit() == ""
        grant = step.grant()
    assert (grant["mode"], grant["cores"], grant["refused"], grant["transitions"]) == ("lease", 2, {}, 2)
    assert isinstance(grant["low_us"], int) and grant["low_us"] > 0


def test_a_core_that_another_step_takes_first_is_no_error(node: Node) -> None:
    """slurmstepd prints an error for the step's user. Steps that begin at once on the same cores are none."""
    other = node.holder(7, 1)
    with Step(node, meanwhile=lambda: other.do("take 0")) as step:
        assert step.tell("0 low 0") == "over" and step.ask("1 low 1") == (DONE, 1)
        assert step.exit() == ""
        grant = step.grant()
    assert (grant["cores"], grant["refused"]) == (1, {"held by somebody else": 1})
    other.do("end")


@pytest.mark.parametrize(("least", "low"), [(1_300_000, "1400000"), (1_400_000, "1400000")])
def test_no_core_is_slower_than_the_site_says(start: Callable[..., Node], least: int, low: str) -> None:
    """The processor has every 200 MHz, and below a limit between two of them it takes the lower one."""
    node = start(driver="acpi-cpufreq")
    with Step(node, f"min_khz={least}") as step:
        assert step.ask("0 low 0") == (DONE, 1)
        assert node.read(0, MAX) == low


def test_cooling_devices_are_read_once_however_many_cores_are_limited(node: Node, reachable: Path) -> None:
    """A node has such a device for each CPU. Without a limit nothing can hide a setting, and none is read."""
    trace = reachable / "trace"
    for limited in (0, 2):
        for policy in range(limited):
            node.write(policy, MAX, 2_400_000)
        with Step(node, under=("strace", "-f", "-qq", "-e", "trace=openat", "-o", trace)) as step:
            assert step.ask("0 low 0") == (DONE, 1) and step.ask("1 low 1") == (DONE, 1)
            step.exit()
        assert trace.read_text().count('"/sys/devices/virtual/thermal"') == min(limited, 1)


def test_an_active_cooling_device_hides_what_is_set_on_limited_cores(node: Node) -> None:
    device = "/sys/devices/virtual/thermal/cooling_device0"
    script = (f"mount -t tmpfs tmpfs /sys/devices/virtual && mkdir -p {device} && echo Processor >{device}/type"
              f" && echo 2 >{device}/cur_state")
    assert node.run("sh", "-c", script).returncode == 0
    node.write(0, MAX, 2_400_000)
    with Step(node) as step:
        assert step.tell("0 low 0") == "over" and step.ask("1 low 1") == (DONE, 1)
        assert step.exit() == "", "slurmstepd would print it for the step's user"
        assert step.grant()["refused"] == {"a cap holds the clock down now": 1}
    assert node.read(0, MAX) == "2400000"


def test_the_core_of_another_task_is_not_its_own(node: Node) -> None:
    before = node.snapshot()
    with Step(node) as step:
        assert step.ask("0 low 1") == (NOT_YOURS, 0)
        assert step.ask("0 restore 1") == (NOT_YOURS, 0)
        assert step.tell("0 low 63") == "over"  # no such CPU
        assert node.snapshot() == before


def test_a_thread_that_may_run_elsewhere_lowers_nothing(node: Node) -> None:
    """And what was lowered for it before is put back."""
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        assert step.tell("0 widen") == "0"
        assert step.ask("0 low 0") == (NOT_NOW, 1)
        assert step.limits() == (MOST, MOST)


@pytest.mark.parametrize("arguments", [(), ("min_khz=1200000",)], ids=["hardware", "site"])
def test_no_lower_than_it_may(node: Node, arguments: tuple[str, ...]) -> None:
    with Step(node, *arguments) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        assert step.limits() == ("1200000" if arguments else LEAST, MOST)


def test_a_core_that_nobody_asks_for_again_comes_back_by_itself(node: Node) -> None:
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        deadline = time.monotonic() + DEADLINE_S / 2
        while step.limits() != (MOST, MOST) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert step.limits() == (MOST, MOST)
        assert step.ask("0 low 0") == (DONE, 2)  # back, and low again


def test_a_task_that_ends_leaves_its_core_as_it_was_and_the_others_alone(node: Node) -> None:
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1) and step.ask("1 low 1") == (DONE, 1)
        assert step.tell("end 0") == "ended"
        assert step.limits() == (MOST, LEAST)
        assert node.driver("hold", 8, 0, text="take 0\n").stdout == "0 \n0 \n"  # free for another job
        assert step.ask("1 restore 1") == (DONE, 1)


def test_only_a_thread_of_the_task_has_a_say(node: Node) -> None:
    """Not one of another task, of slurmstepd, of anybody, or of nobody, whichever is named."""
    before = node.snapshot()
    with Step(node) as step:
        other = step.tell("1 tid")
        for thread in (other, step.process.pid, 1, 2, 0, 4194303, os.getpid()):
            assert step.ask(f"0 low 0 {thread}") == (NOT_YOURS, 0), thread
        assert step.ask(f"0 low 1 {step.tell('0 tid')}") == (NOT_YOURS, 0)
        assert node.snapshot() == before
        assert step.ask("0 low 0") == (DONE, 1)


def test_a_core_belongs_to_one_process_of_the_task_at_a_time(node: Node) -> None:
    """While that lives: mpirun's ranks come and go."""
    with Step(node) as step:
        child = step.tell("0 child")
        assert step.ask(f"0 low 0 {child}") == (DONE, 1)
        assert step.ask("0 low 0") == (BUSY, 0)
        assert step.limits() == (LEAST, MOST)
        os.kill(int(child), signal.SIGKILL)
        wait_for(lambda: step.ask("0 low 0")[0] == DONE)
        assert step.limits() == (LEAST, MOST)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_task_that_stops_or_dies_leaves_no_core_low(node: Node, how: signal.Signals) -> None:
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        task = int(step.tell("0 tid"))
        os.kill(task, how)
        wait_for(lambda: step.limits() == (MOST, MOST))
        with suppress(ProcessLookupError):
            os.kill(task, signal.SIGCONT)
        assert step.exit() == ""


def test_callbacks_in_a_child_that_ends_at_once(node: Node) -> None:
    """With SlurmdParameters=contain_spank: the lease is slurmstepd's all the same."""
    before = node.snapshot()
    with Step(node, contained=True) as step:
        assert step.ask("0 low 0") == (DONE, 1) and step.ask("1 low 1") == (DONE, 1)
        assert step.limits() == (LEAST, LEAST)
        assert step.tell("end 0") == "ended"
        assert step.limits() == (MOST, LEAST)
        assert step.exit() == ""
        assert step.grant()["cores"] == 2
    assert (node.snapshot(), node.held()) == (before, [])


def stuck(node: Node, *words: object, **how: Any) -> subprocess.Popen[str]:
    """A process of tests/lib/programs/stuck.py that has begun."""
    program = node.command("/usr/bin/python3", REPOSITORY / "tests/lib/programs/stuck.py", *words)
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, **how)
    assert process.stdout and process.stdout.readline().strip() in ("serves", "writes")
    return process


def state_of(process: subprocess.Popen[str]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_write_that_holds_the_segment_delays_nothing(node: Node, reachable: Path) -> None:
    """A page of a file system that never answers, written into the segment: a write of root's there would wait for its
    end. Reading does not, and the board is not the task's to write."""
    before = node.snapshot()
    with Step(node) as step:
        task = step.tell("0 tid")
        config = step.tell("0 config")
        segment = re.search(r";segment=(\d+):", config)
        board = re.search(r";cpufreq=lease:(\d+):", config)
        assert segment and board, (config, step.exit(), step.grant())
        server = stuck(node, "serve", reachable)
        writer = stuck(node, "write", reachable, task, segment[1])
        try:
            wait_for(lambda: state_of(writer) == "D")
            refused = node.run("/usr/bin/python3", REPOSITORY / "tests/lib/programs/stuck.py", "write", reachable, task,
                               board[1])
            assert "PermissionError" in refused.stderr
            assert step.ask("0 low 0") == (DONE, 1) and step.limits() == (LEAST, MOST)
            assert step.ask("0 restore 0") == (DONE, 1)
            assert step.ask("1 low 1") == (DONE, 1)
            assert step.exit() == "" and state_of(writer) == "D"
        finally:
            for process in (writer, server):
                process.kill()
                process.communicate(timeout=DEADLINE_S)
    assert (node.snapshot(), node.held()) == (before, [])


def waits_of(step: Step) -> list[str]:
    """Where in the kernel its threads wait."""
    return [path.read_text() for path in Path(f"/proc/{step.process.pid}/task").glob("*/wchan")]


def test_a_thread_that_is_stuck_does_not_keep_the_step_from_ending(node: Node) -> None:
    """Whatever it is stuck in: here in the kernel's own file. It goes on when it can, though the plugin is unloaded,
    and puts everything back."""
    before = node.snapshot()
    with Step(node) as step:
        assert step.ask("1 low 1") == (DONE, 1)
        node.simulation.control(stuck=[MAX])
        assert step.tell("0 shout 0") == "silence"
        wait_for(lambda: STUCK in waits_of(step))
        assert step.tell("exit") == "gone" and STUCK in waits_of(step)
        node.simulation.control(stuck=[])
        wait_for(lambda: len(waits_of(step)) == 1)
        log = step.exit()
        assert step.process.returncode == 0
        assert log.count("the lease's thread does not answer; the epilog restores what it holds") == 2
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_file_is_its_users_no_longer_than_the_task_lasts(node: Node) -> None:
    """Which its user could have kept open, so that it is the task's end that counts."""
    before = node.snapshot()
    with Step(node, "grant=file") as step:
        owners = [node.snapshot()[f"policy{cpu}/{MAX}"][1:3] for cpu in (0, 1)]
        assert owners == [(65534, 65534)] * 2
        assert step.tell("end 0") == "ended"
        assert node.snapshot()[f"policy0/{MAX}"] == before[f"policy0/{MAX}"]
        assert node.snapshot()[f"policy1/{MAX}"] != before[f"policy1/{MAX}"]


@pytest.mark.parametrize("how", ["exit", "drop"])
@pytest.mark.parametrize("arguments", [(), ("grant=file",)], ids=["lease", "file"])
def test_the_steps_end_puts_everything_back(node: Node, arguments: tuple[str, ...], how: str) -> None:
    """Also where the plugin was told of no task's end before."""
    before = node.snapshot()
    with Step(node, *arguments) as step:
        assert step.ask("0 low 0") == (DONE, 1) and step.ask("1 low 1") == (DONE, 1)
        assert node.snapshot()[f"policy1/{MAX}"] != before[f"policy1/{MAX}"]
        assert step.exit(how).count("owner 65534:65534 mode 0644 put back to 0:0 0644") == (2 if arguments else 0)
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_killed_step_is_put_back_by_the_epilog(node: Node) -> None:
    before = node.snapshot()
    with Step(node) as step:
        assert step.ask("0 low 0") == (DONE, 1)
        assert node.snapshot() != before
    assert node.snapshot() != before
    assert node.driver("epilog", 7).returncode == 0
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_domain_of_several_tasks_is_nobodys(start: Callable[..., Node]) -> None:
    node = start(driver="intel_pstate", domain_size=4)
    before = node.snapshot()
    with Step(node) as step:
        assert "cpufreq=" not in step.tell("0 config") and "rungs=" in step.tell("0 config")
        assert step.tell("0 low 0") == "over"
        assert step.exit() == ""
        assert step.grant()["refused"] == {"frequency domain reaches outside the task's cores": 2}
        assert step.grant()["cores"] == 0
    assert (node.snapshot(), node.held()) == (before, [])


def test_a_step_takes_its_cores_from_whoever_had_them(node: Node) -> None:
    """An earlier step that hangs, and whose tasks think that they have a lease still."""
    before = node.snapshot()
    with Step(node) as first:
        assert first.ask("0 low 0") == (DONE, 1)
        with Step(node, job=8) as second:
            assert second.limits() == (MOST, MOST)
            assert first.ask("0 low 0")[0] == 4  # over
            assert second.ask("0 low 0") == (DONE, 1)
            assert first.exit() == "" and second.limits() == (LEAST, MOST)
            assert "cpufreq policy0: reverted the changes of job 7 step 0" in second.exit()
    assert (node.snapshot(), node.held()) == (before, [])
