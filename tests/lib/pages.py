"""Checks that hold for every page that mpi-wait writes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from xml.etree import ElementTree

import html5lib
from mpi_wait_tools.pictures.shapes import PALETTE

LOADS = re.compile(r"(?i)https?:|//[a-z]|\bsrc\s*=|\bhref\s*=|@import|url\(|<script|<link|<iframe|\bon[a-z]+\s*=")


def checked(text: str) -> None:
    """Asserts that a page is valid HTML by the strict parser, and loads and runs nothing."""
    html5lib.HTMLParser(strict=True).parse(text)
    assert not LOADS.search(re.sub(r"&[a-z0-9#]+;", "", text)), "the page would load or run something"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", text)
    assert text.count("<svg") == text.count('role="img" aria-label="')


SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"title": 24, "figure": 22, "heading": 14, "stamp": 16}
"""Sizes of letters in pixels, by class; all others have 12."""
LETTER = 0.6  # width of a character, as a part of its size


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float
    said: str

    def meets(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


@dataclass
class Sheet:
    """The contents of a sheet: its words, its marks by class and panel, and its tooltips."""

    width: float
    height: float
    title: str
    words: list[Box] = field(default_factory=list)
    bars: list[Box] = field(default_factory=list)
    marks: dict[str, Counter[str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [box.said for box in self.words]

    def panel_with(self, words: str) -> Counter[str]:
        return next(marks for title, marks in self.marks.items() if words in title)


def _word(node: ElementTree.Element, x: float, y: float) -> Box:
    text, size = node.text or "", SIZES.get(node.get("class", "").split(" ")[0], 12)
    width, left = LETTER * size * len(text), x + float(node.get("x", 0))
    left -= {"end": width, "middle": width / 2}.get(node.get("text-anchor", ""), 0.0)
    bottom = y + float(node.get("y", 0))
    return Box(left, bottom - 0.8 * size, left + width, bottom, text)


def _mark(node: ElementTree.Element, x: float, y: float) -> Box:
    left, top = x + float(node.get("x", 0)), y + float(node.get("y", 0))
    return Box(left, top, left + float(node.get("width", 0)), top + float(node.get("height", 0)), node.get("class", ""))


def _read(sheet: Sheet, node: ElementTree.Element, x: float, y: float, panel: str) -> None:
    moved = re.match(r"translate\(([-0-9.]+) ([-0-9.]+)\)", node.get("transform", ""))
    x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
    if node.get("class") == "panel":
        panel = next(child.text or "" for child in node if child.get("class") == "heading")
        sheet.marks[panel] = Counter()
    kind = node.get("class", "")
    if node.tag == f"{SVG}text" and node.text:
        sheet.words.append(_word(node, x, y))
    elif node.tag == f"{SVG}title":
        sheet.said.append(node.text or "")
    elif kind in PALETTE:
        sheet.marks[panel][kind] += 1
        if node.tag == f"{SVG}rect":
            sheet.bars.append(_mark(node, x, y))
    for child in node:
        _read(sheet, child, x, y, panel)


def sheet_of(svg: str) -> Sheet:
    """Reads a sheet. Asserts valid XML that loads nothing, the palette's colours, all of it on the paper, and no
    overlapping words."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg" and not LOADS.search(svg.replace("http://www.w3.org/2000/svg", ""))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", svg)
    for kind, (light, _) in PALETTE.items():
        assert f"rect.{kind}, circle.{kind}, text.{kind} {{ fill: {light}; }}" in svg
    title = root.find(f"{SVG}title")
    assert title is not None
    sheet = Sheet(float(root.get("width", 0)), float(root.get("height", 0)), title.text or "")
    _read(sheet, root, 0.0, 0.0, "")
    assert 1300 < sheet.width < 1500 and 400 < sheet.height < 2500
    for box in sheet.words + sheet.bars:
        assert box.left >= 0 and box.right <= sheet.width and box.top >= 0 and box.bottom <= sheet.height, box
    boxes = sorted(sheet.words, key=lambda box: box.top)
    for place, box in enumerate(boxes):
        near = [other for other in boxes[place + 1:] if other.top < box.bottom]
        assert not [other for other in near if box.meets(other)], box
        assert not [bar for bar in sheet.bars if bar.right - bar.left > 0 and box.meets(bar)], box
    return sheet
