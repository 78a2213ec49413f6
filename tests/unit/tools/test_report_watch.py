"""mpi-wait report --watch: what a look reads of a segment, its line, the screen, the terminal, and what is refused."""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import pathlib
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import Any

import pytest

from tests.lib import segments
from tests.lib.doubles.command_server import server
from tests.lib.doubles.segment_tool import row_names, segment_field, segment_make
from tests.lib.record_tools import BUILD
from tests.lib.waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = ROOT / "contrib/mpi-wait"
READER = str(BUILD / "spank/mpi-wait-segment")
RUNNING, BARRIER = 2, row_names().index("Barrier") + 1

CALL = """
import json, os, sys
sys.path.insert(0, "contrib")
from mpi_wait_tools.watch import agent, live, look
from mpi_wait_tools.watch.job import Watched
from mpi_wait_tools.site.host import Host
def ranks(reader, *paths):
    descriptors = [os.open(path, os.O_RDONLY) for path in paths]
    try:
        found, problem = agent.read_ranks(Host(), reader, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return [vars(rank) for rank in found], problem
def again(line):
    seen = look.look_of(line)
    return None if seen is None else look.line_of(seen)
def all_again(lines):
    return [again(line) for line in lines]
def written(values):
    longest = [look.Waiting(*row) for row in values.pop("longest")]
    values.pop("v")
    return look.line_of(look.Look(**values, longest=longest))
def watts(root, readings):
    counters, seen = agent.Counters(Host(root)), []
    for at_ns, values in readings:
        for zone, value in values.items():
            with open(f"{root}/sys/class/powercap/{zone}/energy_uj", "w") as file:
                file.write(f"{value}\\n")
        seen.append(counters.watts(at_ns))
    return seen
def screen(width, height, colour, utf8, nodes, lines, ages, keys):
    job = Watched("12", 12, "", nodes, 192, "a\\x1b[2Jname")
    looks = [(look.look_of(line), age) for line, age in zip(lines, ages)]
    return live.show_watch(live.Screen(width, height, colour, utf8), live.Scene(job, 192.0, looks), keys)
for asked in sys.stdin:
    name, *arguments = json.loads(asked)
    print(json.dumps(globals()[name](*arguments)), flush=True)
"""


@functools.cache
def answerer() -> subprocess.Popen[str]:
    """The process that answers; it ends with this one."""
    process = subprocess.Popen([sys.executable, "-c", CALL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd=ROOT)
    atexit.register(process.communicate)
    return process


def tools(name: str, *arguments: Any) -> Any:
    """What a function of the tools answers, in another process than pytest's."""
    process = answerer()
    assert process.stdin and process.stdout
    print(json.dumps([name, *arguments]), file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        answerer.cache_clear()
        process.communicate()
    assert answer, f"'{name}' was not answered: standard error has why"
    return json.loads(answer)


def read(tmp_path: pathlib.Path, content: bytes, reader: str = READER) -> tuple[list[dict[str, Any]], str]:
    """The ranks that are seen, and why some may not be."""
    path = tmp_path / "segment"
    path.write_bytes(content)
    found, problem = tools("ranks", reader, str(path))
    return found, problem


def ranks(tmp_path: pathlib.Path, content: bytes) -> list[dict[str, Any]]:
    found, problem = read(tmp_path, content)
    assert problem == ""
    return found


def slot(rank: int, **how: Any) -> bytes:
    """It has run since the machine was booted."""
    return segments.slot(rank, 4, how.pop("wait_ns", 0), **{"state": RUNNING, "start": 1, **how})


def test_who_waits_and_in_what(tmp_path: pathlib.Path) -> None:
    waits = slot(1, wait_ns=10**9, open_call=BARRIER, open_ns=3 * 10**9, asleep_ns=2 * 10**9)
    found = ranks(tmp_path, segments.segment(slot(0), waits, slot(2, state=3, end=2), slot(3, state=1)))
    assert [rank["rank"] for rank in found] == [0, 1], "only what is between MPI_Init and MPI_Finalize"
    busy, waiting = found
    assert (busy["call"], busy["open_ns"], busy["waited_ns"]) == ("", 0, 0)
    assert (waiting["call"], waiting["open_ns"]) == ("Barrier", 3 * 10**9)
    assert (waiting["waited_ns"], waiting["asleep_ns"], waiting["slot"]) == (4 * 10**9, 2 * 10**9, 1)
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 60 * 10**9 < waiting["ran_ns"] == busy["ran_ns"]


def test_the_longest_wait_of_a_ranks_threads(tmp_path: pathlib.Path) -> None:
    """And what is waited in a call that the table lacks: by its number."""
    threads = bytearray(slot(0, lanes=2, open_call=BARRIER, open_ns=10**9))
    struct.pack_into("<IIQQ", threads, segments.HEAD + segments.LANE, 1, 250, 1000, 1000 + 2 * 10**9)
    only, = ranks(tmp_path, segments.segment(bytes(threads)))
    assert (only["call"], only["open_ns"], only["waited_ns"]) == ("call 249", 2 * 10**9, 3 * 10**9)


def test_several_segments_at_once(tmp_path: pathlib.Path) -> None:
    """Each rank is told with the descriptor of its segment, and one that is none does not hide the others."""
    paths = [tmp_path / name for name in ("first", "none", "second")]
    for path, content in zip(paths, (segments.segment(slot(1)), b"no segment", segments.segment(slot(2)))):
        path.write_bytes(content)
    found, problem = tools("ranks", READER, *map(str, paths))
    assert [rank["rank"] for rank in found] == [1, 2] and len({rank["segment"] for rank in found}) == 2
    assert problem == "cannot read the stats segment"


@pytest.mark.parametrize(
    "header", [{"magic": 1}, {"version": 4}, {"header_size": 65}, {"slot_size": 64}, {"sizes_size": 1}]
)
def test_another_layout_is_none(tmp_path: pathlib.Path, header: dict[str, int]) -> None:
    assert ranks(tmp_path, segments.segment(slot(0))) != []
    found, problem = read(tmp_path, segments.segment(slot(0), **header))
    assert found == [] and re.fullmatch("stats segment has a wrong format, not that of version [0-9]+", problem)


def test_without_the_program_that_reads(tmp_path: pathlib.Path) -> None:
    content = segments.segment(slot(0))
    found, problem = read(tmp_path, content, "")
    assert found == [] and problem.startswith("mpi-wait-segment, which reads the statistics, is not installed")
    assert read(tmp_path, content, str(tmp_path / "gone")) == ([], "gone was not found")
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\necho \'{"segment":3,"rank":1}\'\n')
    other.chmod(0o755)
    assert read(tmp_path, content, str(other)) == ([], f"the answer of '{other}' is not understood: it is of another"
                                                   " release")


@pytest.mark.parametrize("words", [[], ["x"], ["-1"], ["3x"], ["99999999999999999999"], ["3"] * 65])
def test_the_program_takes_descriptors_alone(words: list[str]) -> None:
    done = subprocess.run([READER, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (64, "") and "1 to 64 descriptors" in done.stderr


def test_a_segment_that_ends_early(tmp_path: pathlib.Path) -> None:
    content = segments.segment(slot(0), slot(1), slot_count=2**32 - 1)
    assert len(ranks(tmp_path, content)) == 2
    for size in (0, 63, 64, segments.SLOTS, segments.SLOTS + 100, segments.SLOTS + segments.SLOT + 200):
        found, problem = read(tmp_path, content[:size])
        assert found == [] and problem
    assert len(ranks(tmp_path, content[: segments.SLOTS + segments.SLOT + segments.SIZES + 4096])) == 1


def test_every_claim_has_its_bounds(tmp_path: pathlib.Path) -> None:
    most = 2**64 - 1
    liar = slot(2**30, wait_ns=most, open_call=BARRIER, open_ns=most - 1000, asleep_ns=most, start=most, lanes=2**31)
    later = slot(-5, open_call=2**32 - 1, open_ns=5)
    backwards = bytearray(slot(0, open_call=BARRIER))
    struct.pack_into("<QQ", backwards, segments.HEAD + 8, most, 1)
    beyond = slot(3, open_call=250)
    found = ranks(tmp_path, segments.segment(liar, later, bytes(backwards), beyond))
    assert [rank["rank"] for rank in found] == [-1, -1, 0, 3]
    for rank in found:
        assert 0 <= rank["asleep_ns"] <= rank["waited_ns"] <= rank["ran_ns"] <= time.clock_gettime_ns(
            time.CLOCK_MONOTONIC)
        assert 0 <= rank["open_ns"] <= rank["ran_ns"]
    assert [rank["call"] for rank in found] == ["Barrier", "", "Barrier", "call 249"] and found[2]["open_ns"] == 0


def test_whatever_a_segment_holds(tmp_path: pathlib.Path) -> None:
    """Its words at random, most of them at the edges of what they may be: an answer that is understood, in bounds."""
    chance = random.Random(7)
    edges = [0, 1, 2, 3, 255, 256, 257, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 10**9, 10**18]
    for _ in range(40):
        content = bytearray(segments.segment(slot(0, open_call=BARRIER), slot(1), slots=2))
        for _ in range(chance.choice([1, 3, 2000])):
            start = chance.choice([0, segments.SLOTS, segments.SLOTS + segments.HEAD])
            size = {0: 40, segments.SLOTS: 2 * segments.SLOT}.get(start, segments.LANE_HEAD)
            place = start + chance.randrange(size // 8) * 8
            struct.pack_into("<Q", content, place, chance.choice(edges))
        found, problem = read(tmp_path, bytes(content))
        assert len(found) <= 2 and (not problem or problem.startswith("stats segment"))
        for rank in found:
            assert 0 <= rank["asleep_ns"] <= rank["waited_ns"] <= rank["ran_ns"] < 2**62
            assert -1 <= rank["rank"] < 2**24 and 0 <= rank["launch"] < 2**48 and -1 <= rank["task"] <= 2**24


def values(node: str = "n1", **changes: Any) -> dict[str, Any]:
    longest = [[rank, "0", "Barrier", float(14 - rank), 0.8, 0.7, 77, -1] for rank in range(1, 4)]
    return {"v": 3, "node": node, "segments": 1, "ranks": 4, "waiting": 3, "waited": 0.6, "asleep": 0.5,
            "waited_now": 0.75, "asleep_now": 0.7, "least": [0, 0.02], "world": 77, "watts": 206.0, "simulated": False,
            "problem": "", "longest": longest, **changes}


def line(node: str = "n1", **changes: Any) -> str:
    return json.dumps(values(node, **changes), separators=(",", ":"))


def test_a_line_survives_its_way() -> None:
    assert json.loads(tools("again", line())) == values()
    first = {"waited_now": None, "asleep_now": None, "watts": None, "least": None, "longest": []}
    assert json.loads(tools("again", line(**first))) == values(**first)
    long = [[16000000 + rank, "4000000000", "call 249" * 4, 999.5, 0.1234, 0.1234, 2**47, -1] for rank in range(8)]
    text = tools("written", values("n" * 200, longest=long))
    assert len(text) <= 1000 and 0 < len(json.loads(text)["longest"]) < 8 and tools("again", text) == text


def test_what_is_no_line() -> None:
    spoilt = [
        "", "hello", "{", "[1]", "{}", "{" * 900, line(v=2), line(ranks=-1), line(ranks=True), line(ranks=1e99),
        line(waited=1.5), line(waited="1"), line(watts=-1), line(watts=1e7), line(node=""), line(node=7),
        line(least=[1]), line(least=[0, 7]), line(longest=[[1, "0", "Barrier", 1, 1, 1, 0]]), line(longest=7),
        line(longest=[[1, "0", "x" * 50, 1, 1, 1, 0, -1]]), line(longest=[[1.5, "0", "Barrier", 1, 1, 1, 0, -1]]),
        line(longest=[[1, "0", "Barrier", 1, 1, 1, 2**50, -1]]), line(longest=[[1, "0", "Barrier", 1, 1, 1, 0, -2]]),
        line(world=-1), line(simulated=1), line(problem=None), line(problem="x" * 201),
        line(segments=None), line().replace("0.6", "NaN"), line().replace("0.6", "Infinity"),
        line().replace("13.0", "1e999"), line(more="x" * 900), line(longest=[[1, "0", "Barrier", 1, 1, 1, 0, -1]] * 9),
    ]
    assert tools("all_again", spoilt) == [None] * len(spoilt)


def test_watts_are_of_packages_and_memory(tmp_path: pathlib.Path) -> None:
    """Between two looks, over a wrap of the counter, and none where one of them says nothing."""
    zones = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "psys"}
    for zone, name in zones.items():
        folder = tmp_path / "sys/class/powercap" / zone
        folder.mkdir(parents=True)
        for file, text in (("name", name), ("energy_uj", "0"), ("max_energy_range_uj", "262143000000")):
            (folder / file).write_text(f"{text}\n")
    package, memory = "intel-rapl:0", "intel-rapl:0:1"
    rest = {"intel-rapl:0:0": 10**9, "intel-rapl:1": 10**10}
    readings = [
        (10**9, {package: 262142000000, memory: 0}),
        (2 * 10**9, {package: 262142900000, memory: 100000, **rest}),
        (4 * 10**9, {package: 1900000, memory: 100000}),
        (5 * 10**9, {package: "", memory: 200000}),
        (6 * 10**9, {package: 3000000, memory: 300000}),
    ]
    assert tools("watts", str(tmp_path), readings) == [None, 1, 1, None, None]
    assert tools("watts", str(tmp_path / "none"), [(1, {}), (2, {})]) == [None, None]


def shown(width: int, *lines: str, height: int = 0, colour: bool = False, utf8: bool = True, nodes: int = 0,
          ages: tuple[float, ...] = ()) -> str:
    ages, keys = ages or (0.2,) * len(lines), "q ends this" if height else ""
    return str(tools("screen", width, height, colour, utf8, nodes or len(lines), list(lines), list(ages), keys))


@pytest.mark.parametrize("width", [40, 80, 120, 150, 200])
def test_the_screen_fits(width: int) -> None:
    lines = [line(f"n{node}", ranks=128, watts=231.5) for node in range(40)]
    for height in (24, 50):
        text = shown(width, *lines, height=height)
        assert len(text.splitlines()) <= height and max(map(len, text.splitlines())) <= width
        assert "q ends this" in text, "the last line is there, however many nodes there are"


def test_the_screen_says_who_waits() -> None:
    text = shown(80, line("n1"), line("n2", waiting=0, least=[4, 0.5], longest=[]))
    print(text)
    assert "Job 12  a\\x1b[2Jname" in text and "RUNNING for 3 min 12 s" in text
    assert "3 of 8 ranks, the longest for 13.0 s in MPI_Barrier" in text and "412 W, all that runs on 2 nodes" in text
    rows = re.findall(r"^ +([123]) +n1 +MPI_Barrier +([0-9.]+ s) +80 % +70 %$", text, re.M)
    assert rows == [("1", "13.0 s"), ("2", "12.0 s"), ("3", "11.0 s")]
    assert "rank 0 on n1 waits least: 2.0 % of its time" in text
    wide = shown(200, line("n1"), line("n2"))
    assert any("n1" in row and "MPI_Barrier" in row for row in wide.splitlines()), "two columns"


def test_what_is_not_known_is_said() -> None:
    bare = line(watts=None, waited_now=None, asleep_now=None)
    text = shown(80, bare, line("n2", ranks=0, waiting=0, least=None, longest=[], watts=None), nodes=3, ages=(9.0, 0.1))
    assert "not known: the nodes' counters" in text and "1 node did not answer yet" in text
    assert "silent for 9 s" in text and "no rank now" in text
    assert "simulated, not measured" in shown(80, line(simulated=True))
    assert "n1: it is old (and 1 node more)" in shown(80, line(problem="it is old"), line("n2", problem="so is it"))
    first = [[1, "0", "Barrier", 9.0, 1, 1, 77, 0], [-1, "0", "Recv", 8.0, 1, 1, 0, 5]]
    second = [[1, "0", "Barrier", 7.0, 1, 1, 88, 0], [-1, "0", "Recv", 6.0, 1, 1, 0, -1]]
    several = shown(80, line("n1", world=0, longest=first), line("n2", longest=second))
    names = [row.split()[0] for row in several.splitlines() if re.search(r"MPI_(Barrier|Recv) ", row) and "%" in row]
    assert "waits least" not in several and names == ["w1:1", "task", "w2:1", "?"]
    nobody = shown(80, line(ranks=0, waiting=0, least=None, longest=[]))
    assert "no rank is between MPI_Init and MPI_Finalize now" in nobody and "no rank waits now" in nobody


def test_colours_and_characters_only_where_they_can_be_shown() -> None:
    assert "\x1b" not in shown(80, line()) and "\x1b[" in shown(80, line(), colour=True)
    assert shown(80, line(), utf8=False).isascii() and not shown(80, line()).isascii()


SQUEUE = """#!/bin/sh
echo "$@" > "${0%/*}/squeue.argv"
/bin/cat "${0%/*}/squeue.out"
[ -s "${0%/*}/squeue.err" ] && { /bin/cat "${0%/*}/squeue.err" >&2; exit 1; }
exit 0
"""
SRUN = """#!/bin/sh
printf '%s\\n' "$@" > "${0%/*}/srun.argv"
env > "${0%/*}/srun.env"
echo $$ > "${0%/*}/srun.pid"
. "${0%/*}/srun.does"
"""


class Site:
    """A squeue and an srun that answer as told."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        for name, text in (("squeue", SQUEUE), ("srun", SRUN)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.job()
        self.err("")
        self.does("exit 0")

    def job(self, number: int = 12, uid: int | None = None, state: str = "RUNNING", name: str = "solver") -> None:
        own = os.getuid() if uid is None else uid
        (self.folder / "squeue.out").write_text(f"{number}|{own}|bob|2|3:12|{state}|{name}\n")

    def err(self, text: str) -> None:
        (self.folder / "squeue.err").write_text(text)

    def does(self, text: str) -> None:
        (self.folder / "srun.does").write_text(text)

    def environment(self, changes: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}:/usr/bin:/bin", "SLURM_NTASKS": "7", **changes}

    def begin(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        environment = self.environment(how.pop("env", {}))
        command = [sys.executable, str(COMMAND), "report", "--watch", *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        return subprocess.Popen(command, env=environment, text=True, **streams)

    def watch(self, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        done = server().run(["report", "--watch", *arguments], "", self.environment(env or {}), self.folder)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def answers(*lines: str) -> str:
    """What srun does: two looks of each node, and then until its input ends."""
    said = "".join(f"echo '{text}'\n" for text in lines * 2)
    return f"echo a prolog says something\n{said}/bin/cat > /dev/null\n: > \"${{0%/*}}/srun.over\"\n"


def test_one_look_at_a_job(site: Site) -> None:
    site.does(answers(line("n1"), line("n2")))
    status, out, err = site.watch("--once", "12")
    assert (status, err) == (0, "") and out.startswith("Job 12  solver") and "\x1b" not in out
    assert "6 of 8 ranks" in out
    assert (site.folder / "srun.over").exists(), "the looks end when their input does"
    argv = (site.folder / "srun.argv").read_text().split("\n")
    assert {"--jobid=12", "--overlap", "--nodes=2", "--ntasks=2", "--cpu-bind=none", "watch-node"} < set(argv)
    environment = (site.folder / "srun.env").read_text()
    assert "MPI_WAIT_POLICY=off\n" in environment and "SLURM_NTASKS" not in environment


def test_the_nodes_have_the_python_that_asks_them(site: Site) -> None:
    """As the manual says for hosts whose /usr/bin/python3 is too old. The file's first line names that one."""
    site.does(answers(line("n1"), line("n2")))
    code = f"import sys; sys.executable, sys.argv = '/opt/python3.9', ['{COMMAND}', *sys.argv[1:]]; "
    code += f"import runpy; runpy.run_path('{COMMAND}', run_name='__main__')"
    command = [sys.executable, "-c", code, "report", "--watch", "--once", "12"]
    subprocess.run(command, env=site.environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60,
                   check=True)
    assert "\n/opt/python3.9\n" + f"{COMMAND}\nwatch-node\n12\n" in (site.folder / "srun.argv").read_text()


def test_where_there_is_no_terminal_one_look_is_all(site: Site) -> None:
    site.does(answers(line("n1"), line("n2")))
    once, plain = site.watch("--once", "12.0"), site.watch("12.0")
    assert once == plain and once[0] == 0 and "step 0" in once[1]
    assert "--step=0" in (site.folder / "srun.argv").read_text()


def refused(site: Site, *arguments: str, **how: Any) -> str:
    status, out, err = site.watch(*(arguments or ("--once", "12")), **how)
    assert (status, out) == (1, "") and err.startswith("mpi-wait: ") and len(err.splitlines()) == 1, (status, out, err)
    return err


def test_what_is_refused(site: Site) -> None:
    site.job(uid=os.getuid() + 1)
    assert "job 12 is bob's: only its owner can watch it" in refused(site)
    site.job(state="PENDING")
    assert "does not run now: it is PENDING" in refused(site)
    site.job(state="COMPLETED")
    assert "it is COMPLETED; of a job that has ended, 'mpi-wait report 12' shows the record" in refused(site)
    (site.folder / "squeue.out").write_text("")
    site.err("slurm_load_jobs error: Invalid job id specified\n")
    assert "squeue knows no job 12" in refused(site)
    site.err("slurm_load_jobs error: Unable to contact slurm controller\n")
    assert "squeue does not answer: slurm_load_jobs error: Unable to contact" in refused(site)
    assert not (site.folder / "srun.argv").exists(), "nothing was started for any of them"
    (site.folder / "srun").unlink()
    assert "srun was not found" in refused(site, env={"PATH": str(site.folder)})


def test_an_array_is_no_job(site: Site) -> None:
    site.job()
    row = (site.folder / "squeue.out").read_text()
    (site.folder / "squeue.out").write_text(row + row.replace("12|", "13|"))
    assert "has several parts" in refused(site)


def test_a_job_without_a_policy(site: Site) -> None:
    bare: dict[str, Any] = {"segments": 0, "ranks": 0, "waiting": 0, "least": None, "longest": []}
    site.does(answers(line("n1", **bare), line("n2", **bare)))
    assert "no task of job 12 is under a wait policy now" in refused(site)
    assert (site.folder / "srun.over").exists()


def test_a_job_whose_statistics_cannot_be_read(site: Site) -> None:
    blind: dict[str, Any] = {"ranks": 0, "waiting": 0, "least": None, "longest": [], "problem": "it is not installed"}
    site.does(answers(line("n1", **blind), line("n2", **blind)))
    assert "the ranks of job 12 cannot be seen on n1: it is not installed" in refused(site)
    site.does(answers(line("n1"), line("n2", **blind)))
    status, out, _ = site.watch("--once", "12")
    assert status == 0 and "3 of 4 ranks" in out and "n2: it is not installed" in out


def test_what_srun_says_is_passed_on(site: Site) -> None:
    site.does("echo 'srun: error: Unable to create step for job 12: \\033[31mno' >&2; exit 1\n")
    said = refused(site)
    assert "Unable to create step for job 12" in said and "\x1b" not in said


def test_usage(site: Site) -> None:
    for words in (["--once", "12", "13"], ["--json", "12"], ["--record", "x"], ["--plot=x.png", "12"], ["--csv", "12"],
                  ["--brief", "12"], ["-"], []):
        status, _, err = site.watch(*words)
        assert status == 2 and "--watch shows one running job" in err
    command = [sys.executable, COMMAND, "report", "--once", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--once goes with --watch" in done.stderr


def test_the_node_finds_the_segment_of_its_users_job(tmp_path: pathlib.Path) -> None:
    """In the descriptors of a process that has the plugin's variable; nothing of another job, step or slurmd."""
    descriptor = segment_make(claimed=1)
    os.pwrite(descriptor, slot(2, open_call=BARRIER, open_ns=10**9, start=1), segments.SLOTS)
    environment = {**os.environ, "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3", "SLURMD_NODENAME": "here"}
    hold = ["/bin/sh", "-c", f"MPI_WAIT_CONFIG='v=1;{segment_field(descriptor, task=0)}' exec /bin/cat"]
    try:
        with subprocess.Popen(hold, env=environment, stdin=subprocess.PIPE, pass_fds=[descriptor]) as process:
            variable = pathlib.Path(f"/proc/{process.pid}/environ")
            wait_for(lambda: b"MPI_WAIT_CONFIG" in variable.read_bytes(), "the process")
            looks = [node_look(*words) for words in (["4711"], ["4711", "--step=3"], ["4711", "--step=4"], ["471"])]
            looks.append(node_look("4711", node="there"))
            assert process.stdin
            process.stdin.close()
    finally:
        os.close(descriptor)
    assert [look["segments"] for look in looks] == [1, 1, 0, 0, 0]
    assert [look["ranks"] for look in looks] == [1, 1, 0, 0, 0]
    rank, step, call, seconds, *_ = looks[0]["longest"][0]
    assert (rank, step, call, seconds) == (2, "3", "Barrier", 1)
    assert looks[0]["node"] == "here"


def test_the_node_finds_a_segment_whose_number_is_taken(tmp_path: pathlib.Path) -> None:
    """By the spare descriptor, where the program has opened something else at the first one."""
    descriptor = segment_make()
    spare = os.dup2(descriptor, descriptor + 1000, inheritable=True)
    environment = {**os.environ, "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3", "SLURMD_NODENAME": "here"}
    take = f"exec {descriptor}>{tmp_path}/lock; MPI_WAIT_CONFIG='v=1;{segment_field(descriptor, task=0)}' exec /bin/cat"
    try:
        with subprocess.Popen(["/bin/bash", "-c", take], env=environment, stdin=subprocess.PIPE,
                              pass_fds=[descriptor, spare]) as process:
            variable = pathlib.Path(f"/proc/{process.pid}/environ")
            wait_for(lambda: b"MPI_WAIT_CONFIG" in variable.read_bytes(), "the process")
            look = node_look("4711")
            assert process.stdin
            process.stdin.close()
    finally:
        os.close(descriptor)
        os.close(spare)
    assert look["segments"] == 1


def node_look(*words: str, node: str = "here") -> dict[str, Any]:
    """One look; its input has ended from the start."""
    command = [sys.executable, COMMAND, "watch-node", f"--reader={READER}", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SLURMD_NODENAME": node}, capture_output=True, text=True, timeout=60,
                          check=True)
    only, = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(only)
    return found


def on_a_terminal(site: Site) -> tuple[int, subprocess.Popen[str]]:
    """The command on a terminal of 24 lines, and the terminal's other end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    assert termios.tcgetattr(ours)[3] & termios.ECHO
    process = site.begin("12", stdin=theirs, stdout=theirs, env={"TERM": "xterm", "LC_ALL": "C.UTF-8"})
    os.close(theirs)
    return ours, process


def read_until(ours: int, wanted: bytes) -> bytes:
    """What the screen got, up to that; an end of the terminal ends it, too."""
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([ours], [], [], 60)
        assert ready, seen
        try:
            seen += os.read(ours, 1 << 16)
        except OSError:
            break
    return seen


@pytest.mark.parametrize("end", ["q", "interrupt", "TERM", "job"])
def test_the_terminal_is_put_back(site: Site, end: str) -> None:
    """However it ends: the screen that was there, its cursor, the modes; and the last look stays to be read."""
    site.does(answers(line("n1"), line("n2")) if end != "job" else
              answers(line("n1"), line("n2")).replace("/bin/cat > /dev/null", 'read -r line < "${0%/*}/end"'))
    os.mkfifo(site.folder / "end")
    ours, process = on_a_terminal(site)
    try:
        before = read_until(ours, b"Ctrl-C ends this")
        assert b"\x1b[?1049h" in before and not termios.tcgetattr(ours)[3] & termios.ECHO
        if end == "job":
            site.job(state="COMPLETED")
            (site.folder / "end").write_text("now\n")
        elif end == "q":
            os.write(ours, b"q")
        else:
            process.send_signal(signal.SIGTERM if end == "TERM" else signal.SIGINT)
        after = read_until(ours, b"no such words")
        assert process.wait(timeout=60) == (128 + signal.SIGTERM if end == "TERM" else 0)
        assert process.stderr and process.stderr.read() == ""
        assert termios.tcgetattr(ours)[3] & termios.ECHO
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"\x1b[?1049l" in after and b"\x1b[?25h" in after
    rest = after[after.index(b"\x1b[?1049l"):].decode()
    assert ("Waiting the longest" in rest) == (end != "TERM") and ("job 12 has ended" in rest) == (end == "job")


def test_the_nodes_command_is_not_among_those_for_people() -> None:
    usage = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "watch-node" not in usage
