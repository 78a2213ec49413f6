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


def test_formats(report: Report, tmp_path: pathlib.Path) -> None:
    files = save(tmp_path, one=profiled())
    for kind, magic in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")):
        path = tmp_path / f"page.{kind}"
        assert shown(report(*files, "--plot", str(path))) == ""
        assert path.read_bytes().startswith(magic) and path.stat().st_size > SMALLEST
    again = tmp_path / "again.svg"
    shown(report(*files, "--plot", str(again), env={"HOME": "/dev/null/none"}))
    assert again.read_bytes() == (tmp_path / "page.svg").read_bytes()


def test_what_cannot_be_drawn(report: Report, tmp_path: pathlib.Path) -> None:
    files = save(tmp_path, one=make_record())
    assert "ends in none of .png, .svg, .pdf" in refused(report(*files, "--plot", "x.gif"), status=2)
    assert "exclude each other" in refused(report(*files, "--plot", "x.png", "--json"), status=2)
    assert "cannot be written: No such file" in refused(report(*files, "--plot", str(tmp_path / "none/x.png")))
    (tmp_path / "matplotlib.py").write_text("raise ImportError('no', name='matplotlib')")
    missing = report(*files, "--plot", str(tmp_path / "x.png"), env={"PYTHONPATH": str(tmp_path)})
    assert "'matplotlib' is missing (python3-matplotlib)" in refused(missing)
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
    """Drawn anew they are those in the tree; the PNG but for the fonts and the release of matplotlib."""
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
