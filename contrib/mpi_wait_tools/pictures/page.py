"""Writes pages, a report as HTML that loads nothing from elsewhere, and sheets of pictures as SVG, PNG or PDF.

templates/ defines their looks. Every value enters a template escaped and without control characters. jinja2 is imported
only to write a page. rsvg-convert turns SVG into PNG and PDF.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..text.output import Refusal
from ..text.units import safe
from .shapes import LETTER_MOST, PALETTE, WIDTH, Picture

TEXT_MAX = 1000
MARGIN, GAP, LINE = 40, 44, 18  # pixels of a sheet
TITLES, STAMP, TILES = 100, 28, 66  # pixels that the titles, the stamp and the tiles take above the pictures
SHEET_WIDTH = 2 * WIDTH + 2 * MARGIN + GAP
SHEET_HEIGHT = 720  # least height, in pixels
TILE = 250
CONVERT_S = 60


@dataclass(frozen=True)
class Sheet:
    """A sheet of pictures."""

    title: str
    subtitle: str
    pictures: Sequence[Picture]
    footer: Sequence[str]
    stamp: str = ""  # a warning in red, "" for none
    tiles: Sequence[tuple[str, str, str]] = ()  # (figure, its name, class of its colour)


@dataclass(frozen=True)
class Place:
    """A picture in its place on a sheet."""

    picture: Picture
    x: float
    y: float
    said: list[tuple[float, float, str, str]]  # the words above it: (x, y, class of their colour, text)
    head: float  # height of these words

    @property
    def height(self) -> float:
        return self.head + self.picture.height


def rendered(template: str, **values: Any) -> str:
    """Returns the page that the template prints for these values. Raises Refusal if jinja2 is missing."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise Refusal("the Python package 'jinja2' is missing (python3-jinja2): --html and --plot need it, "
                      "all other output works without it") from None

    def harmless(value: Any) -> Any:
        return safe(value, TEXT_MAX) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = FileSystemLoader(str(Path(__file__).parent / "templates"))
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
                              undefined=StrictUndefined, finalize=harmless)
    return environment.get_template(template).render(palette=PALETTE, **values)


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise Refusal(f"'{safe(path, 200)}' cannot be written: {error.strerror or 'the file system refuses'}") from None


def write_page(path: str, text: str) -> None:
    """Writes a page. Raises Refusal if the file cannot be written."""
    _write(path, text.encode())


def _wrapped(text: str, width: float = WIDTH) -> list[str]:
    lines, room = [""], int(width / LETTER_MOST)
    for word in text.split(" "):
        if len(lines[-1]) + len(word) >= room:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [line for line in lines if line]


def _placed(picture: Picture, x: float, y: float) -> Place:
    """Places a picture, with its legend above it, in several lines if it is long, and the note below that."""
    said: list[tuple[float, float, str, str]] = []
    at, line = 0.0, 34.0
    for kind, words in picture.legend:
        width = len(words) * LETTER_MOST + (16 if kind else 0)
        if at + width > WIDTH and at > 0:
            at, line = 0.0, line + LINE
        said.append((at, line, kind, words))
        at += width + 14
    line += LINE if said else 0
    for words in _wrapped(picture.note):
        said.append((0.0, line, "", words))
        line += LINE
    return Place(picture, x, y, said, line - LINE / 2)


def places_of(sheet: Sheet) -> list[Place]:
    """Places the pictures in two columns. Each goes below the column that is shorter so far."""
    ends = [float(TITLES + STAMP * bool(sheet.stamp) + TILES * bool(sheet.tiles))] * 2
    places = []
    for picture in sheet.pictures:
        column = 0 if ends[0] <= ends[1] else 1
        place = _placed(picture, MARGIN + column * (WIDTH + GAP), ends[column])
        ends[column] += place.height + GAP
        places.append(place)
    return places


def sheet_svg(sheet: Sheet) -> str:
    places = places_of(sheet)
    end = max((place.y + place.height for place in places), default=0.0)
    footer = [line for words in sheet.footer for line in _wrapped(words, SHEET_WIDTH - 2 * MARGIN)]
    height = max(SHEET_HEIGHT, round(end) + GAP + LINE * len(footer))
    return rendered("sheet.svg", sheet=sheet, places=places, footer=footer, width=SHEET_WIDTH, height=height,
                    margin=MARGIN, tile=TILE, down=STAMP * bool(sheet.stamp))


def _converted(svg: str, kind: str) -> bytes:
    try:
        done = subprocess.run(["rsvg-convert", "--format", kind], input=svg.encode(), capture_output=True,
                              timeout=CONVERT_S, check=False)
    except FileNotFoundError:
        raise Refusal("'rsvg-convert' is missing (librsvg2-bin, librsvg2-tools): .png and .pdf need it, .svg does "
                      "not") from None
    except (OSError, subprocess.TimeoutExpired):
        raise Refusal("rsvg-convert did not answer: .svg works without it") from None
    if done.returncode or not done.stdout:
        raise Refusal(f"rsvg-convert failed: {safe(done.stderr.decode('utf-8', 'replace').strip(), 200)}")
    return done.stdout


def write_sheet(path: str, sheet: Sheet) -> None:
    """Writes a sheet, in the format that the end of path names. Raises Refusal if that fails."""
    svg, kind = sheet_svg(sheet), path.lower()[-3:]
    _write(path, svg.encode() if kind == "svg" else _converted(svg, kind))
