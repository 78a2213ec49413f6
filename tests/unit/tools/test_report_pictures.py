"""mpi-wait report --plot, several jobs beside one another, and the pictures of the README."""

from __future__ import annotations

import json
import pathlib
import re
import struct
import subprocess
import zlib
from typing import Any

import pytest

from tests.lib.doubles.record_doubles import many_steps, one_slow_node, profiled, sampled, spinning, thousands
from tests.lib.doubles.report_double import ROOT, Report, make_record, make_row, refused, shown
from tests.lib.pages import Sheet, sheet_of
from tests.lib.recorded_jobs import JOBS, rows_of

HOSTILE = "</text></svg><script>alert(1)</script>\"'&]]>\x1b[31m\x00"
SMALLEST = 8000  # bytes of a page with something on it


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def save(folder: pathlib.Path, **records: dict[str, Any]) -> list[str]:
    """Files of records, as --record takes them."""
    for name, record in records.items():
        (folder / f"{name}.json").write_text(json.dumps(record))
    return [f"--record={folder}/{name}.json" for name in records]


def colours(png: bytes) -> int:
    """Of an image that is no blank page: how many different pixels its rows have."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in ((8, 6), (8, 2)) and width > 1000 and height > 700
    data = b"".join(
        png[start + 4 : start + 4 + struct.unpack(">I", png[start - 4 : start])[0]]
        for start in (match.start() for match in re.finditer(b"IDAT", png))
    )
    return len(set(zlib.decompress(data)[:: 4 if kind == 6 else 3]))


def no_power_known() -> dict[str, Any]:
    record = sampled()
    record["mpi_wait"]["energy"]["power_w"] = [None, None]
    return record


def nothing_seen() -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"].update(wait=None, energy=None, energy_why="no $ zones", steps=[])
    return record


PAGES = {
    "four ranks": make_record,
    "a slow node": one_slow_node,
    "thousands": thousands,
    "profiled": profiled,
    "steps": many_steps,
    "power": sampled,
    "power not known": no_power_known,
    "nothing": nothing_seen,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn(report: Report, tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / "page.png"
    said = report("123", "--plot", str(path), rows=[make_row(json.dumps(PAGES[name]()), JobName="a$b_{x}$c\u202e")])
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    page = path.read_bytes()
    assert page.startswith(b"\x89PNG") and len(page) > SMALLEST and colours(page) > 20


def drawn(report: Report, record: dict[str, Any], **changes: str) -> Sheet:
    path = report.folder / "page.svg"
    assert shown(report("123", "--plot", str(path), rows=[make_row(json.dumps(record), **changes)])) == ""
    return sheet_of(path.read_text())


@pytest.mark.parametrize("name", PAGES)
def test_what_a_sheet_shows(report: Report, name: str) -> None:
    """Its four panels, or why one is missing; the units of every axis; nothing upon something else."""
    sheet = drawn(report, PAGES[name](), JobName="solver")
    assert sheet.title.startswith("Job 123  solver") and "nap" in " ".join(sheet.texts)
    waiting = {"thousands": "How many ranks wait how long"}.get(name, "Waiting by rank")
    calls = {"profiled": "Time in MPI calls"}.get(name, "Waiting by call")
    of_steps = "Mean power of each step"
    energy = {"steps": of_steps, "power": "Power over time", "power not known": of_steps, "nothing": "Energy"}.get(
        name, "Energy by part")
    panels = [waiting, *(["ranks in the order of their waiting"] if name != "nothing" else []), calls, energy]
    assert len(sheet.marks) == len(panels) and all(part in title for part, title in zip(panels, sheet.marks))
    ticks = [text for text in sheet.texts if re.fullmatch(r"[0-9.]+ (d|h|min|s|ms|µs|[kMG]?[WJ])", text)]
    assert len(ticks) > 2 or name == "nothing"


def test_there_is_a_mark_for_each_rank(report: Report) -> None:
    """Few as bars with their names, more as columns; each says what it is."""
    few, many = drawn(report, make_record()), drawn(report, one_slow_node(ranks=192))
    for sheet, ranks in ((few, 4), (many, 192)):
        marks = sheet.panel_with("Waiting by rank")
        assert marks["asleep"] == marks["awake"] == ranks and marks["waiting"] == 0
        assert len([said for said in sheet.said if re.match(r"rank \d+ on c\d+: .* waiting, .* of it asleep|rank \d+:",
                                                            said)]) == ranks
    assert [text for text in few.texts if text.startswith("rank ")] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    gathered = drawn(report, one_slow_node(ranks=4096)).panel_with("Waiting by rank")
    assert 100 < gathered["asleep"] < 140


def test_colours_are_of_meanings(report: Report) -> None:
    """Where asleep is not told from awake both are one; what is lost is red in one world alone."""
    untold = make_record()
    untold["mpi_wait"]["wait"]["per_rank_asleep_s"] = []
    marks = drawn(report, untold).panel_with("Waiting by rank")
    assert marks["asleep"] == marks["awake"] == 0 and marks["waiting"] == 4
    order = "in the order of their waiting"
    assert drawn(report, make_record()).panel_with(order)["lost"] and "lost" not in drawn(
        report, make_record(), State="CANCELLED by 1000").panel_with(order)
    assert drawn(report, profiled()).panel_with("Time in MPI calls")["transfer"]
    assert drawn(report, sampled()).panel_with("Power over time")["power"]


@pytest.mark.parametrize("name", JOBS)
def test_each_recorded_job_has_a_sheet(report: Report, name: str) -> None:
    path, rows = report.folder / "page.svg", [make_row(**row) for row in rows_of(name)]
    assert shown(report(rows[-1]["JobID"], "--plot", str(path), rows=rows[-1:])) == ""
    sheet = sheet_of(path.read_text())
    assert sheet.title.startswith(f"Job {rows[-1]['JobID']}") and len(sheet.marks) == (3 if name == "no-mpi" else 4)
    why = {"lost-node": "nodes missing", "missing-spool": "spool not shared"}.get(name)
    assert (why is not None) == ("energy of 1 of 2 nodes" in sheet.texts)
    if why:
        assert f"INCOMPLETE: 1 of 2 nodes reported ({why})" in sheet.texts
        assert not [text for text in sheet.texts if "lost to" in text]


def test_hostile_names_on_a_sheet(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"]["min"]["node"] = record["mpi_wait"]["wait"]["max"]["node"] = HOSTILE
    record["mpi_wait"]["policy"]["why"] = HOSTILE
    sheet = drawn(report, record, JobName=HOSTILE)
    assert "</svg><script>" in sheet.title and "\x1b" not in sheet.title


def test_a_comparison_has_a_bar_for_each_job(report: Report, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.svg"
    ask(report, "--plot", str(path), off=spinning(5000.0), nap=make_record(), large=thousands())
    sheet = sheet_of(path.read_text())
    assert sheet.title == "3 jobs compared"
    assert list(sheet.marks) == ["Time", "Energy, simulated", "Waiting", "Ranks in the order of their waiting",
                                 "What the ranks' time went to"]
    assert [sheet.marks["Energy, simulated"][f"job{place}"] for place in range(4)] == [1, 1, 1, 0]
    assert "4.50 kJ −10 %" in sheet.texts and "the flatter, the better balanced" in sheet.texts


def test_formats(report: Report, tmp_path: pathlib.Path) -> None:
    files = save(tmp_path, one=profiled())
    for kind, magic in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")):
        path = tmp_path / f"page.{kind}"
        assert shown(report(*files, "--plot", str(path))) == ""
        assert path.read_bytes().startswith(magic) and path.stat().st_size > SMALLEST
    again = tmp_path / "again.svg"
    nowhere = {"HOME": "/dev/null/none", "PATH": "/nowhere"}
    shown(report(*files, "--plot", str(again), env=nowhere))
    assert again.read_bytes() == (tmp_path / "page.svg").read_bytes()


def test_what_cannot_be_drawn(report: Report, tmp_path: pathlib.Path) -> None:
    files = save(tmp_path, one=make_record())
    assert "ends in none of .png, .svg, .pdf" in refused(report(*files, "--plot", "x.gif"), status=2)
    assert "exclude each other" in refused(report(*files, "--plot", "x.png", "--json"), status=2)
    assert "cannot be written: No such file" in refused(report(*files, "--plot", str(tmp_path / "none/x.png")))
    missing = report(*files, "--plot", str(tmp_path / "x.png"), settings={"PATH": "/nowhere"})
    assert "'rsvg-convert' is missing (librsvg2-bin" in refused(missing) and not (tmp_path / "x.png").exists()
    (tmp_path / "rsvg-convert").write_text("#!/bin/sh\necho 'no \033[31mfont' >&2; exit 1\n")
    (tmp_path / "rsvg-convert").chmod(0o755)
    assert "rsvg-convert failed: no \\x1b[31mfont" in refused(report(*files, "--plot", str(tmp_path / "x.png")))
    (tmp_path / "jinja2.py").write_text("raise ImportError('no', name='jinja2')")
    for words in (["--plot", str(tmp_path / "x.svg")], ["--html", str(tmp_path / "x.html")]):
        missing = report(*files, *words, env={"PYTHONPATH": str(tmp_path)})
        assert "'jinja2' is missing (python3-jinja2)" in refused(missing)
    assert "Job" in shown(report("123", rows=[make_row(json.dumps(make_record()))], env={"PYTHONPATH": str(tmp_path)}))


def ask(report: Report, *argv: str, **records: dict[str, Any]) -> str:
    return shown(report(*save(report.folder, **records), *argv))


def test_two_jobs_are_compared(report: Report) -> None:
    text = ask(report, off=spinning(5000.0), nap=make_record())
    assert text.startswith("2 jobs compared with the first\n")
    assert re.search(r"nap \(nap\) +4\.50 kJ +−10 %  █+", text)
    assert re.search(r"nap \(nap\) +25\.0 s +\+0\.8 %  █+", text)
    assert re.search(r"asleep of it +0 % +90 % +\+90\.0 pt", text)
    short = "nap (nap) took 0.8 % longer and used 10 % less energy (simulated) than off (profile)."
    assert short in " ".join(text.split())
    assert "\n  Energy, simulated\n" in text and "\n  mean power, simulated " in text
    assert "One run each" in text and max(map(len, text.splitlines())) <= 80


def test_jobs_of_sacct_are_compared(report: Report) -> None:
    text = shown(report("123", "123.0", rows=[make_row(json.dumps(make_record()))]))
    assert re.search(r"^  123  +solver, 2 nodes, 4 ranks: umwait became nap", text, re.M) and "123.0 (nap)" in text
    answer = json.loads(shown(report("123", "123.0", "--json", rows=[make_row(json.dumps(make_record()))])))
    assert [one.get("step") for one in answer] == [None, "0"]


def test_many_jobs_are_compared_in_blocks(report: Report) -> None:
    records = {f"job{number}": spinning(5000.0 + number) for number in range(6)}
    text = ask(report, **records)
    assert text.count("  also ") >= 2 and max(map(len, text.splitlines())) <= 80
    for name in records:
        assert text.count(f"{name} (profile)") >= 3


def test_what_is_not_comparable_is_said(report: Report) -> None:
    whole = make_record([1.0, 2.0])
    whole["mpi_wait"]["energy"].update(scope="node")
    text = " ".join(ask(report, a=make_record(), b=whole).split())
    assert "differ in nodes or ranks" in text and "do not compare it" in text
    bare = make_record()
    bare["mpi_wait"].update(energy=None, wait=None)
    assert re.search(r"b \(nap\) +–", ask(report, a=make_record(), b=bare))
    assert "Time" in ask(report, a=bare, b=bare)


def test_a_comparison_is_drawn(report: Report, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.png"
    bare = make_record()
    bare["mpi_wait"].update(energy=None, wait=None)
    ask(report, "--plot", str(path), off=spinning(), nap=make_record(), large=thousands(), bare=bare)
    assert colours(path.read_bytes()) > 20


def test_usage_of_several(report: Report, tmp_path: pathlib.Path) -> None:
    assert "exclude each other" in refused(report("1", *save(tmp_path, a=make_record())), status=2)
    assert "given once" in refused(report("-", "-"), status=2)
    assert "more than 32 jobs" in refused(report(*map(str, range(1, 40))), status=2)
    assert "is for one job" in refused(report("1", "2", "--duplicates"), status=2)


def test_the_readmes_pictures_are_of_the_command(tmp_path: pathlib.Path) -> None:
    """Drawn anew they are those in the tree; the PNG but for the fonts and the release of librsvg."""
    subprocess.run([ROOT / "contrib/pictures/make", tmp_path], check=True, timeout=120)
    for width in (80, 200):
        kept = ROOT / f"contrib/pictures/report-{width}.svg"
        assert (tmp_path / kept.name).read_text() == kept.read_text()
    assert colours((tmp_path / "plot.png").read_bytes()) > 20
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text()
    shown = (ROOT / "README.md").read_text() + (ROOT / "contrib/README.md").read_text()
    for picture in ("report-80.svg", "report-200.svg", "plot.png"):
        file = ROOT / "contrib/pictures" / picture
        assert f"pictures/{picture}" in shown and file.stat().st_size < 120_000
    assert "http" not in (ROOT / "contrib/pictures/report-80.svg").read_text().replace("http://www.w3.org/2000/svg", "")
