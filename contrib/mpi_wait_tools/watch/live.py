"""mpi-wait report --watch: shows the caller's running job, each second anew on a terminal, once elsewhere.

The screen shows the present waiting on each node, and the ranks that have waited longest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..jobs.sacct import Target
from ..site.host import Host
from ..text.canvas import ASLEEP, AWAKE, GAP, Canvas, beside, written
from ..text.output import WIDTH_TWO_COLUMNS, Refusal, output_is_utf8, output_width, wants_colour
from ..text.plot import split_bar
from ..text.units import duration, percent, plural, safe, scaled
from .job import Nodes, Watched, ask_job, looking, state_of
from .look import HERE, PROBLEM_MAX, Look, Waiting

NODES_PLAIN, RANKS_PLAIN = 64, 16
ROWS_MIN = 3
BAR_MIN, BAR_MAX = 6, 40
STALE_S = 5.0
START_S = 30.0  # time for srun to begin on all nodes
REDRAW_S = 1.0
HEAR_S = 0.2  # most delay until Ctrl-C is noticed
LOOKS_ONCE = 2  # looks that one answer needs: figures of the last second are differences
KEYS = "q or Ctrl-C ends this; the job goes on undisturbed"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 99.5 else duration(seconds)


@dataclass(frozen=True)
class Screen:
    """The output to draw on."""

    width: int
    height: int  # number of lines, 0 for no limit
    colour: bool
    utf8: bool


@dataclass(frozen=True)
class Scene:
    """The job at the moment of a drawing."""

    job: Watched
    ran_s: float
    looks: Sequence[tuple[Look, float]]  # each node's latest look, and its age in seconds

    def is_one_world(self) -> bool:
        """Returns True if all ranks, on all nodes, are known to be of one MPI_COMM_WORLD."""
        worlds = [look.world for look, _ in self.looks if look.ranks]
        return len(set(worlds)) == 1 and 0 not in worlds and (len(worlds) == 1 or HERE not in worlds)

    def rank_name(self, one: Waiting) -> str:
        """Returns a rank's name: "3"; "w2:3" in the second of several worlds; "task 3"; "?" if it is not known."""
        if one.rank < 0:
            return f"task {one.task}" if one.task >= 0 else "?"
        worlds = list(dict.fromkeys(other.world for _, other in self.longest() if other.rank >= 0))
        return f"w{worlds.index(one.world) + 1}:{one.rank}" if len(worlds) > 1 else str(one.rank)

    def longest(self) -> list[tuple[str, Waiting]]:
        pairs = [(look.node, one) for look, _ in self.looks for one in look.longest]
        return sorted(pairs, key=lambda pair: -pair[1].seconds)


def _shares_now(look: Look) -> tuple[float, float]:
    """Returns the shares of the last second that were waited and slept; at the first look, those of all time."""
    if look.waited_now is None or look.asleep_now is None:
        return look.waited, look.asleep
    return look.waited_now, look.asleep_now


def _mean_share(looks: Sequence[Look], waited: bool) -> float:
    ranks = sum(look.ranks for look in looks)
    return sum(look.ranks * _shares_now(look)[not waited] for look in looks) / ranks if ranks else 0.0


def _power_text(looks: Sequence[Look]) -> str:
    known = [look.watts for look in looks if look.watts is not None]
    if not known:
        return "not known: the nodes' counters are root's alone, or have none"
    of = "" if len(known) == len(looks) else f" of {len(looks)}"
    simulated = ", simulated, not measured" if any(look.simulated for look in looks) else ""
    noun = "node" if len(looks) == 1 else "nodes"
    return f"{scaled(sum(known), 'W')}, all that runs on {len(known)}{of} {noun}{simulated}"


def _draw_header(canvas: Canvas, scene: Scene) -> None:
    job = scene.job
    left = Text(f"Job {job.shown}" + (f", step {job.step}" if job.step else ""), style="bold")
    left.append("  " + safe(job.name, 28), style="")
    right = Text("RUNNING", style="cyan").append(f" for {_seconds_text(scene.ran_s)}", style="")
    canvas.ends(left, right)


def _draw_sums(canvas: Canvas, scene: Scene) -> None:
    looks = [look for look, _ in scene.looks]
    ranks, waiting = sum(look.ranks for look in looks), sum(look.waiting for look in looks)
    if not ranks:
        canvas.line("Waiting", "no rank is between MPI_Init and MPI_Finalize now")
    else:
        longest = scene.longest()
        at_most = f", the longest for {duration(longest[0][1].seconds)} in MPI_{longest[0][1].call}" if longest else ""
        canvas.line("Waiting", f"{waiting} of {plural(ranks, 'rank')}{at_most}")
        waited, asleep = _mean_share(looks, True), _mean_share(looks, False)
        canvas.line("Now", f"{percent(waited)} of the ranks' time is waiting, {percent(asleep)} asleep")
    canvas.line("Power", _power_text(looks))
    missing = scene.job.nodes - len(looks)
    if missing > 0:
        canvas.line("Missing", f"{plural(missing, 'node')} did not answer yet", "yellow")
    problems = [f"{safe(look.node, 20)}: {safe(look.problem, PROBLEM_MAX)}" for look in looks if look.problem]
    if problems:
        more = f" (and {plural(len(problems) - 1, 'node')} more)" if len(problems) > 1 else ""
        canvas.line("Not read", problems[0] + more, "yellow")


def _node_row(look: Look, age_s: float, room: int, watts: bool) -> list[str | Text]:
    waited, asleep = _shares_now(look)
    row: list[str | Text] = [safe(look.node, 20), str(look.ranks), str(look.waiting)]
    row += [percent(look.waited), percent(look.asleep)] if look.ranks else ["–", "–"]
    if watts:
        row.append(scaled(look.watts, "W") if look.watts is not None else "–")
    if age_s > STALE_S:
        row.append(Text(f"silent for {_seconds_text(age_s)}", "yellow"))
    elif look.ranks:
        resting, polling = split_bar(waited, asleep, 1.0, room)
        rest = max(0, room - len(resting) - len(polling))
        row.append(Text().append(resting, ASLEEP).append(polling, AWAKE).append("─" * rest, "dim"))
    else:
        row.append(Text("no rank now", "dim"))
    return row


def _draw_nodes(canvas: Canvas, scene: Scene, rows: int) -> None:
    """Draws the nodes: all in their order if there is room, else those that wait most."""
    looks = sorted(scene.looks, key=lambda pair: pair[0].node)
    if len(looks) > rows:
        looks = sorted(looks, key=lambda pair: -_shares_now(pair[0])[0])[:rows]
    watts = any(look.watts is not None for look, _ in looks)
    titles = ["node", "ranks", "waiting", "waited", "asleep", *(["power"] if watts else []), "the last second"]
    name = max([len(titles[0]), *(len(safe(look.node, 20)) for look, _ in looks)])
    taken = name + sum(len(title) + 2 for title in titles[1:-1]) + 5 + 2 * watts
    room = max(BAR_MIN, min(BAR_MAX, canvas.width - taken - 2))
    whole = len(looks) == len(scene.looks)
    canvas.heading("Nodes" if whole else f"The {len(looks)} of {len(scene.looks)} nodes that wait most")
    canvas.table(titles, [_node_row(look, age_s, room, watts) for look, age_s in looks], left=(0, len(titles) - 1))


def _draw_legend(canvas: Canvas) -> None:
    canvas.note(Text().append("█", ASLEEP).append(" asleep", "dim").append("  ░", AWAKE).append(" polling", "dim")
                .append("  ─ not waiting; waited, asleep: of the time since MPI_Init", "dim"))


def _draw_ranks(canvas: Canvas, scene: Scene, rows: int) -> None:
    longest = scene.longest()
    canvas.heading("Waiting the longest")
    if not longest:
        canvas.note(Text("no rank waits now", style="dim"))
        return
    steps = len({one.step for _, one in longest}) > 1
    titles = ["rank", "node", *(["step"] if steps else []), "in", "for", "waited", "asleep"]
    cells: list[list[str | Text]] = [
        [scene.rank_name(one), safe(node, 20), *([safe(one.step, 12)] if steps else []),
         f"MPI_{safe(one.call, 30)}", duration(one.seconds), percent(one.waited), percent(one.asleep)]
        for node, one in longest[:rows]
    ]
    canvas.table(titles, cells, left=(1, 2, 3) if steps else (1, 2))


def _draw_least(canvas: Canvas, scene: Scene) -> None:
    """Draws the rank that waits least, for which the others wait. Draws nothing unless all ranks are of one world."""
    known = [(look.least[1], look.least[0], look.node) for look, _ in scene.looks if look.least]
    if sum(look.ranks for look, _ in scene.looks) < 2 or not known or not scene.is_one_world():
        return
    share, rank, node = min(known)
    who = f"rank {rank}" if rank >= 0 else "a rank"
    canvas.sentence("→", f"{who} on {safe(node, 20)} waits least: {percent(share)} of its time", "green")


def show_watch(screen: Screen, scene: Scene, keys: str = "") -> str:
    """Returns the screen. keys is its last line, on the keyboard; "" for none."""
    wide = screen.width >= WIDTH_TWO_COLUMNS
    top, half = Canvas(screen.width, screen.colour), (screen.width - GAP) // 2
    left, right = (Canvas(half, screen.colour), Canvas(half, screen.colour)) if wide else (top, top)
    _draw_header(top, scene)
    _draw_sums(top, scene)
    free = screen.height - len(top.lines()) - (4 if wide else 8) - 2 * bool(keys)
    if not screen.height:
        nodes, ranks = NODES_PLAIN, RANKS_PLAIN
    elif wide:
        nodes, ranks = max(ROWS_MIN, free - 1), max(ROWS_MIN, free - 1)
    else:
        nodes = min(len(scene.looks), max(ROWS_MIN, free // 2))
        ranks = max(ROWS_MIN, free - nodes)
    _draw_nodes(left, scene, nodes)
    _draw_legend(left)
    _draw_ranks(right, scene, ranks)
    _draw_least(right, scene)
    lines = top.lines() + (["", *beside(left.lines(), right.lines(), half)] if wide else [])
    if keys:
        foot = Canvas(screen.width, screen.colour)
        foot.text(Text(f"  {keys}", style="dim"))
        lines = [*lines[: screen.height - 2], "", *foot.lines()]
    return written(lines, screen.utf8)


def _scene(job: Watched, began: float, nodes: Nodes) -> Scene:
    now = time.monotonic()
    return Scene(job, job.ran_s + now - began, [(look, now - came) for look, came in nodes.looks.values()])


def _await_looks(nodes: Nodes, job: Watched, rounds: int) -> None:
    """Waits until every node has sent that many looks. Raises Refusal if no node sends any."""
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
    for _ in range(10):  # srun may still print its errors after the last look
        nodes.take(0.05)
    if _has_ended(job):
        raise Refusal(_ended_line(job))
    raise Refusal(f"srun sends nothing more from the nodes of job {job.shown}: {nodes.why()}")


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Lets standard input come key by key within the block, and restores it at the end. Yields its descriptor, None if
    it is no terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    raw = termios.tcgetattr(descriptor)
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VSUSP] = b"\0"  # no Ctrl-Z, since a stopped command would leave its screen behind
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, raw)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into SystemExit, so that the terminal is restored first."""
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
    """Collects Ctrl-C in a list. An exception could be raised, and lost, within the code that draws the screen."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _go_on(nodes: Nodes, job: Watched, began: float, arguments: argparse.Namespace, live: Live,
           came: list[int]) -> bool:
    """Draws the looks until they end (returns True), or until a key or Ctrl-C (returns False)."""
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
        _await_looks(nodes, job, 1 if live else LOOKS_ONCE)
        if live:
            return _live(nodes, job, began, arguments)
        sys.stdout.write(show_watch(_screen(arguments, False), _scene(job, began, nodes)))
        return 0
