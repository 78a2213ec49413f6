"""mpi-wait report --watch: the caller's running job, each second anew on a terminal, once elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..jobs.sacct import Target
from ..site.host import Host
from ..text.errors import Refusal
from ..text.output import output_is_utf8, output_width, wants_colour
from .job import Watched, ask_job, state_of
from .nodes import Nodes, looking
from .view import Scene, Screen, show_watch

START_S = 30.0  # for srun to begin on all nodes
REDRAW_S = 1.0
HEAR_S = 0.2  # Ctrl-C
LOOKS_ONCE = 2  # what a second brought is between two looks
KEYS = "q or Ctrl-C ends this; the job goes on undisturbed"


def _scene(job: Watched, began: float, nodes: Nodes) -> Scene:
    now = time.monotonic()
    return Scene(job, job.ran_s + now - began, [(look, now - came) for look, came in nodes.looks.values()])


def _await(nodes: Nodes, job: Watched, rounds: int) -> None:
    """Until every node has looked so often. Without any of them there is nothing to show."""
    end = time.monotonic() + START_S
    while nodes.rounds < rounds and not nodes.ended and time.monotonic() < end:
        nodes.take(end - time.monotonic())
    if nodes.ended and nodes.rounds < rounds:
        _refuse_end(job, nodes)
    if not nodes.looks:
        raise Refusal(f"srun did not begin on the nodes of job {job.shown} within {START_S:.0f} s ({nodes.why()})")
    if not any(look.segments for look, _ in nodes.looks.values()):
        what = f"step {job.step} of job {job.shown}" if job.step else f"job {job.shown}"
        raise Refusal(f"no task of {what} is under a wait policy now: it was submitted without --mpi-wait-policy, or"
                      " no step of it runs at the moment")
    problems = [look for look, _ in nodes.looks.values() if look.problem]
    if problems and not any(look.ranks for look, _ in nodes.looks.values()):
        raise Refusal(f"the ranks of job {job.shown} cannot be seen on {problems[0].node}: {problems[0].problem}")


def _has_ended(job: Watched) -> bool:
    return state_of(Host(), job.number) != "RUNNING"


def _ended_line(job: Watched) -> str:
    return f"job {job.shown} has ended; 'mpi-wait report {job.shown}' shows its record in some ten seconds"


def _refuse_end(job: Watched, nodes: Nodes) -> None:
    for _ in range(10):  # srun's last words come after the last look
        nodes.take(0.05)
    if _has_ended(job):
        raise Refusal(_ended_line(job))
    raise Refusal(f"srun has no look at the nodes of job {job.shown} any more: {nodes.why()}")


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Standard input, key by key; None where it is no terminal. It is put back as it was."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    raw = termios.tcgetattr(descriptor)
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VSUSP] = b"\0"  # a stopped command would leave its screen behind
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, raw)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """Signals that end this unwind it first, so that the terminal is put back."""
    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _screen(arguments: argparse.Namespace, live: bool) -> Screen:
    height = os.get_terminal_size(sys.stdout.fileno()).lines if live else 0
    return Screen(output_width(arguments, two_columns=True), height, wants_colour(arguments), output_is_utf8())


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The Ctrl-C that came. As an exception it could come, and be lost, within what draws the screen."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _go_on(nodes: Nodes, job: Watched, began: float, arguments: argparse.Namespace, live: Live,
           came: list[int]) -> bool:
    """Shows what comes until the looks end (True), or a key or Ctrl-C says so (False)."""
    while not nodes.ended:
        screen = _screen(arguments, True)
        text = show_watch(screen, _scene(job, began, nodes), KEYS)
        live.update(Text.from_ansi(text.rstrip("\n"), no_wrap=True), refresh=True)
        end = time.monotonic() + REDRAW_S
        while (left := end - time.monotonic()) > 0 and not nodes.ended:
            if came:
                return False
            if "key" in nodes.take(min(left, HEAR_S)) and os.read(sys.stdin.fileno(), 64)[:1] in (b"q", b"Q", b""):
                return False
    return True


def _live(nodes: Nodes, job: Watched, began: float, arguments: argparse.Namespace) -> int:
    console = Console(highlight=False, markup=False, emoji=False, no_color=not wants_colour(arguments))
    with _interrupts() as came, _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        if keys is not None:
            nodes.selector.register(keys, 1, "key")
        gone = _go_on(nodes, job, began, arguments, live, came)
    if gone and not _has_ended(job):
        _refuse_end(job, nodes)
    sys.stdout.write(show_watch(_screen(arguments, False), _scene(job, began, nodes)))
    if gone:
        print(f"mpi-wait: {_ended_line(job)}")
    return 0


def watch(arguments: argparse.Namespace, target: Target) -> int:
    began = time.monotonic()
    job = ask_job(Host(), target)
    live = not arguments.once and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    with _endings(), looking(job) as nodes:
        _await(nodes, job, 1 if live else LOOKS_ONCE)
        if live:
            return _live(nodes, job, began, arguments)
        sys.stdout.write(show_watch(_screen(arguments, False), _scene(job, began, nodes)))
        return 0
